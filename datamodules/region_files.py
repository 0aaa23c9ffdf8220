"""Members `KEY.regions.npz` of shards: what is in them, judged."""

from ..modalities.image import BadImageError, measure_image
from ..modalities.region import BadRegionsError, FoundRegions, check_regions, pack_regions, unpack_regions
from .arrays import load_arrays
from .sample import BadSampleError
from .shards.fields import REGIONS


def parse_regions(content: bytes, picture: tuple[int, int] | None = None) -> FoundRegions:
    """Regions of one sample.

    Args:
        content: The member as stored.
        picture: Width and height of the upright picture beside it, where that is known.

    Raises:
        BadSampleError: It is no `.npz` (see `load_arrays`), or its regions cannot be used (see `check_regions`).
    """
    try:
        found = unpack_regions(load_arrays(content))
        check_regions(found, picture)
    except (BadSampleError, BadRegionsError) as error:
        raise BadSampleError(error.kind, f"{REGIONS}: {error.detail}") from None
    return found


def check_written(content: bytes, image: bytes | None) -> None:
    """Judge regions that are to be stored beside a picture; one that cannot be decoded tells no size.

    Raises:
        BadSampleError: As of `parse_regions`.
    """
    parse_regions(content, None if image is None else _measure(image))


def scale_regions(content: bytes, image: bytes) -> bytes:
    """The same regions in the pixels of another size of their picture.

    Args:
        content: The member as stored.
        image: The picture in that size.

    Raises:
        BadSampleError: As of `parse_regions`, or a box is too small in that size.
        BadImageError: The picture cannot be decoded.
    """
    found = parse_regions(content)
    size = measure_image(image)
    across, down = (new / old for new, old in zip(size, found.size, strict=True))
    try:
        return pack_regions(found._replace(boxes=found.boxes * [across, down, across, down], size=size))
    except BadRegionsError as error:
        raise BadSampleError(error.kind, f"{REGIONS}: {error.detail}") from None


def _measure(image: bytes) -> tuple[int, int] | None:
    try:
        return measure_image(image)
    except BadImageError:
        return None
