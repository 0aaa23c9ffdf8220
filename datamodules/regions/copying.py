"""Copies of shards with regions beside what the samples had: every other member stays as it is, byte by byte."""

import io
import os
import tarfile
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..shards.fields import FieldMap, split_name
from ..shards.reader import ShardSet
from ..shards.tar import Member, Window, read_at, scan_tar
from ..shards.writer import checksum

EXTENSION = "regions.npz"


def copy_with_regions(tar: Path, target: Path, regions: Iterable[tuple[str, bytes]]) -> None:
    """Write a tar anew, with a member `KEY.regions.npz` behind the others of some samples; its own are left out.

    Args:
        tar: Local; broken samples are copied as they are.
        target: Where the copy goes.
        regions: Key and content, in the order of the tar; read as they are needed.

    Raises:
        ValueError: The tar became shorter, or a key is not there.
    """
    waiting = iter(regions)
    following = next(waiting, None)
    with open(tar, "rb") as source, tarfile.TarFile(target, "w", format=tarfile.GNU_FORMAT, encoding="utf-8") as copy:
        members, _ = scan_tar(Window(source.fileno()), os.fstat(source.fileno()).st_size)
        for key, group in groupby(members, _key):
            for member in group:
                if not _is_regions(member.name):
                    _add(copy, member.name, _content(tar, source.fileno(), member))
            if following is not None and following[0] == key:
                _add(copy, f"{key}.{EXTENSION}", following[1])
                following = next(waiting, None)
    if following is not None:
        raise ValueError(f"{tar}: sample {following[0]} is not there; the tar changed while it was read, start again")


def _key(member: Member) -> str:
    return (split_name(member.name) or (member.name, ""))[0]


def _is_regions(name: str) -> bool:
    return (split_name(name) or ("", ""))[1] == EXTENSION


def _content(tar: Path, descriptor: int, member: Member) -> bytes:
    content = read_at(descriptor, member.size, member.offset)
    if len(content) < member.size:
        raise ValueError(f"{tar}: it became shorter while it was read; start again when nothing writes to it")
    return content


def _add(copy: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)  # time, owner and mode keep their fixed defaults
    entry.size = len(content)
    copy.addfile(entry, io.BytesIO(content))


def describe_shard(tar: Path, name: str, fields: FieldMap) -> dict[str, Any]:
    """The entry of a shard in `index.json`, as `ShardWriter` writes it.

    Args:
        tar: The shard, whatever it is called yet.
        name: What it will be called.
        fields: What its members are.
    """
    with TemporaryDirectory(prefix="interlingua-") as indexes:
        shards = ShardSet(str(tar), fields, indexes)
        table = shards.texts
        counts = np.bincount(table.language, minlength=len(shards.languages)).tolist()
        modalities = {"text": int((np.diff(table.start) > 0).sum()), "image": int(shards.has_image.sum())}
        modalities |= {extension: shards.fields[extension] for extension in fields.members}
        samples, languages = len(shards), shards.languages
        shards.close()
    return {
        "name": name,
        "samples": samples,
        "bytes": tar.stat().st_size,
        "sha256": checksum(tar),
        "languages": dict(zip(languages, counts, strict=True)),
        "modalities": {extension: count for extension, count in sorted(modalities.items()) if count},
    }


def summarize(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """What `index.json` says of all shards.

    Args:
        entries: As `describe_shard` makes them.
    """
    totals: dict[str, dict[str, int]] = {}
    for word in ("languages", "modalities"):
        total: dict[str, int] = {}
        for entry in entries:
            for name, count in entry[word].items():
                total[name] = total.get(name, 0) + count
        totals[word] = dict(sorted(total.items()))
    return {"format": 1, "samples": sum(entry["samples"] for entry in entries), **totals, "shards": entries}
