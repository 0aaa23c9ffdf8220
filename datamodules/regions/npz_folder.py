"""A folder with an `.npz` a picture, in sub-folders too; the file's name is the picture's."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...modalities.region import BadRegionsError
from .detector_file import Fields


class NpzFolder:
    """One folder."""

    def __init__(self, path: Path):
        self.path = path
        if not path.is_dir():
            raise ValueError(f"{path}: expected a folder of .npz files, one a picture")

    def names(self) -> Iterator[tuple[str, Path]]:
        """Names below the folder, in their order."""
        for path in sorted(self.path.rglob("*.npz")):
            yield str(path.relative_to(self.path)), path

    def read(self, place: Path) -> Fields:
        """Arrays of numbers of one file; others (pickled Python objects, such as `info` of some extractors) are left out.

        Raises:
            BadRegionsError: `broken regions`: it is no whole `.npz`.
        """
        fields = {}
        try:
            with np.load(place, allow_pickle=False) as arrays:
                for name in arrays.files:
                    if _is_plain(arrays, name):
                        fields[name] = arrays[name]
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, AttributeError) as error:
            raise BadRegionsError("broken regions", f"{place.name}: {type(error).__name__}: {error}") from None
        return fields

    def close(self) -> None:
        """Nothing is open."""


def _is_plain(arrays: np.lib.npyio.NpzFile, name: str) -> bool:
    try:
        with arrays.zip.open(f"{name}.npy") as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            return not read(stream)[2].hasobject
    except KeyError:  # stored under a name of its own, which is no array
        return False
