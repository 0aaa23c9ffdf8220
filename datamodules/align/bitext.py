"""Parallel text as numbers of word types, and all pairs of words that stand in one sentence pair."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

CHUNK_LINKS = 2**19
"""Pairs of words that are worked on at a time: the arrays of a chunk stay in the processor's cache."""


class Half(NamedTuple):
    """One language's sentences."""

    types: np.ndarray
    """int32: the type of each word, all sentences one after the other."""
    start: np.ndarray
    """int64 `[N + 1]`: where each sentence starts in `types`."""
    words: list[str]
    """The spelling of each type."""

    @property
    def counts(self) -> np.ndarray:
        """int64 `[N]`: words of each sentence."""
        return np.diff(self.start)


class Bitext(NamedTuple):
    """Sentences and their translations; a pair of which one is empty has no links."""

    source: Half
    target: Half


class Side(NamedTuple):
    """Links as one direction sees them: words of one side arise from words of the other."""

    word: np.ndarray
    """int `[K]`: which word of the part arises."""
    types: np.ndarray
    """int32 `[W]`: of the words that arise."""
    distance: np.ndarray
    """float64 `[K]`: how far apart the two words stand, as shares of their sentences, from 0 to below 1."""


class Links(NamedTuple):
    """All pairs of words of some neighbouring sentence pairs: those of a source word stand together."""

    source: np.ndarray
    """int32 `[K]`: source word, counted from the first of the chunk."""
    target: np.ndarray
    """int32 `[K]`: target word, likewise."""
    distance: np.ndarray
    """float `[K]`: how far apart the two stand, as shares of their sentences' lengths, from 0 to below 1."""
    source_types: np.ndarray
    """int32: type of each source word of the chunk."""
    target_types: np.ndarray
    """int32: likewise."""

    def sides(self) -> tuple[Side, Side]:
        """Where target words arise, and where source words do."""
        return Side(self.target, self.target_types, self.distance), Side(self.source, self.source_types, self.distance)


def fold(word: str) -> str:
    """A word as its type: without case and without punctuation around it, if it is not all punctuation."""
    folded = word.casefold()
    if folded.isalnum():
        return folded
    inner = [place for place, character in enumerate(folded) if unicodedata.category(character)[0] not in "PZ"]
    return folded[inner[0] : inner[-1] + 1] if inner else folded


def number_types(sentences: Sequence[Sequence[str]], known: Sequence[str] = ()) -> Half:
    """Words to types.

    Args:
        sentences: Their words.
        known: Spellings that keep their numbers; new ones come after them.
    """
    numbers = {word: number for number, word in enumerate(known)}
    folded: dict[str, int] = {}
    types = []
    for sentence in sentences:
        for word in sentence:
            number = folded.get(word)
            if number is None:
                number = folded[word] = numbers.setdefault(fold(word), len(numbers))
            types.append(number)
    start = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)])
    return Half(np.array(types, np.int32), start.astype(np.int64), list(numbers))


def chunk(bitext: Bitext, links: int = CHUNK_LINKS) -> Iterator[tuple[int, int]]:
    """First and last sentence pair (behind it) of parts with about this many links."""
    sizes = np.cumsum(bitext.source.counts * bitext.target.counts)
    first = 0
    while first < len(sizes):
        before = sizes[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(sizes, before + links, side="right")))
        yield first, last
        first = last


def link(bitext: Bitext, first: int, last: int) -> Links:
    """All pairs of words of the sentence pairs `first` to `last` - 1."""
    (types, starts, _), (target_types, target_starts, _) = bitext
    source_start, target_start = starts[first : last + 1], target_starts[first : last + 1]
    lengths, widths = np.diff(source_start), np.diff(target_start)
    width = np.repeat(widths, lengths)  # of each source word: words of its sentence's translation
    ends = np.cumsum(width)
    source = np.repeat(np.arange(len(width), dtype=np.int32), width)
    shift = np.repeat(target_start[:-1] - target_start[0], lengths) - (ends - width)
    target = np.arange(len(source), dtype=np.int32) + np.repeat(shift.astype(np.int32), width)
    distance = np.abs(_centres(lengths)[source] - _centres(widths)[target])
    return Links(
        source, target, distance, types[source_start[0] : source_start[-1]], target_types[target_start[0] : target_start[-1]]
    )


def _centres(lengths: np.ndarray) -> np.ndarray:
    """Where each word stands in its sentence, from 0 to 1."""
    start = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return (np.arange(len(start)) - start + 0.5) / np.repeat(lengths, lengths)
