"""Masked region classification (MRC): tell what the detector saw in a hidden region.

Soft: ViLBERT, arXiv:1908.02265, section 3.2; hard and soft: UNITER, arXiv:1909.11740, section 3.2; classes and attributes:
LXMERT, arXiv:1908.07490, section 3.1.
"""

from collections.abc import Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

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
from .region_labels import WHO, RegionLabels, Target

Over = Literal["hidden", "all_weighted"]
Divisor = Literal["regions", "regions_classes"]


class MaskedRegionClassification(Objective):
    """Cross-entropy of hidden regions' classes, or divergence from the detector's probabilities.

    Regions of which the detector says nothing (class -1) are not counted. Of ViLBERT and VOLTA the target is `soft`; of UNITER
    `soft` or `hard` with `background: 0`; of LXMERT `hard` and, in an objective of its own, `attributes`.
    """

    def __init__(
        self,
        classes: int,
        target: Target = "hard",
        background: int | None = None,
        over: Over = "hidden",
        divisor: Divisor = "regions",
        hiding: RegionHiding | Published = "vilbert",
        on: On = "all",
        weight: float = 1.0,
    ):
        """
        Args:
            classes: Number C of the detector's classes, its background included if it has one (1601 of Visual Genome's), or of
                its attributes.
            target: `hard`: its most probable class. `soft`: its probabilities, by Kullback-Leibler divergence. `attributes`:
                its most probable attribute.
            background: Class that is never a hard target: the most probable other one is, where probabilities are there, else
                the region is not counted. None: all classes are targets.
            over: `hidden`: hidden regions alone. `all_weighted`: all regions, hidden or seen, each weighted by the detector's
                confidence, and divided by their number, as LXMERT's released code does for classes and attributes; it has
                weight 1 / 0.15 there.
            divisor: `regions`: the loss is a mean over n regions. `regions_classes`: over n x C numbers, with `soft` alone, as
                UNITER's training code has it: C times smaller.
            hiding: How regions are hidden, or whose way; where objectives share a reading, they must agree.
            on: Pairs that are scored: `all`, or those `matched` alone, where others were given another text or picture.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown, or does not go with the target.
        """
        super().__init__(weight)
        for name, value, kind in (
            ("target", target, Target),
            ("over", over, Over),
            ("divisor", divisor, Divisor),
            ("on", on, On),
        ):
            check_choice(WHO, name, value, kind)
        wrong = {
            "background": background is not None and target != "hard",
            "over: all_weighted": over == "all_weighted" and target == "soft",
            "divisor: regions_classes": divisor == "regions_classes" and target != "soft",
        }
        for option in (name for name, found in wrong.items() if found):
            raise ValueError(f"{WHO}: {option} does not go with target: {target}; see its documentation")
        self.labels = RegionLabels(classes, target, background)
        self.classes, self.target, self.on, self.over, self.divisor = classes, target, on, over, divisor
        self.hiding = check_region_hiding(hiding, WHO)
        self.hides = {"regions": self.hiding}

    def connect(self, encoder: Encoder) -> None:
        feature_width(encoder, WHO)
        self.head = RegionHead(encoder.widths["regions"], self.classes)

    def lend(self, view: Batch) -> Batch | None:
        return lend_regions(view, self.hiding)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """Hide regions.

        Raises:
            ValueError: The source's regions lack what is to be told, or have other classes.
        """
        if view.regions is not None and bool(view.regions.present.any()):
            self.labels.check(view.source, view.regions, weighted=self.over == "all_weighted")
        return hide_regions(view, self.key, self.hiding, pool)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        scored = self._scored(marked)
        number = torch.zeros((), dtype=torch.long, device=marked.item.device) if scored is None else scored.sum()
        return number * self.classes if self.divisor == "regions_classes" else number

    def loss(self, states: States, marked: Batch) -> Loss:
        scores, scored = self._score(states, marked)
        if scored is None:
            return Loss(scores.sum(), self.count(marked))
        if self.target == "soft":
            wanted = torch.zeros_like(scores) if marked.regions.classes is None else marked.regions.classes[scored].float()
            return Loss(F.kl_div(scores.log_softmax(1), wanted, reduction="sum"), self.count(marked))
        cost = F.cross_entropy(scores, self.labels.of(marked.regions)[scored], reduction="none")
        if self.over == "all_weighted":
            cost = cost * self.labels.confidence(marked.regions)[scored]
        return Loss(cost.sum(), self.count(marked))

    def tally(self, states: States, marked: Batch) -> Mapping[str, Shaped[Tensor, "2"]]:
        """Of the scored regions, how many are told right; with `soft`, those whose most probable class is."""
        scores, scored = self._score(states, marked)
        if scored is None:
            return {"accuracy": torch.zeros(2, dtype=torch.long, device=scores.device)}
        right = scores.argmax(1) == self.labels.of(marked.regions)[scored]
        return {"accuracy": torch.stack([right.sum(), scored.sum()])}

    def _score(self, states: States, marked: Batch) -> tuple[Float[Tensor, "N C"], Bool[Tensor, "B R"] | None]:
        scored = self._scored(marked)
        there = scored is not None and states.regions is not None
        rows = states.regions[scored] if there else self.head.dense.weight.new_zeros(0, self.head.width)
        return self.head(rows).float(), scored

    def _scored(self, marked: Batch) -> Bool[Tensor, "B R"] | None:
        scored = scored_regions(marked, self.on, seen=self.over == "all_weighted")
        return None if scored is None else scored & self.labels.known(marked.regions)
