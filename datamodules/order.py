"""The order of training as arithmetic: which sample is drawn when, a pure function of (seed, source, epoch).

Draw t of a source of n samples is place t mod n of epoch t // n. Optimiser step s draws [s * batch, (s + 1) * batch), and
of those each rank takes a contiguous share. Workers, shards and ranks have no part in it, so a resumed run, another
number of workers and another split over ranks and micro-batches meet the same samples in the same steps.

An epoch is shuffled in blocks: runs of at most 2^18 neighbouring samples are permuted, and each is shuffled within. Of shards
that must be fetched the runs are the shards, and a block is a window of a few. So no more than a block's permutation is
ever held in memory, and reading stays within a few shards for a while.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from ..modalities.chance import chance

BLOCK = 1 << 18


class Draws(NamedTuple):
    """Samples in the order of training."""

    sample: Int64[Tensor, "N"]
    """Number of the sample, from 0."""
    epoch: Int64[Tensor, "N"]
    """How many times all samples had been drawn before."""


class Units:
    """Runs of neighbouring samples whose turn is drawn as one: pieces of a large set, or shards that are fetched whole.

    Attributes:
        sizes: Samples of each run, each at least 1; together they number the samples from 0.
        group: Runs that are open, and shuffled together, at a time.
    """

    def __init__(self, sizes: Int64[Tensor, "U"], group: int = 1):
        self.sizes, self.group, self.ends = sizes, group, sizes.cumsum(0)

    @classmethod
    def of(cls, size: int, block: int = BLOCK) -> "Units":
        """A set of `size` samples, cut into blocks."""
        sizes = torch.full((-(-size // block),), block)
        sizes[-1] = size - block * (len(sizes) - 1)
        return cls(sizes)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def ends_of_blocks(self, key: int) -> Int64[Tensor, "blocks"]:
        """Places of an epoch at which each block of samples that are shuffled together ends."""
        return _turns(self, key)[1]


def draw(first: int, count: int, size: int | Units, key: int, block: int = BLOCK) -> Draws:
    """Draws [first, first + count) of an endless sequence in which each epoch holds every sample once.

    Args:
        first: Number of the first draw, from 0 at the start of training.
        count: How many draws.
        size: How many samples there are, at least 1, or how they are divided.
        key: Random key of the order, from the seed and the source.
        block: Samples that are shuffled together, where `size` does not say.
    """
    units = size if isinstance(size, Units) else Units.of(size, block)
    number = torch.arange(first, first + count)
    epoch, place = number // len(units), number % len(units)
    sample = torch.empty_like(number)
    for one in epoch.unique().tolist():
        chosen = epoch == one
        sample[chosen] = permute(place[chosen], units, int(chance(key, one)))
    return Draws(sample, epoch)


def permute(place: Int64[Tensor, "N"], units: Units, key: int) -> Int64[Tensor, "N"]:
    """Samples at some places of one epoch's permutation.

    Args:
        place: Places in the epoch, from 0 to `len(units)` - 1.
        units: How the samples are divided.
        key: Random key of the permutation.
    """
    turn, ends = _turns(units, key)
    when = torch.searchsorted(ends, place, right=True)
    sample = torch.empty_like(place)
    for one in when.unique().tolist():
        chosen = when == one
        members = turn[one * units.group : (one + 1) * units.group]
        sizes = units.sizes[members]
        within = sizes.cumsum(0)
        shuffled = _shuffle(int(within[-1]), int(chance(key, int(members[0]))))[place[chosen] - (ends[one] - within[-1])]
        unit = torch.searchsorted(within, shuffled, right=True)
        sample[chosen] = (units.ends - units.sizes)[members][unit] + shuffled - (within - sizes)[unit]
    return sample


def share(count: int, part: int, parts: int) -> range:
    """One of `parts` contiguous shares of `count` rows; sizes differ by one at most, and in order they make the whole."""
    return range(count * part // parts, count * (part + 1) // parts)


@lru_cache(maxsize=8)
def _turns(units: Units, key: int) -> tuple[Int64[Tensor, "U"], Int64[Tensor, "blocks"]]:
    """Which unit comes when, and where each block of units ends."""
    turn = _shuffle(len(units.sizes), key)
    ends = units.sizes[turn].cumsum(0)
    last = torch.arange(units.group, len(turn) + units.group, units.group).clamp(max=len(turn)) - 1
    return turn, ends[last]


@lru_cache(maxsize=32)  # a source needs three at a time, of 2 MB at most
def _shuffle(size: int, key: int) -> Int64[Tensor, "size"]:
    return torch.argsort(chance(key, torch.arange(size)), stable=True)
