"""Which word a piece belongs to, for whole-word masking, in spaced and in unspaced scripts.

A word is what stands between spaces. Punctuation belongs to the word before it and closes it, so that words which only
punctuation keeps apart (lists, addresses, the Ethiopic word space) are words; apostrophe, hyphen and low line close nothing.
Some scripts put no spaces between words (Han, kana, Thai, Lao, Khmer, Burmese, Tibetan, Javanese and others listed here);
there, every piece is a word of its own, as unigram pieces are the nearest thing to words that holds for all of them. Where
the two kinds of script meet without a space, a new word starts. A character is never split: byte-fallback pieces of one
character share a word, and a piece that opens with a combining mark or a joiner belongs to the word before it. A piece that
is only a space belongs to the word after it.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Int8, Int64

SPACE = "\u2581"
"""How SentencePiece writes the space before a word."""

# Ranges of code points, first and last, written without spaces between words.
_UNSPACED = (
    (0x0E00, 0x0E7F),  # Thai
    (0x0E80, 0x0EFF),  # Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19FF),  # Tai Le, New Tai Lue, Khmer symbols
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x312F),  # Han radicals, ideographic punctuation, kana, bopomofo
    (0x31A0, 0x31FF),  # bopomofo and kana extensions, strokes
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0xA4CF),  # Han, Yi
    (0xA980, 0xA9FF),  # Javanese, Burmese extension B
    (0xAA60, 0xAADF),  # Burmese extension A, Tai Viet
    (0xF900, 0xFAFF),  # Han, compatibility
    (0x16FE0, 0x18DFF),  # Tangut, Khitan
    (0x1AFF0, 0x1B2FF),  # kana supplements, Nushu
    (0x20000, 0x3FFFF),  # Han, extensions B and later
)
_EDGES = [edge for first, last in _UNSPACED for edge in (first, last + 1)]


_ORDINARY, _UNSPACED_SCRIPT, _CLOSING, _ATTACHED = range(4)


def is_unspaced(character: str) -> bool:
    """True for a character of a script that puts no spaces between words."""
    return bisect_right(_EDGES, ord(character)) % 2 == 1


@lru_cache(1 << 16)
def _kind(character: str) -> int:
    """What a character does to the words around it, at the end of a piece."""
    if unicodedata.category(character).startswith("P") and character not in "'\u2019-\u2010\u2011_":
        return _CLOSING
    return _UNSPACED_SCRIPT if is_unspaced(character) else _ORDINARY


@lru_cache(1 << 16)
def _first_kind(character: str) -> int:
    """The same at the start of a piece, where a mark or a joiner cannot stand alone."""
    attached = character in "\u200c\u200d" or unicodedata.category(character).startswith("M")
    return _ATTACHED if attached else _kind(character)


class WordFinder:
    """Word indices of pieces, from tables over the vocabulary, so that a whole batch is one pass of arithmetic.

    Args:
        pieces: The vocabulary in order, as SentencePiece writes it; without the marks that other kinds of vocabulary put on
            pieces inside a word or at its end, since those do not tell a space.
        values: For each piece the byte that it stands for (0 to 255), -1 where it is no byte-fallback piece.
    """

    def __init__(self, pieces: Sequence[str], values: Sequence[int]):
        self.value = np.array(values, dtype=np.int64)
        self.opens = np.array([piece.startswith(SPACE) for piece in pieces])
        bodies = [chr(value) if value >= 0 else piece.lstrip(SPACE) for piece, value in zip(pieces, values, strict=True)]
        self.only_space = np.array([not body for body in bodies])
        self.first = np.array([_first_kind(body[0]) if body else _ORDINARY for body in bodies], dtype=np.int8)
        self.last = np.array([_kind(body[-1]) if body else _ORDINARY for body in bodies], dtype=np.int8)

    def __call__(
        self, ids: Int64[np.ndarray, "T"], counts: Int64[np.ndarray, "N"], opens: Bool[np.ndarray, "T"] | None = None
    ) -> Int64[np.ndarray, "T"]:
        """Number the words of each text from 0.

        Args:
            ids: Pieces of all texts, one text after the other, no control tokens.
            counts: How many pieces each text has.
            opens: True where a piece follows a space; None where the pieces themselves tell.
        """
        first, last, values = self.first[ids], self.last[ids], self.value[ids]
        if (values >= 0x80).any():
            _read_bytes(values, first, last)
        punctuation = (first == _CLOSING) & (last == _CLOSING)
        apart = (first == _UNSPACED_SCRIPT) | (first == _CLOSING)
        apart[1:] |= (last[:-1] == _UNSPACED_SCRIPT) | (last[:-1] == _CLOSING)
        starts = apart & ~punctuation & (first != _ATTACHED)
        starts[1:] &= ~self.only_space[ids[:-1]]
        starts |= self.opens[ids] if opens is None else opens
        begins = (np.cumsum(counts) - counts)[counts > 0]
        starts[begins] = True
        numbers = np.cumsum(starts)
        return numbers - np.repeat(numbers[begins], counts[counts > 0])


def _read_bytes(values: Int64[np.ndarray, "T"], first: Int8[np.ndarray, "T"], last: Int8[np.ndarray, "T"]) -> None:
    """Write the kinds of characters that are spelt by bytes into `first` and `last`."""
    first[(values >= 0x80) & (values < 0xC0)] = _ATTACHED
    for start in np.flatnonzero(values >= 0xC0).tolist():
        length = 2 + int(values[start] >= 0xE0) + int(values[start] >= 0xF0)
        character = bytes(values[start : start + length].clip(0).tolist()).decode("utf-8", "replace")[0]
        first[start] = _first_kind(character)
        last[start : start + length] = _kind(character)
