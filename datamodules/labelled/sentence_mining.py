"""Data of sentence mining out of BUCC's folders: all sentences of both sides, and which translate each other."""

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import combinations, count
from pathlib import Path

from lightning import LightningDataModule

from ...modalities.tokenizer import Tokenizer
from ..dealing import Batches, check_numbers
from ..faults import FaultTally
from ..steps import Reading
from .bucc import Bucc
from .examples import Comparable
from .sentence_batches import cut_sentences, take_languages

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuccSplit:
    """One split of a folder.

    Args:
        folder: Of files such as `de-en.dev.de`, `de-en.dev.en` and `de-en.dev.gold`.
        split: The middle of their names.
    """

    folder: str
    split: str


class BuccData(LightningDataModule):
    """Test batches of one split and two languages, one of them a batch: every sentence of both sides.

    `Batch.source` is SPLIT/LANGUAGE, such as `bucc/dev/de`: every language has pivot sentences of its own. `Batch.sample` is
    the number of a gold pair, or one that no other sentence has; a sentence of several pairs comes once for each.
    `Batch.item` is equal for texts that read alike.
    """

    def __init__(
        self,
        sources: dict[str, BuccSplit],
        tokenizer: str,
        pivot: str = "en",
        languages: list[str] | None = None,
        max_tokens: int = 128,
        batch_size: int = 128,
        workers: int = 2,
        start_method: str | None = None,
    ):
        """
        Args:
            sources: Folder and split, by the name under which results are given; at least that on which thresholds are tuned
                and another one.
            tokenizer: Tokenizer file.
            pivot: Language that all files have a side in.
            languages: Of the other side; None: all that the tokenizer knows.
            max_tokens: Longest text, start and end token included.
            batch_size: Rows of a batch; each process reads whole batches.
            workers: Processes that read ahead for each process.
            start_method: How they are started (`fork`, `spawn`, `forkserver`); None: the platform's own way.

        Raises:
            ValueError: A number is out of range, two sources are the same split, or the tokenizer does not know the pivot.
        """
        super().__init__()
        check_numbers(workers, max_tokens, batch_size, start_method)
        places = [(Path(one.folder).resolve(), one.split) for one in sources.values()]
        if len(set(places)) < len(places):
            raise ValueError(
                f"sources {', '.join(sources)} read the same split twice; what thresholds are tuned on must not be what is "
                "reported, so give each a folder and split of its own"
            )
        self.sources, self.tokenizer, self.pivot, self.languages = sources, Tokenizer(tokenizer), pivot, languages
        self.tokenizer.language_id(pivot)
        self.max_tokens, self.batch_size, self.workers, self.start_method = max_tokens, batch_size, workers, start_method
        self.parts: list[partial[Reading]] = []
        self.found: dict[str, Comparable] = {}

    def setup(self, stage: str) -> None:
        """Read the folders and list all batches.

        Raises:
            ValueError: Files are missing or are not what they should be, gold pairs among them; a language is not in every
                source, or two sources have the same gold pairs.
        """
        if self.parts:
            return
        found = {name: self._read(name, split) for name, split in self.sources.items()}
        for name, languages in found.items():
            lacking = sorted({code for others in found.values() for code in others} - languages.keys())
            if lacking:
                raise ValueError(
                    f"source {name!r} has no {', '.join(lacking)}, which another source has; thresholds are tuned for each "
                    f"language apart, so add its files, or set `languages` to those in all (here: {', '.join(languages)})"
                )
        for one, other in combinations(found, 2):
            self._compare(one, found[one], other, found[other])
        self.found = {f"{name}/{code}": one for name, own in found.items() for code, one in own.items()}
        self.parts = [part for name, own in found.items() for code in own for part in self._list(f"{name}/{code}", own[code])]

    def _read(self, name: str, split: BuccSplit) -> dict[str, Comparable]:
        """What a source has by language."""
        first, folder, reader = self.trainer.global_rank == 0, Path(split.folder), Bucc(split.split, self.pivot)
        try:
            found = {one.language: one for one in reader.read(folder, None, None if first else Counter())}
        except ValueError as error:
            raise ValueError(f"source {name!r}: {error}") from None
        taken, unknown = take_languages(sorted(found), self.languages, self.tokenizer, name)
        if unknown and first:
            log.warning("source %s: left out, as they are none of the tokenizer's languages: %s", name, ", ".join(unknown))
        for code in taken:
            if not found[code].pairs:
                what = "is missing" if found[code].pairs is None else "names no pair"
                raise ValueError(
                    f"source {name!r}: {folder / f'{code}-{self.pivot}.{split.split}.gold'} {what}, so that nothing can be "
                    "scored; add it, or leave the language out by `languages`"
                )
        return {code: found[code] for code in taken}

    def _compare(self, one: str, ours: dict[str, Comparable], other: str, theirs: dict[str, Comparable]) -> None:
        """Refuse what would be tuned on and reported, under whatever keys and names; say so where it is a part."""
        for code, found in ours.items():
            left, right = gold_texts(found), gold_texts(theirs[code])
            shared = len(left & right)
            if shared == min(len(left), len(right)):
                raise ValueError(
                    f"sources {one!r} and {other!r} have the same gold pairs in {code} ({shared}); what thresholds are tuned "
                    "on must not be what is reported: give each the files of its own split"
                )
            if shared and self.trainer.global_rank == 0:
                log.warning(
                    "sources %s and %s share %d gold pairs in %s, of %d and %d: what is reported was in part tuned on",
                    *(one, other, shared, code, len(left), len(right)),
                )

    def _list(self, source: str, found: Comparable) -> list[partial[Reading]]:
        cut = partial(cut_sentences, tokenizer=self.tokenizer, max_tokens=self.max_tokens, batch_size=self.batch_size)
        left, right = number_texts(found)
        return cut(source, found.language, left) + cut(source, found.pivot, right)

    def read_texts(self, source: str, language: str) -> dict[int, tuple[str, str]]:
        """Key and text of every sentence of a side, by `Batch.sample`.

        Args:
            source: SPLIT/LANGUAGE, as in `Batch.source`.
            language: Of the side.
        """
        found = self.found[source]
        side = 0 if language == found.language else 1
        texts = (found.texts, found.translations)[side]
        return {number: (key, texts[key]) for number, key in number_keys(found)[side]}

    def test_dataloader(self) -> Batches:
        """All batches of this process: as many as each other has, perhaps with an empty one at the end."""
        return Batches(self.parts, self.trainer, self.workers, self.start_method, FaultTally("evaluation", 1.0))


def gold_texts(found: Comparable) -> set[tuple[str, str]]:
    """Both sentences of every gold pair."""
    return {(found.texts[left], found.translations[right]) for left, right in found.pairs or ()}


def number_texts(found: Comparable) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Number and text of every sentence of both sides (see `number_keys`)."""
    left, right = number_keys(found)
    return [(n, found.texts[key]) for n, key in left], [(n, found.translations[key]) for n, key in right]


def number_keys(found: Comparable) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Number and key of every sentence of both sides; a gold pair has the same number on both, all others have their own."""
    pairs = sorted(found.pairs or ())
    fresh = count(len(pairs))
    sides = []
    for place, texts in enumerate((found.texts, found.translations)):
        sides.append(list(_number(texts, [pair[place] for pair in pairs], fresh)))
    return sides[0], sides[1]


def _number(texts: dict[str, str], keys: list[str], fresh: Iterable[int]) -> Iterable[tuple[int, str]]:
    own: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        own.setdefault(key, []).append(number)
    numbers = iter(fresh)
    for key in texts:
        for number in own.get(key) or [next(numbers)]:
            yield number, key
