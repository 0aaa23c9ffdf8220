"""Are shards fit to be trained on? Counts of what is there, and of all that is not as it should be."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...modalities.batch import Fault
from ...modalities.tokenizer import Tokenizer
from ..arrays import load_arrays
from ..sample import BadSampleError, Sample
from .cache import Cache
from .fields import REGIONS, FieldMap
from .paths import read_summary
from .progress import track
from .reader import ShardSet
from .writer import checksum


@dataclass
class Report:
    """What `check_shards` found.

    Attributes:
        shards, samples, items, texts, images: How many there are of each; samples of one item share what they are about.
        regions: How many there are, in all samples. without_regions: Samples in whose picture the detector found nothing, which
            is no fault. Both are 0 where arrays are not decoded.
        languages, roles: Texts by language and by role.
        fields: Samples by the extensions of their declared members. unmatched: Undeclared members by extension.
        blank_texts: Texts without content in samples that have others; they are left out of reading.
        unknown_languages: Texts by language, of languages that the tokenizer does not know.
        shared_keys: Keys that stand in several shards. shared_items: Items of several samples. Both may be meant.
        faults: Each sample that cannot be used, each broken place of a tar, each shard unlike its `index.json`.
    """

    shards: int = 0
    samples: int = 0
    items: int = 0
    texts: int = 0
    images: int = 0
    regions: int = 0
    without_regions: int = 0
    languages: dict[str, int] = field(default_factory=dict)
    roles: dict[str, int] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)
    unmatched: dict[str, int] = field(default_factory=dict)
    blank_texts: int = 0
    unknown_languages: dict[str, int] = field(default_factory=dict)
    shared_keys: int = 0
    shared_items: int = 0
    faults: list[Fault] = field(default_factory=list)

    @property
    def fit(self) -> bool:
        """There are samples, and no faults."""
        return bool(self.samples) and not self.faults

    @property
    def kinds(self) -> dict[str, int]:
        """Faults by kind."""
        return dict(Counter(fault.kind for fault in self.faults).most_common())

    def to_json(self) -> dict[str, Any]:
        """All of it in plain containers."""
        return {"fit": self.fit, "kinds": self.kinds} | asdict(self) | {"faults": [f._asdict() for f in self.faults]}


def check_shards(
    paths: Sequence[str] | str,
    fields: FieldMap | None = None,
    decode: bool = True,
    index_folder: str | Path | None = None,
    tokenizer: Tokenizer | None = None,
    cache: Cache | None = None,
) -> Report:
    """Look at every sample of some shards.

    Args:
        paths: As of `ShardSet`.
        fields: What their members are.
        decode: Decode all pictures and arrays; without, only the tars and the texts are checked.
        index_folder: As of `ShardSet`.
        tokenizer: Samples whose texts are all in languages that it does not know are faults.
        cache: As of `ShardSet`.

    Raises:
        FileNotFoundError: There are no such shards.
    """
    shards = ShardSet(paths, fields, index_folder, cache)
    table = shards.texts
    _, counts = np.unique(shards.items, return_counts=True)
    languages = _count(table.language, shards.languages)
    report = Report(
        shards=len(shards.shards),
        samples=len(shards),
        items=len(counts),
        texts=len(table.language),
        images=int(shards.has_image.sum()),
        languages=languages,
        roles=_count(table.role, shards.roles),
        fields=dict(shards.fields.most_common()),
        unmatched={extension or "(no extension)": count for extension, count in shards.unmatched.most_common()},
        blank_texts=shards.blank,
        unknown_languages={code: count for code, count in languages.items() if tokenizer and code not in tokenizer.languages},
        shared_items=int((counts > 1).sum()),
        faults=[*shards.faults, *compare_checksums(shards)],
    )
    keys: Counter[str] = Counter()
    for number in track(range(len(shards)), "reading samples"):
        keys[shards.find(number)[1]] += 1
        fault, regions = _look_at(shards, number, decode, tokenizer)
        if fault is not None:
            report.faults.append(fault)
        elif regions is not None:
            report.regions += regions
            report.without_regions += not regions
    report.shared_keys = sum(count > 1 for count in keys.values())
    return report


def _count(column: np.ndarray, words: Sequence[str]) -> dict[str, int]:
    counts = np.bincount(column, minlength=len(words)).tolist()
    return dict(Counter(dict(zip(words, counts, strict=True))).most_common())


def find_fault(shards: ShardSet, number: int, decode: bool = True, tokenizer: Tokenizer | None = None) -> Fault | None:
    """What is wrong with a sample that the index has not found wrong, if anything is.

    Args:
        shards: Where it is.
        number: Of the sample.
        decode: Also decode its picture and arrays.
        tokenizer: As of `check_shards`.
    """
    return _look_at(shards, number, decode, tokenizer)[0]


def _look_at(shards: ShardSet, number: int, decode: bool, tokenizer: Tokenizer | None) -> tuple[Fault | None, int | None]:
    """What is wrong with a sample, and how many regions it has (None: it has no file of them)."""
    from ...modalities.image import BadImageError

    try:
        sample = shards.read(number, image=decode)
        if tokenizer and sample.texts and not any(text.language in tokenizer.languages for text in sample.texts):
            found = ", ".join(sorted({text.language for text in sample.texts}))
            raise BadSampleError("unknown language", f"all texts are in {found}, which the tokenizer does not know")
        return None, _decode(sample) if decode else None
    except (BadSampleError, BadImageError) as error:
        return Fault(error.kind, *shards.find(number), error.detail), None


def _decode(sample: Sample) -> int | None:
    """Decode all of a sample that must be decoded; how many regions it has."""
    from ...modalities.image import decode_image
    from ..region_files import parse_regions

    size, regions = None, None
    if sample.image is not None:
        height, width = decode_image(sample.image).shape[1:]
        size = width, height
    for extension, content in sample.members.items():
        if extension == REGIONS:
            regions = len(parse_regions(content, size).boxes)
        elif extension.endswith(("npz", "npy")):
            _check_arrays(extension, content)
    return regions


def _check_arrays(extension: str, content: bytes) -> None:
    try:
        load_arrays(content)
    except BadSampleError as error:
        raise BadSampleError(error.kind, f"{extension}: {error.detail}") from None


def compare_checksums(shards: ShardSet) -> list[Fault]:
    """Shards that are not as the `index.json` beside them says."""
    faults = []
    written: dict[Path, dict[str, str]] = {}
    for shard in track(shards.shards, "comparing checksums"):
        folder = shard.path.parent
        if folder not in written:
            listed = folder / "index.json"
            written[folder] = read_summary(listed) if listed.exists() else {}
        expected = written[folder].get(shard.path.name)
        if expected and checksum(shard.path) != expected:
            detail = "the tar is not the one that index.json describes; copy or write the folder anew"
            faults.append(Fault("checksum", shard.path.name, "", detail))
    return faults


def format_report(report: Report, longest: int = 20) -> str:
    """The report for people.

    Args:
        report: What was found.
        longest: Faults that are written out one by one; more are only counted.
    """
    lines = [
        f"{name:<16}{value:>10,}"
        for name, value in (
            ("shards", report.shards),
            ("samples", report.samples),
            ("items", report.items),
            ("pictures", report.images),
            ("texts", report.texts),
        )
    ]
    for title, counts in (
        ("languages", report.languages),
        ("roles", report.roles),
        ("members", report.fields),
        ("undeclared members (not read)", report.unmatched),
        ("texts in languages that the tokenizer does not know", report.unknown_languages),
    ):
        if counts:
            lines += [f"{title}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items())]
    for title, count in (
        ("regions", report.regions),
        ("pictures in which no region was found", report.without_regions),
        ("blank texts, left out", report.blank_texts),
        ("keys in several shards", report.shared_keys),
        ("items of several samples", report.shared_items),
    ):
        if count:
            lines.append(f"{title}: {count:,}")
    if not report.samples:
        lines.append("NOT FIT: there is no sample to read")
    elif report.fit:
        lines.append("fit: no faults")
    else:
        lines.append("NOT FIT: " + count_kinds(report.faults))
    return "\n".join(lines + list_faults(report.faults, longest))


def count_kinds(faults: Sequence[Fault]) -> str:
    """How many faults there are of each kind, in words."""
    return ", ".join(f"{kind} {count:,}" for kind, count in Counter(fault.kind for fault in faults).most_common())


def list_faults(faults: Sequence[Fault], longest: int = 20) -> list[str]:
    """Lines that name faults: all kinds before further ones of a kind, at most `longest`, in the order of the shards."""
    rank: Counter[str] = Counter()
    ranks = []
    for fault in faults:
        ranks.append(rank[fault.kind])
        rank[fault.kind] += 1
    chosen = sorted(sorted(range(len(faults)), key=ranks.__getitem__)[:longest])
    lines = [f"  {f.shard} {f.key or '(no sample)'}: {f.kind}: {f.detail}" for f in (faults[number] for number in chosen)]
    return lines + [f"  and {len(faults) - longest:,} more (--json lists all)"] * (len(faults) > longest)
