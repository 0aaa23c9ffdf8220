"""Shards to the same shards with word alignments between translations, learnt from their own texts."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from ..align.bitext import Bitext, number_types
from ..align.model import align, train
from ..align.words import split_words
from ..sample import Alignment, Sample
from .cache import Cache
from .fields import MEMBERS, FieldMap
from .progress import track
from .reader import ShardSet
from .writer import ShardWriter

BLOCK = 4096
"""Samples whose texts are cut into words at a time."""
LONGEST = 400
"""Words of the longest text that is aligned: the work grows by the product of both lengths, and such are no sentences."""


class Aligned(NamedTuple):
    """What `align_shards` did for one pair of languages."""

    languages: tuple[str, str]
    pairs: int
    """Pairs of texts that were aligned."""
    links: int
    linked: float
    """Share of the words of both sides that have a link."""


class _Place(NamedTuple):
    """Two texts that translate each other."""

    sample: int
    text: int
    translation: int


def align_shards(
    paths: Sequence[str] | str,
    folder: str | Path,
    languages: Sequence[str],
    method: str,
    force: bool = False,
    cache: Cache | None = None,
) -> tuple[list[Aligned], Counter[str]]:
    """Write a copy of shards with word alignments between the texts of some languages.

    Shards and samples keep their names and keys, texts their order, alignments of other texts stay. Which texts translate
    each other: see `pair_texts`. Everything is learnt from these texts alone; some 50 bytes for each pair of words that stand
    in one pair of texts are held in memory (measured: 1.2 GB for 45,000 pairs of sentences).

    Args:
        paths: Shards in our own layout.
        folder: Where the copy goes; must be empty.
        languages: Two or more codes; the first is aligned with each of the others.
        method: See `align.symmetrize`.
        force: Replace shards that are in the folder.
        cache: As of `ShardSet`.

    Returns:
        What was done for each pair of languages; and what was left out, counted by kind.

    Raises:
        FileExistsError: The folder is not empty.
        ValueError: A language is in no text, no two texts can be paired, two shards have one name, or the folder is theirs.
    """
    with TemporaryDirectory(prefix="interlingua-align-") as working:
        shards = ShardSet(paths, FieldMap(members=(*MEMBERS, "json")), working, cache)
        _check(shards, languages, Path(folder))
        skipped = Counter(f"sample with a fault: {fault.kind}" for fault in shards.faults)
        skipped.update({f"member that nothing declares: {extension}": count for extension, count in shards.unmatched.items()})
        with ShardWriter(folder, samples_per_shard=2**40, force=force) as writer:  # before hours of work: it may be refused
            found: dict[int, list[Alignment]] = defaultdict(list)
            done = [_align_languages(shards, (languages[0], other), method, found, skipped) for other in languages[1:]]
            _copy(shards, writer, found)
    return done, skipped


def _check(shards: ShardSet, languages: Sequence[str], folder: Path) -> None:
    """Refuse at once what could only fail after all was learnt."""
    if missing := [code for code in languages if code not in shards.languages]:
        bad = f" ({len(shards.faults):,} faults: `interlingua shards check` lists them)" if shards.faults else ""
        raise ValueError(f"--languages: no text is in {', '.join(missing)}; found {', '.join(shards.languages) or 'none'}{bad}")
    paths = [Path(shard.path) for shard in shards.shards]
    if any(path.resolve().parent == folder.resolve() for path in paths):
        raise ValueError(f"{folder}: the shards to align are in this folder; name another for the copy")
    twice = [name for name, count in Counter(path.name for path in paths).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]}: several shards have this name, and copies keep it; align one folder at a time")


def pair_texts(sample: Sample, languages: tuple[str, str]) -> list[tuple[int, int]] | None:
    """Numbers of the texts of a sample that translate each other: those of one role, one in each language.

    In documents there may be more, as many in each language: then sentence n translates sentence n. Several captions of one
    picture are not paired, since people who describe a picture do not translate each other.

    Returns:
        None where both languages are there and it cannot be told which text translates which.
    """
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, caption in enumerate(sample.texts):
        if caption.language in languages:
            places[caption.role][caption.language].append(number)
    found = []
    for texts in places.values():
        left, right = (texts.get(language, []) for language in languages)
        if left and right:
            if len(left) != len(right) or (len(left) > 1 and not sample.document):
                return None
            found += zip(left, right, strict=True)
    return found


def _align_languages(
    shards: ShardSet, languages: tuple[str, str], method: str, found: dict[int, list[Alignment]], skipped: Counter[str]
) -> Aligned:
    """Learn and link; alignments are added to `found`, by sample."""
    names = " and ".join(languages)
    places: list[_Place] = []
    words: tuple[list[list[str]], list[list[str]]] = ([], [])
    numbers = np.intersect1d(*(shards.select([language]) for language in languages)).tolist()
    for first in track(range(0, len(numbers), BLOCK), f"reading {names}"):
        texts: tuple[list[str], list[str]] = ([], [])
        block: list[_Place] = []
        for number in numbers[first : first + BLOCK]:
            sample = shards.read(number, image=False)
            pairs = pair_texts(sample, languages)
            skipped[f"sample with several texts in {names}, not told which translates which"] += pairs is None
            for text, translation in pairs or ():
                block.append(_Place(number, text, translation))
                texts[0].append(sample.texts[text].text)
                texts[1].append(sample.texts[translation].text)
        for place, *pair in zip(block, *map(split_words, texts), strict=True):
            if max(map(len, pair)) > LONGEST:
                skipped[f"pair of texts in {names} of more than {LONGEST} words"] += 1
                continue
            places.append(place)
            for half, own in zip(words, pair, strict=True):
                half.append(own)
    if not places:
        raise ValueError(f"no sample has one text in each of {names} with the same role, or is a document with as many in each")
    bitext = Bitext(number_types(words[0]), number_types(words[1]))
    linked, count = [0, 0], 0
    for place, links in zip(places, align(bitext, train(bitext, watch=track), method, track), strict=True):
        count += len(links)
        for side in (0, 1):
            linked[side] += len({pair[side] for pair in links})
        if links:
            found[place.sample].append(Alignment(place.text, place.translation, tuple(links)))
    return Aligned(languages, len(places), count, sum(linked) / max(1, len(bitext.source.types) + len(bitext.target.types)))


def _copy(shards: ShardSet, writer: ShardWriter, found: dict[int, list[Alignment]]) -> None:
    """Write all samples, with what was found."""
    shard = ""
    for number in track(range(len(shards)), "writing samples"):
        sample = shards.read(number)
        if sample.shard != shard:
            shard = sample.shard
            writer.begin(shard)
        members = dict(sample.members)
        record = json.loads(members.pop("json", b"{}"))
        new = found.get(number, [])
        again = {frozenset(alignment[:2]) for alignment in new}
        kept = [alignment for alignment in sample.alignments if frozenset(alignment[:2]) not in again]
        extra = {name: value for name, value in record.items() if name not in ("item", "texts", "document", "alignments")}
        writer.write(
            sample.key,
            sample.texts,
            record.get("item"),
            sample.image,
            members,
            document=sample.document,
            alignments=[*kept, *new],
            **extra,
        )
