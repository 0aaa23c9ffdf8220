"""Embeddings of regions beside a text: one class for each published way.

All that differs between ViLBERT, LXMERT, UNITER and VisualBERT below their layers is here; M3P and VL-BERT, whose regions
stand among the words, are in `worded_regions`. (Compared in VOLTA, arXiv:2011.15124, section 3, in one controlled set-up.)
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..modalities.batch import Batch, Regions
from ..modalities.region import encode_boxes
from .embeddings import TextEmbeddings
from .packing import Stream
from .picture_embeddings import Embedded, PictureEmbeddings
from .transformer import initialize


class RegionEmbeddings(PictureEmbeddings):
    """Regions of a detector: what their embeddings share.

    A region that is hidden and shown as zeros is masked: a learned vector stands in its place where there is one. The global
    region, of the whole picture, is the mean of those that are seen: it tells nothing of what must be predicted.
    """

    stream = "regions"

    def __init__(
        self,
        features: int,
        width: int,
        values: Literal[4, 5, 7],
        whole: Literal["first", "last"] | None = None,
        mask: bool = False,
        unit: bool = False,
        dropout: float = 0.1,
        epsilon: float = 1e-12,
    ):
        """
        Args:
            features: Width F of a region's feature.
            width: Of the vectors.
            values: Numbers that say where a box is (see `modalities.region.encode_boxes`).
            whole: Where a global region stands; None: there is none.
            mask: Whether masked regions have a learned feature in the place of zeros.
            unit: Whether features and boxes are scaled to length 1 first.
            dropout: Rate on the vectors.
            epsilon: Of the norms.
        """
        super().__init__()
        self.features, self.width, self.values, self.whole, self.unit = features, width, values, whole, unit
        self.before, self.after = int(whole == "first"), int(whole == "last")
        self.mask = nn.Parameter(torch.randn(features) * 0.02) if mask else None
        self.feature, self.box = nn.Linear(features, width), nn.Linear(values, width)
        self.dropout, self.epsilon = nn.Dropout(dropout), epsilon
        self.apply(initialize)
        # Hidden regions that are shown as zeros become the bias: a norm over zeros has a gradient of 1 / sqrt(epsilon).
        nn.init.normal_(self.feature.bias, std=0.02)

    def places(self, batch: Batch) -> Stream:
        regions = batch.regions
        some = regions.present.any(1, keepdim=True)
        hidden = torch.zeros_like(regions.present) if regions.hidden is None else regions.hidden
        parts = [some] * self.before + [regions.present] + [some] * self.after
        marks = [~some & some] * self.before + [hidden] + [~some & some] * self.after
        return Stream(torch.cat(parts, 1), hidden=torch.cat(marks, 1))

    def forward(self, batch: Batch, text: TextEmbeddings) -> Embedded:
        words = None if batch.text is None else text(batch.text)
        if batch.regions is None:
            return Embedded(words, None)
        features, boxes, present = self.gather(batch.regions)
        return Embedded(words, self.dropout(self.embed(features[present], boxes[present], text)))

    def embed(
        self, features: Float[Tensor, "places F"], boxes: Float[Tensor, "places values"], text: TextEmbeddings
    ) -> Float[Tensor, "places E"]:
        """Vectors of places that there are, before dropout."""
        raise NotImplementedError

    def gather(self, regions: Regions) -> tuple[Float[Tensor, "B N F"], Float[Tensor, "B N values"], Bool[Tensor, "B N"]]:
        """Features, encoded boxes and where they are, with the global region."""
        if regions.features.shape[2] != self.features:
            raise ValueError(
                f"regions have features of width {regions.features.shape[2]}, but the encoder reads {self.features}; set its "
                "`features` to that of the shards"
            )
        features, boxes, present = regions.read, regions.boxes, regions.present
        hidden = torch.zeros_like(present) if regions.hidden is None else regions.hidden
        if self.whole is not None:
            seen = (present & ~hidden & (features != 0).any(2))[..., None]  # nor hidden ones' neighbours, shown as zeros
            mean = (features * seen).sum(1, keepdim=True) / seen.sum(1, keepdim=True).clamp_min(1)
            some, box = present.any(1, keepdim=True), boxes.new_tensor([0.0, 0.0, 1.0, 1.0]).expand(len(boxes), 1, 4)
            order = slice(None, None, 1 if self.whole == "first" else -1)
            features = torch.cat([mean, features][order], 1)
            boxes, present = torch.cat([box, boxes][order], 1), torch.cat([some, present][order], 1)
            hidden = torch.cat([torch.zeros_like(some), hidden][order], 1)
        if self.mask is not None:
            masked = hidden & (features == 0).all(2)
            features = torch.where(masked[..., None], self.mask.to(features.dtype), features)
        encoded = encode_boxes(boxes, self.values)
        if self.unit:
            features, encoded = (F.normalize(one, dim=2) for one in (features, encoded))
        return features, encoded, present


class SummedRegions(RegionEmbeddings):
    """One norm over the sum of feature and box (ViLBERT, arXiv:1908.02265, section 3.1): by default with a global region
    before the others and five values for a box."""

    def __init__(
        self,
        features: int = 2048,
        width: int = 1024,
        values: Literal[4, 5, 7] = 5,
        whole: Literal["first", "last"] | None = "first",
        mask: bool = False,
        unit: bool = False,
        dropout: float = 0.1,
        epsilon: float = 1e-12,
    ):
        """
        Args:
            features, width, values, whole, mask, unit, dropout, epsilon: As of `RegionEmbeddings`.
        """
        super().__init__(features, width, values, whole, mask, unit, dropout, epsilon)
        self.norm = nn.LayerNorm(width, epsilon)

    def embed(self, features: Tensor, boxes: Tensor, text: TextEmbeddings) -> Tensor:
        return self.norm(self.feature(features) + self.box(boxes))


class AveragedRegions(RegionEmbeddings):
    """The mean of feature and box, each with a norm (LXMERT, arXiv:1908.07490, section 2.1, equation 3)."""

    def __init__(
        self,
        features: int = 2048,
        width: int = 768,
        values: Literal[4, 5, 7] = 4,
        whole: Literal["first", "last"] | None = None,
        mask: bool = False,
        dropout: float = 0.1,
        epsilon: float = 1e-12,
    ):
        """
        Args:
            features, width, values, whole, mask, dropout, epsilon: As of `RegionEmbeddings`.
        """
        super().__init__(features, width, values, whole, mask, dropout=dropout, epsilon=epsilon)
        self.feature_norm, self.box_norm = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)

    def embed(self, features: Tensor, boxes: Tensor, text: TextEmbeddings) -> Tensor:
        return (self.feature_norm(self.feature(features)) + self.box_norm(self.box(boxes))) / 2


class TypedRegions(RegionEmbeddings):
    """A norm over the sum of feature and box, each with a norm, and a type vector (UNITER, arXiv:1909.11740, section 3.1).

    The type vector is the text's second segment vector, where it has two (UNITER, mUNITER, UC2); else one of its own (xUNITER).
    """

    def __init__(
        self,
        features: int = 2048,
        width: int = 768,
        values: Literal[4, 5, 7] = 7,
        whole: Literal["first", "last"] | None = None,
        mask: bool = True,
        shared_type: bool = True,
        dropout: float = 0.1,
        epsilon: float = 1e-12,
    ):
        """
        Args:
            features, width, values, whole, mask, dropout, epsilon: As of `RegionEmbeddings`.
            shared_type: Whether the type vector is the text's second segment vector; False: one of its own.
        """
        super().__init__(features, width, values, whole, mask, dropout=dropout, epsilon=epsilon)
        self.feature_norm, self.box_norm = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.norm = nn.LayerNorm(width, epsilon)
        self.kind = None if shared_type else nn.Parameter(torch.randn(width) * 0.02)

    def embed(self, features: Tensor, boxes: Tensor, text: TextEmbeddings) -> Tensor:
        kind = segment_vector(text, 1, "TypedRegions: shared_type") if self.kind is None else self.kind
        return self.norm(self.feature_norm(self.feature(features)) + self.box_norm(self.box(boxes)) + kind)


class JoinedRegions(RegionEmbeddings):
    """The feature with type and position vectors of its own, in the text's norm; boxes are not read (VisualBERT,
    arXiv:1908.03557, section 3.2)."""

    def __init__(
        self,
        features: int = 2048,
        width: int = 768,
        whole: Literal["first", "last"] | None = None,
        mask: bool = False,
        types: int = 2,
        positions: int = 512,
    ):
        """
        Args:
            features, width, whole, mask: As of `RegionEmbeddings`; dropout and norm are the text's.
            types: Rows of the table of types, of which regions have the last.
            positions: Rows of the table of positions, of which regions, in no order, have the first.
        """
        super().__init__(features, width, 4, whole, mask, dropout=0.0)
        del self.box
        self.types, self.positions = nn.Embedding(types, width), nn.Embedding(positions, width)
        self.types.apply(initialize), self.positions.apply(initialize)

    def embed(self, features: Tensor, boxes: Tensor, text: TextEmbeddings) -> Tensor:
        return text.finish(self.feature(features) + self.types.weight[-1] + self.positions.weight[0])


def segment_vector(text: TextEmbeddings, number: int, who: str) -> Float[Tensor, "E"]:
    """One of the text's segment vectors.

    Raises:
        ValueError: The text tower does not have it; names who asks.
    """
    if text.segments is None or text.segments.num_embeddings <= number:
        found = 0 if text.segments is None else text.segments.num_embeddings
        raise ValueError(f"{who} takes segment vector {number} of the text tower, which has {found}")
    return text.segments.weight[number]
