"""What checkpoints are chosen by, and runs are stopped by, against what validation will log: told before the first step."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from .configuration import ConfigurationError, suggest

LOGGED = "validation/"


class CheckMonitors(Callback):
    """Refuses a `monitor` of a figure that validation will not log, where its names can be known: with labelled data, one
    batch tells the figures, and the examples tell the languages."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at all callbacks.

        Raises:
            ConfigurationError: Names the callback, and what it may name.
        """
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]  # set by its callback connector
        wanted = [(type(one).__name__, name) for one in callbacks if (name := _monitored(one)) is not None]
        known = sorted(find_names(trainer, pl_module) if wanted else ())
        for callback, name in wanted:
            if known and name not in known:
                shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
                raise ConfigurationError(
                    f"{callback}: monitor is {name!r}, which validation will not log{suggest(name, known)}; it logs {shown}"
                )


def _monitored(callback: Callback) -> str | None:
    name = getattr(callback, "monitor", None)
    return name if isinstance(name, str) and name.startswith(LOGGED) else None


def find_names(trainer: Any, model: Any) -> set[str]:
    """Everything that validation will log; empty where that cannot be known before."""
    data = trainer.datamodule
    reader = getattr(data, "readers", {}).get("validation")
    if reader is None or not hasattr(model, "sums"):
        return set()
    labelled = [number for number, record in enumerate(reader.records) if data.layout.is_labelled(record)]
    if not labelled:
        return set()
    batch = trainer.strategy.batch_to_device(reader.read_part(torch.tensor(labelled[:1])).batch)
    kept, model.sums = model.sums, type(model.sums)()
    was_training = model.training
    model.eval()
    with torch.no_grad(), trainer.precision_plugin.forward_context():
        model.validation_step(batch, 0)
    model.train(was_training)
    own, model.sums = model.sums.means(data.tokenizer.languages), kept
    first = f"{reader.name}/{reader.records[labelled[0]].language}/"
    languages = {reader.records[number].language for number in labelled}
    return {f"{LOGGED}loss"} | {
        f"{LOGGED}{reader.name}/{language}/{name.removeprefix(first)}" for name in own for language in languages
    }
