"""Texts and pictures borrowed from other samples of the step: which may be, which one is, and how it takes the place of a
sample's own."""

import logging

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...modalities.batch import Batch, Text, take
from ...modalities.chance import chance, salt
from ...modalities.text import text_identity
from .rows import join_rows

log = logging.getLogger(__name__)

CHOICE = salt("choice")
PICTURES = ("image", "regions")
"""Fields of a batch that hold pictures."""


def lend_texts(batch: Batch, text: Text | None) -> Batch | None:
    """Texts of a batch's samples, as a batch of these alone, for other samples to borrow; None where there are none."""
    if text is None:
        return None
    return Batch(batch.source, batch.item, batch.sample, batch.epoch, text._replace(shown=None, hidden=None))


def differs(batch: Batch, pool: Batch) -> Bool[Tensor, "B N"]:
    """Which texts of the pool are negatives of each row: of another item, present, and not the same words."""
    if batch.text is None or pool.text is None:
        return torch.zeros(batch.size, pool.size, dtype=torch.bool, device=batch.item.device)
    other = batch.item[:, None] != pool.item
    unlike = text_identity(batch.text)[:, None] != text_identity(pool.text)
    return other & unlike & pool.text.present.any(1)


def exchange(view: Batch, pool: Batch, wanted: Bool[Tensor, "B"], candidate: Bool[Tensor, "B N"], key: int, pad: int) -> Batch:
    """Put a text of the pool in the place of the text of some rows: the candidate with the highest draw, the same one in
    whatever order the pool comes.

    Args:
        view: Rows with texts.
        pool: What the step's samples lent; the view's own loan where none was gathered.
        wanted: Rows that get another text, if they have a candidate.
        candidate: Which texts of the pool each row may get.
        key: Random key of the objective.
        pad: Token id where no text is present.
    """
    lent = pool._replace(image=None, regions=None)
    texts = join_rows([lend_texts(view, view.text), lent], pad).text
    choice = choose_lenders(view, pool, candidate, key)
    return borrow(view, texts, wanted & candidate.any(1), view.size + choice, pad)


def choose_lenders(view: Batch, pool: Batch, candidate: Bool[Tensor, "B N"], key: int) -> Int[Tensor, "B"]:
    """The sample of the pool that each row borrows from: the candidate with the highest draw, the same one in whatever order
    the pool comes; 0 where there is none."""
    if pool.size == 0:
        return torch.zeros_like(view.item)
    own = view.epoch[:, None], view.sample[:, None]
    draw = chance(key, salt(view.source), *own, CHOICE, pool.epoch, pool.sample)
    return draw.masked_fill(~candidate, torch.iinfo(draw.dtype).min).argmax(1)


def borrow(view: Batch, texts: Text, swapped: Bool[Tensor, "B"], choice: Int[Tensor, "B"], pad: int) -> Batch:
    """Put text `choice` of `texts`, whose first rows are the view's own, in the place of the text of `swapped` rows."""
    own = torch.arange(view.size, device=choice.device)
    text = take(texts, torch.where(swapped, choice, own))
    text = text._replace(tokens=text.tokens.masked_fill(~text.present, pad))
    matched = ~swapped if view.matched is None else view.matched & ~swapped
    alignment = view.alignment
    if alignment is not None:  # words of the text that left
        alignment = alignment.masked_fill(swapped[:, None, None], -1)
    return view._replace(text=text, matched=matched, alignment=alignment)


def exchange_pictures(view: Batch, pool: Batch, wanted: Bool[Tensor, "B"], candidate: Bool[Tensor, "B N"], key: int) -> Batch:
    """Put a picture of the pool, as pixels, regions or both, in the place of that of some rows.

    Args:
        view, pool, wanted, candidate, key: As of `exchange`; view and pool have pictures of one kind.
    """
    swapped = wanted & candidate.any(1)
    own = torch.arange(view.size, device=swapped.device)
    choice = torch.where(swapped, view.size + choose_lenders(view, pool, candidate, key), own)
    joined = join_rows([lend_pictures(view), pool._replace(text=None)])
    pictures = {name: take(getattr(joined, name), choice) for name in PICTURES if getattr(view, name) is not None}
    return view._replace(matched=~swapped if view.matched is None else view.matched & ~swapped, **pictures)


def lend_pictures(batch: Batch) -> Batch:
    """Pictures of a batch's samples, as a batch of these alone."""
    return Batch(batch.source, batch.item, batch.sample, batch.epoch, **{name: getattr(batch, name) for name in PICTURES})


def warn_alone(alone: Bool[Tensor, "B"], source: str, negative: str = "text of another item") -> bool:
    """Say that samples have no negative, in words; False if all have one."""
    found = bool(alone.any())
    if found:
        log.warning(
            "source %s: %d samples of a step have no %s beside them and are scored as matching pairs only; "
            "this is said once. Larger steps, with several items each, have negatives",
            source,
            int(alone.sum()),
            negative,
        )
    return found
