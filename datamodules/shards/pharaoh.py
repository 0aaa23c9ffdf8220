"""Word alignments in Pharaoh files: a line a sentence pair, `0-0 1-2`, as fast_align, eflomal and GIZA's tools write them.

Their words are what stands between spaces of the sentence as the aligner read it; ours are counted as `align/words.py`
says. Both are laid over the characters of the sentence, so that a pair means the same characters in both. A token that is
several words for us (`(red)`, `3.5`) hands its pairs on: one by one where the other token has as many words, else all to all.
"""

import re
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from ...modalities.normalization import normalize
from ...modalities.words import is_unspaced
from ..align.words import find_words

_PAIR = re.compile(r"(\d+)([-?p])(\d+)")
UNSEGMENTED = 8
"""Characters of unspaced scripts that a token has, on average, above which a text is taken to be not cut into words."""


class Reading(NamedTuple):
    """How the numbers of a Pharaoh file are to be read."""

    base: int = 0
    """Number of the first word: 0 or 1."""
    swapped: bool = False
    """Whether the second number of a pair, not the first, is of the first text."""


class UnusableError(Exception):
    """A line whose pairs cannot be used; the message is a short fixed name of why."""


def read_pairs(line: str, texts: Sequence[str], reading: Reading, where: str) -> tuple[list, list]:
    """Sure and possible pairs of words of one line.

    Args:
        line: Pairs `0-0` (sure), `0?1` or `0p1` (possible), between spaces; empty where nothing is aligned.
        texts: The two texts, as the aligner read them.
        reading: How numbers are meant.
        where: File and line, for messages.

    Raises:
        ValueError: It is not written as Pharaoh pairs.
        UnusableError: A number is beyond the words, or words cannot be told.
    """
    found: dict[str, set[tuple[int, int]]] = {"-": set(), "?": set()}
    tokens = [split_tokens(text) for text in texts]
    for pair in line.split():
        match = _PAIR.fullmatch(pair)
        if not match:
            raise ValueError(f"{where}: found {pair[:40]!r}, expected pairs of word numbers such as 0-0 1-2 (or 1?2 if unsure)")
        numbers = int(match[1]) - reading.base, int(match[3]) - reading.base
        left, right = numbers[::-1] if reading.swapped else numbers
        if min(left, right) < 0 or left >= len(tokens[0]) or right >= len(tokens[1]):
            raise UnusableError("alignment of a word that is not there")
        own, other = tokens[0][left], tokens[1][right]
        same = len(own) == len(other)
        found["-" if match[2] == "-" else "?"].update(zip(own, other, strict=True) if same else product(own, other))
    return sorted(found["-"]), sorted(found["?"] - found["-"])


def split_tokens(text: str) -> list[list[int]]:
    """For each token between spaces, the numbers of our words that it holds; a token of invisible characters holds none.

    Raises:
        UnusableError: The text is in an unspaced script and not cut into words, or its tokens change when they are joined.
    """
    tokens = [token for token in re.split(r"[ \t\r\n]+", text) if token]
    normal = [normalize(token).replace(" ", "") for token in tokens]
    unspaced = [sum(map(is_unspaced, token)) for token in normal]
    holding = sum(map(bool, unspaced))
    if sum(unspaced) > UNSEGMENTED * holding:
        raise UnusableError("alignment of a text that is not cut into words")
    found = find_words([text])
    if "".join(normal) != found.characters:
        raise UnusableError("alignment of a text that normalisation joins otherwise")
    words, start = [], 0
    for token in normal:
        words.append(sorted({*found.number[start : start + len(token)].tolist()}))
        start += len(token)
    return words
