"""Indexes of remote shards: taken from beside the tars where they are there, else built from the tars, once.

Which index belongs to which tar is told by name, size and field map; no times of change are compared, since an upload changes
them. In the cache it also has the store's version of the tar (its checksum, else its ETag, else its time of change there), so
that a changed tar is indexed anew. An index from beside a tar is compared with the tar when that is first opened.
"""

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from threading import get_ident
from typing import Any

from .attempts import DeniedObjectError, MissingObjectError, RemoteError
from .cache import Cache
from .fields import FieldMap
from .index import Index, build_index
from .objects import read_object
from .progress import track
from .remote import RemoteTar, in_threads
from .store import index_suffix, is_index_of, map_index, write_index
from .tar import BLOCK, read_at
from .urls import add_to_path, show

FETCHED_AT_ONCE = 4


def find_remote_indexes(tars: Sequence[RemoteTar], fields: FieldMap, cache: Cache, folder: Path | None) -> list[Path]:
    """The index of each of some remote tars, wherever it is; those that are nowhere are built, from the tars.

    Args:
        tars: With sizes.
        fields: What their members are.
        cache: Where tars are kept.
        folder: Where indexes are kept; None: in the cache.

    Raises:
        RemoteError: Something cannot be had.
        ValueError: A tar is larger than the cache.
    """
    for tar in tars:
        cache.check(tar)
    places = [(folder or cache.root / "indexes") / tar.digest / (tar.name + index_suffix(fields)) for tar in tars]
    asked = [(tar, place) for tar, place in zip(tars, places, strict=True) if not _is_kept(tar, fields, place)]
    took = in_threads(lambda pair: _take(*pair, fields), asked)
    missing = [pair for pair, taken in zip(asked, took, strict=True) if not taken]
    largest = max((tar.size for tar, _ in missing), default=1)
    threads = max(1, min(FETCHED_AT_ONCE, cache.limit // (2 * max(1, largest))))
    for start in track(range(0, len(missing), threads), "fetching and indexing shards"):
        in_threads(lambda pair: _build(*pair, fields, cache), missing[start : start + threads], threads)
    return places


def fetch_beside(tars: Sequence[RemoteTar], places: Sequence[Path], word: str) -> None:
    """Fetch what else is kept beside the tars, if it is there and not here yet, to where their indexes are.

    Args:
        tars: Remote tars.
        places: Of their indexes.
        word: What stands in the file's name in place of `index`: `NAME.tar.WORD`.
    """
    targets = [place.with_name(place.name.replace(".tar.index", f".tar.{word}")) for place in places]

    def fetch(pair: tuple[RemoteTar, Path]) -> None:
        tar, target = pair
        try:
            content = read_object(add_to_path(tar.url, target.name.removeprefix(tar.name)))
        except (MissingObjectError, DeniedObjectError):
            return
        _write(target, content)

    in_threads(fetch, [pair for pair in zip(tars, targets, strict=True) if not pair[1].exists()])


def check_index(index: Index, descriptor: int, tar: RemoteTar) -> None:
    """See that first and last member of an index are where it says.

    Raises:
        RemoteError: They are not: it is of another tar.
    """
    offsets, sizes = index.arrays["offset"], index.arrays["size"]
    for member in (0, -1) if len(offsets) else ():
        try:
            header = tarfile.TarInfo.frombuf(
                read_at(descriptor, BLOCK, max(0, int(offsets[member]) - BLOCK)), "utf-8", "surrogateescape"
            )
            found = header.size
        except tarfile.HeaderError:
            found = -1
        if found != sizes[member] and sizes[member] < 1 << 33:  # larger sizes stand in another header
            raise RemoteError(
                f"{show(tar.url)}: the index beside it is of another tar of this name and size; index the shards anew "
                "(interlingua shards index) and upload tars and indexes together, or delete the indexes there and in the cache"
            )


def _is_kept(tar: RemoteTar, fields: FieldMap, place: Path) -> bool:
    return is_index_of(place, {**_identity(tar, fields), "version": tar.identity})


def _identity(tar: RemoteTar, fields: FieldMap) -> dict[str, Any]:
    return {"shard": tar.name, "bytes": tar.size, "map": fields.fingerprint}


def _take(tar: RemoteTar, place: Path, fields: FieldMap) -> bool:
    """Take over the index that is beside a tar."""
    try:
        content = read_object(add_to_path(tar.url, index_suffix(fields)))
    except (MissingObjectError, DeniedObjectError):  # stores that let nobody list them deny what is missing
        return False
    found = place.with_name(f"{place.name}.{os.getpid()}.{get_ident()}.found")
    _write(found, content)
    try:
        if not is_index_of(found, _identity(tar, fields)):
            return False
        _store(map_index(found), tar, place)
    finally:
        found.unlink()
    return True


def _build(tar: RemoteTar, place: Path, fields: FieldMap, cache: Cache) -> None:
    descriptor = cache.open(tar)
    try:
        if not _is_kept(tar, fields, place):  # another process may have built it while this one waited for the tar
            index = build_index(cache.place(tar), fields)
            _store(index._replace(head={**index.head, "changed": tar.identity}), tar, place)
    finally:
        os.close(descriptor)


def _store(index: Index, tar: RemoteTar, place: Path) -> None:
    write_index(index._replace(head={**index.head, "version": tar.identity}), place)


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}.{get_ident()}.partial")
    partial.write_bytes(content)
    os.replace(partial, file)
