"""Which tokens of a text are hidden, and what is shown in their place: single tokens, whole words, or spans of words.

Every draw is a hash of the sample's seed, a purpose and a place in the row, counted over present tokens: what is hidden
does not depend on padding, batch-mates, rank, or on how many draws were made before. Each token is hidden with
probability `rate` under every scheme, so the number hidden is exact in expectation and varies from row to row; with weights
that is so for the mean over each text.
"""

from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float64, Int, Int64
from torch import Tensor

from ...modalities.batch import Text, number_positions
from ...modalities.chance import chance, pick, salt, uniform
from ...modalities.vocabulary import Vocabulary
from .word_weights import spread_rate

Scheme = Literal["token", "word", "span"]

HIDE, REACH, FATE, ENTRY = salt("hide"), salt("reach"), salt("fate"), salt("entry")

END, LONGEST = 0.2, 10
"""Span lengths in words: geometric with this chance to end, cut off beyond the longest (SpanBERT, section 3.1; mean 3.8)."""


class Pieces(NamedTuple):
    """A text's present tokens, one after the other through all rows (T of them)."""

    seed: Int64[Tensor, "T"]
    position: Int[Tensor, "T"]
    """Place in the row, counted over present tokens."""
    ordinary: Bool[Tensor, "T"]
    """Belongs to a word: not a control token."""
    word: Int[Tensor, "T"]
    """Place of the first piece of the token's word."""
    block: Int[Tensor, "T"]
    """Place of the first token of the run of words (between control tokens, in one document) that the token is in."""
    ordinal: Int[Tensor, "T"]
    """Number of the token's word in that run, from 0."""
    text: Int[Tensor, "T"]
    """Number of the document that the token is in, through all rows, from 0."""


class Hiding(NamedTuple):
    """How tokens are hidden.

    Args:
        scheme: `token`: each for itself; `word`: all pieces of a word together (whole-word masking); `span`: runs of words.
        rate: Probability with which a token is hidden.
        keep: Share of hidden tokens that stay visible.
        random: Share of hidden tokens that are replaced by a random one; the rest is replaced by the mask token.
            Decided for each token, as BERT's released code does for whole words too; for a span as one (SpanBERT, section 3.1).
    """

    scheme: Scheme
    rate: float
    keep: float
    random: float


def check_hiding(who: str, scheme: Scheme, rate: float, keep: float, random: float) -> Hiding:
    """The options of an objective as one.

    Args:
        who: Whose they are, for the messages.
        scheme, rate, keep, random: As of `Hiding`.

    Raises:
        ValueError: A share is outside 0 to 1, or the scheme is unknown.
    """
    for name, share in {"rate": rate, "keep": keep, "random": random, "keep + random": keep + random}.items():
        if not 0 <= share <= 1:
            raise ValueError(f"{who}: {name} is {share}, but a share lies between 0 and 1")
    if scheme not in SCHEMES:
        raise ValueError(f"{who}: scheme is {scheme!r}, expected one of {', '.join(SCHEMES)}")
    return Hiding(scheme, rate, keep, random)


def hide_tokens(
    text: Text,
    seed: Int64[Tensor, "B"],
    hiding: Hiding,
    vocabulary: Vocabulary,
    weights: Int64[Tensor, "V"] | None = None,
) -> Text:
    """Mark what is hidden of a text; tokens already hidden stay as they are.

    Args:
        text: Control tokens (`word` -1) and padding are never hidden.
        seed: Random key of each row.
        hiding: How.
        vocabulary: Replacements are drawn from all of it but the control tokens.
        weights: Of each vocabulary entry: in each text, single tokens are hidden with probabilities proportional to it (see
            `word_weights`); None: all alike.
    """
    before = torch.zeros_like(text.present) if text.hidden is None else text.hidden
    places = text.present.nonzero(as_tuple=True)
    pieces = _read_pieces(text, seed, places)
    rate = hiding.rate if weights is None else _spread(hiding.rate, pieces, weights[text.tokens[places]])
    chosen, unit = SCHEMES[hiding.scheme](pieces, rate)
    chosen = (chosen & pieces.ordinary & ~before[places]).nonzero()[:, 0]
    places = tuple(place[chosen] for place in places)
    own, read = pieces.seed[chosen], text.read[places]
    fate = uniform(own, FATE, unit[chosen])
    entries = _draw_entries(own, pieces.position[chosen], vocabulary)
    shown = torch.where(fate < hiding.keep + hiding.random, entries.to(read.dtype), vocabulary.mask)
    return text._replace(
        shown=text.read.index_put(places, torch.where(fate < hiding.keep, read, shown)),
        hidden=before.index_put(places, torch.ones_like(chosen, dtype=torch.bool)),
    )


def _read_pieces(text: Text, seed: Int64[Tensor, "B"], places: tuple[Tensor, ...]) -> Pieces:
    row, position = places[0], number_positions(text.present)[places]
    word, document, segment = text.word[places], text.document[places], text.segment[places]
    ordinary = word >= 0
    new_word = _starts(row, document, segment, word)
    new_block = _starts(row, document, segment, ordinary)
    first, block = _latest(new_word), _latest(new_block)
    number = torch.cumsum(new_word, 0)
    texts = torch.cumsum(_starts(row, document), 0) - 1
    return Pieces(seed[row], position, ordinary, position[first], position[block], number - number[block], texts)


def _spread(rate: float, pieces: Pieces, weights: Int64[Tensor, "T"]) -> Float64[Tensor, "T"]:
    """Each token's probability to be hidden; 0 for control tokens, which have no part in their text's mean."""
    ordinary = pieces.ordinary.nonzero()[:, 0]
    spread = spread_rate(rate, weights[ordinary], pieces.text[ordinary])
    return torch.zeros_like(weights, dtype=torch.float64).index_put((ordinary,), spread)


def _starts(*fields: Tensor) -> Bool[Tensor, "T"]:
    """True where any field differs from the token before."""
    start = torch.ones_like(fields[0], dtype=torch.bool)
    start[1:] = torch.stack([field[1:] != field[:-1] for field in fields]).any(0)
    return start


def _latest(start: Bool[Tensor, "T"]) -> Int64[Tensor, "T"]:
    """Index of the last start at or before each token."""
    index = torch.arange(len(start), device=start.device)
    return torch.cummax(torch.where(start, index, 0), 0).values


def choose_tokens(pieces: Pieces, rate: float | Float64[Tensor, "T"]) -> tuple[Bool[Tensor, "T"], Int64[Tensor, "T"]]:
    """Each token for itself, at one rate or at its own. Returns, here as below, what is hidden, and the key of the draw of
    its fate."""
    return uniform(pieces.seed, HIDE, pieces.position) < rate, pieces.position


def choose_words(pieces: Pieces, rate: float) -> tuple[Bool[Tensor, "T"], Int64[Tensor, "T"]]:
    """All pieces of a word share one draw."""
    return uniform(pieces.seed, HIDE, pieces.word) < rate, pieces.position


def choose_spans(pieces: Pieces, rate: float) -> tuple[Bool[Tensor, "T"], Int64[Tensor, "T"]]:
    """A span may start at every word, and up to nine words before a run of words begins, so that words at its start are
    hidden as often as others; a word is hidden when a span reaches it. Spans may touch and overlap, as SpanBERT's do."""
    back = torch.arange(LONGEST, device=pieces.seed.device)
    seed, block, start = pieces.seed[:, None], pieces.block[:, None], pieces.ordinal[:, None] - back  # [T, LONGEST]
    longer = torch.tensor(_longer(), dtype=torch.float64, device=back.device)
    reached = (uniform(seed, HIDE, block, start) < span_starts(rate)) & (uniform(seed, REACH, block, start) < longer)
    nearest = reached.int().argmax(1)
    return reached.any(1), chance(pieces.block, pieces.ordinal - nearest)


SCHEMES = {"token": choose_tokens, "word": choose_words, "span": choose_spans}


def _longer() -> list[float]:
    """Probability that a span is longer than 0, 1, ... words."""
    never = (1 - END) ** LONGEST
    return [((1 - END) ** words - never) / (1 - never) for words in range(LONGEST)]


@lru_cache
def span_starts(rate: float) -> float:
    """Probability with which a span starts at a word, such that a word is hidden with probability `rate`.

    A word stays visible when none of the last ten starts reaches it: 1 - rate = product over k of (1 - start * P(longer
    than k)), which falls with `start` and is solved by bisection.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle, visible = (low + high) / 2, 1.0
        for longer in _longer():
            visible *= 1 - middle * longer
        low, high = (middle, high) if visible > 1 - rate else (low, middle)
    return high if rate > 0 else 0.0


def _draw_entries(seed: Int64[Tensor, "H"], position: Int[Tensor, "H"], vocabulary: Vocabulary) -> Int64[Tensor, "H"]:
    """Ordinary vocabulary entries, each as likely as any other, wherever the control tokens stand."""
    entry = pick(vocabulary.size - len(vocabulary.controls), seed, ENTRY, position)
    for control in vocabulary.controls:  # ascending: each one moves the entries from it on by one
        entry = entry + (entry >= control)
    return entry
