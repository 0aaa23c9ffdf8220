"""Trainings that do nothing but note what they are given, stopped and resumed."""

from collections.abc import Callable, Sequence
from pathlib import Path

import lightning
import torch
from quiet import quiet_trainer
from small_shards import equal

from interlingua.datamodules.training import Shards
from interlingua.modalities.batch import Step


class Recorder(lightning.LightningModule):
    """Trains one number and notes what it trained on."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list = []
        self.validated: list = []

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

    def training_step(self, step, index):
        assert step.number == self.global_step
        self.seen.append(step)
        self.manual_backward(self.weight * 1.0)
        self.optimizers().step()


class Validated(Recorder):
    """Notes what it was validated on, too."""

    def validation_step(self, batch, index):
        self.validated.append(batch)


def train(
    folder: Path, shards: Shards, until: int, resume: Path | None = None, recorder: Recorder | None = None
) -> tuple[list[Step], Path]:
    """What is trained on up to a step, and a checkpoint."""
    recorder = recorder or Recorder()
    limits = {"max_epochs": -1, "max_steps": until, "val_check_interval": 2, "check_val_every_n_epoch": None}
    trainer = quiet_trainer(folder, num_sanity_val_steps=0, **limits)
    trainer.fit(recorder, shards, ckpt_path=resume, weights_only=True)
    trainer.save_checkpoint(folder / f"{until}.ckpt")
    return recorder.seen, folder / f"{until}.ckpt"


def check_resumption(folder: Path, build: Callable[[int], Shards], stops: Sequence[int], workers: Sequence[int]) -> list[Step]:
    """A run stopped at each of some steps trains on what the uninterrupted one does, which is given back.

    Args:
        folder: Of the checkpoints.
        build: The data, from the number of workers.
        stops: Steps after which it stops, ascending; the last is the end.
        workers: From each stop to the next.
    """
    uninterrupted, _ = train(folder, build(0), stops[-1])
    checkpoint, before = None, 0
    for stop, number in zip(stops, workers, strict=True):
        seen, checkpoint = train(folder, build(number), stop, checkpoint)
        assert equal(tuple(seen), tuple(uninterrupted[before:stop]))
        before = stop
    assert len(uninterrupted) == stops[-1]
    return uninterrupted


def samples(steps: Sequence[Step], source: str = "pictures") -> list[int]:
    """Numbers of the samples of a source, in the order in which they are read."""
    return [n for step in steps for batch in step.batches if batch.source == source for n in batch.sample.tolist()]
