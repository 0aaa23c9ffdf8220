"""Masked region contrast (region NCE): tell the feature of a hidden region from those of other regions.

The third visual objective of ViLBERT's released code (arXiv:1908.02265) and of VOLTA (arXiv:2011.15124): noise-contrastive
estimation by dot products, with 128 negatives of which three in ten are of the same picture.
"""

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from ...modalities.batch import Batch, number_positions
from ...modalities.chance import chance, salt
from ...models.encoder import Encoder, States
from ...models.region_head import RegionHead
from .objective import Embeddings, Loss, Objective
from .pairs import On
from .ranges import check_choice
from .region_hiding import (
    Published,
    RegionHiding,
    check_region_hiding,
    feature_width,
    hide_regions,
    lend_regions,
    region_keys,
    scored_regions,
)

WHO = "region contrast"
OWN, OTHER = salt("own picture's negative"), salt("other picture's negative")
NOTHING = torch.finfo(torch.float32).min / 4
"""Logarithm of the sum over no negatives: finite, so that no gradient is 0 times infinity."""


class RegionContrast(Objective):
    """Cross-entropy of the untouched feature among features of other regions, by dot products with what is predicted.

    Negatives are other regions of the same picture, hidden or not, and the hidden regions of all other pictures of the step,
    over micro-batches and ranks: so a region's cost does not depend on the split, and only what is hidden travels. Pictures
    of the same item are never each other's negatives. Where there are fewer regions than negatives are asked for, all are.
    """

    coupled = True

    def __init__(
        self,
        negatives: int | None = 128,
        own: float = 0.3,
        hiding: RegionHiding | Published = "vilbert",
        on: On = "all",
        weight: float = 1.0,
    ):
        """
        Args:
            negatives: Of each hidden region, drawn by sample, epoch and place; None: all that there are.
            own: Share of them from the same picture; the rest are from others. Not with `negatives: null`.
            hiding, on: As of `MaskedRegionClassification`.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: There are no negatives, or the share is outside 0 to 1.
        """
        super().__init__(weight)
        if (negatives is not None and negatives < 1) or not 0 <= own <= 1:
            raise ValueError(f"{WHO}: negatives is {negatives} and own {own}; expected 1 or more, and a share from 0 to 1")
        check_choice(WHO, "on", on, On)
        self.own = None if negatives is None else round(negatives * own)
        self.others = None if negatives is None else negatives - round(negatives * own)
        self.on, self.hiding = on, check_region_hiding(hiding, WHO)
        self.hides = {"regions": self.hiding}

    def connect(self, encoder: Encoder) -> None:
        self.features = feature_width(encoder, WHO)
        self.head = RegionHead(encoder.widths["regions"], self.features)

    def lend(self, view: Batch) -> Batch | None:
        return lend_regions(view, self.hiding)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        return hide_regions(view, self.key, self.hiding, pool)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        scored = scored_regions(marked, self.on)
        return torch.zeros((), dtype=torch.long, device=marked.item.device) if scored is None else scored.sum()

    def embed(self, states: States, marked: Batch) -> Embeddings:
        """Of each hidden region: what is predicted, with the logarithm of its own picture's part of the sum behind it; and its
        feature. Identity is the item, and the region's random key."""
        scored = scored_regions(marked, self.on)
        if scored is None or states.regions is None:
            predicted = self.head(self.head.dense.weight.new_zeros(0, self.head.width)).float()
            return Embeddings(*[torch.cat([predicted, predicted[:, :1]], 1)] * 2, marked.item.new_zeros(0, 2))
        predicted, truth = self.head(states.regions[scored]).float(), marked.regions.features.float()
        near = self._sum_own(predicted, truth, scored, marked)
        right = torch.cat([truth[scored], torch.zeros_like(near)], 1)
        identity = torch.stack([marked.item[:, None].expand_as(scored), region_keys(marked, self.key)], 2)[scored]
        return Embeddings(torch.cat([predicted, near], 1), right, identity)

    def contrast(self, own: Embeddings, every: Embeddings, start: int) -> Loss:
        predicted, near = own.left.split([self.features, 1], 1)
        with torch.autocast(predicted.device.type, enabled=False):
            scores = predicted @ every.right[:, : self.features].T  # [own, every]
        row = torch.arange(len(scores), device=scores.device)
        chosen = self._choose_others(own.identity, every.identity)
        far = scores.masked_fill(~chosen, NOTHING)
        right = scores[row, start + row]
        total = torch.logsumexp(torch.cat([right[:, None], near, far], 1), 1) - right
        return Loss(total.sum(), torch.tensor(len(scores), device=scores.device))

    def _sum_own(
        self, predicted: Float[Tensor, "N F"], truth: Float[Tensor, "B R F"], scored: Bool[Tensor, "B R"], marked: Batch
    ) -> Float[Tensor, "N 1"]:
        row, column = scored.nonzero(as_tuple=True)
        laid = torch.zeros_like(truth).index_put((row, column), predicted)
        with torch.autocast(truth.device.type, enabled=False):
            scores = (laid @ truth.transpose(1, 2))[row, column]  # [N, R]
        place = number_positions(marked.regions.present)
        other = marked.regions.present[row] & (torch.arange(scored.shape[1], device=row.device) != column[:, None])
        draw = chance(region_keys(marked, self.key)[row, column][:, None], OWN, place[row])
        chosen = draw_highest(draw, other, self.own)
        return torch.logsumexp(scores.masked_fill(~chosen, NOTHING), 1, keepdim=True)

    def _choose_others(self, own: Int[Tensor, "N 2"], every: Int[Tensor, "M 2"]) -> Bool[Tensor, "N M"]:
        other = own[:, :1] != every[:, 0]
        return draw_highest(chance(own[:, 1:], OTHER, every[:, 1]), other, self.others)


def draw_highest(draw: Int64[Tensor, "N M"], candidate: Bool[Tensor, "N M"], most: int | None) -> Bool[Tensor, "N M"]:
    """The candidates with the highest draws of each row, at most so many; None: all."""
    if most is None or most >= candidate.shape[1]:
        return candidate
    chosen = draw.masked_fill(~candidate, torch.iinfo(draw.dtype).min).topk(most, 1).indices
    return torch.zeros_like(candidate).scatter(1, chosen, True) & candidate
