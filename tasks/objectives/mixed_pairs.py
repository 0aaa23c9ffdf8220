"""Pairs of a text and its translation, mixed with other pairs of the step. InfoXLM, arXiv:2007.07834, section 3.3."""

import torch
from jaxtyping import Int64
from torch import Tensor

from ...modalities.batch import Batch, take
from .rows import join_rows


def translated(batch: Batch) -> Batch | None:
    """The rows that have a text and a translation, with these alone; None where the batch lacks one of the fields."""
    if batch.text is None or batch.translation is None:
        return None
    there = (batch.text.word >= 0).any(1) & (batch.translation.word >= 0).any(1)
    there = there if batch.matched is None else there & batch.matched
    return take(Batch(batch.source, batch.item, batch.sample, batch.epoch, batch.text, batch.translation), there)


def mix_pairs(own: Batch, pool: Batch, draw: Int64[Tensor, "B"], draws: Int64[Tensor, "N"]) -> Batch:
    """Each pair with one other: the pool, in the order of its draws, is taken two by two.

    So it does not depend on how the pool is split into batches which pairs come together, nor which of the two leads.

    Args:
        own: Pairs of a batch.
        pool: Pairs of the step, these among them.
        draw: A random number of each pair of the batch.
        draws: Of each of the pool; the same for the same pair.

    Returns:
        The own pairs that lead, then their followers, which may be another batch's. The one that is left over in an odd pool
        is followed by itself with its texts blank.
    """
    order, place = torch.unique(draws, return_inverse=True)  # a sample that is drawn twice is one pair
    number = torch.arange(pool.size, device=draws.device)
    first = torch.zeros_like(order).scatter_reduce(0, place, number, "amin", include_self=False)
    turn = torch.searchsorted(order, draw)
    leads = turn % 2 == 0
    after = turn[leads] + 1
    alone = after == len(order)
    followers = take(pool, first[torch.where(alone, after - 1, after)])
    text, translation = (
        one._replace(present=one.present & ~alone[:, None], word=one.word.masked_fill(alone[:, None], -1))
        for one in (followers.text, followers.translation)
    )
    return join_rows([take(own, leads), followers._replace(text=text, translation=translation)])
