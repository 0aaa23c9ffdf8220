"""Pairs of a picture and a text: which rows are pairs, and what it costs to tell whether they match."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...modalities.batch import Batch
from ...models.encoder import Encoder
from ...models.transformer import initialize
from .objective import Loss

On = Literal["all", "matched"]
"""Which rows are scored: all, or only those whose text and picture belong together. The others are hidden in alike, as else
what is hidden would tell who belongs."""


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
