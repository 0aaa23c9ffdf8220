"""Regions of a detector's files into shards, each beside the sample of its picture."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace as change
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ...modalities.image import BadImageError
from ...modalities.region import BadRegionsError, pack_regions
from ..sample import BadSampleError, Sample
from ..shards.fields import FieldMap, look_up, parse_json
from ..shards.paths import find_shards
from ..shards.reader import ShardSet
from .copying import EXTENSION, copy_with_regions, describe_shard, summarize
from .ids import Rule, make_comparable
from .interpret import Interpretation, find_width, interpret
from .lookup import Format, Lookup, count_unused
from .pictures import measure_picture, read_size
from .watching import watch
from .working import Stage, discard, open_working

ADDED = "samples with regions"
REGIONS = "regions"
TRIED = 100
"""Pictures of the files that are looked at for the width of features."""


class Joining(NamedTuple):
    """Which regions belong to which sample."""

    form: Format
    """Of the detector's files."""
    by: str = ""
    """Dotted name of the field of a sample's JSON that names its picture; empty: the sample's key does."""
    rule: Rule = "stem"
    """How names are compared; see `ids`."""
    size_fields: tuple[str, str] | None = None
    """Dotted names of width and height in a sample's JSON, for samples without a picture."""


class Added(NamedTuple):
    """What was done."""

    samples: int
    counts: Counter[str]
    """Samples with regions, regions, and what was left out or is to be noted, by kind."""
    examples: dict[str, str]
    """The first of each kind that was left out, in words."""


def add_regions(
    files: Sequence[Path],
    paths: Sequence[str] | str,
    out: Path,
    joining: Joining,
    how: Interpretation,
    fields: FieldMap | None = None,
    replace: bool = False,
    force: bool = False,
) -> Added:
    """Write a copy of shards with the regions of a detector's files beside the samples.

    Shards, samples and all members stay as they are. Samples whose regions are missing or not what they should be are copied
    without. An interrupted call goes on where it was when it is made again.

    Args:
        files: Of the detector.
        paths: Local shards, as of `ShardSet`.
        out: Folder for the copy.
        joining: Which regions belong to which sample.
        how: What the fields of the files are.
        fields: What the members of the shards are.
        replace: Take out regions that are in the shards already.
        force: Replace shards that are in the folder.

    Raises:
        FileExistsError: The folder is not empty.
        ValueError: No sample has regions in the files, samples have regions already, or a file or the folder is not fit.
    """
    fields, tars = with_members(fields or FieldMap(), EXTENSION), find_shards(paths)
    if missing := [file for file in files if not file.exists()]:
        raise FileNotFoundError(f"{missing[0]}: there is no such file of a detector")
    plan = {
        **{"command": "add", "joining": list(joining), "interpretation": list(how), "map": fields.fingerprint},
        **{"files": [identify(file) for file in files], "shards": [identify(tar) for tar in tars]},
    }
    with (
        open_working(out, tars, plan, force) as working,
        TemporaryDirectory(prefix="interlingua-") as indexes,
        Lookup(joining.form, files, joining.rule) as lookup,
    ):
        shards = ShardSet(paths, with_members(fields, "json"), indexes)
        refuse_regions(shards, replace)
        adder = _Adder(shards, fields, lookup, joining, how)
        adder.check_names()
        stage = working.stage("shards")
        with watch(len(shards), "adding regions", "samples") as advance:
            for tar, (first, end) in zip(tars, bounds(shards), strict=True):
                if not stage.is_finished(tar.name):
                    adder.write(tar, range(first, end), stage, advance)
                else:
                    advance(end - first)
        used = (name for tar in tars for name in stage.read(tar.name)["used"])
        counts = stage.counts(working.names) + count_faults(shards) + count_unused(lookup, used)
        counts["noted: regions that stand in the files again, the first taken"] += lookup.twice
        if not counts[ADDED]:
            discard(out)
            raise ValueError(f"no sample got regions: {tell_counts(counts)}{adder.tell_example()}")
        working.publish(stage, summarize([stage.read(name)["entry"] for name in working.names]))
        shards.close()
        return Added(len(shards), +counts, adder.examples)


def identify(path: Path) -> list[Any]:
    """What tells whether a file is still the same."""
    status = os.stat(path / "data.mdb" if (path / "data.mdb").is_file() else path)
    return [str(path.resolve()), status.st_size, status.st_mtime_ns]


def with_members(fields: FieldMap, *extensions: str) -> FieldMap:
    """A map that hands on these members too."""
    return change(fields, members=tuple(dict.fromkeys((*fields.members, *extensions))))


def bounds(shards: ShardSet) -> Iterator[tuple[int, int]]:
    """First sample and end of each shard."""
    end = 0
    for count in shards.sizes.tolist():
        yield end, end + count
        end += count


def refuse_regions(shards: ShardSet, replace: bool) -> None:
    """Raise ValueError if samples have regions that were not to be replaced."""
    if (there := shards.fields[EXTENSION]) and not replace:
        raise ValueError(f"{there:,} samples of the shards have regions already; --replace takes them out of the copy")


def count_faults(shards: ShardSet) -> Counter[str]:
    """Samples that cannot be read, by kind."""
    return Counter(f"sample with a fault, copied as it is: {fault.kind}" for fault in shards.faults)


def tell_counts(counts: Counter[str]) -> str:
    """Kinds and numbers, in a line."""
    told = [f"{kind}: {count:,}" for kind, count in counts.most_common() if kind not in (ADDED, REGIONS) and count]
    return "; ".join(told) or "there is nothing in the shards"


class _Adder:
    def __init__(self, shards: ShardSet, fields: FieldMap, lookup: Lookup, joining: Joining, how: Interpretation):
        self.shards, self.fields, self.lookup, self.joining, self.how = shards, fields, lookup, joining, how
        self.examples: dict[str, str] = {}
        self.width = self._find_width()

    def check_names(self) -> None:
        """Refuse at once what would copy everything and add nothing.

        Raises:
            ValueError: Names what both sides have.
        """
        ours = []
        for number in range(len(self.shards)):
            name = self._name(self.shards.read(number, image=False))
            if name is not None and make_comparable(name, self.joining.rule) in self.lookup:
                return
            ours.append(name)
        found = ", ".join(repr(name) for name in ours[:3] if name is not None) or "none"
        theirs = ", ".join(map(repr, self.lookup.examples()))
        where = f"their field {self.joining.by}" if self.joining.by else "their keys"
        raise ValueError(
            f"no sample is named like a picture of the files: {where}: {found}; the files have {theirs}; "
            "choose --by, a field of the samples' JSON, or --match"
        )

    def write(self, tar: Path, numbers: range, stage: Stage, advance: Any) -> None:
        """One shard."""
        counts: Counter[str] = Counter()
        used: list[str] = []
        partial = stage.partial(tar.name)
        copy_with_regions(tar, partial, self._regions(numbers, counts, used, advance))
        stage.finish(tar.name, describe_shard(partial, tar.name, self.fields), counts, used)

    def tell_example(self) -> str:
        """The first that was left out, for an error."""
        return "".join(f" (first: {words})" for words in list(self.examples.values())[:1])

    def _regions(self, numbers: range, counts: Counter[str], used: list[str], advance: Any) -> Iterator[tuple[str, bytes]]:
        for number in numbers:
            advance(1)
            sample = self.shards.read(number)
            try:
                content, count = self._find(sample, used)
            except (BadRegionsError, BadSampleError, BadImageError) as error:
                counts[error.kind] += 1
                self.examples.setdefault(error.kind, f"{sample.shard}, {sample.key}: {error.detail}")
                continue
            counts[ADDED] += 1
            counts[REGIONS] += count
            yield sample.key, content

    def _find(self, sample: Sample, used: list[str]) -> tuple[bytes, int]:
        name = self._name(sample)
        if name is None:
            raise BadRegionsError("no name", f"{self.joining.by}: no text and no whole number in its JSON")
        key = make_comparable(name, self.joining.rule)
        if key not in self.lookup:
            raise BadRegionsError("no regions in the files", f"{name!r}, compared as {key!r}")
        used.append(key)
        picture = self._size(sample)
        found = interpret(self.lookup.read(key), self.how, picture, self.width)
        if self.width is not None and found.features.shape[1] != self.width:
            detail = f"features of {found.features.shape[1]} numbers, {self.width} in the first picture of the files"
            raise BadRegionsError("another width", detail)
        return pack_regions(found), len(found.boxes)

    def _find_width(self) -> int | None:
        """Numbers of a feature, of the first picture of the files that has any."""
        for _, key in zip(range(TRIED), self.lookup, strict=False):
            with suppress(BadRegionsError):
                if width := find_width(self.lookup.read(key), self.how):
                    return width
        return None

    def _name(self, sample: Sample) -> str | None:
        if not self.joining.by:
            return sample.key
        own = look_up(_record(sample), self.joining.by)
        return str(own) if isinstance(own, str | int) and not isinstance(own, bool) and own != "" else None

    def _size(self, sample: Sample) -> tuple[int, int] | None:
        if sample.image is not None:
            return measure_picture(sample.image)
        return read_size(_record(sample), self.joining.size_fields) if self.joining.size_fields else None


def _record(sample: Sample) -> dict[str, Any]:
    return dict(parse_json(sample.members["json"], "json")) if "json" in sample.members else {}
