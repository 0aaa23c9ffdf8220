"""Rows of several streams in which a sample has the same row: each stream is computed without padding, and what a stream may
see of another is a mask between two rows."""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain, product
from operator import add, le

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .packing import Allow, Packing, Slots, Stream, same_document
from .transformer import Mask

Plan = tuple[list[int], int, list[list[int]]]
"""Slots of a row of each stream, the number of rows, and where each sample starts in each stream."""


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


def align(counts: Sequence[Sequence[int]], enough: float = 0.95, tries: int = 12) -> Plan:
    """Which row each sample has, the same in every stream, and where in it.

    Rows are as few as leave none longer than twice the longest sample, or as many as fill well: longer rows cost attention.

    Args:
        counts: For each stream, the present positions of each sample.
        enough: Share of filled slots at which the search stops.
        tries: How many numbers of rows are tried.

    Returns:
        Slots of a row of each stream, the number of rows, and for each stream the slot (counted through all rows) at which each
        sample starts.
    """
    longest = [max([1, *one]) for one in counts]
    total, most = sum(map(sum, counts)), max(1, len(counts[0]))
    fewest = max(1, *(-(-sum(one) // (2 * limit)) for one, limit in zip(counts, longest, strict=True)))
    best, best_fill = _deal(counts, longest, most), 0.0
    dealt = (_deal(counts, longest, rows) for rows in range(most, fewest - 1, -max(1, (most - fewest) // tries)))
    filled = (_fit(counts, limits) for limits in [_choose_limits(counts, longest)])
    for lengths, rows, starts in chain(dealt, filled):
        fill = total / (rows * sum(lengths))
        if fill > best_fill + 0.01 and all(length <= 2 * limit for length, limit in zip(lengths, longest, strict=True)):
            best, best_fill = (lengths, rows, starts), fill
        if best_fill >= enough:
            break
    return best


def _choose_limits(counts: Sequence[Sequence[int]], longest: Sequence[int], some: int = 64) -> Sequence[int]:
    """Slots that rows should have at the most, from once to twice the longest sample, as some of the samples fill them best."""
    few = [one[:some] for one in counts]
    grid = product(*([one + one * part // 4 for part in range(5)] for one in longest))

    def slots(limits: Sequence[int]) -> int:
        lengths, rows, _ = _fit(few, limits)
        return rows * sum(lengths)

    return min(grid, key=slots)


def _order(counts: Sequence[Sequence[int]], limits: Sequence[int]) -> list[tuple[int, tuple[int, ...], float]]:
    """Samples with their positions in each stream and what share of a row they take, the largest first."""
    samples = enumerate(zip(*counts, strict=True))
    sized = [(n, needs, sum(need / limit for need, limit in zip(needs, limits, strict=True))) for n, needs in samples]
    return sorted(sized, key=lambda one: -one[2])


def _plan(places: Sequence[tuple[int, Sequence[int]]], used: Sequence[Sequence[int]], streams: int) -> Plan:
    """Rows as long as they must be, from each sample's row and where in it it starts."""
    lengths = [max([1, *(one[stream] for one in used)]) for stream in range(streams)]
    starts = [[row * length + before[stream] for row, before in places] for stream, length in enumerate(lengths)]
    return lengths, max(1, len(used)), starts


def _deal(counts: Sequence[Sequence[int]], longest: Sequence[int], rows: int) -> Plan:
    """The largest sample first, each into the row with the most room: best where pictures are alike."""
    heap = [(0.0, row) for row in range(rows)]
    used: list[Sequence[int]] = [[0] * len(counts) for _ in range(rows)]
    places: list[tuple[int, Sequence[int]]] = [(0, [])] * len(counts[0])
    for sample, needs, size in _order(counts, longest):
        load, row = heappop(heap)
        places[sample], used[row] = (row, used[row]), list(map(add, used[row], needs))
        heappush(heap, (load + size, row))
    return _plan(places, used, len(counts))


def _fit(counts: Sequence[Sequence[int]], limits: Sequence[int]) -> Plan:
    """The largest sample first, each into the first row with room in all streams: best where all vary."""
    used: list[Sequence[int]] = []
    places: list[tuple[int, Sequence[int]]] = [(0, [])] * len(counts[0])
    for sample, needs, _ in _order(counts, limits):
        after = (list(map(add, own, needs)) for own in used)
        row = next((row for row, own in enumerate(after) if all(map(le, own, limits))), len(used))
        if row == len(used):
            used.append([0] * len(counts))
        places[sample], used[row] = (row, used[row]), list(map(add, used[row], needs))
    return _plan(places, used, len(counts))
