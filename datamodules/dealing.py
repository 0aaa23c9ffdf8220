"""Validation and test: every row exactly once over all ranks, in a fixed order, as many batches on each rank.

Batches are made once and dealt out whole, so that a batch holds the same rows however many processes there are, and so
does whatever is computed on it. Ranks must make as many steps as each other, since a wrapped model may exchange buffers
in each: where batches do not come out even, the last of some ranks is empty (`Batch.size` 0), never a repetition.
"""

from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_all_start_methods
from typing import Any, TypeVar

import torch
from torch.utils.data import Dataset

from ..modalities.batch import Batch, Step
from .faults import FaultTally
from .steps import Reading, load

Part = TypeVar("Part")


def deal(parts: Sequence[Part], rank: int, world: int) -> list[Part | None]:
    """One rank's parts of a sequence: every `world`-th, filled up with None to the same number on each rank."""
    mine: list[Part | None] = list(parts[rank::world])
    return mine + [None] * (-(-len(parts) // world) - len(mine))


class Dealt(Dataset):
    """One rank's batches, each as a step of its own."""

    def __init__(self, parts: Sequence[Callable[[], Reading]], rank: int, world: int):
        """
        Args:
            parts: All batches, as what reads them; they are pickled for workers.
            rank: This process, from 0.
            world: How many processes share the batches.
        """
        self.parts = deal(parts, rank, world)

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, number: int) -> Step:
        part = self.parts[number]
        if part is None:
            return Step(number, ())
        reading = part()
        return Step(number, () if reading.batch is None else (reading.batch,), tuple(reading.faults))


class Batches:
    """One rank's batches as Lightning reads them; their faults are counted in the main process."""

    def __init__(
        self, parts: Sequence[Callable[[], Reading]], trainer: Any, workers: int, start_method: str | None, tally: FaultTally
    ):
        """
        Args:
            parts: All batches of all ranks, as what reads them.
            trainer: Lightning's trainer, for rank, number of ranks and device.
            workers: Processes that read ahead.
            start_method: How they are started; None: the platform's own way.
            tally: Counts the faults.
        """
        dealt = Dealt(parts, trainer.global_rank, trainer.world_size)
        self.loader, self.tally = load(dealt, None, workers, on_cuda(trainer), start_method), tally

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:
        for step in self.loader:
            batch = step.batches[0] if step.batches else empty_batch()
            self.tally.add(batch.size, step.faults)
            yield batch


def check_numbers(
    workers: int, max_tokens: int, batch_size: int = 1, start_method: str | None = None, seed: int = 0, bucket: int = 0
) -> None:
    """Refuse what would be refused only when the first batch is read, perhaps in a worker, or never.

    Raises:
        ValueError: Names the option.
    """
    for name, found, least, why in (
        ("workers", workers, 0, "0: the process itself reads"),
        ("max_tokens", max_tokens, 3, "start token, one piece and end token"),
        ("batch_size", batch_size, 1, "rows of a batch"),
        ("seed", seed, 0, "one of equal runs"),
        ("bucket", bucket, 0, "one of independent draws"),
    ):
        if found < least:
            raise ValueError(f"{name} is {found}; expected {least} or more ({why})")
    if start_method is not None and start_method not in (known := get_all_start_methods()):
        raise ValueError(f"start_method is {start_method!r}; expected one of {', '.join(known)}, or null")


def on_cuda(trainer: Any) -> bool:
    """Whether a trainer's batches go to a CUDA device."""
    return trainer.strategy.root_device.type == "cuda"


def empty_batch() -> Batch:
    """A batch of no rows and no source."""
    nothing = torch.zeros(0, dtype=torch.int64)
    return Batch("", nothing, nothing, nothing)
