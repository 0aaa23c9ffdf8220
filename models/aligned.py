"""Rows of several streams in which a sample has the same row: each stream is computed without padding, and what a stream may
see of another is a mask between two rows."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from operator import le

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .packing import Allow, Packing, Slots, Stream, same_document
from .transformer import Mask


class AlignedRows:
    """A plan for one reading of several streams."""

    def __init__(self, streams: Mapping[str, Stream], allow: Allow = same_document):
        """
        Args:
            streams: By name, all with the same number of samples.
            allow: Which positions may attend to which, within a sample.
        """
        counts = [stream.present.sum(1).tolist() for stream in streams.values()]
        lengths, rows, starts = align(counts)
        self.packings = {
            name: Packing([stream], (length, start, rows))
            for (name, stream), length, start in zip(streams.items(), lengths, starts, strict=True)
        }
        self._allow = allow
        self._allowed: tuple[Tensor, dict[str, slice]] | None = None
        self._masks: dict[tuple[str, ...], tuple[Mask, Tensor | None]] = {}

    def place(self, vectors: Mapping[str, Float[Tensor, "_ _"]]) -> dict[str, Float[Tensor, "rows _ _"]]:
        """Lay the vectors of each stream's present positions into its rows."""
        return {name: packing.place(vectors[name]) for name, packing in self.packings.items()}

    def give_back(self, rows: Mapping[str, Float[Tensor, "rows _ _"]]) -> dict[str, Float[Tensor, "B _ _"]]:
        """States of each stream in the batch's shape; zeros where nothing was present."""
        return {name: packing.give_back(rows[name])[0] for name, packing in self.packings.items()}

    def mask(self, stream: str, sources: Sequence[str]) -> tuple[Mask, Bool[Tensor, "rows length 1"] | None]:
        """What a stream may attend to of others.

        Args:
            stream: Who attends.
            sources: To what, one behind the other.

        Returns:
            The mask, None where all may see all; and which places see anything at all, None where all do. Those that do not
            are let see everything, so that nothing is divided by zero: what they find must not be used.
        """
        key = (stream, *sources)
        if key not in self._masks:
            self._masks[key] = self._make_mask(stream, sources)
        return self._masks[key]

    def _make_mask(self, stream: str, sources: Sequence[str]) -> tuple[Mask, Tensor | None]:
        packings = [self.packings[name] for name in (stream, *sources)]
        if self._allow is same_document and all(one.whole for one in packings):
            return None, None
        allowed, places = self._all()
        mask = torch.cat([allowed[:, places[stream], places[source]] for source in sources], 2)
        some = mask.any(2, keepdim=True)
        return (mask | ~some)[:, None], None if bool(some.all()) else some

    def _all(self) -> tuple[Bool[Tensor, "rows slots slots"], dict[str, slice]]:
        """What every slot of a row may attend to, all streams one behind the other; and where each stream stands there."""
        if self._allowed is None:
            every, places, end = [], {}, 0
            for number, (name, packing) in enumerate(self.packings.items()):
                places[name] = slice(end, end + packing.length)
                end += packing.length
                empty = packing.slots.sample < 0
                every.append(packing.slots._replace(stream=torch.where(empty, -1, number)))
            self._allowed = self._allow(Slots(*(torch.cat(field, 1) for field in zip(*every, strict=True)))), places
        return self._allowed


def align(counts: Sequence[Sequence[int]], enough: float = 0.95, step: int = 8) -> tuple[list[int], int, list[list[int]]]:
    """Which row each sample has, the same in every stream, and where in it.

    Args:
        counts: For each stream, the present positions of each sample.
        enough: Share of filled slots at which the search stops.
        step: Granularity of the candidates, in slots.

    Returns:
        Slots of a row of each stream, the number of rows, and for each stream the slot (counted through all rows) at which each
        sample starts.
    """
    longest = [max([1, *one]) for one in counts]
    total = sum(map(sum, counts))
    best, best_fill = (longest, *_fit(counts, longest)), 0.0
    for lengths in _candidates(longest, step):
        rows, starts = _fit(counts, lengths)
        fill = total / (rows * sum(lengths))
        if fill > best_fill + 0.01:
            best, best_fill = (lengths, rows, starts), fill
        if best_fill >= enough:
            break
    return best


def _candidates(longest: Sequence[int], step: int) -> Iterator[list[int]]:
    """Lengths of rows: of the last stream its longest sample or twice that, of the others all steps between these."""
    *first, last = longest
    for times in (1, 2):
        for lengths in product(*(range(one, 2 * one + 1, step) for one in first)):
            yield [*lengths, times * last]


def _fit(counts: Sequence[Sequence[int]], lengths: Sequence[int]) -> tuple[int, list[list[int]]]:
    """First-fit decreasing in all streams at once: the number of rows, and where each sample starts in each stream."""
    samples = list(zip(*counts, strict=True))
    size = [sum(need / length for need, length in zip(needs, lengths, strict=True)) for needs in samples]
    free: list[list[int]] = []
    starts = [[0] * len(samples) for _ in counts]
    for sample in sorted(range(len(samples)), key=lambda sample: -size[sample]):
        needs = samples[sample]
        row = next((row for row, left in enumerate(free) if all(map(le, needs, left))), None)
        if row is None:
            row = len(free)
            free.append(list(lengths))
        for stream, (need, length) in enumerate(zip(needs, lengths, strict=True)):
            starts[stream][sample] = row * length + length - free[row][stream]
            free[row][stream] -= need
    return max(1, len(free)), starts
