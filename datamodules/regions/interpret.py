"""From the fields of a detector's file, under whatever names, to regions."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...modalities.region import BadRegionsError, FoundRegions, check_regions, corners
from .detector_file import Fields
from .field_names import KNOWN, BoxForm

_WHOLE = ("label", "attribute")
_SINGLE = ("number", "width", "height")
_PER_REGION = ("classes", "label", "confidence", "attribute", "attribute_confidence")


class Interpretation(NamedTuple):
    """How fields become regions."""

    names: Mapping[str, str] = {}
    """What fields of `KNOWN` are called in the file, where it is none of the known names."""
    form: BoxForm | None = None
    """What boxes are: corners or x, y, width, height in pixels, or corners as fractions of the picture (what stands behind
    them in a row is checked and left out). None: fractions if they are called `norm_bb`, else corners."""
    rescale: bool = False
    """Boxes told in another size of the picture, of the same shape, are scaled to it."""
    threshold: float = 0.0
    """Regions of less confidence are left out ..."""
    least: int = 0
    """... but so many are kept, if there are, ..."""
    most: int | None = None
    """... and at most so many: those of the highest confidence."""


def interpret(fields: Fields, how: Interpretation, picture: tuple[int, int] | None, width: int | None = None) -> FoundRegions:
    """Regions of one picture, checked.

    Args:
        fields: Of the file.
        how: What they are.
        picture: Width and height of the upright picture, or as it is stored beside the sample; None: not known.
        width: Numbers of a feature, where pictures without any region do not tell; None: not known.

    Raises:
        BadRegionsError: Something is missing, or wrong.
    """
    read = _read(fields, how, width)
    form = how.form or ("fractions" if read.boxes_name == "norm_bb" else "corners")
    size = _size(read.raw, picture)
    boxes = _to_pixels(read.boxes.astype(np.float32), form, size)
    if how.rescale and picture is not None:
        boxes, size = _rescale(boxes, size, picture), picture
    found = _select(FoundRegions(boxes, size, **read.arrays), how)
    if found.label is None:
        found = found._replace(confidence=None)  # of a class that is not named, not always the most probable of `classes`
    check_regions(found, picture)
    return found


def find_width(fields: Fields, how: Interpretation) -> int | None:
    """Numbers of a feature; None where the picture has no region.

    Raises:
        BadRegionsError: Something is missing, or wrong.
    """
    read = _read(fields, how, 1)
    return read.arrays["features"].shape[1] if len(read.boxes) and read.arrays["features"].ndim == 2 else None


class _Read(NamedTuple):
    """Fields under our names."""

    raw: dict[str, np.ndarray]
    boxes_name: str
    boxes: np.ndarray
    arrays: dict[str, np.ndarray]
    """All that has a row a region, but boxes."""


def _read(fields: Fields, how: Interpretation, width: int | None) -> _Read:
    names = {ours: name for ours in KNOWN if (name := _find(ours, fields, how.names)) is not None}
    if missing := [ours for ours in ("features", "boxes") if ours not in names]:
        detail = f"no {' or '.join(missing)} under any known name; found {', '.join(fields) or 'no field'}: give --names"
        raise BadRegionsError("broken regions", detail)
    raw = {ours: _decode(fields[name], ours) for ours, name in names.items()}
    boxes = raw["boxes"] if raw["boxes"].ndim == 2 else _rows(raw["boxes"], 4, "boxes")
    count = _count(raw.get("number"), len(boxes))
    given = [name for name in ("features", *_PER_REGION) if name in raw]
    arrays = {name: _cut(raw[name], len(boxes), count, name) for name in given} if len(boxes) else _nothing(raw, width)
    return _Read(raw, names["boxes"], boxes[:count], arrays)


def _find(ours: str, fields: Fields, names: Mapping[str, str]) -> str | None:
    if ours not in names:
        return next((name for name in KNOWN[ours] if name in fields), None)
    if names[ours] not in fields:
        detail = f"no field {names[ours]!r}, as --names says of {ours}; found {', '.join(fields) or 'none'}"
        raise BadRegionsError("broken regions", detail)
    return names[ours]


def _decode(value: Any, ours: str) -> np.ndarray:
    """An array of numbers, from one, or from base64 of one."""
    if isinstance(value, bytes | str):
        if ours in _SINGLE:
            return np.asarray(_number(value, ours))
        try:
            content = base64.b64decode(value, validate=True)
            return np.frombuffer(content, np.int64 if ours in _WHOLE else np.float32)
        except (binascii.Error, ValueError) as error:
            raise BadRegionsError("broken regions", f"{ours}: no base64 of numbers ({error})") from None
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise BadRegionsError("broken regions", f"{ours}: {error}") from None
    if array.dtype.kind not in "iuf":
        raise BadRegionsError("broken regions", f"{ours}: found {type(value).__name__} of {array.dtype}, expected numbers")
    return array


def _number(value: bytes | str, ours: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise BadRegionsError("broken regions", f"{ours}: found {value[:40]!r}, expected a number") from None


def _rows(array: np.ndarray, width: int, name: str) -> np.ndarray:
    if array.ndim != 1 or array.size % width:
        detail = f"{name}: {array.size:,} numbers of {'x'.join(map(str, array.shape)) or 'no axis'}, not in rows of {width}"
        raise BadRegionsError("broken regions", detail)
    return array.reshape(-1, width)


def _count(number: np.ndarray | None, rows: int) -> int:
    count = rows if number is None else int(_one(number, "number of boxes"))
    if not 0 <= count <= rows:
        raise BadRegionsError("broken regions", f"{count} boxes are announced, and there are {rows}")
    return count


def _one(array: np.ndarray, name: str) -> float:
    value = float(array.reshape(-1)[0]) if array.size == 1 else float("nan")
    if not np.isfinite(value):
        raise BadRegionsError("broken regions", f"{name}: found {array.size} numbers or none that is finite, expected one")
    return value


def _cut(array: np.ndarray, rows: int, count: int, name: str) -> np.ndarray:
    """The rows of an array that are regions."""
    if name in ("features", "classes") and array.ndim == 1:
        if array.size % rows:
            raise BadRegionsError("broken regions", f"{name}: {array.size:,} numbers do not divide into {rows} regions")
        array = array.reshape(rows, -1)
    if name == "features" and array.ndim == 2 and len(array) != rows and array.shape[1] == rows:
        array = array.T  # a region a column, as some extractors store `x`
    if array.ndim > 2 and array.size == len(array) * array.shape[1]:
        array = array.reshape(len(array), -1)  # [R, F, 1, 1]
    if name in _WHOLE and array.dtype.kind == "f" and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    return array[:count] if array.ndim and len(array) == rows else array


def _nothing(raw: Mapping[str, np.ndarray], width: int | None) -> dict[str, np.ndarray]:
    """Arrays of a picture in which nothing was found."""
    own = raw["features"].shape[1] if raw["features"].ndim == 2 and raw["features"].shape[1] else width
    if own is None:
        raise BadRegionsError("no region", "the detector found nothing, and no picture tells how wide features are")
    return {"features": np.zeros((0, own), np.float32)}


def _size(raw: Mapping[str, np.ndarray], picture: tuple[int, int] | None) -> tuple[int, int]:
    if "size" in raw:
        if raw["size"].size != 2:
            raise BadRegionsError("broken regions", f"size: found {raw['size'].size} numbers, expected width and height")
        sides: Sequence[float] = raw["size"].reshape(-1).tolist()
    elif "width" in raw and "height" in raw:
        sides = [_one(raw["width"], "width"), _one(raw["height"], "height")]
    elif picture is not None:
        return picture
    else:
        detail = "neither the detector's file, nor the sample's picture, nor its JSON (--size-fields) tells the picture's size"
        raise BadRegionsError("no size", detail)
    if any(not np.isfinite(side) or side != int(side) for side in sides):
        raise BadRegionsError("wrong size", f"a picture of {sides[0]:g} x {sides[1]:g}; expected whole numbers of pixels")
    return int(sides[0]), int(sides[1])


def _to_pixels(boxes: np.ndarray, form: BoxForm, size: tuple[int, int]) -> np.ndarray:
    if form == "fractions":
        _check_fractions(boxes)
        return boxes[:, :4] * np.array([*size, *size], np.float32)
    if boxes.shape[1] != 4:
        detail = f"boxes of {boxes.shape[1]} numbers; expected 4, or --boxes fractions"
        raise BadRegionsError("broken regions", detail)
    return corners(boxes) if form == "xywh" else boxes


def _check_fractions(boxes: np.ndarray) -> None:
    """What stands behind the corners must agree with them, in either order of width and height."""
    if not 4 <= boxes.shape[1] <= 7:
        raise BadRegionsError("broken regions", f"boxes of {boxes.shape[1]} numbers; expected 4 to 7, corners first")
    if boxes.size and not (np.nanmin(boxes) > -0.01 and np.nanmax(boxes) < 1.01):
        detail = f"boxes from {np.nanmin(boxes):g} to {np.nanmax(boxes):g} are no fractions; declare --boxes corners or xywh"
        raise BadRegionsError("not fractions", detail)
    if boxes.shape[1] >= 6 and len(boxes):
        sides = boxes[:, 2:4] - boxes[:, :2]
        differences = [float(np.abs(boxes[:, 4:6] - told).max()) for told in (sides, sides[:, ::-1])]
        if min(differences) > 0.01:
            detail = f"width and height behind the corners differ from them by up to {min(differences):.3f}"
            raise BadRegionsError("broken regions", f"{detail}; expected x0, y0, x1, y1, width, height")


def _rescale(boxes: np.ndarray, size: tuple[int, int], picture: tuple[int, int]) -> np.ndarray:
    """Boxes in the size of the picture, where one is the other made smaller."""
    if min(size) < 1:
        raise BadRegionsError("wrong size", f"a picture of {size[0]} x {size[1]}")
    scales = picture[0] / size[0], picture[1] / size[1]
    # Either side may have been rounded to whole pixels.
    if abs(scales[0] - scales[1]) > max(1 / size[0], 1 / size[1]) * max(1.0, *scales):
        detail = f"the boxes are of a picture of {size[0]} x {size[1]}, and the picture of {picture[0]} x {picture[1]} is no "
        raise BadRegionsError("wrong size", f"{detail}copy of it in another size: its shape differs")
    return boxes * np.array([*scales, *scales], np.float32)


def _select(found: FoundRegions, how: Interpretation) -> FoundRegions:
    if how.threshold <= 0 and how.most is None:
        return found
    confidence = found.confidence
    if confidence is None or confidence.shape != (len(found.boxes),):
        if how.threshold > 0 or len(found.boxes) > (how.most or 0):
            raise BadRegionsError("no confidence", "--threshold and --most choose by it, and the file has none")
        return found
    chosen = choose(np.asarray(confidence, np.float64), how.threshold, how.least, how.most)
    given = {name: value[chosen] for name, value in found._asdict().items() if name != "size" and value is not None}
    return found._replace(**given)


def choose(confidence: np.ndarray, threshold: float, least: int, most: int | None) -> np.ndarray:
    """Which regions to keep, the surest first: all of a confidence over the threshold, at least and at most so many.

    Bottom-up attention (arXiv:1707.07998, section 3.1) takes 10 to 100 over 0.2.

    Args:
        confidence: `[R]`, from 0 to 1.
        threshold: Confidence.
        least, most: Number of regions.

    Returns:
        `[kept]`, numbers of regions.
    """
    order = np.argsort(-confidence, kind="stable")
    count = max(int((confidence > threshold).sum()), least)
    return order[: count if most is None else min(count, most)]
