"""Word alignments between a text and its translation: what a pair of words means, in shards and in training.

A shard knows no tokenizer, so alignments in it count words by characters alone (`align/words.py`): in unspaced scripts each
character is a word. In training `Text.word` counts pieces there; in spaced scripts both count alike, as long as no piece
reaches across punctuation. `collate_alignment` carries pairs over from one to the other, character by character, so that
they mean the same words whatever the tokenizer. Tokenizers of published checkpoints write characters otherwise than shards
count them, so that there each part between spaces is carried over by itself.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ..modalities.batch import Text
from ..modalities.normalization import normalize
from ..modalities.tokenizer import Tokenizer
from ..modalities.tokenizer_files import OWN
from ..modalities.words import SPACE
from .align.words import find_words
from .sample import Sample


def read_alignment(sample: Sample, text: int, translation: int, possible: bool = False) -> list[tuple[int, int]]:
    """Pairs of words of two texts of a sample that translate each other, ascending; empty where the shard has none.

    Args:
        sample: As a `ShardSet` gives it.
        text: Number of the text that the first word of each pair is of.
        translation: Number of the text that the second is of; either way round, whatever the shard's own order.
        possible: Take the pairs too that whoever aligned them was not sure of.

    Returns:
        Words as the shard counts them; `collate_alignment` makes words of a batch of them.
    """
    pairs: set[tuple[int, int]] = set()
    for alignment in sample.alignments:
        found = alignment.words + alignment.possible * possible
        if (alignment.text, alignment.translation) == (text, translation):
            pairs.update(found)
        elif (alignment.translation, alignment.text) == (text, translation):
            pairs.update((right, left) for left, right in found)
    return sorted(pairs)


def collate_alignment(
    pairs: Sequence[Sequence[tuple[int, int]]],
    texts: Sequence[str],
    translations: Sequence[str],
    text: Text,
    translation: Text,
    tokenizer: Tokenizer,
) -> Int[Tensor, "B A 2"] | None:
    """`Batch.alignment` of a batch: pairs of words as `Text.word` counts them.

    Args:
        pairs: Of each row, as `read_alignment` gives them.
        texts: The texts of `text`, as the shard has them.
        translations: The texts of `translation`, likewise.
        text: The texts as they were collated, not packed; what was cut off loses its pairs.
        translation: Likewise.
        tokenizer: Which collated them.

    Returns:
        int64, ascending in each row, -1 where there is no pair; None where no row has any.
    """
    rows = [row for row, found in enumerate(pairs) if found]
    if not rows:
        return None
    carry_over = _carry_over if tokenizer.family == OWN else _carry_over_parts
    left = carry_over([texts[row] for row in rows], rows, text, tokenizer)
    right = carry_over([translations[row] for row in rows], rows, translation, tokenizer)
    carried: list[list[tuple[int, int]]] = [[] for _ in pairs]
    for row, sources, targets in zip(rows, left, right, strict=True):
        found = {(sources[i], targets[j]) for i, j in pairs[row] if i < len(sources) and j < len(targets)}
        carried[row] = sorted(pair for pair in found if min(pair) >= 0)
    alignment = torch.full((len(carried), max(map(len, carried)), 2), -1, dtype=torch.int64)
    for row, found in enumerate(carried):
        if found:
            alignment[row, : len(found)] = torch.tensor(found)
    return alignment


def _carry_over(texts: list[str], rows: list[int], collated: Text, tokenizer: Tokenizer) -> list[list[int]]:
    """For each word of each text, by its first character, its number in `Text.word`; -1 where the row ends before."""
    found, lengths = find_words(texts), _piece_lengths(tokenizer)
    numbers = np.split(found.number, np.cumsum(found.counts)[:-1])
    tokens, words = collated.tokens[rows].numpy(), collated.word[rows].numpy()
    carried = []
    for number, ids, word in zip(numbers, tokens, words, strict=True):
        inside = word >= 0
        of_character = np.repeat(word[inside], lengths[ids[inside]])[: len(number)]
        of_character = np.concatenate([of_character, np.full(len(number) - len(of_character), -1)])
        first = np.flatnonzero(np.diff(number, prepend=-1))
        carried.append(of_character[first].tolist())
    return carried


def _carry_over_parts(texts: list[str], rows: list[int], collated: Text, tokenizer: Tokenizer) -> list[list[int]]:
    """The same, of each part between spaces by itself; -1 throughout where a text has not as many words as its parts."""
    lengths, last = _piece_lengths(tokenizer), collated.word[rows].amax(1).tolist()
    whole = tokenizer.encode(texts, codes := [tokenizer.languages[number] for number in collated.language[rows, 0].tolist()])
    ends = np.cumsum(whole.counts)
    carried = []
    for text, code, end, count, most in zip(texts, codes, ends, whole.counts, last, strict=True):
        parts = normalize(text).split()
        found, cut = find_words(parts), tokenizer.encode(parts, [code] * len(parts))
        words, before = [], 0
        numbers, pieces = _rows(found.number, found.counts), _rows(np.stack([cut.ids, cut.words], 1), cut.counts)
        for number, own in zip(numbers, pieces, strict=True):
            of_unit = np.repeat(own[:, 1], lengths[own[:, 0]])  # what the pieces stand for, stretched over the characters
            first = np.flatnonzero(np.diff(number, prepend=-1)) * len(of_unit) // max(1, len(number))
            words += (before + of_unit[first]).tolist() if len(of_unit) else [-1] * len(first)
            before += int(own[:, 1].max(initial=-1)) + 1
        fits = before == whole.words[end - count : end].max(initial=-1) + 1
        carried.append([word if fits and word <= most else -1 for word in words])
    return carried


def _rows(values: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    return np.split(values, np.cumsum(counts)[:-1]) if len(counts) else []


@lru_cache(maxsize=2)
def _piece_lengths(tokenizer: Tokenizer) -> np.ndarray:
    """int64 `[V]`: characters of each piece, without spaces; of the bytes that spell one character, the first counts as it."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary.size))
    marks = {"bert": "##", "xlm": "</w>"}.get(tokenizer.family, SPACE)
    lengths = np.array([len(piece.replace(marks, "")) for piece in pieces], np.int64)
    if tokenizer.family != OWN:
        lengths[tokenizer.vocabulary.unknown] = 1
    for number, piece in enumerate(pieces):
        if len(piece) == 6 and piece.startswith("<0x"):
            lengths[number] = not 0x80 <= int(piece[3:5], 16) < 0xC0
    return lengths
