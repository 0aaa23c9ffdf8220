"""Which regions of a picture are read, and what of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RegionChoice:
    """Regions in the order of the file: the most confident ones, where the detector's confidence is known, else the first.

    UNITER (released code) takes `confidence: 0.2, least: 10, most: 100`; ViLBERT and LXMERT take 36 a picture (`most: 36`).

    Args:
        most: Regions of a picture at most.
        confidence: Least probability of a region's class, 0 to 1, for it to be taken.
        least: Regions that are taken whatever their confidence, where a picture has as many.
        classes: Whether class probabilities are handed on (K numbers a region: with 1,600 classes as much memory as the
            features); labels and confidence, which they tell, are handed on in any case.
        attributes: Whether attributes are handed on, where there are any.
    """

    most: int = 100
    confidence: float = 0.0
    least: int = 0
    classes: bool = True
    attributes: bool = True

    def __post_init__(self):
        if self.most < 1:
            raise ValueError(f"regions: most is {self.most}; give at least 1, or leave `regions` out")
        if not 0 <= self.least <= self.most:
            raise ValueError(f"regions: least is {self.least}; give a number from 0 to most, {self.most}")
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"regions: confidence is {self.confidence}, but it is a probability: give a number from 0 to 1")
