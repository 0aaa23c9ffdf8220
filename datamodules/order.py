"""The order of training as arithmetic: which sample is drawn when, a pure function of (seed, source, epoch).

Draw t of a source of n samples is place t mod n of epoch t // n. Optimiser step s draws [s * batch, (s + 1) * batch), and
of those each rank takes a contiguous share. Workers, shards and ranks have no part in it, so a resumed run, another
number of workers and another split over ranks and micro-batches meet the same samples in the same steps.

An epoch is shuffled in blocks of at most 2^18 neighbouring samples: the blocks are permuted, and each is shuffled within.
So no more than a block's permutation is ever held in memory, and reading stays within a few shards for a while.
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


def draw(first: int, count: int, size: int, key: int, block: int = BLOCK) -> Draws:
    """Draws [first, first + count) of an endless sequence in which each epoch holds every sample once.

    Args:
        first: Number of the first draw, from 0 at the start of training.
        count: How many draws.
        size: How many samples there are, at least 1.
        key: Random key of the order, from the seed and the source.
        block: Samples that are shuffled together.
    """
    number = torch.arange(first, first + count)
    epoch, place = number // size, number % size
    sample = torch.empty_like(number)
    for one in epoch.unique().tolist():
        chosen = epoch == one
        sample[chosen] = permute(place[chosen], size, int(chance(key, one)), block)
    return Draws(sample, epoch)


def permute(place: Int64[Tensor, "N"], size: int, key: int, block: int = BLOCK) -> Int64[Tensor, "N"]:
    """Samples at some places of one epoch's permutation.

    Args:
        place: Places in the epoch, from 0 to `size` - 1.
        size: How many samples there are.
        key: Random key of the permutation.
        block: Samples that are shuffled together.
    """
    turn = _shuffle(-(-size // block), key)  # which block comes when
    lengths = torch.full_like(turn, block).where(turn < len(turn) - 1, torch.tensor(size - block * (len(turn) - 1)))
    ends = lengths.cumsum(0)
    when = torch.searchsorted(ends, place, right=True)
    within = place - (ends - lengths)[when]
    sample = torch.empty_like(place)
    for one in when.unique().tolist():
        chosen, number = when == one, int(turn[one])
        sample[chosen] = number * block + _shuffle(int(lengths[one]), int(chance(key, number)))[within[chosen]]
    return sample


def share(count: int, part: int, parts: int) -> range:
    """One of `parts` contiguous shares of `count` rows; sizes differ by one at most, and in order they make the whole."""
    return range(count * part // parts, count * (part + 1) // parts)


@lru_cache(maxsize=32)  # a source needs three at a time, of 2 MB at most
def _shuffle(size: int, key: int) -> Int64[Tensor, "size"]:
    return torch.argsort(chance(key, torch.arange(size)), stable=True)
