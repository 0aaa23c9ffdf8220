"""Pictures of shards, for those who find regions in them."""

from collections.abc import Mapping
from typing import Any

from ...modalities.image import decode_image, read_jpeg_head
from ..shards.fields import look_up


def measure_picture(data: bytes) -> tuple[int, int]:
    """Width and height of a picture as it stands upright; of most JPEGs without decoding them.

    Raises:
        BadImageError: It is no whole picture.
    """
    head = read_jpeg_head(data)
    height, width = decode_image(data).shape[1:] if head is None else head.shape
    return width, height


def read_size(record: Mapping[str, Any], fields: tuple[str, str]) -> tuple[int, int] | None:
    """Width and height as the JSON of a sample tells them; None where it does not.

    Args:
        record: The JSON.
        fields: Dotted names of width and height.
    """
    sides = [look_up(record, field) for field in fields]
    if any(isinstance(side, bool) or not isinstance(side, int | float) or side != int(side) for side in sides):
        return None
    return int(sides[0]), int(sides[1])
