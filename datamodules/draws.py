"""What is drawn when: samples, and which of their texts, as arithmetic (see `order`)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64, Shaped
from torch import Tensor

from ..modalities.chance import chance, salt, uniform
from .choosing import Chooser
from .order import Units, draw
from .turns import TURNS, Turns

TEXT = salt("text")
MOST = 1 << 48
"""Draws that are as good as no limit; the sum of thousands of them is still an int64."""


class Draws(NamedTuple):
    """Rows that are to be read."""

    sample: Int64[Tensor, "N"]
    """Number of the sample in its shards."""
    epoch: Int64[Tensor, "N"]
    """How many times it had been drawn before (of several languages: in this one)."""
    text: Int64[Tensor, "N"]
    """Number of the text in `ShardSet.texts`; -1 where none is read."""
    translation: Int64[Tensor, "N"]
    """Number of the other text; -1 where none is read."""

    def at(self, rows: Int64[Tensor, "M"] | slice) -> "Draws":
        """Some of the rows."""
        return Draws(*(field[rows] for field in self))


@dataclass(frozen=True)
class Sampling:
    """How often each language (or pair of languages) is drawn: in proportion to its size to the power of `exponent`.

    1 draws languages as they come, 0 all alike; XLM took 0.7 over sentences (released code), XLM-R 0.3 (arXiv:1911.02116,
    section 3.1).

    Args:
        exponent: A number from 0, or numbers by step, such as `{0: 0.7, 10000: 0.3}`, between which it changes evenly.
        by: What the size of a language is: its samples, or its tokens; by tokens, the share is one of tokens too.
        max_epochs: How often a language may be gone through in all; its share then goes to the others. None: no limit.
    """

    exponent: int | float | dict[int, int | float] = 0.7
    by: Literal["samples", "tokens"] = "samples"
    max_epochs: int | float | None = None

    def __post_init__(self):
        given = self.exponent if isinstance(self.exponent, Mapping) else {0: self.exponent}
        if not given or not all(_is_number(one) and one >= 0 for one in (*given, *given.values())):
            raise ValueError(f"sampling exponent is {self.exponent}; give a number from 0, or numbers from 0 by step")
        if self.max_epochs is not None and not (_is_number(self.max_epochs) and self.max_epochs > 0):
            raise ValueError(f"sampling max_epochs is {self.max_epochs}; give a number above 0, or null for no limit")

    @property
    def points(self) -> dict[int, float]:
        """The exponent by step, ascending; the same however it was written."""
        given = self.exponent if isinstance(self.exponent, Mapping) else {0: self.exponent}
        return {step: float(given[step]) for step in sorted(given)}

    def exponent_at(self, step: int | float) -> float:
        """The exponent at a step."""
        points = self.points
        return float(np.interp(step, list(points), list(points.values())))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def temper(sizes: Shaped[np.ndarray, "C"], exponent: int | float) -> Float64[np.ndarray, "C"]:
    """Shares of categories: (size / sum) to the power, divided by their sum (XLM, arXiv:1901.07291, section 3.1)."""
    shares = np.where(sizes > 0, (sizes / sizes.max()) ** exponent, 0.0)  # of the largest: high powers leave at least it
    return shares / shares.sum()


class EvenDraws:
    """Draws of a source without end: every sample once an epoch."""

    def __init__(self, samples: Int64[np.ndarray, "S"], units: Units, key: int, chooser: Chooser | None):
        """
        Args:
            samples: Numbers of the samples that are read, ascending.
            units: How their places are divided.
            key: Random key of order and choice.
            chooser: What chooses texts; None: none are read.
        """
        self.samples, self.units, self.key, self.chooser = samples, units, key, chooser

    def draws(self, first: int, count: int) -> Draws:
        """Draws [first, first + count)."""
        places = draw(first, count, self.units, self.key)
        sample = torch.from_numpy(self.samples[places.sample.numpy()])
        return choose_texts(sample, places.epoch, self.key, self.chooser)

    def block(self, number: int) -> tuple[int, int]:
        """First draw and number of draws of the n-th block of samples that are shuffled together; none crosses an epoch."""
        blocks = -(-len(self.units.sizes) // self.units.group)
        epoch, place = divmod(number, blocks)
        ends = [0, *self.units.ends_of_blocks(int(chance(self.key, epoch))).tolist()]
        return epoch * len(self.units) + ends[place], ends[place + 1] - ends[place]


class Stratum(NamedTuple):
    """The samples of one language, or of one pair of languages."""

    name: str
    pair: tuple[int, int]
    samples: Int64[np.ndarray, "S"]
    units: Units
    tokens: float
    """Tokens of a draw, in the mean."""


class MixedDraws:
    """Draws of a source whose languages come in set proportions; each language has epochs of its own."""

    def __init__(self, strata: list[Stratum], sampling: Sampling, key: int, chooser: Chooser):
        """
        Args:
            strata: By language.
            sampling: Their proportions.
            key: Random key of order and choice.
            chooser: What chooses texts.
        """
        self.strata, self.sampling, self.key, self.chooser = strata, sampling, key, chooser
        self.step_of: Callable[[int], float] = float
        """In which step the first draw of a block comes, for what changes with steps; set by what makes steps of draws."""
        limits = None
        if sampling.max_epochs is not None:
            limits = np.array([min(int(sampling.max_epochs * len(one.samples)), MOST) for one in strata])
        size = sum(len(one.samples) for one in strata)  # a small source is not gone through many times within a block
        self.turns = Turns(self._weights, int(chance(key, salt("languages"))), limits, min(max(size, 1 << 10), TURNS))
        self._kept: tuple[int, Draws] | None = None

    def _weights(self, first: int) -> Float64[np.ndarray, "C"]:
        counts = np.array([len(one.samples) for one in self.strata], np.float64)
        tokens = np.array([one.tokens for one in self.strata])
        exponent = self.sampling.exponent_at(self.step_of(first))
        if self.sampling.by == "samples":
            return temper(counts, exponent)
        return temper(counts * tokens, exponent) / tokens

    def draws(self, first: int, count: int) -> Draws:
        """Draws [first, first + count).

        Raises:
            ExhaustedError: All languages have been gone through as often as they may be.
        """
        size, parts = self.turns.block, []
        while count > 0:
            block, start = divmod(first, size)
            part = self._whole(block).at(slice(start, start + count))
            if not len(part.sample):
                raise self.turns.exhausted()
            parts.append(part)
            first, count = first + len(part.sample), count - len(part.sample)
        return Draws(*(torch.cat(field) for field in zip(*parts, strict=True)))

    def block(self, number: int) -> tuple[int, int]:
        """First draw and number of draws of the n-th block.

        Raises:
            ExhaustedError: There is none any more.
        """
        size = len(self._whole(number).sample)
        if not size:
            raise self.turns.exhausted()
        return number * self.turns.block, size

    def drawn(self, until: int) -> dict[str, int]:
        """How often each language has been drawn before draw `until`."""
        counts = self.turns.counts(until).tolist()
        return {one.name: count for one, count in zip(self.strata, counts, strict=True)}

    def _whole(self, block: int) -> Draws:
        if self._kept is None or self._kept[0] != block:
            self._kept = block, self._plan(block)
        return self._kept[1]

    def _plan(self, block: int) -> Draws:
        turn = self.turns.of_block(block)
        sample, epoch = torch.empty_like(turn.category), torch.empty_like(turn.category)
        pairs = np.array([one.pair for one in self.strata])[turn.category.numpy()]
        for number in turn.category.unique().tolist():
            stratum, chosen = self.strata[number], (turn.category == number).nonzero()[:, 0]
            key, first = int(chance(self.key, salt(stratum.name))), int(turn.occurrence[chosen[0]])
            places = draw(first, len(chosen), stratum.units, key)  # a category's turns are numbered in their order
            sample[chosen] = torch.from_numpy(stratum.samples[places.sample.numpy()])
            epoch[chosen] = places.epoch
        other = None if self.chooser.second is None else pairs[:, 1]
        return choose_texts(sample, epoch, self.key, self.chooser, pairs[:, 0], other)


def choose_texts(
    sample: Int64[Tensor, "N"],
    epoch: Int64[Tensor, "N"],
    key: int,
    chooser: Chooser | None,
    language: Int64[np.ndarray, "N"] | None = None,
    other: Int64[np.ndarray, "N"] | None = None,
) -> Draws:
    """Which texts of drawn samples are read: decided by (key, epoch, sample) alone."""
    if chooser is None:
        none = torch.full_like(sample, -1)
        return Draws(sample, epoch, none, none)
    luck = uniform(key, epoch[:, None], sample[:, None], TEXT, torch.arange(4)).numpy()
    text, translation = chooser.choose(sample.numpy(), luck, language, other)
    return Draws(sample, epoch, torch.from_numpy(text), torch.from_numpy(translation))
