"""What is in shards, in numbers: lengths, languages, roles, picture sizes, duplicates. The page: `stats_page.py`."""

import hashlib
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...modalities.batch import Fault
from ...modalities.tokenizer import Tokenizer
from ..sample import BadSampleError
from .cache import Cache
from .fields import REGIONS, FieldMap
from .progress import track
from .reader import ShardSet

QUANTILES = {"least": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "99 %": 0.99, "most": 1.0}
_ORIENTATION, _ON_ITS_SIDE = 0x0112, (5, 6, 7, 8)
"""The EXIF tag, and its values for pictures that are shown with rows and columns swapped."""


Number = int | float


@dataclass
class Repeated:
    """Texts that stand more than once, or pictures that do, byte for byte.

    Attributes:
        distinct: How many different ones there are. extra: How many are left out if each is kept once.
        most: Of texts: the most frequent, as language, text and count.
    """

    distinct: int = 0
    extra: int = 0
    most: list[tuple[str, str, int]] = field(default_factory=list)


@dataclass
class Stats:
    """What `measure` found.

    Attributes:
        paths: What was measured.
        shards, samples, items, texts, pictures: How many there are of each.
        with_regions: Samples that have a file of regions; `check_shards` counts what is in them.
        languages, roles: Texts by language and by role.
        bytes, tokens: Quantiles of texts' lengths by language, all languages under `""`. tokens: start and end token
            included, and only where a tokenizer was given.
        texts_per_sample, languages_per_sample: Samples by how many they have.
        pictures_read: Pictures that sizes, formats, and equal pictures are counted over.
        formats: Pictures by format. side, pixels, stored: Quantiles of the shorter side in pixels, of the number of pixels,
            and of the bytes stored.
        equal_texts: Equal in language and characters. equal_pictures: Among those read.
        kinds: Faults that the index found, by kind. faults: Pictures whose header cannot be read.
        lengths, token_lengths, sizes: What plots are drawn of: per text, and per picture that was read (width, height).
    """

    paths: str
    shards: int
    samples: int
    items: int
    texts: int
    pictures: int
    languages: dict[str, int]
    roles: dict[str, int]
    bytes: dict[str, dict[str, Number]]
    tokens: dict[str, dict[str, Number]]
    texts_per_sample: dict[int, int]
    languages_per_sample: dict[int, int]
    kinds: dict[str, int]
    lengths: np.ndarray
    token_lengths: np.ndarray | None
    with_regions: int = 0
    pictures_read: int = 0
    formats: dict[str, int] = field(default_factory=dict)
    side: dict[str, Number] = field(default_factory=dict)
    pixels: dict[str, Number] = field(default_factory=dict)
    stored: dict[str, Number] = field(default_factory=dict)
    equal_texts: Repeated = field(default_factory=Repeated)
    equal_pictures: Repeated = field(default_factory=Repeated)
    faults: list[Fault] = field(default_factory=list)
    sizes: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    def to_json(self) -> dict[str, Any]:
        """All numbers in plain containers; not what plots are drawn of."""
        arrays = {"lengths", "token_lengths", "sizes"}
        numbers = {name: value for name, value in vars(self).items() if name not in arrays}
        repeated = {name: asdict(numbers[name]) for name in ("equal_texts", "equal_pictures")}
        return numbers | repeated | {"faults": [fault._asdict() for fault in self.faults]}


def measure(
    paths: Sequence[str] | str,
    fields: FieldMap | None = None,
    index_folder: str | Path | None = None,
    tokenizer: Tokenizer | None = None,
    pictures: int = 20_000,
    cache: Cache | None = None,
) -> Stats:
    """Measure some shards: lengths and languages off their indexes, equal texts by reading all, pictures by their headers.

    Args:
        paths: As of `ShardSet`.
        fields: What their members are.
        index_folder: As of `ShardSet`.
        tokenizer: Counts tokens too; None: bytes alone.
        pictures: Pictures that are looked at, evenly spread where there are more.
        cache: As of `ShardSet`.

    Raises:
        FileNotFoundError: There are no such shards.
        ValueError: No sample can be read, or token lengths are there by another tokenizer.
    """
    shards = ShardSet(paths, fields, index_folder, cache)
    if not len(shards):
        named = paths if isinstance(paths, str) else " ".join(map(str, paths))
        raise ValueError(f"{named}: there is no sample to read; `interlingua shards check` says why")
    table = shards.texts
    tokens = None
    if tokenizer is not None:
        from .lengths import find_lengths

        tokens = find_lengths(shards, tokenizer)
    stats = Stats(
        paths=paths if isinstance(paths, str) else " ".join(map(str, paths)),
        shards=len(shards.shards),
        samples=len(shards),
        items=len(np.unique(shards.items)),
        texts=len(table.language),
        pictures=int(shards.has_image.sum()),
        with_regions=int(shards.has(REGIONS).sum()),
        languages=_by_name(table.language, shards.languages),
        roles=_by_name(table.role, shards.roles),
        bytes=_by_language(table.size, table.language, shards.languages),
        tokens={} if tokens is None else _by_language(tokens, table.language, shards.languages),
        texts_per_sample=_histogram(np.diff(table.start)),
        languages_per_sample=_histogram(_count_languages(table.start, table.language)),
        kinds=dict(Counter(fault.kind for fault in shards.faults).most_common()),
        lengths=table.size,
        token_lengths=tokens,
    )
    _read_all(shards, stats, pictures)
    return stats


def _by_name(column: np.ndarray, words: Sequence[str]) -> dict[str, int]:
    counts = np.bincount(column, minlength=len(words)).tolist()
    return dict(Counter(dict(zip(words, counts, strict=True))).most_common())


def _by_language(lengths: np.ndarray, language: np.ndarray, languages: Sequence[str]) -> dict[str, dict[str, Number]]:
    order = np.argsort(language, kind="stable")
    parts = np.split(lengths[order], np.cumsum(np.bincount(language, minlength=len(languages)))[:-1])
    # Of no languages there is one part, empty.
    return {"": quantiles(lengths)} | {code: quantiles(part) for code, part in zip(languages, parts, strict=False)}


def quantiles(values: np.ndarray) -> dict[str, Number]:
    """Quantiles, mean and sum by name; {} of nothing."""
    if not len(values):
        return {}
    found = np.quantile(values, list(QUANTILES.values()), method="inverted_cdf").tolist()
    return dict(zip(QUANTILES, found, strict=True)) | {"mean": float(values.mean()), "sum": int(values.sum())}


def _histogram(values: np.ndarray) -> dict[int, int]:
    found, counts = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _count_languages(start: np.ndarray, language: np.ndarray) -> np.ndarray:
    """Different languages of each sample."""
    sample = np.repeat(np.arange(len(start) - 1), np.diff(start))
    pairs = np.unique(sample * 2**16 + language)
    return np.bincount(pairs // 2**16, minlength=len(start) - 1)


def _read_all(shards: ShardSet, stats: Stats, pictures: int) -> None:
    """Hash all texts, and look at some pictures."""
    with_image = np.flatnonzero(shards.has_image)
    places = np.linspace(0, len(with_image) - 1, min(pictures, len(with_image))).round().astype(int)
    looked_at = set(with_image[places].tolist())
    hashes: list[int] = []
    samples: list[int] = []
    images: list[tuple[int, int, int, int]] = []  # width, height, bytes, hash
    formats: Counter[str] = Counter()
    for number in track(range(len(shards)), "reading samples"):
        try:
            sample = shards.read(number, image=number in looked_at, members=())
            hashes += [_hash(f"{text.language}\0{text.text}".encode()) for text in sample.texts]
            samples += [number] * len(sample.texts)
            if sample.image is not None:
                form, width, height = read_header(sample.image)
                formats[form] += 1
                images.append((width, height, len(sample.image), _hash(sample.image)))
        except BadSampleError as error:
            stats.faults.append(Fault(error.kind, *shards.find(number), error.detail))
    measured = np.array(images, np.int64).reshape(-1, 4)
    stats.pictures_read, stats.formats, stats.sizes = len(images), dict(formats.most_common()), measured[:, :2]
    stats.side, stats.pixels = quantiles(stats.sizes.min(1, initial=2**62)), quantiles(stats.sizes.prod(1))
    stats.stored = quantiles(measured[:, 2])
    stats.equal_pictures = Repeated(distinct := len(np.unique(measured[:, 3])), len(measured) - distinct)
    stats.equal_texts = _find_equal(shards, np.array(hashes, np.int64), samples)


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little") >> 1


def _find_equal(shards: ShardSet, hashes: np.ndarray, samples: Sequence[int], most: int = 12) -> Repeated:
    """Texts of equal hash; the most frequent are read again, so that they can be shown."""
    distinct, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    shown: list[tuple[str, str, int]] = []
    for place in np.argsort(-counts, kind="stable")[:most].tolist():
        if counts[place] < 2:
            break
        texts = shards.read(samples[first[place]], image=False, members=()).texts
        same = (text for text in texts if _hash(f"{text.language}\0{text.text}".encode()) == distinct[place])
        shown += [(text.language, text.text, int(counts[place])) for text in list(same)[:1]]
    return Repeated(len(distinct), len(hashes) - len(distinct), shown)


def read_header(image: bytes) -> tuple[str, int, int]:
    """Format, width and height of a picture as it is shown, off its header.

    Raises:
        BadSampleError: It has no header that can be read.
    """
    from PIL import Image

    from ...modalities.image import FORMATS

    Image.init()
    try:
        with Image.open(io.BytesIO(image), formats=[form for form in FORMATS if form in Image.OPEN]) as opened:
            width, height = opened.size
            turned = opened.getexif().get(_ORIENTATION) in _ON_ITS_SIDE
            return opened.format or "", *((height, width) if turned else (width, height))
    except Exception as error:  # Pillow raises a dozen kinds
        raise BadSampleError("unreadable picture header", f"{len(image):,} bytes: {error}") from None


def format_stats(stats: Stats) -> str:
    """The main numbers, for people."""
    lines = [
        f"{stats.samples:,} samples of {stats.items:,} items in {stats.shards:,} shards",
        f"{stats.texts:,} texts in {len(stats.languages):,} languages, {stats.equal_texts.extra:,} of them repeat another",
    ]
    for name, found in (("bytes", stats.bytes.get("", {})), ("tokens", stats.tokens.get("", {}))):
        if found:
            words = ", ".join(f"{quantile} {found[quantile]:,}" for quantile in ("median", "95 %", "most"))
            lines.append(f"{name} a text: {words}; {found['sum']:,} in all")
    if stats.pictures:
        lines.append(f"{stats.pictures:,} pictures, {stats.pictures_read:,} looked at{_sizes(stats)}")
    if stats.with_regions:
        lines.append(f"{stats.with_regions:,} samples with regions")
    for title, kinds in (("found broken", stats.kinds), ("not read", Counter(fault.kind for fault in stats.faults))):
        if kinds:
            lines.append(f"{title}: " + ", ".join(f"{kind} {count:,}" for kind, count in kinds.items()))
    return "\n".join(lines)


def _sizes(stats: Stats) -> str:
    if not stats.side:
        return ""
    low, middle, high = (f"{stats.side[name]:,}" for name in ("5 %", "median", "95 %"))
    return f": shorter side {middle} pixels (5 % {low}, 95 % {high}), {', '.join(stats.formats)}"
