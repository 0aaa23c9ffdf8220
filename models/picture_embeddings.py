"""Embeddings of a picture beside a text, for the fused encoder: from what there is of it to the streams' width.

What the fused encoder asks of them, and those of pixels; those of a detector's regions are in `region_embeddings`.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..modalities.batch import Batch
from .embeddings import TextEmbeddings
from .packing import Stream
from .towers import image_stream
from .transformer import initialize


class Embedded(NamedTuple):
    """Vectors of what is present, in the batch's order."""

    text: Float[Tensor, "tokens D"] | None
    picture: Float[Tensor, "places E"] | None


class PictureEmbeddings(nn.Module):
    """What the fused encoder asks of embeddings.

    Attributes:
        stream: The field of the batch that is read, `regions` or `image`.
        width: Of the picture's vectors.
        before, after: Places that stand before and behind those of the batch's field.
    """

    stream: Literal["regions", "image"]
    width: int
    before = 0
    after = 0

    def places(self, batch: Batch) -> Stream:
        """Where there are vectors, before and after included, and which are hidden."""
        raise NotImplementedError

    def forward(self, batch: Batch, text: TextEmbeddings) -> Embedded:
        """Both streams: some embeddings of pictures reach into those of the text.

        Args:
            batch: Text, picture, or both.
            text: Embeddings of the text stream.
        """
        raise NotImplementedError


class ImageEmbeddings(PictureEmbeddings):
    """A front end's vectors, led to the width, with a type vector and a norm (as in ViLT, arXiv:2102.03334, section 3.1, and
    Pixel-BERT, arXiv:2004.00849, section 3.2)."""

    stream = "image"

    def __init__(self, front_end: nn.Module, width: int, norm: bool = True, dropout: float = 0.1, epsilon: float = 1e-5):
        """
        Args:
            front_end: Turns an `Image` into `[B, P, D]` (see `modalities.image_front_ends`); has `width`.
            width: Of the vectors.
            norm: Whether a layer norm follows the sum (not in ViLT).
            dropout: Rate on the vectors.
            epsilon: Of the norm.
        """
        super().__init__()
        self.width, self.front_end = width, front_end
        self.inward = nn.Identity() if front_end.width == width else nn.Linear(front_end.width, width)
        self.kind = nn.Parameter(torch.zeros(width))
        self.norm = nn.LayerNorm(width, epsilon) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.inward.apply(initialize)

    def places(self, batch: Batch) -> Stream:
        return image_stream(batch.image, self.front_end)

    def forward(self, batch: Batch, text: TextEmbeddings) -> Embedded:
        words = None if batch.text is None else text(batch.text)
        if batch.image is None:
            return Embedded(words, None)
        vectors = self.inward(self.front_end(batch.image)[self.places(batch).present])
        return Embedded(words, self.dropout(self.norm(vectors + self.kind)))
