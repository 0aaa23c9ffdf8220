"""Pairs of sentences for objectives of their order, and what the tests of all of them do."""

import math

import pytest
import tiny
import torch
from torch import nn

from interlingua.modalities.batch import Batch, Text, take

LENGTHS, OTHERS = (7, 5, 9, 4, 6, 8), (5, 6, 4, 8, 7, 5)


def halves(lengths=LENGTHS, others=OTHERS, items=None, left=False, padded=None, source="pages", **options) -> Batch:
    """Random first and second halves, each row with draws of its own."""
    texts = [tiny.text(own, padded, left, seed, **options) for seed, own in ((1, lengths), (2, others))]
    return tiny.batch(lengths, items, source)._replace(text=texts[0], translation=texts[1])


NOTHING = {"none": halves([0, 0], [0, 0]), "one": halves([5, 0], [0, 4]), "no row": take(halves(), torch.arange(0))}
"""Batches without a pair."""


def connected(objective, encoder=None):
    torch.manual_seed(0)
    encoder = encoder or tiny.text_tower(segments=2)
    objective.connect(encoder)
    return encoder, objective


def claim_class_zero(objective) -> None:
    """Make a head sure of class zero: costs 20 a pair that is of class one, and nothing else."""
    nn.init.zeros_(objective.pair_head.head.weight)
    objective.pair_head.head.bias.data = torch.tensor([20.0, 0.0])


def pack_first_row(text: Text) -> Text:
    """The same, with two documents in the first row."""
    document = torch.zeros_like(text.document)
    document[0, 3:] = 1
    return text._replace(document=document)


def mark(objective, batch, pool=None):
    return objective.mark(objective.view(batch), pool)


def score(encoder, objective, marked):
    return objective.loss(objective.read(encoder, marked), marked)


def pieces(text: Text, row: int, half: int | None = None) -> list[int]:
    """Pieces of a text, or of a half of it, without control tokens."""
    there = text.present[row] & (text.word[row] >= 0)
    return text.tokens[row][there if half is None else there & (text.segment[row] == half)].tolist()


def check_ignorance(encoder, objective) -> None:
    """A head that knows nothing costs the logarithm of two a pair."""
    nn.init.zeros_(objective.pair_head.head.weight)
    marked = mark(objective, halves())
    loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) == len(LENGTHS)
    assert loss.total.item() / len(LENGTHS) == pytest.approx(math.log(2), rel=1e-6)


def check_rows_that_lack_a_half(encoder, objective, batch: Batch, pairs: int) -> Batch:
    """They are read alone and not counted. Row 1 must lack its first half, row 2 its second.

    Returns:
        The batch, marked.
    """
    marked = mark(objective, batch)
    assert pieces(marked.text, 1) == pieces(batch.translation, 1)
    assert pieces(marked.text, 2) == pieces(batch.text, 2)
    assert score(encoder, objective, marked).count == objective.count(marked) == pairs
    return marked


def check_nothing_to_score(encoder, objective, marked) -> None:
    """Costs exactly nothing, with gradients of exactly nothing."""
    loss = score(encoder, objective, marked)
    assert loss.total.item() == 0
    assert loss.count == objective.count(marked) == 0
    parameters = list(objective.parameters())
    gradients = torch.autograd.grad(loss.total, parameters)
    assert all((gradient == 0).all() for gradient in gradients)
