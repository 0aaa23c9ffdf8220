"""A clean copy of shards: the samples that can be used, as they stand, and nothing else."""

import io
import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...modalities.batch import Fault
from ...modalities.tokenizer import Tokenizer
from .check import compare_checksums, count_kinds, find_fault, list_faults
from .fields import FieldMap, split_name
from .paths import find_shards
from .progress import track
from .reader import ShardSet
from .tar import Member, Window, read_at, scan_tar
from .writer import checksum, find_older

APART = ("scattered members", "duplicate member")
"""Kinds of faults that joining may mend."""


@dataclass
class Repair:
    """What `repair_shards` did.

    Attributes:
        shards, samples: How many there are of each in the copy.
        joined: Samples of the copy whose members stood apart or twice, as `SHARD KEY`.
        faults: What was left out, and what else was wrong: places that cost no sample have the key `""`.
        empty: Names of shards without a sample that can be used; the copy lacks them.
    """

    shards: int = 0
    samples: int = 0
    joined: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def repair_shards(
    paths: Sequence[str] | str,
    folder: str | Path,
    fields: FieldMap | None = None,
    decode: bool = True,
    join: bool = False,
    force: bool = False,
    tokenizer: Tokenizer | None = None,
) -> Repair:
    """Write a copy of shards without what is wrong with them. The source is only read.

    Shards keep their names, samples their keys, order and all members byte by byte (undeclared members and blank texts
    too), so that each sample has the identity that it had. What their indexes find wrong is absent from the numbering of
    the source as well: a run on shards with such faults alone gives, bit for bit, the run on their copy.

    Args:
        paths: Local shards, as of `ShardSet`.
        folder: Where the copy goes, with its `index.json`; must be empty.
        fields: What their members are.
        decode: Decode pictures and arrays, and leave out samples with a broken one.
        join: Keep samples whose members stand apart or twice, too, if together they have members like another sample of
            the shard and those that stand twice are equal. This adds to the numbering.
        force: Replace shards that are in the folder.
        tokenizer: As of `check_shards`.

    Raises:
        FileExistsError: The folder is not empty.
        ValueError: It is a folder of the source, two shards have one name, or no sample can be used.
    """
    out = Path(folder)
    _check_places(find_shards(paths), out)
    older = {*find_older(out, force), *_listed(out)}
    with TemporaryDirectory(prefix=".repair-", dir=out) as working:
        bench = _Bench(Path(working), fields or FieldMap(), decode, join, tokenizer)
        bench.copy_all(paths)
        if not bench.entries:
            raise ValueError(f"no sample can be used: {count_kinds(bench.done.faults)}; nothing was written")
        names = {entry["name"] for entry in bench.entries}
        for path in older:
            if path.name not in names:
                path.unlink(missing_ok=True)
        for name in names:
            os.replace(bench.copies / name, out / name)
        summary = json.dumps(_summarize(bench.entries), indent=1) + "\n"
        (bench.copies / "index.json").write_text(summary, encoding="utf-8")
        os.replace(bench.copies / "index.json", out / "index.json")
    return bench.done


def _check_places(tars: Sequence[Path], out: Path) -> None:
    seen: dict[str, Path] = {}
    for tar in tars:
        if tar.resolve().parent == out.resolve():
            raise ValueError(f"{out}: the shards to repair are in this folder, and are never written to; name another")
        if tar.name in seen:
            raise ValueError(
                f"{tar} and {seen[tar.name]} have one name, and shards keep theirs (samples may be identified by it); "
                "repair one folder at a time"
            )
        seen[tar.name] = tar


def _listed(folder: Path) -> Iterator[Path]:
    """Shards that the index.json of a folder lists, and what belongs to them: of an earlier copy, whatever their names."""
    names: set[str] = set()
    with suppress(OSError, ValueError, TypeError, KeyError):  # it may be anything
        names = {str(entry["name"]) for entry in json.loads((folder / "index.json").read_text(encoding="utf-8"))["shards"]}
    for path in folder.iterdir():
        tar, extension, rest = path.name.rpartition(".tar")
        if tar + extension in names and (not rest or rest.startswith((".index", ".lengths"))):
            yield path


class _Bench:
    """Where the copy is made, until it is whole."""

    def __init__(self, working: Path, fields: FieldMap, decode: bool, join: bool, tokenizer: Tokenizer | None):
        self.working, self.fields, self.decode, self.join, self.tokenizer = working, fields, decode, join, tokenizer
        self.copies = working / "copies"
        self.copies.mkdir()
        self.entries: list[dict[str, Any]] = []
        self.done = Repair()

    def open(self, paths: Sequence[str] | str) -> ShardSet:
        """Shards, with indexes that are written here."""
        return ShardSet(paths, self.fields, self.working / "indexes")

    def copy_all(self, paths: Sequence[str] | str) -> None:
        shards = self.open(paths)
        self.done.faults += [*shards.faults, *compare_checksums(shards)]
        numbers = track(range(len(shards)), "reading samples")
        good: dict[str, list[str]] = {shard.path.name: [] for shard in shards.shards}
        for number in numbers:
            if fault := find_fault(shards, number, self.decode, self.tokenizer):
                self.done.faults.append(fault)
            else:
                name, key = shards.find(number)
                good[name].append(key)
        for shard in track(shards.shards, "copying shards"):
            self._copy(shard.path, good[shard.path.name])

    def _copy(self, tar: Path, keys: list[str]) -> None:
        members = _by_key(tar)
        kept = {key: members[key] for key in keys}
        if self.join:
            kept |= self._join(tar, members, kept)
        if not kept:
            self.done.empty.append(tar.name)
            return
        target = self.copies / tar.name
        _write(tar, sorted(kept.values(), key=lambda group: group[0].offset), target)
        self.entries.append(_describe(target, self.open(str(target)), self.fields))
        self.done.shards += 1
        self.done.samples += len(kept)

    def _join(
        self, tar: Path, members: Mapping[str, list[Member]], kept: Mapping[str, list[Member]]
    ) -> dict[str, list[Member]]:
        """Samples that are whole once their members are brought together; their faults are taken back."""
        wholes = {_extensions(group) for group in kept.values()}
        faults = [fault for fault in self.done.faults if fault.shard == tar.name and fault.kind in APART]
        apart = sorted({fault.key for fault in faults}, key=lambda key: members[key][0].offset)
        merged = {key: group for key in apart if (group := _merge(tar, members[key]))}
        merged = {key: group for key, group in merged.items() if not wholes or _extensions(group) in wholes}
        if not merged:
            return {}
        trial = self.working / "trial" / tar.name  # under its own name, which identities may depend on
        trial.parent.mkdir(exist_ok=True)
        _write(tar, list(merged.values()), trial)
        shards = self.open(str(trial))
        found = [find_fault(shards, number, self.decode, self.tokenizer) for number in range(len(shards))]
        whole = {shards.find(number)[1] for number, fault in enumerate(found) if fault is None}
        self.done.joined += [f"{tar.name} {key}" for key in merged if key in whole]
        self.done.faults = [fault for fault in self.done.faults if fault.shard != tar.name or fault.key not in whole]
        trial.unlink()
        return {key: group for key, group in merged.items() if key in whole}


def _by_key(tar: Path) -> dict[str, list[Member]]:
    """All members of a tar that have a key, in order."""
    descriptor = os.open(tar, os.O_RDONLY)
    try:
        members, _ = scan_tar(Window(descriptor), os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
    found: dict[str, list[Member]] = {}
    for member in members:
        if name := split_name(member.name):
            found.setdefault(name[0], []).append(member)
    return found


def _extensions(group: Sequence[Member]) -> frozenset[str]:
    return frozenset((split_name(member.name) or ("", ""))[1] for member in group)


def _merge(tar: Path, group: Sequence[Member]) -> list[Member] | None:
    """The members of a key, each extension once; None where two of one extension differ."""
    first: dict[frozenset[str], Member] = {}
    with open(tar, "rb") as file:
        for member in group:
            same = first.setdefault(_extensions([member]), member)
            if _content(tar, file.fileno(), same) != _content(tar, file.fileno(), member):
                return None
    return list(first.values())


def _content(tar: Path, descriptor: int, member: Member) -> bytes:
    content = read_at(descriptor, member.size, member.offset)
    if len(content) < member.size:
        raise ValueError(f"{tar}: it became shorter while it was read; start again when nothing writes to it")
    return content


def _write(tar: Path, groups: Sequence[Sequence[Member]], target: Path) -> None:
    with (
        open(tar, "rb") as source,
        tarfile.TarFile(target, "w", format=tarfile.GNU_FORMAT, encoding="utf-8") as copy,
    ):
        for member in (member for group in groups for member in group):
            entry = tarfile.TarInfo(member.name)  # time, owner and mode keep their fixed defaults
            entry.size = member.size
            copy.addfile(entry, io.BytesIO(_content(tar, source.fileno(), member)))


def _describe(tar: Path, shards: ShardSet, fields: FieldMap) -> dict[str, Any]:
    """The entry of a shard in `index.json`, as `ShardWriter` writes it."""
    table = shards.texts
    counts = np.bincount(table.language, minlength=len(shards.languages)).tolist()
    modalities = {"text": int((np.diff(table.start) > 0).sum()), "image": int(shards.has_image.sum())}
    modalities |= {extension: shards.fields[extension] for extension in fields.members}
    return {
        "name": tar.name,
        "samples": len(shards),
        "bytes": tar.stat().st_size,
        "sha256": checksum(tar),
        "languages": dict(zip(shards.languages, counts, strict=True)),
        "modalities": {name: count for name, count in sorted(modalities.items()) if count},
    }


def _summarize(entries: list[dict[str, Any]]) -> dict[str, Any]:
    totals = {
        name: dict(sorted(sum((Counter(entry[name]) for entry in entries), Counter()).items()))
        for name in ("languages", "modalities")
    }
    return {"format": 1, "samples": sum(entry["samples"] for entry in entries), **totals, "shards": entries}


def format_repair(done: Repair, out: Path, longest: int = 20) -> str:
    """What was done, for people.

    Args:
        done: What was done.
        out: Where the copy is.
        longest: Faults that are written out one by one; more are only counted.
    """
    lines = [f"{done.samples:,} samples in {done.shards:,} shards in {out}"]
    for title, names in (("joined", done.joined), ("left out, as no sample is left", done.empty)):
        if names:
            lines.append(
                f"{title}: {', '.join(names[:longest])}" + (f" and {len(names) - longest:,} more" * (len(names) > longest))
            )
    lines.append(f"left out or wrong: {count_kinds(done.faults)}" if done.faults else "nothing was wrong")
    return "\n".join(lines + list_faults(done.faults, longest))
