"""Rows of tagged words: each word cut by itself, long sentences in several rows, as in XTREME's code (arXiv:2003.11080).

Which piece is of which word is known because words are cut one by one, never from places that a tokenizer tells (those overlap,
or shift where normalisation changes characters: tokenizers#1775, transformers#9637).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Int64

from ...modalities.batch import Target
from ...modalities.tokenizer import Tokenizer
from .examples import Tagged
from .layout import Laid, Layout
from .piece_rows import PieceRow, fill_rows, replace_nothing, spread


class TaggedLayout(Layout):
    """A sentence a row, or several rows where it is longer: nothing is left out, and no word stands in two but one that is too
    long for a row of its own.

    `Target.tags` has a word's tag at its first piece, and -1 at all other places. A word of which the tokenizer keeps nothing
    is the unknown token.

    `Text.word` numbers the words of the sentence through all its rows, and no word has its number in two: what is left of a
    word that is too long for a row stands in the next ones as of no word (-1). So a word is where its sentence
    (`Batch.sample`) and its number are, and the first place of these is its first piece, in whatever order rows come.
    """

    kind = Tagged

    def names(self, record: Tagged) -> tuple[str, ...]:
        """Its tags."""
        return record.tags

    def lay(self, records: Sequence[Tagged], classes: Mapping[str, int], tokenizer: Tokenizer, max_tokens: int) -> Laid:
        """Rows of at most `max_tokens`, start and end token among them (XTREME's code counts one more with XLM-R).

        Raises:
            ValueError: `max_tokens` leaves no room for a piece.
        """
        if max_tokens < 3:
            raise ValueError(f"data.max_tokens is {max_tokens}; at least 3 are needed for start token, one piece and end token")
        words = [word for record in records for word in record.words]
        languages = [record.language for record in records for _ in record.words]
        pieces = replace_nothing(tokenizer.encode(words, languages), tokenizer.vocabulary)
        rows, tags, owners = [], [], []
        word = piece = 0
        for number, record in enumerate(records):
            counts = pieces.counts[word : word + len(record.words)]
            ids = pieces.ids[piece : piece + int(counts.sum())]
            numbers, known = label_pieces(counts, np.array([classes[tag] for tag in record.tags], dtype=np.int64))
            language = tokenizer.language_id(record.language)
            for start, stop in cut_rows(counts.tolist(), max_tokens - 2):
                own = numbers[start:stop]
                if start and own[0] == numbers[start - 1]:
                    own = np.where(own == own[0], -1, own)
                rows.append(PieceRow(ids[start:stop], own, language))
                tags.append(known[start:stop])
                owners.append(number)
            word, piece = word + len(record.words), piece + len(ids)
        return Laid(torch.tensor(owners), fill_rows(rows, tokenizer.vocabulary), Target(tags=spread(tags, -1)))


def label_pieces(
    counts: Int64[np.ndarray, "N"], classes: Int64[np.ndarray, "N"]
) -> tuple[Int64[np.ndarray, "T"], Int64[np.ndarray, "T"]]:
    """Word of each piece, and class of each: that of the word at its first one, else -1.

    Args:
        counts: Pieces of each word, at least one.
        classes: Of each word.
    """
    labels = np.full(int(counts.sum()), -1, dtype=np.int64)
    labels[np.cumsum(counts) - counts] = classes
    return np.repeat(np.arange(len(counts)), counts), labels


def cut_rows(counts: Sequence[int], room: int) -> list[tuple[int, int]]:
    """First piece of each row, and one past its last: as many whole words as there is room for.

    Args:
        counts: Pieces of each word.
        room: Pieces of a row. A longer word begins a row, and fills as many as it needs.
    """
    starts, place = [0], 0
    for count in counts:
        if place > starts[-1] and place + count - starts[-1] > room:
            starts.append(place)
        place += count
        while place - starts[-1] > room:
            starts.append(starts[-1] + room)
    return list(zip(starts, [*starts[1:], place], strict=True))
