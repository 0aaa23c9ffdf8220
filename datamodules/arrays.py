"""Arrays as members of shards hold them (`regions.npz`, `codes.npy`): read whole, without pickles, and only finite numbers."""

import io
import zipfile
import zlib

import numpy as np

from .sample import BadSampleError

MAX_BYTES = 2**30
_NPY, _ZIP = b"\x93NUMPY", b"PK"


def load_arrays(content: bytes) -> dict[str, np.ndarray]:
    """All arrays of an `.npz` by name, or the one of an `.npy` under the name `""`.

    Args:
        content: The member as stored, of at most 1 GiB when unpacked.

    Raises:
        BadSampleError: `broken array` (not whole, not of NumPy's formats, Python objects in it), `oversized array`, or
            `not finite` (NaN or infinite), with the name of the array.
    """
    if content.startswith(_NPY):
        return {"": _parse("the array", content)}
    if not content.startswith(_ZIP):
        raise BadSampleError("broken array", f"{len(content)} bytes that begin with {content[:8]!r}; expected .npz or .npy")
    try:
        return _unpack(content)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise BadSampleError("broken array", f"the .npz cannot be unpacked: {error}") from None


def _unpack(content: bytes) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        entries = [entry for entry in packed.infolist() if entry.filename.endswith(".npy")]
        size = sum(entry.file_size for entry in entries)
        if size > MAX_BYTES:
            raise BadSampleError("oversized array", f"unpacked it needs {size:,} bytes; at most {MAX_BYTES:,} are read")
        names = [entry.filename.removesuffix(".npy") for entry in entries]
        return {name: _parse(name, packed.read(entry)) for name, entry in zip(names, entries, strict=True)}


def _parse(name: str, content: bytes) -> np.ndarray:
    """One `.npy`; `numpy.load` would believe its header and allocate whatever shape that states."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, columns_first, kind = read_header(stream)
    except Exception as error:  # the header is a Python literal, and its parser raises a handful of kinds
        raise BadSampleError("broken array", f"{name}: its header cannot be read ({error})") from None
    if kind.hasobject:
        raise BadSampleError("broken array", f"{name}: found Python objects, which are never unpickled; store numbers")
    values, count = content[stream.tell() :], int(np.prod([1, *shape], dtype=object))
    if min(shape, default=0) < 0 or len(values) != count * kind.itemsize:
        expected = f"{count * kind.itemsize:,} bytes for {'x'.join(map(str, shape)) or 'one'} of {kind}"
        raise BadSampleError("broken array", f"{name}: found {len(values):,} bytes, expected {expected}")
    array = np.frombuffer(bytearray(values), kind, count).reshape(shape, order="F" if columns_first else "C")
    if kind.kind in "fc" and not (finite := np.isfinite(array)).all():
        raise BadSampleError("not finite", f"{name}: {int((~finite).sum()):,} of {count:,} numbers are NaN or infinite")
    return array
