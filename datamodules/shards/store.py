"""Keep the index of a shard: one file, written whole or not at all, memory-mapped when read."""

import hashlib
import json
import os
from collections.abc import Mapping
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
    return next((place for place in _places(tar, fields, folder) if is_index_of(place, identity)), None)


def is_index_of(place: Path, identity: Mapping[str, Any]) -> bool:
    """Whether there is an index of just this tar under just this field map."""
    head = read_head(place)
    return head is not None and {name: head.get(name) for name in identity} == identity


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


def index_suffix(fields: FieldMap) -> str:
    """What follows the tar's name."""
    return ".index" if fields == FieldMap() else f".index-{fields.fingerprint}"


def name_apart(folder: Path, home: str, name: str) -> Path:
    """A file in a folder that is shared by files of equal names from different homes."""
    return folder / hashlib.blake2b(home.encode(), digest_size=8).hexdigest() / name


def user_cache() -> Path:
    """The user's cache folder for all about shards."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "interlingua" / "shards"


def _places(tar: Path, fields: FieldMap, folder: Path | None) -> list[Path]:
    """Where an index may be, in order of preference."""
    home, name = str(tar.parent.resolve()), tar.name + index_suffix(fields)
    if folder is None:
        return [tar.with_name(name), name_apart(user_cache(), home, name)]
    return [name_apart(folder, home, name)]
