"""Opening LMDBs and HDF5 files to read them, with a word on what is missing."""

from pathlib import Path
from typing import Any

from .detector_file import MissingPackageError


def open_lmdb(path: Path) -> Any:
    """An LMDB, read alone: a folder with `data.mdb`, or one file.

    Raises:
        MissingPackageError: `lmdb` is not installed.
        ValueError: It is no LMDB.
    """
    try:
        import lmdb
    except ImportError:
        raise MissingPackageError(str(path), "lmdb") from None
    if path.is_dir() and not (path / "data.mdb").is_file():
        raise ValueError(f"{path}: expected an LMDB, a folder with data.mdb or one file; found no data.mdb")
    try:
        return lmdb.open(str(path), subdir=path.is_dir(), readonly=True, create=False, lock=False, readahead=False)
    except lmdb.Error as error:
        raise ValueError(f"{path}: no LMDB ({error})") from None


def open_h5(path: Path) -> Any:
    """An HDF5 file, read alone.

    Raises:
        MissingPackageError: `h5py` is not installed.
        ValueError: It is no HDF5 file.
    """
    try:
        import h5py
    except ImportError:
        raise MissingPackageError(str(path), "h5py") from None
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path}: no HDF5 file ({error})") from None
