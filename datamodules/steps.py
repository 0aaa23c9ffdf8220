"""Whole optimiser steps as a map-style dataset: item s is all that this rank trains on in step s.

So a loader's workers take whole steps, and neither their number nor their pace can touch the order.
"""

import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from ..modalities.batch import Batch, Fault, Step
from .faults import FaultTally
from .mixture import Mixed


class Reading(NamedTuple):
    """What came of reading some rows."""

    batch: Batch | None
    """The rows that could be read, in their order; of evaluation None where none could."""
    slots: list[int]
    """Which of the rows asked for these are, ascending."""
    faults: list[Fault]


@runtime_checkable
class Readable(Protocol):
    """One source, as steps need it (see `reading.Reader`)."""

    name: str

    def check_world(self, world: int) -> None: ...

    def read_step(self, number: int, rank: int, world: int) -> tuple[list[Batch], list[Fault]]: ...


class Steps(Dataset):
    """One rank's part of every optimiser step.

    What a step holds is arithmetic, the same however many ranks share it: 1 rank of 8 rows, 2 of 4 and 4 micro-batches of
    2 train on the same rows. An epoch may end inside a step. A row that cannot be read is a hole: the others keep their
    places, and the step its number. A micro-batch with no row left is still there, empty: all ranks have as many
    micro-batches, so that none waits for another.
    """

    def __init__(
        self, sources: Sequence[Readable], rank: int = 0, world: int = 1, mixtures: Sequence[Mixed] = (), end: int = -1
    ):
        """
        Args:
            sources: In the order in which a step reads them.
            rank: This process, from 0.
            world: How many processes train together.
            mixtures: Sources of which a step reads one each; the others are in every step.
            end: How many steps are trained; those after it, for which loaders ask ahead, are empty. -1: no end.

        Raises:
            ValueError: A step of a source cannot be shared evenly by the processes.
        """
        for source in sources:
            source.check_world(world)
        self.sources, self.rank, self.world, self.mixtures, self.end = list(sources), rank, world, mixtures, end

    def __getitem__(self, step: int) -> Step:
        batches: list[Batch] = []
        faults: list[Fault] = []
        for source, number in self.plan(step) if step < self.end or self.end < 0 else ():
            some, bad = source.read_step(number, self.rank, self.world)
            batches += some
            faults += bad
        return Step(step, tuple(batches), tuple(faults))

    def plan(self, step: int) -> list[tuple[Readable, int]]:
        """The sources that a step reads, and which step of each it is."""
        numbers = dict.fromkeys((source.name for source in self.sources), step)
        for mixture in self.mixtures:
            chosen, number = mixture.at(step)
            for name in mixture.names:
                del numbers[name]
            numbers[chosen] = number
        return [(source, numbers[source.name]) for source in self.sources if source.name in numbers]


def split(reading: Reading, rows: int, micro_batch_size: int) -> list[Batch]:
    """Micro-batches of the rows that could be read; all share the memory of the whole, so that workers send it once.

    Args:
        reading: What came of `rows` rows.
        rows: How many were asked for.
        micro_batch_size: Rows of a micro-batch, holes included; the last may have fewer.
    """
    batches, start = [], 0
    for first in range(0, rows, micro_batch_size):
        size = sum(first <= slot < first + micro_batch_size for slot in reading.slots)
        batches.append(narrow(reading.batch, start, size))
        start += size
    return batches


Rows = TypeVar("Rows", bound=tuple)


def narrow(rows: Rows, start: int, size: int) -> Rows:
    """Rows [start, start + size) of a batch or of one of its modalities, as views."""
    if start == 0 and isinstance(rows, Batch) and rows.size == size:
        return rows

    def part(field):
        if isinstance(field, Tensor):
            return field.narrow(0, start, size)
        return narrow(field, start, size) if isinstance(field, tuple) else field

    return type(rows)(*map(part, rows))


class StepNumbers(Sampler[int]):
    """All step numbers from the next one to train on, without end."""

    def __init__(self, start: Callable[[], int]):
        """
        Args:
            start: Asked each time reading begins: the number of the next step.
        """
        self.start = start

    def __iter__(self) -> Iterator[int]:
        return count(self.start())


def load(
    dataset: Dataset, sampler: Sampler[int] | None, workers: int, pin: bool, start_method: str | None = None
) -> DataLoader:
    """A loader of whole items that leaves the process's own random generator alone.

    Args:
        dataset: A map from numbers to items.
        sampler: Which numbers, in which order; None: all, in order.
        workers: Processes that read ahead; 0: this one reads.
        pin: Whether items go to page-locked memory, for a faster way to a CUDA device.
        start_method: How workers are started (`fork`, `spawn`, `forkserver`); None: the platform's own way.
    """
    return DataLoader(
        dataset,
        batch_size=None,
        sampler=sampler,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context=start_method if workers else None,
        pin_memory=pin,
        generator=torch.Generator(),
        collate_fn=as_is,  # the default makes lists of tuples
        worker_init_fn=leave_interrupts,
    )


def leave_interrupts(worker: int) -> None:
    """Ctrl-C reaches a whole terminal; what becomes of it is for the main process to say."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def as_is(item: Any) -> Any:
    """An item is a whole step already."""
    return item


class Tallied:
    """An iterable of steps that counts their faults in the main process; unsized, since training is counted in steps."""

    def __init__(self, loader: Iterable[Step], tally: FaultTally):
        self.loader, self.tally = loader, tally
        self._present, self._slots = Counter[str](), Counter[str]()

    def __iter__(self) -> Iterator[Step]:
        for step in self.loader:
            self.tally.add(sum(batch.size for batch in step.batches), step.faults)
            for batch in step.batches:
                for text in (batch.text, batch.translation):
                    if text is not None:
                        self._present[batch.source] += int(text.present.sum())
                        self._slots[batch.source] += text.present.numel()
            yield step

    @property
    def padding(self) -> dict[str, float]:
        """By source, the share of text slots in which nothing is present."""
        return {name: 1 - self._present[name] / slots for name, slots in self._slots.items() if slots}
