"""What a kind of vocabulary must do for `Tokenizer`."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int64

from ..vocabulary import Vocabulary
from ..words import WordFinder

ORDINARY = "x"
"""Stands for control tokens and the unknown one where words are found: like any letter."""


class Cut(NamedTuple):
    """Texts as pieces, one text after the other, without control tokens."""

    ids: Int64[np.ndarray, "T"]
    """Vocabulary ids of all pieces."""
    counts: Int64[np.ndarray, "N"]
    """Pieces of each text."""
    opens: Bool[np.ndarray, "T"] | None = None
    """True where a piece follows a space, as the text had it; None where the pieces themselves tell."""


@runtime_checkable
class Cutter(Protocol):
    """Cuts texts into pieces, and puts them together.

    Attributes:
        vocabulary: Size and control ids.
        normalization: What is done to texts before they are cut, for people; changed whenever any text would be cut otherwise.
        keeps_spaces: Whether the pieces tell where spaces stood, so that `decode` can put them back.
        byte_pieces: bool `[size]`: the pieces that stand for one byte of a character that the vocabulary lacks.
        find_words: Numbers the words that pieces belong to.
    """

    vocabulary: Vocabulary
    normalization: str
    keeps_spaces: bool
    byte_pieces: np.ndarray
    find_words: WordFinder

    def normalize(self, text: str, language: str | None) -> str:
        """Text as it is read, spaces where they stood."""

    def cut(self, texts: Sequence[str], languages: Sequence[str] | None) -> Cut:
        """Normalise texts and cut them into pieces."""

    def pieces(self, ids: list[int]) -> list[str]:
        """Pieces as the vocabulary writes them; the ids are in it."""

    def has_piece(self, piece: str) -> bool:
        """Whether a string is a piece, wherever in a word."""

    def decode(self, ids: list[int]) -> str:
        """Text of pieces; no control token is among the ids, but for the unknown one."""


def flatten(rows: Iterable[Sequence[int]], counts: Int64[np.ndarray, "N"]) -> Int64[np.ndarray, "T"]:
    """Rows one after the other.

    Args:
        rows: Lists of integers.
        counts: How long each is.
    """
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(counts.sum()))


def find_openings(places: Int64[np.ndarray, "T"], counts: Int64[np.ndarray, "N"]) -> Bool[np.ndarray, "T"]:
    """Which pieces follow a space.

    Args:
        places: Which of its text's parts between spaces each piece is of.
        counts: Pieces of each text.
    """
    opens = np.ones(len(places), dtype=bool)
    opens[1:] = np.diff(places) != 0
    opens[(np.cumsum(counts) - counts)[counts > 0]] = True
    return opens
