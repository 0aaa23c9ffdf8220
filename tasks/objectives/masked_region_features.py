"""Masked region feature regression (MRFR): give back the feature of a hidden region. UNITER, arXiv:1909.11740, section 3.2;
LXMERT, arXiv:1908.07490, section 3.1."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from ...modalities.batch import Batch
from ...models.encoder import Encoder, States
from ...models.region_head import RegionHead
from .objective import Loss, Objective
from .pairs import On
from .ranges import check_choice
from .region_hiding import (
    Published,
    RegionHiding,
    check_region_hiding,
    feature_width,
    hide_regions,
    lend_regions,
    scored_regions,
)

WHO = "masked region features"
Distance = Literal["l2", "smooth_l1"]
Divisor = Literal["features", "regions", "all_features"]


class MaskedRegionFeatures(Objective):
    """Distance between what is predicted of hidden regions and what they were before they were hidden.

    The target is the detector's feature, untouched (in VOLTA's loader it is what was hidden: zeros).
    """

    def __init__(
        self,
        loss: Distance = "l2",
        divisor: Divisor = "features",
        tied: bool = False,
        hiding: RegionHiding | Published = "uniter",
        on: On = "all",
        weight: float = 1.0,
    ):
        """
        Args:
            loss: `l2`: squared error (UNITER, VOLTA). `smooth_l1`: squared and halved below 1, absolute above (LXMERT).
            divisor: `features`: the loss is a mean over the n x D numbers of n hidden regions (UNITER, VOLTA, M3P).
                `regions`: over n. `all_features`: over the numbers of all regions, though hidden ones alone cost anything, as
                in LXMERT's released code, which makes up for it with a weight of 1 / 0.15.
            tied: Whether features are scored by the encoder's own layer for features, transposed (UNITER); False: by a layer
                of this objective (LXMERT).
            hiding, on: As of `MaskedRegionClassification`.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown.
        """
        super().__init__(weight)
        for name, value, kind in (("loss", loss, Distance), ("divisor", divisor, Divisor), ("on", on, On)):
            check_choice(WHO, name, value, kind)
        self.distance, self.divisor, self.tied, self.on = loss, divisor, tied, on
        self.hiding = check_region_hiding(hiding, WHO)
        self.hides = {"regions": self.hiding}

    def connect(self, encoder: Encoder) -> None:
        """Build the head.

        Raises:
            ValueError: The encoder reads no regions, or has no layer that could be tied.
        """
        self.features = feature_width(encoder, WHO)
        layer = getattr(encoder.picture, "feature", None)
        if self.tied and not isinstance(layer, nn.Linear):
            raise ValueError(f"{WHO}: tied is true, but {type(encoder.picture).__name__} have no layer of features alone")
        self.head = RegionHead(encoder.widths["regions"], self.features, tied=layer if self.tied else None)

    def lend(self, view: Batch) -> Batch | None:
        return lend_regions(view, self.hiding)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        return hide_regions(view, self.key, self.hiding, pool)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        counted = scored_regions(marked, self.on, seen=self.divisor == "all_features")
        if counted is None:
            return torch.zeros((), dtype=torch.long, device=marked.item.device)
        return counted.sum() * (1 if self.divisor == "regions" else self.features)

    def loss(self, states: States, marked: Batch) -> Loss:
        scored = scored_regions(marked, self.on)
        if scored is None or states.regions is None:
            rows = self.head.dense.weight.new_zeros(0, self.head.width)
            return Loss(self.head(rows).float().sum(), self.count(marked))
        predicted, truth = self.head(states.regions[scored]).float(), marked.regions.features[scored].float()
        distance = F.mse_loss if self.distance == "l2" else F.smooth_l1_loss
        return Loss(distance(predicted, truth, reduction="sum"), self.count(marked))
