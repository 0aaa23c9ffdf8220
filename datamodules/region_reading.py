"""Regions of the samples of a source: chosen, alike in form, and in the frame of the picture as it is shown."""

import numpy as np
import torch
from jaxtyping import Int64

from ..modalities.augmentation import Shown, Window, move_boxes
from ..modalities.region import OPTIONAL, FoundRegions, name_regions
from .region_choice import RegionChoice
from .region_files import parse_regions
from .sample import BadSampleError, Sample
from .shards.fields import REGIONS
from .shards.reader import ShardSet

TRIED = 100
"""Samples that are looked at for one with regions before a source is given up."""


class RegionReader:
    """Reads the regions of one source.

    All batches of a source have the same fields, on every rank: those of the first sample that has regions. Samples whose
    features are wider or narrower, or that lack one of its arrays, are faults; what else a sample has is left out.

    Attributes:
        form: Regions of no rows, with the fields of the source.
    """

    def __init__(self, choice: RegionChoice, shards: ShardSet, samples: Int64[np.ndarray, "N"]):
        """
        Args:
            choice: Which regions.
            shards: Where they are.
            samples: Numbers of the samples that are read, ascending.

        Raises:
            ValueError: None of the first samples has regions that can be used, or a confidence is asked for that they do
                not tell.
        """
        self.choice = choice
        first, self._first = _find_first(shards, samples)
        if choice.confidence and first.confidence is None and len(first.boxes):
            raise ValueError(
                f"regions: confidence {choice.confidence} is asked for, but those of {self._first} tell none; leave it out"
            )
        self.form = first._replace(**{name: value[:0] for name, value in first._asdict().items() if _is_array(value)})
        left_out = ["classes"] * (not choice.classes) + ["attribute", "attribute_confidence"] * (not choice.attributes)
        self.form = self.form._replace(**dict.fromkeys(left_out))

    def read(self, sample: Sample, shown: Shown | None = None) -> FoundRegions:
        """Regions of one sample.

        Args:
            sample: With its regions as stored.
            shown: Its picture, where that is read too: the boxes are told in its frame, and regions of which less than half
                is to be seen are left out.

        Raises:
            BadSampleError: They cannot be used.
        """
        if REGIONS not in sample.members:
            raise BadSampleError("missing regions", "the regions that the index names are not there any more")
        picture = None if shown is None else (shown.width, shown.height)
        found = self._form(name_regions(parse_regions(sample.members[REGIONS], picture)))
        found = _take(found, _choose(found, self.choice))
        return found if shown is None else _follow(found, shown)

    def _form(self, found: FoundRegions) -> FoundRegions:
        """The same with the fields of the source alone."""
        for name in ("features", *OPTIONAL):
            expected, value = getattr(self.form, name), getattr(found, name)
            if expected is None or (not len(found.boxes) and name != "features"):
                continue
            if value is None:
                detail = f"no {name}, which those of {self._first} have; one source reads regions of one detector"
                raise BadSampleError("other regions", detail)
            if value.shape[1:] != expected.shape[1:]:
                detail = (
                    f"{name} of {value.shape[1]} numbers, but {expected.shape[1]} in {self._first}; "
                    "one source reads regions of one detector"
                )
                raise BadSampleError("other regions", detail)
        return found._replace(**{name: None for name in OPTIONAL if getattr(self.form, name) is None})


def _find_first(shards: ShardSet, samples: Int64[np.ndarray, "N"]) -> tuple[FoundRegions, str]:
    """The first regions, and where they are; of a picture in which nothing was found, if there are no others."""
    empty, problem = None, ""
    for number in samples[:TRIED].tolist():
        place = "{}, key {}".format(*shards.find(number))
        try:
            found = name_regions(parse_regions(shards.read(number, image=False, members=[REGIONS]).members[REGIONS]))
        except BadSampleError as error:
            problem = problem or f"{place}: {error}"
            continue
        if len(found.boxes):
            return found, place
        empty = empty or (found, place)
    if empty is None:
        raise ValueError(f"regions: none of the first {TRIED} samples has regions that can be used, first {problem}")
    return empty


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)


def _choose(found: FoundRegions, choice: RegionChoice) -> np.ndarray:
    """Numbers of the regions that are taken, ascending."""
    if found.confidence is None:
        return np.arange(min(len(found.boxes), choice.most))
    count = int((found.confidence >= choice.confidence).sum())
    best = np.argsort(-found.confidence, kind="stable")
    return np.sort(best[: min(max(count, choice.least), choice.most)])


def _take(found: FoundRegions, rows: np.ndarray) -> FoundRegions:
    return found._replace(**{name: value[rows] for name, value in found._asdict().items() if _is_array(value)})


def _follow(found: FoundRegions, shown: Shown) -> FoundRegions:
    """The same in the frame of what is shown of the picture."""
    if shown.window == Window(0, 0, shown.width, shown.height):
        return found
    scale = np.array([*found.size, *found.size], np.float64)
    boxes = torch.from_numpy(np.clip(found.boxes / scale, 0, 1))
    moved, seen = move_boxes(boxes, shown.window, shown.height, shown.width)
    size = shown.window.width, shown.window.height
    boxes = moved.numpy() * np.array([*size, *size], np.float64)
    return _take(found._replace(boxes=boxes, size=size), np.flatnonzero(seen.numpy()))
