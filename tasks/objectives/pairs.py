"""Pairs of a picture and a text: which rows are pairs, which texts are negatives of which pictures, and how one is borrowed."""

import logging

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...modalities.batch import Batch, Text, take
from ...modalities.text import text_identity
from ...models.encoder import Encoder
from ...models.transformer import initialize
from .objective import Loss

log = logging.getLogger(__name__)


def pictured(batch: Batch) -> Bool[Tensor, "B"]:
    """Rows that have a picture, as pixels or as regions."""
    there = torch.zeros_like(batch.item, dtype=torch.bool)
    if batch.image is not None:
        there = there | batch.image.present
    return there if batch.regions is None else there | batch.regions.present.any(1)


def paired(batch: Batch) -> Bool[Tensor, "B"]:
    """Rows that have a picture and a text."""
    there = pictured(batch)
    return there & batch.text.present.any(1) if batch.text is not None else torch.zeros_like(there)


def belonging(batch: Batch) -> Bool[Tensor, "B"]:
    """Rows that have a picture and a text of their own."""
    return paired(batch) if batch.matched is None else paired(batch) & batch.matched


def differs(batch: Batch, pool: Batch) -> Bool[Tensor, "B N"]:
    """Which texts of the pool are negatives of each row: of another item, present, and not the same words."""
    if batch.text is None or pool.text is None:
        return torch.zeros(batch.size, pool.size, dtype=torch.bool, device=batch.item.device)
    other = batch.item[:, None] != pool.item
    unlike = text_identity(batch.text)[:, None] != text_identity(pool.text)
    return other & unlike & pool.text.present.any(1)


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


def build_head(encoder: Encoder) -> nn.Linear:
    """Two scores of the joint vector: class 1 means that picture and text match.

    Raises:
        ValueError: The encoder makes no joint vector.
    """
    if "joint" not in encoder.widths:
        raise ValueError(
            f"image-text matching scores one vector that has seen text and picture, but {type(encoder).__name__} reads "
            f"{', '.join(encoder.widths)} and fuses nothing; use a fused encoder, or the `Contrast` objective"
        )
    head = nn.Linear(encoder.widths["joint"], 2)
    initialize(head)
    return head


def match_loss(head: nn.Linear, rows: Float[Tensor, "N D"] | None, positive: Bool[Tensor, "N"]) -> Loss:
    """Summed two-way cross-entropy; `rows` may be `None` where there is nothing to score."""
    if rows is None:
        rows = head.weight.new_zeros(0, head.in_features)
    total = cross_entropy(head(rows).float(), positive.long(), reduction="sum")
    return Loss(total, torch.tensor(len(rows), device=total.device))


def warn_alone(alone: Bool[Tensor, "B"], source: str) -> bool:
    """Say that samples have no negative; False if all have one."""
    found = bool(alone.any())
    if found:
        log.warning(
            "source %s: %d samples of a step have no text of another item beside them and are scored as matching pairs only; "
            "this is said once. Larger steps, with several items each, have negatives",
            source,
            int(alone.sum()),
        )
    return found
