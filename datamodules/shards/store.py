"""Keep the index of a shard: one file, written whole or not at all, memory-mapped when read."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .fields import FieldMap
from .index import TYPES, Index, build_index, identify

MARK = b"interlingua shard index 1\n"


def write_index(index: Index, path: Path) -> None:
    """Write an index whole or not at all: many ranks may do so at once.

    Raises:
        OSError: The folder cannot be written.
    """
    layout, offset = {}, 0
    for name, array in index.arrays.items():
        layout[name] = [TYPES[name], len(array), offset]
        offset += -(-array.nbytes // 64) * 64
    head = json.dumps({**index.head, "layout": layout}).encode()
    head += b" " * (-(len(MARK) + 8 + len(head)) % 64)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(MARK + len(head).to_bytes(8, "little") + head)
            for array in index.arrays.values():
                file.write(array.tobytes() + b"\0" * (-array.nbytes % 64))
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def read_head(path: Path) -> dict[str, Any] | None:
    """The head of an index; None where there is none or it is not one of ours, whole."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(len(MARK)) != MARK:
                return None
            length = int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(min(length, size)))
        start = len(MARK) + 8 + length
        ends = [start + offset + count * np.dtype(kind).itemsize for kind, count, offset in head["layout"].values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a damaged head may be any JSON
        return None
    if max(ends, default=0) > size or head["layout"].keys() != TYPES.keys():
        return None  # cut short, as a full disk or an interrupted copy leaves it
    head["arrays_at"] = start
    return head


def map_index(path: Path) -> Index:
    """An index with its arrays memory-mapped.

    Raises:
        ValueError: The file is not an index.
    """
    head = read_head(path)
    if head is None:
        raise ValueError(f"{path}: not a shard index of this version; delete it, it is built anew")
    content = np.asarray(np.memmap(path, mode="r"))
    arrays = {}
    for name, (kind, length, offset) in head["layout"].items():
        start = head["arrays_at"] + offset
        arrays[name] = content[start : start + length * np.dtype(kind).itemsize].view(kind)
    return Index(head, arrays)


def find_index(tar: Path, fields: FieldMap, folder: Path | None) -> Path | None:
    """The index of a tar that is still valid, wherever it is; None where it must be built."""
    identity = identify(tar, fields)
    for place in _places(tar, fields, folder):
        head = read_head(place)
        if head is not None and {name: head.get(name) for name in identity} == identity:
            return place
    return None


def store_index(tar: Path, fields: FieldMap, folder: Path | None) -> Path:
    """Build the index of a tar and store it beside the tar, or in the cache where that cannot be written."""
    index = build_index(tar, fields)
    *preferred, last = _places(tar, fields, folder)
    for place in preferred:
        try:
            write_index(index, place)
        except OSError:
            continue
        return place
    write_index(index, last)
    return last


def _places(tar: Path, fields: FieldMap, folder: Path | None) -> list[Path]:
    """Where an index may be, in order of preference."""
    suffix = ".index" if fields == FieldMap() else f".index-{fields.fingerprint}"
    if folder is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "interlingua" / "shards"
        return [tar.with_name(tar.name + suffix), _apart(cache, tar, suffix)]
    return [_apart(folder, tar, suffix)]


def _apart(folder: Path, tar: Path, suffix: str) -> Path:
    """A name that tars of equal name in different folders do not share."""
    digest = hashlib.blake2b(str(tar.parent.resolve()).encode(), digest_size=8).hexdigest()
    return folder / digest / (tar.name + suffix)
