"""Scores of tagged words: F1 of entities, and accuracy of tags.

What is counted and how it is named, since figures of the same predictions differ by the rule: entities as conlleval finds them
(the CoNLL shared tasks; what XTREME reports for WikiANN), entities of sound IOB2 alone, words, and XTREME's F1 over parts of
speech, which its tables call accuracy.

Counts are whole numbers, a row a sentence, so sums over batches, ranks and draws are exact. A sentence that was cut to be read
is counted whole: its pieces are joined before.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from ..modalities.parts_of_speech import UNIVERSAL

SPAN_F1 = "span_f1"
"""F1 of `find_spans`: conlleval, and seqeval by default."""
STRICT_SPAN_F1 = "strict_span_f1"
"""F1 of `find_strict_spans`: seqeval with `mode="strict", scheme=IOB2`."""
ACCURACY = "accuracy"
"""Share of words whose tag is right."""
POS_SEQEVAL_F1 = "pos_seqeval_f1@0.0.12"
"""F1 of `find_runs`, as XTREME reports parts of speech; with the version of seqeval, since 1.x cuts the first letter off tags
that are no IOB, so that CCONJ and SCONJ count as one."""


class Span(NamedTuple):
    """Words of one kind that belong together."""

    kind: str
    start: int
    stop: int
    """One past the last."""


def find_spans(tags: Sequence[str]) -> list[Span]:
    """Entities of a sentence as conlleval finds them: I- after O, or after another type, begins one as B- does.

    Args:
        tags: `O`, `B-TYPE`, `I-TYPE`, one a word.

    Raises:
        ValueError: A tag is none of these.
    """
    return _collect(tags, lenient=True)


def find_strict_spans(tags: Sequence[str]) -> list[Span]:
    """Entities of a sentence that begin with B-, with the I- of the same type that follow; any other I- is of none.

    Args:
        tags: `O`, `B-TYPE`, `I-TYPE`, one a word.

    Raises:
        ValueError: A tag is none of these.
    """
    return _collect(tags, lenient=False)


def _collect(tags: Sequence[str], lenient: bool) -> list[Span]:
    spans: list[Span] = []
    kind = ""  # of the entity that the word before is in
    for place, tag in enumerate(tags):
        prefix, _, own = tag.partition("-")
        if tag != "O" and (prefix not in ("B", "I") or not own):
            raise ValueError(f"word {place}: found the tag {tag!r}, expected O, B-TYPE or I-TYPE; parts of speech are no spans")
        if prefix == "I" and own == kind:
            spans[-1] = spans[-1]._replace(stop=place + 1)
        elif prefix == "B" or (prefix == "I" and lenient):
            kind = own
            spans.append(Span(kind, place, place + 1))
        else:
            kind = ""
    return spans


def find_runs(tags: Sequence[str]) -> list[Span]:
    """What seqeval 0.0.12 takes for entities in parts of speech: neighbours with the same tag are one.

    Those of SCONJ and SYM stay apart: their S is read as that of a single word in IOBES.

    Args:
        tags: Universal parts of speech, one a word.

    Raises:
        ValueError: A tag is none, so that its first letter might mean something else.
    """
    spans: list[Span] = []
    for place, tag in enumerate(tags):
        if tag not in UNIVERSAL:
            raise ValueError(f"word {place}: found the tag {tag!r}, expected a universal part of speech: {sorted(UNIVERSAL)}")
        if spans and spans[-1].kind == tag and not tag.startswith("S"):
            spans[-1] = spans[-1]._replace(stop=place + 1)
        else:
            spans.append(Span(tag, place, place + 1))
    return spans


def count_spans(
    expected: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    find: Callable[[Sequence[str]], list[Span]] = find_spans,
) -> Int64[Tensor, "N 3"]:
    """Of each sentence: spans that are predicted and right (words and kind), that are predicted, and that are expected.

    Args:
        expected: Tags of each sentence.
        predicted: As many tags of each.
        find: What is a span.

    Raises:
        ValueError: A sentence has other numbers of tags, or a tag is none that `find` knows.
    """
    rows = []
    for right, guess in _pair(expected, predicted):
        truth, found = find(right), find(guess)
        rows.append((len({*truth} & {*found}), len(found), len(truth)))
    return torch.tensor(rows, dtype=torch.int64).view(-1, 3)


def count_words(expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Int64[Tensor, "N 2"]:
    """Of each sentence: words whose tag is right, and all words.

    Args:
        expected: Tags of each sentence.
        predicted: As many tags of each.

    Raises:
        ValueError: A sentence has other numbers of tags.
    """
    pairs = _pair(expected, predicted)
    rows = [(sum(a == b for a, b in zip(right, guess, strict=True)), len(right)) for right, guess in pairs]
    return torch.tensor(rows, dtype=torch.int64).view(-1, 2)


class SpanScores(NamedTuple):
    """Shares from 0 to 1."""

    precision: Float64[Tensor, "*S"]
    recall: Float64[Tensor, "*S"]
    f1: Float64[Tensor, "*S"]


def score(counts: Int64[Tensor, "*S 3"]) -> SpanScores:
    """Precision, recall and their harmonic mean, each 0 where nothing is to be divided by, as conlleval and seqeval have it.

    Args:
        counts: Sums of `count_spans` over sentences: over all of a language, then this is the micro average over types.
    """
    right, found, truth = counts.double().unbind(-1)
    return SpanScores(right / found.clamp_min(1), right / truth.clamp_min(1), 2 * right / (found + truth).clamp_min(1))


def _pair(expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> list[tuple[Sequence[str], Sequence[str]]]:
    """Expected and predicted tags of each sentence."""
    if len(expected) != len(predicted):
        raise ValueError(f"found predictions of {len(predicted)} sentences, expected {len(expected)}")
    pairs = list(zip(expected, predicted, strict=True))
    for number, (right, guess) in enumerate(pairs):
        if len(right) != len(guess):
            raise ValueError(
                f"sentence {number}: found {len(guess)} predicted tags, expected {len(right)}, one a word; join the pieces of "
                "a sentence that was cut"
            )
    return pairs
