"""Regions of pictures: what a detector found, as shards keep it (`KEY.regions.npz`), checked, and in the batch.

A file holds arrays by the names of `FoundRegions`: boxes in pixels of the upright picture, that picture's size, and a feature
of each box; what the detector named them is optional. A picture in which nothing was found has arrays of no rows, and is read
as text alone. Boxes that are not what they should be look like boxes all the same, and a model trains on them without an
error: so all that can be told from the numbers is checked when regions are written, and again when they are read.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Num
from torch import Tensor

from .batch import Regions

TOLERANCE = 1.0
"""Pixels by which a box may reach over the picture's edge, as detectors that count both ends do; it is cut there."""
SMALLEST = 0.01
"""Pixels that a box must be wide and high; less is lost when it is told in fractions."""
HALF = float(np.finfo(np.float16).max)


class FoundRegions(NamedTuple):
    """Regions of one picture, as a file holds them. R regions, F numbers a feature, K classes."""

    boxes: np.ndarray
    """`[R, 4]`: x0, y0, x1, y1 in pixels of the upright picture, x0 < x1 and y0 < y1."""
    size: tuple[int, int]
    """Width and height in pixels of the picture that the boxes are told in."""
    features: np.ndarray
    """`[R, F]`; a picture in which nothing was found tells F too."""
    classes: np.ndarray | None = None
    """`[R, K]`: class probabilities, which sum to 1."""
    label: np.ndarray | None = None
    """`[R]`: the most probable class; -1: none. Where it is left out, `classes` tell it when regions are read."""
    confidence: np.ndarray | None = None
    """`[R]`: probability of the label, from 0 to 1."""
    attribute: np.ndarray | None = None
    """`[R]`: the most probable attribute; -1: none."""
    attribute_confidence: np.ndarray | None = None
    """`[R]`: probability of the attribute, from 0 to 1."""


OPTIONAL = ("classes", "label", "confidence", "attribute", "attribute_confidence")
"""Arrays that a file may leave out."""
EMPTY = {"label": -1, "attribute": -1}
"""What the fields of a batch hold where there is no region; the others hold 0."""
_STORED = {"label": np.int32, "attribute": np.int32, "boxes": np.float32}
"""Types of arrays in files; all others are float16."""
_NAMES = ("iu", "whole numbers, one a region", 1)
_WIDE = ("f", "floats, one row a region and one or more columns", 2)
_PROBABILITY = ("f", "floats, one a region", 1)
_FORMS = {"boxes": ("fiu", "numbers, four a region", 2), "features": _WIDE, "classes": _WIDE} | dict.fromkeys(EMPTY, _NAMES)
"""Kinds of NumPy types, what is expected in words, and axes."""


class BadRegionsError(Exception):
    """Regions that cannot be used.

    Args:
        kind: `broken regions` (arrays that are missing, or of a wrong type or shape), `not finite`, `float16 overflow`,
            `wrong size`, `reversed box`, `empty box`, `box outside`, `box in fractions`, `not probabilities` or
            `label out of range`.
        detail: What was found.
    """

    def __init__(self, kind: str, detail: str = ""):
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


def check_regions(found: FoundRegions, picture: tuple[int, int] | None = None) -> None:
    """Look at all that numbers can tell.

    Args:
        found: Regions of one picture.
        picture: Width and height of the decoded, upright picture, where it is known.

    Raises:
        BadRegionsError: Names the first thing that is wrong, with what was found and what was expected.
    """
    arrays = {name: value for name, value in found._asdict().items() if name != "size" and value is not None}
    _check_arrays(arrays, len(found.boxes) if np.ndim(found.boxes) else 0)
    _check_size(found.size, picture)
    _check_boxes(np.asarray(found.boxes, np.float64), found.size)
    _check_names(found)


def pack_regions(found: FoundRegions) -> bytes:
    """The content of a member `KEY.regions.npz`: the same regions give the same bytes. Boxes are cut at the picture's edges.

    Raises:
        BadRegionsError: Something is wrong (see `check_regions`), or a feature does not fit float16.
    """
    check_regions(found)
    arrays = {"size": np.array(found.size, np.int32)}
    for name, value in found._asdict().items():
        if name == "size" or value is None:
            continue
        kind = _STORED.get(name, np.float16)
        if kind is np.float16 and value.size and (largest := float(np.abs(value).max())) > HALF:
            detail = f"{name} reach {largest:,.0f}; float16, which they are kept in, ends at {HALF:,.0f}: scale them"
            raise BadRegionsError("float16 overflow", detail)
        arrays[name] = (_cut(value, found.size) if name == "boxes" else value).astype(kind)
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def unpack_regions(arrays: Mapping[str, np.ndarray]) -> FoundRegions:
    """Regions from the arrays of a file, by name; others than those of `FoundRegions` are passed over. `check_regions` judges
    what they hold.

    Raises:
        BadRegionsError: `broken regions`, where one that is needed is missing or `size` is not two whole numbers.
    """
    if missing := [name for name in ("boxes", "size", "features") if name not in arrays]:
        raise BadRegionsError("broken regions", f"no array {' or '.join(missing)}; found {', '.join(arrays) or 'none'}")
    size = arrays["size"]
    if size.shape != (2,) or size.dtype.kind not in "iu":
        detail = f"size: found {_describe(size)}, expected two whole numbers, width and height in pixels"
        raise BadRegionsError("broken regions", detail)
    given = {name: arrays[name] for name in FoundRegions._fields if name != "size" and name in arrays}
    return FoundRegions(size=(int(size[0]), int(size[1])), **given)


def name_regions(found: FoundRegions) -> FoundRegions:
    """The same with label and confidence, which are told by the class probabilities where the file does not."""
    if found.classes is None or (found.label is not None and found.confidence is not None):
        return found
    classes = np.asarray(found.classes)
    label = classes.argmax(1) if found.label is None else found.label
    chosen = np.take_along_axis(classes, np.maximum(label, 0)[:, None].astype(np.int64), 1)[:, 0]
    confidence = np.where(label < 0, 0, chosen) if found.confidence is None else found.confidence
    return found._replace(label=label, confidence=confidence.astype(np.float32))


def corners(boxes: Num[np.ndarray, "R 4"]) -> Num[np.ndarray, "R 4"]:
    """x0, y0, x1, y1 from x, y, width, height."""
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)


def encode_boxes(boxes: Float[Tensor, "*rows 4"], values: Literal[4, 5, 7]) -> Float[Tensor, "*rows values"]:
    """Where boxes are, in numbers for an embedding.

    Args:
        boxes: x0, y0, x1, y1 as fractions of the picture.
        values: 4: the corners (LXMERT, arXiv:1908.07490); 5: with the area as a share of the picture's behind them (ViLBERT,
            arXiv:1908.02265, section 2.2); 7: with width, height and area behind them (UNITER, arXiv:1909.11740, section 3.1).
    """
    if values not in (4, 5, 7):
        raise ValueError(f"values: found {values}, expected 4 (corners), 5 (and area) or 7 (and width, height, area)")
    if values == 4:
        return boxes
    sides = boxes[..., 2:] - boxes[..., :2]
    area = sides.prod(-1, keepdim=True)
    return torch.cat([boxes, area] if values == 5 else [boxes, sides, area], dim=-1)


def overlap(boxes: Float[Tensor, "*rows R 4"]) -> Float[Tensor, "*rows R R"]:
    """Intersection over union of each two boxes of a picture; 0 where either has no area, as padding has not."""
    low = torch.maximum(boxes[..., :, None, :2], boxes[..., None, :, :2])
    high = torch.minimum(boxes[..., :, None, 2:], boxes[..., None, :, 2:])
    common = (high - low).clamp_min(0).prod(-1)
    area = (boxes[..., 2:] - boxes[..., :2]).clamp_min(0).prod(-1)
    union = area[..., :, None] + area[..., None, :] - common
    return torch.where(union > 0, common / torch.where(union > 0, union, 1), 0)


def collate_regions(rows: Sequence[FoundRegions | None], like: FoundRegions | None = None) -> Regions:
    """Regions of one batch: boxes as fractions of each picture, features in float32, padded to the row that has most.

    A field is there if a row has it: label and attribute are -1, and all else 0, in rows and places that have none.

    Args:
        rows: One for each sample; None, or no regions, where the sample has none.
        like: Regions that tell which fields there are, and how wide, where rows do not.

    Raises:
        ValueError: Features or class probabilities differ in width, or nothing tells the width of features.
    """
    known = [None if row is None else name_regions(row) for row in rows]
    kinds = [row for row in (*known, None if like is None else name_regions(like)) if row is not None]
    if not kinds:
        raise ValueError("no row has regions, so that nothing tells the width of features; give `like`")
    longest = max((len(row.boxes) for row in known if row is not None), default=0)
    fields: dict[str, Tensor] = {}
    for name in FoundRegions._fields:
        values = [getattr(row, name) for row in kinds if getattr(row, name) is not None]
        if name == "size" or not values:
            continue
        if len(widths := {value.shape[1:] for value in values}) > 1:
            found = ", ".join(str(width[0]) for width in sorted(widths))
            raise ValueError(f"{name} of regions in one batch differ in width, found {found}; give each detector a source")
        kind = torch.int64 if name in EMPTY else torch.float32
        fields[name] = torch.full((len(rows), longest, *values[0].shape[1:]), EMPTY.get(name, 0), dtype=kind)
    present = torch.zeros(len(rows), longest, dtype=torch.bool)
    for place, row in enumerate(known):
        if row is None:
            continue
        count = len(row.boxes)
        present[place, :count] = True
        for name, field in fields.items():
            if (value := getattr(row, name)) is not None:
                field[place, :count] = torch.from_numpy(_fractions(row) if name == "boxes" else np.ascontiguousarray(value))
    return Regions(present=present, **fields)


def _fractions(found: FoundRegions) -> Float[np.ndarray, "R 4"]:
    return np.asarray(_cut(found.boxes, found.size) / np.array([*found.size, *found.size]), np.float32)


def _cut(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Boxes that end where the picture does."""
    return np.clip(np.asarray(boxes, np.float64), 0, [*size, *size])


def _describe(array: np.ndarray) -> str:
    return f"{array.dtype} of {' x '.join(map(str, array.shape)) or 'no axis'}"


def _check_arrays(arrays: Mapping[str, np.ndarray], count: int) -> None:
    for name, array in arrays.items():
        kinds, expected, axes = _FORMS.get(name, _PROBABILITY)
        narrow = axes == 2 and array.ndim == 2 and not array.shape[1]
        if array.dtype.kind not in kinds or array.ndim != axes or narrow or (name == "boxes" and array.shape[1] != 4):
            raise BadRegionsError("broken regions", f"{name}: found {_describe(array)}, expected {expected}")
        if len(array) != count:
            raise BadRegionsError("broken regions", f"{name} of {len(array)} regions beside {count} boxes")
        if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            bad = int((~finite).sum())
            raise BadRegionsError("not finite", f"{name}: {bad:,} of {array.size:,} numbers are NaN or infinite")


def _check_size(size: tuple[int, int], picture: tuple[int, int] | None) -> None:
    width, height = size
    if min(size) < 1:
        raise BadRegionsError("wrong size", f"a picture of {width} x {height}; expected its width and height in pixels")
    if picture is None or tuple(size) == tuple(picture):
        return
    hint = "it must be that of the upright picture that the boxes are told in, before any padding or resizing"
    if tuple(size) == (picture[1], picture[0]):
        hint = "height and width are swapped, or the picture was not turned as its EXIF orientation says"
    detail = f"the boxes are of a picture of {width} x {height}, and the picture beside them is {picture[0]} x {picture[1]}: "
    raise BadRegionsError("wrong size", detail + hint)


def _check_boxes(boxes: np.ndarray, size: tuple[int, int]) -> None:
    def refuse(kind: str, wrong: np.ndarray, what: str) -> None:
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            shown = ", ".join(f"{number:g}" for number in boxes[first])
            where = f"{int(wrong.sum())} of {len(boxes)} boxes, the first [{shown}] in a picture of {size[0]} x {size[1]}"
            raise BadRegionsError(kind, f"{where}: {what}")

    limits = np.array(size, np.float64)
    hint = ""
    if len(boxes) and (boxes[:, 2:] >= 0).all() and (boxes[:, :2] + boxes[:, 2:] <= limits + TOLERANCE).all():
        hint = "; all fit the picture as x, y, width, height: if they are that, convert them (`modalities.region.corners`)"
    reversed_ = (boxes[:, 2:] < boxes[:, :2]).any(1)
    refuse("reversed box", reversed_, f"expected x0, y0, x1, y1, with x0 < x1 and y0 < y1{hint}")
    outside = (boxes < -TOLERANCE).any(1) | (boxes[:, 2:] > limits + TOLERANCE).any(1)
    refuse(
        "box outside",
        outside,
        "it reaches out of the picture; the boxes may be told in another size than the picture's, as when it was resized for "
        "the detector, or corners were converted as if they were x, y, width, height",
    )
    if len(boxes) and boxes.max() <= 1 and min(size) > 2:
        refuse("box in fractions", np.ones(len(boxes), bool), "none is beyond the first pixel; expected pixels, not fractions")
    cut = _cut(boxes, size)
    refuse("empty box", (cut[:, 2:] - cut[:, :2] < SMALLEST).any(1), "it has no area in the picture; leave such boxes out")


def _check_names(found: FoundRegions) -> None:
    for name, needs in (("confidence", ("label", "classes")), ("attribute_confidence", ("attribute",))):
        if getattr(found, name) is not None and all(getattr(found, need) is None for need in needs):
            raise BadRegionsError("broken regions", f"{name} without {' or '.join(needs)}: nothing says what it is of")
        if (value := getattr(found, name)) is not None and value.size and (value.min() < 0 or value.max() > 1):
            raise BadRegionsError("not probabilities", f"{name} from {value.min():g} to {value.max():g}; expected 0 to 1")
    classes = found.classes
    if classes is not None and classes.size:
        sums = classes.sum(1, dtype=np.float64)
        if classes.min() < 0 or np.abs(sums - 1).max() > 0.01:
            detail = f"classes from {classes.min():g} to {classes.max():g}, with sums from {sums.min():g} to {sums.max():g}"
            raise BadRegionsError("not probabilities", f"{detail}; expected 0 or more, with sums of 1 (after a softmax)")
    for name in EMPTY:
        value = getattr(found, name)
        most = classes.shape[1] if name == "label" and classes is not None else np.iinfo(np.int32).max
        if value is not None and value.size and not (value.min() >= -1 and value.max() < most):
            detail = f"{name} from {value.min()} to {value.max()}; expected -1 (none) to {most - 1}"
            raise BadRegionsError("label out of range", detail)
