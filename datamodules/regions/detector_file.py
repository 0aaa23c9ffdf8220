"""What every reader of a detector's files offers: the names of its pictures, and the fields of one of them."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

Fields = Mapping[str, Any]
"""Of one picture, under the file's own names: arrays, numbers, or base64 of arrays."""


@runtime_checkable
class DetectorFile(Protocol):
    """One file, database or folder of a detector."""

    def names(self) -> Iterator[tuple[str, Any]]:
        """Name of each picture, and where its fields are; features are not read."""
        ...

    def read(self, place: Any) -> Fields:
        """Fields of one picture.

        Raises:
            BadRegionsError: They cannot be read.
        """
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class MissingPackageError(ValueError):
    """A package that a format needs is not installed.

    Args:
        what: What needs it.
        package: Its name.
    """

    def __init__(self, what: str, package: str):
        super().__init__(f"{what} needs {package}: pip install 'interlingua[regions]'")
