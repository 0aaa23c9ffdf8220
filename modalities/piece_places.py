"""Where pieces stand in a text as people wrote it, so that what is found among pieces can be shown in the text's own words.

Tokenizers change what they read (`ﬁ` becomes `fi`, `e` and an accent one letter), and not all say where their pieces stand;
where they do, places overlap or point into what they made of the text (tokenizers#1775). So a text is cut at its white space,
each part is tokenised by itself, and a part's pieces are laid over it: what they spell must be what the tokenizer makes of the
part, and a character with its marks must be made into as many characters by itself as in the part. A part of which that does
not hold (XLM rewrites some punctuation) is the place of each of its pieces.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from .tokenizer import Tokenizer

_PART = re.compile(r"\S+")
_ATTACHED = frozenset("\u200c\u200d\uff9e\uff9f")
"""Joiners, and the voice marks of narrow kana; combining marks and the vowels and finals of Hangul are known by their kind."""
_INSIDE = "##"
_MOST = 1 << 16

Place = tuple[int, int]
"""First character, and one past the last."""


class PlacedPieces(NamedTuple):
    """Pieces of a text with their places, without control tokens."""

    ids: Int64[np.ndarray, "T"]
    words: Int64[np.ndarray, "T"]
    """Word of the text that each piece belongs to, from 0 (see `words`)."""
    starts: Int64[np.ndarray, "T"]
    """First character of each in the text, in code points; ascending, though pieces may share characters."""
    stops: Int64[np.ndarray, "T"]
    """One past its last character."""

    def find(self, start: int, stop: int) -> tuple[int, int] | None:
        """First and last piece that hold a stretch of characters; None where none does.

        Args:
            start: First character.
            stop: One past the last.
        """
        held = np.flatnonzero((self.stops > start) & (self.starts < stop))
        return (int(held[0]), int(held[-1])) if len(held) else None


class PiecePlacer:
    """Cuts texts into pieces with their places.

    Args:
        tokenizer: What cuts them. A text gives the pieces that the tokenizer gives for its parts between white space, each by
            itself: other ones than for the whole where words depend on their neighbours, as in XLM.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self._spelt: dict[int, str] = {}
        self._known: dict[tuple[str, str], list[Place]] = {}
        self._made: dict[tuple[str, str], list[int]] = {}

    def __call__(self, text: str, language: str) -> PlacedPieces:
        """Pieces of a text.

        Args:
            text: Any string; parts of which nothing is left after normalisation have no pieces.
            language: Its language.
        """
        parts = list(_PART.finditer(text))
        pieces = self.tokenizer.encode([part[0] for part in parts], [language] * len(parts))
        part = np.repeat(np.arange(len(parts)), pieces.counts)
        ends = np.cumsum(pieces.counts)
        places = [
            place
            for one, start, end in zip(parts, (ends - pieces.counts).tolist(), ends.tolist(), strict=True)
            for place in self._place(one[0], language, pieces.ids[start:end].tolist())
        ]
        begins = np.array([one.start() for one in parts], dtype=np.int64)[part]
        starts, stops = np.array(places, dtype=np.int64).reshape(-1, 2).T + begins
        return PlacedPieces(pieces.ids, _number(pieces.words, part), starts, stops)

    def _place(self, part: str, language: str, ids: list[int]) -> list[Place]:
        """Places of the pieces of a part, in it."""
        if len(ids) < 2:
            return [(0, len(part))] * len(ids)
        key = (part, language)
        if key not in self._known:
            _limit(self._known)
            self._known[key] = self._lay_over(part, language, ids)
        return self._known[key]

    def _lay_over(self, part: str, language: str, ids: list[int]) -> list[Place]:
        read = _solid(self.tokenizer.normalize(part, language))
        spans = self._match(ids, read)
        if spans is None or read == part:
            return spans or [(0, len(part))] * len(ids)
        origin = self._trace(part, language, len(read))
        if origin is None:
            return [(0, len(part))] * len(ids)
        return [(_start(origin, start), _stop(origin, stop)) for start, stop in spans]

    def _trace(self, part: str, language: str, length: int) -> list[int] | None:
        """How many characters are read of the first 0, 1, ... of a part; None if it cannot be told."""
        reach = [0]
        for cluster in _clusters(part):
            before = reach[-1]
            reach += [before + made for made in self._count_made(cluster, language)]
        return reach if reach[-1] == length else None

    def _count_made(self, cluster: str, language: str) -> list[int]:
        """How many characters are made of the first one of a cluster, of the first two, ..."""
        key = (cluster, language)
        if key not in self._made:
            _limit(self._made)
            made = [len(_solid(self.tokenizer.normalize(cluster[:count], language))) for count in range(1, len(cluster) + 1)]
            self._made[key] = [min(count, made[-1]) for count in accumulate(made, max)]
        return self._made[key]

    def _match(self, ids: list[int], read: str) -> list[Place] | None:
        """Stretches of the text that is read, a piece each; None if the pieces spell another text.

        What the vocabulary lacks reaches as far as the first place where the next piece stands; several such pieces one after
        the other are a character each, if there are as many, and else share the stretch.
        """
        spans: list[Place] = []
        place, waiting = 0, 0  # pieces of something unknown, which end where the next known one starts
        for known, spelt, count in self._spell(ids):
            if not known:
                waiting += count
                continue
            found = read.find(spelt, place + waiting) if waiting else place
            if found < 0 or not read.startswith(spelt, found):
                return None
            spans += _of_unknown(place, found, waiting)
            place, waiting = found + len(spelt), 0
            spans += [(found, place)] if count == 1 else _of_bytes(spelt, found)
        spans += _of_unknown(place, len(read), waiting)
        return spans if len(spans) == len(ids) and (waiting or place == len(read)) else None

    def _spell(self, ids: list[int]) -> list[tuple[bool, str, int]]:
        """What pieces spell: whether that is known, and how many pieces do so together (bytes of a character)."""
        unknown, bytewise = self.tokenizer.vocabulary.unknown, self.tokenizer.byte_pieces
        rows: list[tuple[bool, str, int]] = []
        for is_byte, group in groupby(ids, key=lambda number: bool(bytewise[number])):
            run = list(group)
            if is_byte:
                rows.append((True, self.tokenizer.decode(run), len(run)))
            else:
                rows += [(number != unknown, self._letters(number), 1) for number in run]
        return rows

    def _letters(self, number: int) -> str:
        """What a piece spells, without the marks of its kind of vocabulary."""
        if number not in self._spelt:
            letters = self.tokenizer.decode([number])
            self._spelt[number] = _solid(letters.removeprefix(_INSIDE) if self.tokenizer.family == "bert" else letters)
        return self._spelt[number]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_known": {}, "_made": {}}


def _limit(known: dict) -> None:
    """Forget all, when it is much: most of a text is made of few parts."""
    if len(known) >= _MOST:
        known.clear()


def _solid(text: str) -> str:
    """Text without its spaces, which are no part of what pieces spell."""
    return "".join(text.replace("\u2581", " ").split())


def _clusters(part: str) -> list[str]:
    """Characters with what is attached to them: what is composed or dropped together."""
    begins = [place for place, character in enumerate(part) if place == 0 or not _is_attached(character)]
    return [part[start:stop] for start, stop in pairwise([*begins, len(part)])]


def _is_attached(character: str) -> bool:
    if character < "\u0300":
        return False
    return unicodedata.category(character).startswith("M") or character in _ATTACHED or "\u1160" <= character <= "\u11ff"


def _of_unknown(start: int, stop: int, count: int) -> list[Place]:
    """The place of each of some pieces that spell nothing known."""
    if stop - start == count:
        return [(place, place + 1) for place in range(start, stop)]
    return [(start, stop)] * count


def _of_bytes(spelt: str, start: int) -> list[Place]:
    """The place of each byte: that of its character."""
    sizes = [len(character.encode()) for character in spelt]
    return [(start + place, start + place + 1) for place, size in enumerate(sizes) for _ in range(size)]


def _start(origin: Sequence[int], place: int) -> int:
    """The character that a place in the text that is read comes from: the last one before which all until there was made."""
    return bisect_right(origin, place) - 1


def _stop(origin: Sequence[int], place: int) -> int:
    """One past the last character that went into what stands before a place."""
    first = bisect_left(origin, place)
    return _start(origin, place) if origin[first] == place else first


def _number(words: Int64[np.ndarray, "T"], part: Int64[np.ndarray, "T"]) -> Int64[np.ndarray, "T"]:
    """Words of parts, numbered on from part to part."""
    new = np.ones(len(words), dtype=bool)
    new[1:] = (np.diff(words) != 0) | (np.diff(part) != 0)
    return np.cumsum(new) - 1
