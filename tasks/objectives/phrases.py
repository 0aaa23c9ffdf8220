"""Phrases of a text, runs of a few words, and which of them are chosen to be replaced.

Places are counted over present tokens, so that nothing here depends on padding.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int, Int64
from torch import Tensor
from torch.nn.functional import pad

from ...modalities.batch import Text, number_positions
from ...modalities.chance import salt, uniform

LENGTH, TURN = salt("length of the phrase"), salt("turn of the phrase")


class Words(NamedTuple):
    """Where the words of each text stand; beyond the last word `first` is L and `end` 0."""

    first: Int[Tensor, "B W"]
    """Place of the word's first piece."""
    end: Int[Tensor, "B W"]
    """Place behind its last piece."""
    count: Int[Tensor, "B"]


class Phrases(NamedTuple):
    """Of each word (W) and number of words from 1 to P: the phrase that starts there, and what may stand in its place."""

    valid: Bool[Tensor, "B W P"]
    """Whether there is something."""
    begin: Int[Tensor, "B W P"]
    """Where its pieces begin, in a pool of pieces."""
    stop: Int[Tensor, "B W P"]
    """Where they end there."""


class Chosen(NamedTuple):
    """Phrases to be replaced (N of them); no two of a row overlap."""

    row: Int[Tensor, "N"]
    first: Int[Tensor, "N"]
    """Place of the phrase's first piece."""
    end: Int[Tensor, "N"]
    """Place behind its last piece."""
    begin: Int[Tensor, "N"]
    stop: Int[Tensor, "N"]


def ordinary(text: Text) -> Bool[Tensor, "B L"]:
    """Pieces of words: control tokens and padding apart."""
    return text.present & (text.word >= 0)


def find_words(text: Text, staying: Bool[Tensor, "B L"] | None = None) -> Words:
    """Places of the words.

    Args:
        text: One text a row.
        staying: Pieces that are left out at the end of a word; None: none. A word of such pieces alone has the end 0.
    """
    inside, place = ordinary(text), number_positions(text.present)
    rows, beyond = text.tokens.shape
    count = text.word.masked_fill(~inside, -1).amax(1) + 1
    width = max(1, int(count.max())) if rows else 1
    word = torch.where(inside, text.word, width)
    counted = word if staying is None else word.masked_fill(staying, width)
    first = place.new_full((rows, width + 1), beyond).scatter_reduce(1, word, place, "amin")
    end = place.new_zeros(rows, width + 1).scatter_reduce(1, counted, place + 1, "amax")
    return Words(first[:, :width], end[:, :width], count)


def windows(values: Int[Tensor, "B W"], most: int, beyond: int) -> Int[Tensor, "B W P"]:
    """The values of each word and of those that follow it, `most` in all.

    Args:
        values: Of each word.
        most: P.
        beyond: What stands behind the last word.
    """
    return pad(values, (0, most - 1), value=beyond).unfold(1, most, 1)


def choose_phrases(phrases: Phrases, words: Words, share: float, room: Int[Tensor, "B"], seed: Int64[Tensor, "B"]) -> Chosen:
    """Draw phrases that do not overlap, for at most a share of each text's words and as far as the row has room.

    At each word one of the phrases that start there is drawn; of those that overlap, the ones that come before all their
    neighbours by a draw remain, and are taken in that order for as long as the share lasts. One that the row has no more
    room for is left out.

    Args:
        phrases: What can be replaced.
        words: Of the text.
        share: Of its words that may be replaced.
        room: Tokens that each row may still grow by.
        seed: Random key of each row.
    """
    most = phrases.valid.shape[2]
    start = torch.arange(words.first.shape[1], device=seed.device)
    length = torch.arange(1, most + 1, device=seed.device)
    budget = (share * words.count.double() + 1e-9).floor().long()[:, None]  # 0.7 * 10 is just below 7
    ends = windows(words.end, most, 0)
    valid = phrases.valid & (length <= budget[..., None])
    draw = uniform(seed[:, None, None], LENGTH, start[:, None], length)
    taken = torch.where(valid, draw, -1.0).argmax(2, keepdim=True)  # [B, W, 1]
    size = torch.where(valid.any(2), taken[..., 0] + 1, 0)
    turn = torch.where(size > 0, uniform(seed[:, None], TURN, start), -1.0)
    size = size.masked_fill(_yields(turn, size, most), 0)

    replaced = ends - words.first[..., None]
    growth = (phrases.stop - phrases.begin - replaced).gather(2, taken)[..., 0].masked_fill(size == 0, 0)
    order = torch.where(size > 0, turn, -1.0).argsort(1, descending=True)
    grown = growth.gather(1, order)
    fits = (grown <= 0) | (grown.clamp_min(0).cumsum(1) <= room[:, None])
    fits = fits & (size.gather(1, order).cumsum(1) <= budget)
    kept = torch.zeros_like(fits).scatter(1, order, fits) & (size > 0)
    row, word = kept.nonzero(as_tuple=True)
    which = (row, word, taken[row, word, 0])
    return Chosen(row, words.first[row, word], ends[which], phrases.begin[which], phrases.stop[which])


def _yields(turn: Tensor, size: Int[Tensor, "B W"], most: int) -> Bool[Tensor, "B W"]:
    """Phrases that overlap one whose turn comes before theirs."""
    width, yields = turn.shape[1], torch.zeros_like(size, dtype=torch.bool)
    for shift in range(1, most):
        after, before = pad(turn, (0, shift), value=-1.0)[:, shift:], pad(turn, (shift, 0), value=-1.0)[:, :width]
        yields |= (size > shift) & (after > turn)
        yields |= (pad(size, (shift, 0))[:, :width] > shift) & (before > turn)
    return yields
