"""Texts to the batch's `Text`: `<s> pieces </s>`, padded on the right to the longest row; one a row, several, or sentences."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor

from .batch import Text, number_positions
from .chance import chance
from .tokenizer import Pieces, Tokenizer


class CrowdedRowError(ValueError):
    """The texts of a row are longer than it."""


def collate_text(texts: Sequence[str | None], languages: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> Text:
    """Tokenise one text a sample.

    Args:
        texts: `None`, or a text that is empty after normalisation, gives a row in which nothing is present.
        languages: Code of each text's language; not looked at where nothing is present.
        max_tokens: Longest row, start and end token included. A longer text loses pieces, never its end token.

    Returns:
        Ids as int64, B = `len(texts)`, L = the longest row (at least 1).

    Raises:
        ValueError: `max_tokens` leaves no room for a piece, the lists differ in length, or a language is unknown.
    """
    return collate_packed(texts, languages, range(len(texts)), tokenizer, max_tokens)


def collate_packed(
    texts: Sequence[str | None],
    languages: Sequence[str],
    rows: Sequence[int] | Int64[np.ndarray, "N"],
    tokenizer: Tokenizer,
    max_tokens: int,
) -> Text:
    """Tokenise several texts a row, each a `document` of its own, with its own start and end token and positions from 0.

    Args:
        texts: As of `collate_text`; those of a row stand in it one after the other in the order given. One in which
            nothing is present takes no room and no document.
        languages: Code of each text's language.
        rows: Row of each text, from 0; every row up to the last must have a text.
        max_tokens: Longest row. A single text longer than that loses pieces, as in `collate_text`.

    Returns:
        Ids as int64, B = the last row + 1, L = the longest row (at least 1). `document` counts the row's texts from 0, `word`
        the words of each text.

    Raises:
        CrowdedRowError: The texts of a row are longer than `max_tokens`.
        ValueError: As of `collate_text`; or a row has no text.
    """
    _check(texts, languages, rows, max_tokens)
    pieces = tokenizer.encode([text or "" for text in texts], languages)
    kept = np.minimum(pieces.counts, max_tokens - 2)
    lengths = np.where(kept > 0, kept + 2, 0)
    slots = _lay_out(lengths, np.asarray(rows, dtype=np.int64), max_tokens)
    return _fill(slots, pieces, kept, np.ones_like(kept), languages, tokenizer)


def collate_sentences(
    sentences: Sequence[str | None],
    languages: Sequence[str],
    rows: Sequence[int] | Int64[np.ndarray, "N"],
    tokenizer: Tokenizer,
    max_tokens: int,
) -> Text:
    """Tokenise texts that are made of sentences, each in a language of its own: `<s> sentence </s> sentence </s>`.

    Args:
        sentences: Those of a row follow each other in the order given. One in which nothing is present takes no room.
        languages: Code of each sentence's language.
        rows: Row of each sentence, from 0; every row up to the last must have one.
        max_tokens: Longest row. A longer one loses what stands at its end, never the end token behind what is left; a
            sentence of which no piece is left goes with its end token.

    Returns:
        Ids as int64, B = the last row + 1, L = the longest row (at least 1). A token has the language of its sentence (the
        start token that of the first), `word` and `position` count on from sentence to sentence; a row is one document.

    Raises:
        ValueError: As of `collate_packed`.
    """
    _check(sentences, languages, rows, max_tokens)
    pieces, row = tokenizer.encode([text or "" for text in sentences], languages), np.asarray(rows, dtype=np.int64)
    there = (pieces.counts > 0).astype(np.int64)
    leads = there * (_before(there, row) == 0)  # the first sentence has the start token
    room = max_tokens - _before(pieces.counts + there + leads, row) - leads - 1
    kept = np.minimum(pieces.counts, room).clip(0)
    lengths = np.where(kept > 0, kept + 1 + leads, 0)
    slots = _lay_out(lengths, row, max_tokens)
    text = _fill(slots, pieces, kept, leads, languages, tokenizer)
    words = np.zeros_like(kept)
    words[kept > 0] = pieces.words[(np.cumsum(pieces.counts) - pieces.counts + kept - 1)[kept > 0]] + 1
    before = slots.grid(_before(words, row)[slots.text])
    return text._replace(
        word=torch.where(text.word >= 0, text.word + before, -1),
        document=torch.zeros_like(text.document),
        position=slots.grid(slots.slot - slots.row * slots.shape[1]),
    )


def _check(
    texts: Sequence[str | None], languages: Sequence[str], rows: Sequence[int] | Int64[np.ndarray, "N"], max_tokens: int
) -> None:
    if max_tokens < 3:
        raise ValueError(f"max_tokens is {max_tokens}; at least 3 are needed for start token, one piece and end token")
    if not len(texts) == len(languages) == len(rows):
        raise ValueError(
            f"{len(texts)} texts, but {len(languages)} languages and {len(rows)} rows: every text needs its language and row"
        )


class _Slots(NamedTuple):
    """Where the tokens of all texts go, one text after the other (T tokens of N texts)."""

    text: Int64[np.ndarray, "T"]
    """Text of each token."""
    position: Int64[np.ndarray, "T"]
    """Place in its text."""
    row: Int64[np.ndarray, "T"]
    slot: Int64[np.ndarray, "T"]
    """Place among the slots of all rows."""
    document: Int64[np.ndarray, "N"]
    """Number of each text in its row."""
    shape: tuple[int, int]

    def grid(self, values: np.ndarray, padding: int | None = None) -> Tensor:
        """Values of the tokens as `[B, L]`.

        Args:
            values: One a token.
            padding: What stands where nothing is present; None: what the row's last token has (0 in an empty row).
        """
        rows, width = self.shape
        if padding is None:
            last = np.zeros(rows, dtype=values.dtype)
            last[self.row] = values  # of several values for a row the last one stays
            grid = np.repeat(last, width)
        else:
            grid = np.full(rows * width, padding, dtype=values.dtype)
        grid[self.slot] = values
        return torch.from_numpy(grid.reshape(self.shape))


def _lay_out(lengths: Int64[np.ndarray, "N"], rows: Int64[np.ndarray, "N"], max_tokens: int) -> _Slots:
    """Texts of a row one after the other, in their own order."""
    texts = np.bincount(rows)
    load = np.bincount(rows, lengths).astype(np.int64)
    if (texts == 0).any():
        raise ValueError(f"row {int(texts.argmin())} of {len(texts)} has no text; number the rows from 0 and leave none out")
    if load.max(initial=0) > max_tokens:
        row = int(load.argmax())
        raise CrowdedRowError(
            f"the {texts[row]} texts of row {row} have {load[row]} tokens, but max_tokens is {max_tokens}; fit rows by the "
            "lengths that this tokenizer gives, start and end token included (`fit_rows`)"
        )
    text = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(text)) - (np.cumsum(lengths) - lengths)[text]
    row, width = rows[text], max(1, int(load.max(initial=0)))
    slot = row * width + _before(lengths, rows)[text] + position
    return _Slots(text, position, row, slot, _before((lengths > 0).astype(np.int64), rows), (len(texts), width))


def _before(amounts: Int64[np.ndarray, "N"], rows: Int64[np.ndarray, "N"]) -> Int64[np.ndarray, "N"]:
    """Sum of the amounts of the texts before each one in its row."""
    texts = np.bincount(rows)
    order = np.argsort(rows, kind="stable")
    first = (np.cumsum(texts) - texts)[rows[order]]  # where in that order the text's row begins
    sums = np.cumsum(amounts[order]) - amounts[order]
    result = np.empty_like(sums)
    result[order] = sums - sums[first]
    return result


def _fill(
    slots: _Slots,
    pieces: Pieces,
    kept: Int64[np.ndarray, "N"],
    leads: Int64[np.ndarray, "N"],
    languages: Sequence[str],
    tokenizer: Tokenizer,
) -> Text:
    """Texts in their slots, each a document of its own.

    Args:
        slots: Where they go.
        pieces: Of all texts.
        kept: Pieces of each text that are read, its first ones.
        leads: Start tokens of each text, 0 or 1; every one has an end token.
        languages: Code of each text's language.
        tokenizer: Has the ids.
    """
    known = [tokenizer.language_id(code) if count else 0 for code, count in zip(languages, kept, strict=True)]
    text, place = slots.text, slots.position - leads[slots.text]
    inside = (place >= 0) & (place < kept[text])
    source = ((np.cumsum(pieces.counts) - pieces.counts)[text] + place)[inside]
    tokens = np.where(place < 0, tokenizer.vocabulary.start, tokenizer.vocabulary.end)
    tokens[inside] = pieces.ids[source]
    word = np.full(len(text), -1, dtype=np.int64)
    word[inside] = pieces.words[source]
    return Text(
        tokens=slots.grid(tokens, tokenizer.vocabulary.pad),
        present=slots.grid(np.ones(len(text), dtype=bool), False),
        language=slots.grid(np.array(known, dtype=np.int64)[text]),
        word=slots.grid(word, -1),
        segment=torch.zeros(slots.shape, dtype=torch.int64),
        document=slots.grid(slots.document[text]),
        position=slots.grid(slots.position),
    )


def text_identity(text: Text) -> Int[Tensor, "B"]:
    """A hash of the present tokens in their order: equal texts have equal identities, whatever their padding.

    Two languages that spell a text alike have one identity. Rows in which nothing is present share one, too: whoever
    compares rows leaves those out.
    """
    terms = chance(text.tokens, number_positions(text.present))
    return chance((terms * text.present).sum(1), text.present.sum(1))
