"""What VOLTA's extraction writes (arXiv:2011.15124; its `features_extraction`): HDF5 files, and LMDBs of pickles made of them.

Fields of a picture: `features`, `boxes`, `img_w`, `img_h`, `obj_id`, `obj_conf`, `attr_id`, `attr_conf` as arrays; in LMDBs of
ViLBERT's time base64 of float32 with `image_w`, `image_h`, `num_boxes`, `cls_prob`. Pickles are read as plain values alone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...modalities.region import BadRegionsError
from .databases import open_h5, open_lmdb
from .detector_file import Fields
from .plain_pickle import load_plain

NAMES_KEY = b"keys"


class VoltaLmdb:
    """One LMDB: a pickled mapping a picture, and the list of their names under `keys`."""

    def __init__(self, path: Path):
        self.path, self._environment = path, open_lmdb(path)
        self._transaction = self._environment.begin()

    def names(self) -> Iterator[tuple[str, bytes]]:
        """Names and keys, in the order of the database."""
        for key in self._transaction.cursor().iternext(keys=True, values=False):
            if key != NAMES_KEY:
                yield key.decode("utf-8", "replace"), bytes(key)

    def read(self, place: bytes) -> Fields:
        """Fields of one picture.

        Raises:
            BadRegionsError: `broken regions`: the pickle is not whole, holds more than plain values, or no mapping.
        """
        try:
            found = load_plain(self._transaction.get(place))
        except ValueError as error:
            raise BadRegionsError("broken regions", str(error)) from None
        if not isinstance(found, dict):
            raise BadRegionsError("broken regions", f"found a {type(found).__name__}, expected fields by name")
        return {str(name): value for name, value in found.items()}

    def close(self) -> None:
        """Close the database."""
        self._environment.close()


class VoltaH5:
    """One HDF5 file: a group a picture, with a data set a field."""

    def __init__(self, path: Path):
        self.path, self._file = path, open_h5(path)

    def names(self) -> Iterator[tuple[str, str]]:
        """Names of the groups, each its own place.

        Raises:
            ValueError: There are data sets where groups are expected.
        """
        for name in self._file:
            if not hasattr(self._file[name], "keys"):
                raise ValueError(f"{self.path}: {name} is a data set; expected a group a picture, each with features and boxes")
            yield name, name

    def read(self, place: str) -> Fields:
        """Fields of one picture.

        Raises:
            BadRegionsError: `broken regions`: HDF5 cannot read one.
        """
        group: Any = self._file[place]
        try:
            return {name: np.asarray(group[name][()]) for name in group if hasattr(group[name], "shape")}
        except (OSError, ValueError) as error:
            raise BadRegionsError("broken regions", f"HDF5: {error}") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()
