"""What every run of training does beside training: keep its configuration, log its ends, watch its objectives."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities import rank_zero_warn

from .checkpoints import CONFIGURATION


def keep_last(path: Path) -> list[Callback]:
    """Keep one checkpoint, written every ten minutes and when training ends; an epoch of ours ends with the training."""
    return [
        ModelCheckpoint(path.parent, filename=path.stem, enable_version_counter=False, **when)
        for when in ({"train_time_interval": timedelta(minutes=10)}, {"save_on_train_epoch_end": True})
    ]


class KeepConfiguration(Callback):
    """Writes the resolved configuration into the run's folder, beside its logs, and into every checkpoint."""

    def __init__(self, configuration: dict[str, Any]):
        """
        Args:
            configuration: Plain containers, strings and numbers only, so that a checkpoint loads with `weights_only`.
        """
        self.configuration = configuration

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write `config.yaml`: one a run of training, and the newest at the top of the run's folder."""
        log_folder = trainer.log_dir  # asked on every rank: it is broadcast
        if not trainer.is_global_zero:
            return
        for folder in {trainer.default_root_dir, log_folder or trainer.default_root_dir}:
            Path(folder).mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(self.configuration, sort_keys=False, allow_unicode=True)
            Path(folder, "config.yaml").write_text(f"# interlingua fit --config config.yaml\n{text}", encoding="utf-8")

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put the configuration beside the weights."""
        checkpoint[CONFIGURATION] = self.configuration


class LogEnds(Callback):
    """The last step is logged, and validated after, wherever the intervals fall; a resumed run logs steps by their number."""

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Say before the last step that it is the last: what stops is logged and validated."""
        loop = trainer.fit_loop.epoch_loop
        if loop._batches_that_stepped == trainer.global_step + 1:  # so Lightning goes on after an end with a validation
            loop._batches_that_stepped = trainer.global_step
        if trainer.global_step + 1 == trainer.max_steps:
            trainer.should_stop = True


class WatchObjectives(Callback):
    """Says once of each objective that it had nothing to score in all steps of an interval that read its source, which may
    lack what it needs."""

    def __init__(self):
        self.told: set[str] = set()
        self.sources: set[str] = set()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, index: int) -> None:
        """Note what is read, and look at what has just been logged."""
        self.sources |= {one.source for one in getattr(batch, "batches", ())}
        every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]  # set by its logger connector
        if trainer.global_step % every and not trainer.should_stop:
            return
        read = {name for one in getattr(pl_module, "plan", ()) if one.source in self.sources for name in one.names}
        self.sources = set()
        for name, objective in getattr(pl_module, "objectives", {}).items():
            if name not in read:
                continue
            silent = f"train/{name}" not in trainer.callback_metrics and "train/loss" in trainer.callback_metrics
            if silent and getattr(objective, "weight", 1.0) != 0 and name not in self.told:
                self.told.add(name)
                rank_zero_warn(
                    f"objective {name!r} had nothing to score in any step up to step {trainer.global_step} that read its "
                    "source: it does not train. Does the source of its pass read what it needs (text, translation, image), and "
                    "is its rate above 0?"
                )
