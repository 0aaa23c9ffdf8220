"""A source's endless sequence of micro-batches: which rows each holds, and which of them a rank reads in a step."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, Integer
from torch import Tensor

from ..modalities.chance import chance, salt
from .buckets import cut_buckets, cut_packed
from .draws import Draws, EvenDraws, MixedDraws
from .order import share

PARTS = salt("parts")


class Part(NamedTuple):
    """What is read together."""

    draws: Draws
    rows: Int64[Tensor, "N"] | None = None
    """Of packed texts: the row that each stands in."""


class ByCount:
    """Steps of a fixed number of rows: step s is the draws [s * batch, (s + 1) * batch), in contiguous shares of the ranks."""

    def __init__(self, draws: EvenDraws | MixedDraws, batch_size: int):
        self.source, self.batch_size = draws, batch_size
        if isinstance(draws, MixedDraws):
            draws.step_of = self.step_of

    def step(self, number: int, rank: int, world: int) -> list[Part]:
        """What a rank reads in a step: all at once."""
        rows = share(self.batch_size, rank, world)
        part = Part(self.source.draws(number * self.batch_size + rows.start, len(rows)))
        if isinstance(self.source, MixedDraws) and self.source.turns.limits is not None:
            self.source.draws((number + 1) * self.batch_size - 1, 1)  # a step that is not whole ends training on every rank
        return [part]

    def step_of(self, first: int) -> float:
        """The step in which a draw comes."""
        return first / self.batch_size

    def draws_before(self, step: int) -> int:
        """Rows of all steps before one."""
        return step * self.batch_size


class ByTokens:
    """Steps of a fixed number of micro-batches, each of about as many tokens.

    The draws of a block are sorted into buckets of like length (or packed into rows), cut to the budget, and shuffled.
    Blocks follow each other without a gap: step s is the micro-batches [s * n, (s + 1) * n), whatever the number of ranks.

    Attributes:
        before: Micro-batches before each block that has been planned: what resuming needs to jump.
    """

    def __init__(
        self,
        draws: EvenDraws | MixedDraws,
        lengths: Sequence[Integer[np.ndarray, "T"]],
        max_tokens: int,
        budget: int,
        parts: int,
        pack: bool,
        joined: bool = False,
    ):
        """
        Args:
            draws: The rows.
            lengths: Tokens of what is read from every text of the shards on; and of what is read from it as the second text.
            max_tokens: Longest text as it is read, or longest packed row.
            budget: Slots of a micro-batch.
            parts: Micro-batches of a step, over all ranks.
            pack: Whether several texts stand in a row.
            joined: Whether what is read from both texts stands in one row.
        """
        self.source, self.lengths, self.max_tokens, self.budget = draws, lengths, max_tokens, budget
        self.parts, self.pack, self.joined = parts, pack, joined
        self.before = [0]
        self._kept: tuple[int, list[Part]] | None = None
        if isinstance(draws, MixedDraws):
            draws.step_of = self.step_of

    def step_of(self, first: int) -> float:
        """The step in which the first draw of a block comes, once the blocks before it have been planned."""
        assert isinstance(self.source, MixedDraws)
        return self.before[first // self.source.turns.block] / self.parts

    def step(self, number: int, rank: int, world: int) -> list[Part]:
        """What a rank reads in a step, micro-batch by micro-batch."""
        mine = share(self.parts, rank, world)
        parts = [self.part(number * self.parts + place) for place in mine]
        self._find((number + 1) * self.parts - 1)  # a step that is not whole ends training on every rank
        return parts

    def part(self, number: int) -> Part:
        """One micro-batch of the sequence."""
        block = self._find(number)
        return self.block(block)[number - self.before[block]]

    def draws_before(self, step: int) -> int:
        """Rows of all steps before one."""
        number = step * self.parts
        if not number:
            return 0
        block = self._find(number - 1)  # what comes after may not be there: `ExhaustedError`
        first, _ = self.source.block(block)
        return first + sum(len(part.draws.sample) for part in self.block(block)[: number - self.before[block]])

    def block(self, number: int) -> list[Part]:
        """All micro-batches of a block."""
        if self._kept is None or self._kept[0] != number:
            self._kept = number, self._plan(number)
        return self._kept[1]

    def _find(self, number: int) -> int:
        """The block that a micro-batch is in; the blocks up to it are planned."""
        while self.before[-1] <= number:
            self.before.append(self.before[-1] + len(self.block(len(self.before) - 1)))
        return bisect_right(self.before, number) - 1

    def _plan(self, number: int) -> list[Part]:
        draws = self.source.draws(*self.source.block(number))
        luck = chance(self.source.key, PARTS, number, torch.arange(len(draws.sample))).numpy()
        streams = [
            lengths[text.numpy()].astype(np.int64)
            for lengths, text in zip(self.lengths, (draws.text, draws.translation), strict=False)
        ]
        streams = [np.minimum(lengths, self.max_tokens) for lengths in ([sum(streams)] if self.joined else streams)]
        if self.pack:
            packed = cut_packed(streams[0], self.max_tokens, self.budget, luck)
            return [Part(draws.at(torch.from_numpy(part)), torch.from_numpy(rows)) for part, rows in packed]
        return [Part(draws.at(torch.from_numpy(part))) for part in cut_buckets(np.stack(streams, 1), self.budget, luck)]
