"""Whose turn it is: an endless sequence of categories (languages, sources) in fixed proportions.

Counts are exact, not expected: after any number of blocks each category has had its share to within one draw; within a
block the turns are shuffled. Where a block begins depends on nothing but the block's number, so any part of the sequence can be
had without the parts before it, at the price of a few additions a block.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from ..modalities.chance import chance

TURNS = 1 << 16

Weights = Callable[[int], Float64[np.ndarray, "C"]]


class ExhaustedError(ValueError):
    """Every category has been drawn as often as it may be."""


class Turn(NamedTuple):
    """Some turns, in their order."""

    category: Int64[Tensor, "N"]
    occurrence: Int64[Tensor, "N"]
    """How many times this category had had its turn before."""


class Turns:
    """The sequence. Going forward is cheap; going back starts over."""

    def __init__(self, weights: Weights, key: int, limits: Int64[np.ndarray, "C"] | None = None, block: int = TURNS):
        """
        Args:
            weights: Asked at the first draw of each block: how likely each category is, in any unit, none negative.
            key: Random key of the order within a block.
            limits: How often each category may be drawn in all; its share then goes to the others. None: no limit.
            block: Turns that are shuffled together.
        """
        self.weights, self.key, self.limits, self.block = weights, key, limits, block
        self._restart()

    def _restart(self) -> None:
        categories = len(self.weights(0))
        self._given = np.zeros((2, categories), np.int64)  # before the current block, and after it
        self._owed = np.zeros(categories)
        self._number, self._order = -1, torch.zeros(0, dtype=torch.int64)

    def at(self, first: int, count: int) -> Turn:
        """Turns [first, first + count).

        Raises:
            ExhaustedError: All limits have been reached.
        """
        parts = []
        while count > 0:
            start = first % self.block
            whole = self.of_block(first // self.block)
            part = Turn(*(field[start : start + count] for field in whole))
            if not len(part.category):
                raise self.exhausted()
            parts.append(part)
            first, count = first + len(part.category), count - len(part.category)
        if not parts:
            return Turn(*torch.zeros(2, 0, dtype=torch.int64))
        return Turn(*(torch.cat(field) for field in zip(*parts, strict=True)))

    def of_block(self, number: int) -> Turn:
        """The turns of a block: fewer in the one in which the last limit is reached, none behind it."""
        self._go_to(number)
        return Turn(self._order, self._occurrence)

    def exhausted(self) -> ExhaustedError:
        """What to raise where no turn is left."""
        total = int(self._given[1].sum())
        return ExhaustedError(f"every category has been drawn as often as its limit allows, {total} times in all")

    def counts(self, until: int) -> Int64[np.ndarray, "C"]:
        """How often each category has had its turn before turn `until`."""
        self._go_to(until // self.block)
        within = self._order[: until % self.block].numpy()
        return self._given[0] + np.bincount(within, minlength=self._given.shape[1])

    def _go_to(self, number: int) -> None:
        if number < self._number:
            self._restart()
        if number == self._number:
            return
        while self._number < number:
            self._number += 1
            self._given[0] = self._given[1]
            self._given[1] += self._allot(self.weights(self._number * self.block))
        counts = torch.from_numpy(self._given[1] - self._given[0])
        sorted_turns = torch.repeat_interleave(torch.arange(len(counts)), counts)
        shuffle = torch.argsort(chance(self.key, number, torch.arange(len(sorted_turns))), stable=True)
        self._order = torch.empty_like(sorted_turns)
        self._order[shuffle] = sorted_turns
        by_category = torch.argsort(self._order, stable=True)
        starts = torch.from_numpy(self._given[0]) - (counts.cumsum(0) - counts)
        self._occurrence = torch.empty_like(self._order)
        self._occurrence[by_category] = torch.arange(len(self._order)) + starts[self._order[by_category]]

    def _allot(self, weights: Float64[np.ndarray, "C"]) -> Int64[np.ndarray, "C"]:
        """How often each category comes in the next block: what it is owed, rounded so that all make a block.

        The block in which the last limit is reached is shorter, and those behind it are empty.
        """
        room = np.full(len(weights), self.block)
        if self.limits is not None:
            room = np.minimum(self.limits - self._given[1], self.block)
        free = (room > 0) & (weights > 0)
        size = min(self.block, int(room[free].sum()))
        if not size:
            return np.zeros(len(weights), np.int64)
        self._owed += self._expect(weights, free, room, size)
        counts = np.clip(np.floor(self._owed), 0, np.where(free, room, 0)).astype(np.int64)
        while (left := size - int(counts.sum())) != 0:
            open_ = counts < np.where(free, room, 0) if left > 0 else counts > 0
            rest = np.where(open_, (self._owed - counts) * np.sign(left), -np.inf)
            most = np.argsort(-rest, kind="stable")[: min(abs(left), int(open_.sum()))]
            each = max(1, left // len(most)) if left > 0 else -1
            counts[most] = np.minimum(counts[most] + each, room[most])
        self._owed = np.where(free, self._owed - counts, 0.0)
        return counts

    def _expect(
        self, weights: Float64[np.ndarray, "C"], free: Bool[np.ndarray, "C"], room: Int64[np.ndarray, "C"], size: int
    ) -> Float64[np.ndarray, "C"]:
        """What each category is due of a block: what one has no room for goes to the others, in their proportions."""
        due, open_ = np.zeros(len(weights)), free.copy()
        while open_.any():
            shares = np.where(open_, weights, 0.0)
            due = np.where(open_, shares / shares.sum() * (size - due[~open_].sum()), due)
            over = open_ & (self._owed + due > room)
            if not over.any():
                break
            due[over] = (room - self._owed)[over]
            open_ &= ~over
        return due
