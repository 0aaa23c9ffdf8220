"""What a detector says of regions, as targets: their classes or attributes, and how sure it is."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...modalities.batch import Regions

WHO = "masked region classification"
Target = Literal["hard", "soft", "attributes"]


@dataclass(frozen=True)
class RegionLabels:
    """Targets of one kind.

    Args:
        classes: Number of classes, or of attributes.
        target: Which.
        background: Class that is no hard target.

    Raises:
        ValueError: There are too few classes, or the background is none of them.
    """

    classes: int
    target: Target
    background: int | None = None

    def __post_init__(self):
        if self.classes < 2 or (self.background is not None and not 0 <= self.background < self.classes):
            raise ValueError(
                f"{WHO}: classes is {self.classes} and background {self.background}; expected 2 or more, and one of them"
            )

    def known(self, regions: Regions) -> Bool[Tensor, "B R"]:
        """Regions that have a target."""
        return _scored_classes(regions) if self.target == "soft" else self.of(regions) >= 0

    def of(self, regions: Regions) -> Int[Tensor, "B R"]:
        """Class or attribute of each region; -1 where it has none. The most probable class, in the place of the background
        the next."""
        if self.target == "attributes":
            return _given(regions.attribute, regions)
        there = _scored_classes(regions)
        classes = regions.boxes[..., :1] if regions.classes is None else regions.classes
        label = torch.where(there, classes.argmax(2), -1) if regions.label is None else _given(regions.label, regions)
        if self.background is None:
            return label
        if regions.classes is None:
            return label.masked_fill(label == self.background, -1)
        others = classes.clone()
        others[..., self.background] = -1
        return torch.where(label == self.background, torch.where(there, others.argmax(2), -1), label)

    def confidence(self, regions: Regions) -> Float[Tensor, "B R"]:
        """How sure the detector is, 0 to 1."""
        given = regions.attribute_confidence if self.target == "attributes" else regions.confidence
        return torch.zeros_like(regions.boxes[..., 0]) if given is None else given

    def check(self, source: str, regions: Regions, weighted: bool) -> None:
        """Look at regions, some of which are present.

        Raises:
            ValueError: They lack what is to be told, or how sure it is where that is `weighted`, or have other classes.
        """
        needed = {"hard": ("label", "classes"), "soft": ("classes",), "attributes": ("attribute",)}[self.target]
        sure = "attribute_confidence" if self.target == "attributes" else "confidence"
        for names in (needed, (sure,) if weighted else ()):
            if names and all(getattr(regions, name) is None for name in names):
                raise ValueError(
                    f"{WHO}: target is {self.target}, but the regions of source {source!r} have no {' or '.join(names)}; write "
                    "them into the shards, or choose other options"
                )
        found = self.classes
        if self.target != "attributes" and regions.classes is not None:
            found = regions.classes.shape[2]
        elif self.target != "soft":
            found = max(found, int(self.of(regions).max()) + 1)
        if found != self.classes:
            raise ValueError(
                f"{WHO}: classes is {self.classes}, but the regions of source {source!r} have {found} or more; set it to the "
                "number of the detector's"
            )


def _scored_classes(regions: Regions) -> Bool[Tensor, "B R"]:
    """Regions that have class probabilities."""
    if regions.classes is None:
        return torch.zeros_like(regions.present)
    return regions.present & (regions.classes.sum(2) > 0)


def _given(label: Int[Tensor, "B R"] | None, regions: Regions) -> Int[Tensor, "B R"]:
    absent = torch.full_like(regions.present, -1, dtype=torch.long)
    return absent if label is None else torch.where(regions.present, label.long(), absent)
