"""A real, small model and its data, built the way pretraining is: for the tests of the command line."""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

BUILT: list[str] = []
"""Names of the classes that were built: nothing may be, where a configuration is refused."""


class Reason(nn.Module):
    """What all objectives here are."""

    def __init__(self, weight: float = 1.0):
        super().__init__()
        self.weight = weight


class Halve(Reason):
    """Predict a share of what is read."""

    def __init__(self, rate: float = 0.5, weight: float = 1.0):
        super().__init__(weight)
        self.rate = rate

    def forward(self, states: Tensor, values: Tensor) -> Tensor:
        return (states - self.rate * values).square().mean()


class Copy(Reason):
    """Predict what is read."""

    def forward(self, states: Tensor, values: Tensor) -> Tensor:
        return (states - values).square().mean()


class Passing(Halve):
    """Passes arguments on to its base."""

    def __init__(self, sharpness: int = 1, **kwargs: float):
        super().__init__(**kwargs)
        self.sharpness = sharpness


class Tower(nn.Module):
    """A few linear layers."""

    def __init__(self, width: int, depth: int = 1):
        super().__init__()
        BUILT.append("Tower")
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))

    def forward(self, values: Tensor) -> Tensor:
        return self.layers(values)


class Model(LightningModule):
    """Objectives by name over one encoder."""

    def __init__(
        self,
        encoder: Tower,
        objectives: Mapping[str, Reason],
        learning_rate: float = 0.01,
        tokenizer: str | None = None,
        vocabulary_size: int | None = None,
    ):
        super().__init__()
        self.encoder, self.objectives = encoder, nn.ModuleDict(objectives)
        self.learning_rate, self.tokenizer = learning_rate, tokenizer
        self.tokens = nn.Parameter(torch.ones(vocabulary_size or 0))

    def step(self, values: Tensor) -> Tensor:
        states = self.encoder(values)
        losses = [task.weight * task(states, values) for task in self.objectives.values()]
        return torch.stack(losses).sum() + self.tokens.square().sum()

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        loss = self.step(batch[0])
        self.log("loss/train", loss)
        return loss

    def validation_step(self, batch: list[Tensor], index: int) -> None:
        self.log("loss/validation", self.step(batch[0]), sync_dist=True)

    def test_step(self, batch: list[Tensor], index: int) -> None:
        self.log("loss/test", self.step(batch[0]))

    def predict_step(self, batch: list[Tensor], index: int) -> Tensor:
        return self.encoder(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate)


class Endless(IterableDataset):
    """Batches without end, as training reads them."""

    def __init__(self, size: int):
        self.size = size

    def __iter__(self) -> Iterator[list[Tensor]]:
        while True:
            yield [torch.randn(8, self.size)]


class Data(LightningDataModule):
    """Random vectors, and a list of words beside them."""

    def __init__(self, folder: Path, size: int = 4, tokenizer: str | None = None, languages: list[str] | None = None):
        super().__init__()
        BUILT.append("Data")
        self.folder, self.size = folder, size
        self.words = (folder / "words.txt").read_text().split()

    @property
    def vocabulary_size(self) -> int:
        """Known once the data is there."""
        return len(self.words)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Endless(self.size), batch_size=None)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(TensorDataset(torch.ones(16, self.size)), batch_size=8)

    test_dataloader = predict_dataloader = val_dataloader


class CtrlC(Callback):
    """Someone interrupts the process."""

    def __init__(self, step: int, times: int = 1, validating: bool = False, rank: int = 0):
        """
        Args:
            step: After this many steps: in the next one.
            times: How often.
            validating: In the validation after them instead, in its second batch.
            rank: Of the process.
        """
        self.step, self.times, self.validating, self.rank = step, times, validating, rank

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, index: int) -> None:
        if not self.validating:
            self.press(trainer)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, index: int, loader: int = 0
    ) -> None:
        if self.validating and index == 1:
            self.press(trainer)

    def press(self, trainer: Trainer) -> None:
        if trainer.global_step == self.step and trainer.global_rank == self.rank and not trainer.sanity_checking:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)


class Look(Callback):
    """Notes where the progress bar stands as each step begins."""

    seen: ClassVar[list[tuple[float, float]]] = []  # of the last run

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.seen.clear()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, index: int) -> None:
        bar = trainer.progress_bar_callback.train_progress_bar
        self.seen.append((bar.completed, bar.total))
