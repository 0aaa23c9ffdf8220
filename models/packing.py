"""Packing: padding is left at the encoder's door.

A reading's present tokens, of all its streams, are laid into rows of one fixed length, several samples to a row where
they fit, and attention is kept within a sample by a block-diagonal mask. Every layer then works on `[rows, length, D]`
with hardly a padded slot, whatever shape the batch had; states are given back in the batch's shape. Planned once per
reading and shared by all layers. (ModernBERT, arXiv:2412.13663, section 2.1.2, unpads to the same end.)
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Slots(NamedTuple):
    """What an attention rule may look at, per slot of the packed rows; -1 where a slot is empty."""

    sample: Int[Tensor, "rows length"]
    stream: Int[Tensor, "rows length"]
    document: Int[Tensor, "rows length"]
    segment: Int[Tensor, "rows length"]
    hidden: Bool[Tensor, "rows length"]


Allow = Callable[[Slots], Bool[Tensor, "rows queries keys"]]


def same_document(slots: Slots) -> Bool[Tensor, "rows queries keys"]:
    """Attention within a sample and a document: the default. Empty slots see each other, so that none sees nothing."""
    same_sample = slots.sample[:, :, None] == slots.sample[:, None, :]
    return same_sample & (slots.document[:, :, None] == slots.document[:, None, :])


class Stream(NamedTuple):
    """What of one stream goes into the rows."""

    present: Bool[Tensor, "B L"]
    document: Int[Tensor, "B L"] | None = None
    segment: Int[Tensor, "B L"] | None = None
    hidden: Bool[Tensor, "B L"] | None = None


class Packing:
    """A plan for one reading: which slot of which row every present position of every stream goes to."""

    def __init__(self, streams: Sequence[Stream], plan: tuple[int, Sequence[int], int] | None = None):
        """
        Args:
            streams: Streams that attend to each other, all with the same number of samples; a sample's streams stand
                one after the other in its row.
            plan: Slots of a row, the slot (counted through all rows) at which each sample starts, and the number of rows, where
                they are not to be chosen here.
        """
        self.widths = [stream.present.shape[1] for stream in streams]
        self.present = torch.cat([stream.present for stream in streams], dim=1)  # [B, sum of L]
        counts = self.present.sum(dim=1)
        lengths = counts.tolist()
        starts: Sequence[int]
        if plan is None:
            self.length = choose_length(lengths)
            starts = pack(lengths, self.length)
            self.rows = max(1, -(-max((s + n for s, n in zip(starts, lengths, strict=True)), default=0) // self.length))
        else:
            self.length, starts, self.rows = plan
        self.whole = all(n == self.length for n in lengths) and all(stream.document is None for stream in streams)
        first = torch.tensor(starts, device=self.present.device, dtype=torch.long).reshape(-1)
        slot = first[:, None] + torch.cumsum(self.present, dim=1) - 1  # [B, sum of L]; meaningless where absent
        self.slot = [s[p] for s, p in zip(slot.split(self.widths, 1), self.present.split(self.widths, 1), strict=True)]

        def lay(values: Tensor, empty: int) -> Tensor:
            out = torch.full((self.rows * self.length,), empty, dtype=values.dtype, device=values.device)
            return out.index_copy(0, slot[self.present], values[self.present]).view(self.rows, self.length)

        samples = torch.arange(len(lengths), device=self.present.device)
        self.slots = Slots(
            lay(samples[:, None].expand_as(self.present), -1),
            lay(self._field(streams, lambda stream, number: torch.full_like(stream.present, number, dtype=torch.long)), -1),
            lay(self._field(streams, lambda stream, _: _or_zeros(stream.document, stream.present)), -1),
            lay(self._field(streams, lambda stream, _: _or_zeros(stream.segment, stream.present)), -1),
            lay(self._field(streams, lambda stream, _: _or_zeros(stream.hidden, stream.present).bool()), False),
        )

    @staticmethod
    def _field(streams: Sequence[Stream], read: Callable[[Stream, int], Tensor]) -> Tensor:
        return torch.cat([read(stream, number) for number, stream in enumerate(streams)], dim=1)

    def mask(self, allow: Allow) -> Bool[Tensor, "rows 1 length length"] | None:
        """The attention mask that a rule gives, for all heads; None where every row is one whole sample that sees itself."""
        if allow is same_document and self.whole:
            return None
        return allow(self.slots)[:, None]

    def place(self, *streams: Float[Tensor, "_ D"]) -> Float[Tensor, "rows length D"]:
        """Lay vectors into the rows.

        Args:
            streams: For each stream, the vectors of its present positions in the batch's order.
        """
        rows = streams[0].new_zeros(self.rows * self.length, streams[0].shape[-1])
        return rows.index_copy(0, torch.cat(self.slot), torch.cat(streams)).view(self.rows, self.length, -1)

    def give_back(self, rows: Float[Tensor, "rows length D"]) -> list[Float[Tensor, "B _ D"]]:
        """States of each stream in the batch's shape; zeros where nothing was present."""
        flat, states = rows.flatten(0, 1), []
        for present, slot in zip(self.present.split(self.widths, 1), self.slot, strict=True):
            grid = flat.new_zeros(present.numel(), flat.shape[-1])
            grid = grid.index_copy(0, present.flatten().nonzero()[:, 0], flat.index_select(0, slot))
            states.append(grid.view(*present.shape, flat.shape[-1]))
        return states


def _or_zeros(field: Tensor | None, present: Tensor) -> Tensor:
    return torch.zeros_like(present, dtype=torch.long) if field is None else field.long()


def pack(lengths: Sequence[int], length: int) -> list[int]:
    """First-fit decreasing: the slot (counted through all rows) at which each sample starts.

    Args:
        lengths: Tokens of each sample, none above `length`.
        length: Slots of a row.
    """
    free: list[int] = []
    starts = [0] * len(lengths)
    for sample in sorted(range(len(lengths)), key=lambda sample: -lengths[sample]):
        need = lengths[sample]
        row = next((row for row, left in enumerate(free) if left >= need), None)
        if row is None:
            row, free = len(free), [*free, length]
        starts[sample] = row * length + length - free[row]
        free[row] -= need
    return starts


def choose_length(lengths: Sequence[int], enough: float = 0.95, step: int = 8) -> int:
    """Slots of a row: the longest sample, or up to twice that where the rows would else be badly filled.

    Args:
        lengths: Tokens of each sample.
        enough: Share of filled slots at which the search stops.
        step: Granularity of the candidates.
    """
    longest, total = max(lengths, default=0), sum(lengths)
    best, best_fill = max(longest, 1), 0.0
    for length in range(best, 2 * best + 1, step):
        ends = [start + need for start, need in zip(pack(lengths, length), lengths, strict=True)]
        rows = max(1, -(-max(ends, default=1) // length))
        fill = total / (rows * length)
        if fill > best_fill + 0.01:
            best, best_fill = length, fill
        if fill >= enough:
            break
    return best
