"""What finds regions in pictures."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import UInt8
from torch import Tensor

from ...modalities.region import FoundRegions


class Prepared(NamedTuple):
    """A picture as a maker reads it."""

    pixels: UInt8[Tensor, "... H W"]
    """The picture, or its crops `[crops, 3, S, S]`."""
    size: tuple[int, int]
    """Width and height in pixels of the upright picture as it is stored."""


@runtime_checkable
class Maker(Protocol):
    """Finds regions; each picture's are the same whatever the others of its batch are."""

    def describe(self) -> dict[str, Any]:
        """What its features depend on, in plain values: features of equal descriptions may be compared."""
        ...

    def prepare(self, data: bytes) -> Prepared:
        """Decode a picture; called in threads.

        Raises:
            BadImageError: It is no whole picture.
        """
        ...

    def find(self, pictures: Sequence[Prepared]) -> list[FoundRegions]:
        """Regions of each picture."""
        ...
