"""LMDBs of UNITER (arXiv:1909.11740; its `convert_imgdir.py`): a value a picture, in msgpack with NumPy's arrays, or an `.npz`.

Fields: `features`, `norm_bb` (x0, y0, x1, y1, width, height as fractions, and in some their product), `conf`, `soft_labels`
(1,601 probabilities, background first). Names are files: `coco_train2014_000000000042.npz`.
"""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...modalities.region import BadRegionsError
from .databases import open_lmdb
from .detector_file import Fields, MissingPackageError

NAMES_KEY = b"__keys__"


class UniterFile:
    """One LMDB, a folder or a file."""

    def __init__(self, path: Path):
        self.path, self._environment = path, open_lmdb(path)
        self._transaction = self._environment.begin()

    def names(self) -> Iterator[tuple[str, bytes]]:
        """Names and keys, in the order of the database."""
        for key in self._transaction.cursor().iternext(keys=True, values=False):
            if key != NAMES_KEY:
                yield key.decode("utf-8", "replace"), bytes(key)

    def read(self, place: bytes) -> Fields:
        """Arrays of one picture.

        Raises:
            BadRegionsError: `broken regions`: neither msgpack nor `.npz`, or not of numbers.
        """
        content = self._transaction.get(place)
        try:
            return _unpack_npz(content) if content[:2] == b"PK" else _unpack(content)
        except MissingPackageError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zipfile.BadZipFile) as error:
            raise BadRegionsError("broken regions", f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        """Close the database."""
        self._environment.close()


def _unpack_npz(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files if name != "allow_pickle"}  # their writer saved that option too


def _unpack(content: bytes) -> dict[str, Any]:
    try:
        import msgpack
    except ImportError:
        raise MissingPackageError("--format uniter", "msgpack") from None
    try:
        # Texts as bytes: packers differ in which of the two they wrote.
        found = msgpack.unpackb(content, raw=True, strict_map_key=False)
    except Exception as error:  # its own kinds are not all of one base
        raise ValueError(f"no msgpack, or not whole ({type(error).__name__} {error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"found a {type(found).__name__}, expected fields by name")
    return {_text(name): _decode_array(value) for name, value in found.items()}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _decode_array(value: Any) -> Any:
    """An array as `msgpack_numpy` lays it out: a mapping of `nd`, `type`, `kind`, `shape`, `data`."""
    if not (isinstance(value, dict) and b"nd" in value):
        return value
    kind, how = value[b"type"], value.get(b"kind", b"")
    if how not in (b"", None) or not isinstance(kind, bytes) or np.dtype(_text(kind)).kind not in "biuf":
        raise ValueError(f"an array of {kind!r} ({how!r}); expected numbers")
    flat = np.frombuffer(value[b"data"], np.dtype(_text(kind)))
    return flat.reshape(tuple(value[b"shape"])) if value[b"nd"] else flat.reshape(())
