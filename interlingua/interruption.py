"""Ctrl-C. Training stops after the step that runs, with a checkpoint from which it goes on as if never interrupted."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

PROGRESS = "epoch_loop.val_loop.batch_progress"
"""Where a checkpoint says how far a validation has come."""


class Interrupted(BaseException):
    """Ctrl-C. No KeyboardInterrupt, at which Lightning would end the process with status 1."""


class Interruption(Callback):
    """Watches for Ctrl-C (SIGINT): once saves and stops, where there is something to save; twice stops at once.

    A validation is not finished first: the resumed run repeats it. On several ranks, which are told at different
    moments, it is finished, since they agree on stopping between steps only.
    """

    def __init__(self, checkpoint: Path | None = None):
        """
        Args:
            checkpoint: Where the interrupted run is saved; None: nowhere.
        """
        self.checkpoint = checkpoint
        self.training = self.asked = self.repeat_validation = False

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Answer Ctrl-C within; in the main thread only, and not where the process was told to ignore it."""
        if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            yield
            return
        self.process = os.getpid()
        before = signal.signal(signal.SIGINT, self.answer)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def answer(self, number: int, frame: Any) -> None:
        """Ask for the end of training, or end anything else."""
        if os.getpid() != self.process:
            return  # a forked worker of a loader: it ends with the process that reads from it
        if self.asked or not self.training:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # should the end take long
            raise Interrupted
        self.asked = True
        if os.environ.get("LOCAL_RANK", "0") == "0":
            os.write(2, b"\ninterlingua fit: stopping after this step; Ctrl-C again stops at once, and saves nothing\n")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """From here on there is something to save."""
        self.training = True

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Stop between two steps; where a validation comes between them, when that begins, so that it is not left out."""
        loop, fetcher = trainer.fit_loop.epoch_loop, trainer.fit_loop._data_fetcher
        if self._agreed(trainer) and not loop._should_check_val_fx(fetcher):  # type: ignore[arg-type]  # set while it trains
            trainer._logger_connector.update_train_step_metrics()  # Lightning would, after this
            self._stop(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop before a validation of the training."""
        if self.training and self._agreed(trainer):
            self._stop(trainer, repeat_validation=True)

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Stop within a validation; other ranks may have no such batch to agree in."""
        if self.asked and trainer.world_size == 1:
            self._stop(trainer, repeat_validation=True)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """All is trained and saved."""
        self.training = False
        if self._agreed(trainer):
            raise Interrupted(f"interrupted after the last step, {trainer.global_step}")

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Have a validation that was not finished begin anew: Lightning would leave it out, or half of it."""
        if not self.repeat_validation:
            return
        progress = checkpoint["loops"]["fit_loop"][PROGRESS]
        done = progress["total"]["completed"]
        progress["total"] |= {"ready": done + 1, "started": done + 1, "processed": done}  # a batch was begun: it goes on
        progress["current"] = dict.fromkeys(progress["current"], 0)  # with the first one

    def _agreed(self, trainer: Trainer) -> bool:
        return trainer.strategy.reduce_boolean_decision(self.asked, all=False)

    def _stop(self, trainer: Trainer, repeat_validation: bool = False) -> None:
        self.asked = True  # on another rank, perhaps
        self.repeat_validation = repeat_validation
        after = f"interrupted after step {trainer.global_step}"
        if self.checkpoint is None:
            raise Interrupted(f"{after}; nothing is saved, as trainer.enable_checkpointing is false")
        trainer.save_checkpoint(self.checkpoint, weights_only=False)
        resume = f"interlingua fit --config {Path(trainer.default_root_dir, 'config.yaml')} --ckpt_path {self.checkpoint}"
        raise Interrupted(f"{after}; go on from there with: {resume}")
