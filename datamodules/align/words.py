"""Words of a text as alignments count them: without a tokenizer.

They are the words of `modalities/words.py`, after normalisation, where each character of an unspaced script (Han, kana,
Thai, ...) is a word of its own. In training `Text.word` counts pieces there; `alignments.collate_alignment` carries pairs
over from one to the other.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...modalities.normalization import normalize
from ...modalities.words import SPACE, WordFinder

_OPENS = 1 << 21
"""Above all code points: marks a character that follows a space."""


class Words(NamedTuple):
    """Words of many texts, one text after the other, without spaces."""

    characters: str
    """All texts after normalisation, their spaces left out."""
    number: np.ndarray
    """int64: the word of its text that each character belongs to, from 0."""
    counts: np.ndarray
    """int64: characters of each text."""

    def split(self) -> list[list[str]]:
        """The words of each text."""
        edges = np.cumsum(self.counts)
        begins = np.concatenate([[True], np.diff(self.number) != 0]) if len(self.number) else np.zeros(0, bool)
        begins[(edges - self.counts)[self.counts > 0]] = True
        starts = np.flatnonzero(begins)
        ends = np.append(starts, len(self.number))[1:]
        words = [self.characters[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        cuts = [0, *np.searchsorted(starts, edges).tolist()]
        return [words[cuts[text] : cuts[text + 1]] for text in range(len(self.counts))]


class _Characters:
    """Finds words of characters, each a piece; what it has seen once it need not look at again."""

    def __init__(self) -> None:
        self.ids = {_OPENS + ord("a"): 0}
        self.finder = WordFinder([SPACE + "a"], [-1])

    def number(self, keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Words of texts, one text after the other.

        Args:
            keys: Code point of each character, `_OPENS` added where it follows a space.
            counts: Characters of each text.
        """
        if not len(keys):
            return np.zeros(0, np.int64)
        distinct, inverse = np.unique(keys, return_inverse=True)
        if new := [key for key in distinct.tolist() if key not in self.ids]:
            self._learn(new)
        ids = np.array([self.ids[key] for key in distinct.tolist()], np.int64)
        return self.finder(ids[inverse], counts)

    def _learn(self, keys: list[int]) -> None:
        self.ids.update({key: len(self.ids) + place for place, key in enumerate(keys)})
        more = WordFinder([SPACE * (key >= _OPENS) + chr(key % _OPENS) for key in keys], [-1] * len(keys))
        for table, values in vars(more).items():
            setattr(self.finder, table, np.concatenate([getattr(self.finder, table), values]))


_CHARACTERS = _Characters()


def find_words(texts: Sequence[str]) -> Words:
    """Number the words of texts as alignments count them: no tokenizer is needed."""
    normal = [normalize(text) for text in texts]
    whole = "".join(f" {text}" for text in normal)
    codes = np.frombuffer(whole.encode("utf-32-le"), np.uint32).astype(np.int64)
    inside = codes != ord(" ")
    opens = np.zeros(len(codes), bool)
    opens[1:] = ~inside[:-1]
    counts = np.array([len(text) - text.count(" ") for text in normal], np.int64)
    number = _CHARACTERS.number((codes + opens * _OPENS)[inside], counts)
    return Words(whole.replace(" ", ""), number, counts)


def split_words(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text, in the order in which alignments number them, with their punctuation."""
    return find_words(texts).split()
