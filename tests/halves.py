"""Pairs of sentences for objectives of their order, and what the tests of all of them do."""

import math

import pytest
import tiny
import torch
from costs import check_sum, score
from torch import nn

from interlingua.modalities.batch import Batch, Text, take
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.rows import join_rows

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


def pieces(text: Text, row: int, half: int | None = None) -> list[int]:
    """Pieces of a text, or of a half of it, without control tokens."""
    there = text.present[row] & (text.word[row] >= 0)
    return text.tokens[row][there if half is None else there & (text.segment[row] == half)].tolist()


def seconds(marked: Batch) -> list[list[int]]:
    """Pieces of the second half of each row."""
    return [pieces(marked.text, row, 1) for row in range(marked.size)]


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


def check_sum_of_pairs(encoder, objective, batch: Batch) -> None:
    """The whole is the sum of its samples, as they are marked in the batch."""
    marked = mark(objective, batch)
    parts = [score(encoder, objective, take(marked, torch.tensor([row]))) for row in range(marked.size)]
    check_sum(score(encoder, objective, marked), parts)


def check_choices_of_a_split(encoder, objective, whole: Batch, stretched: Batch) -> None:
    """What stands in a row, and what it costs, depends on neither order nor split nor padding of the pool.

    Args:
        whole: Six samples, not all of which keep their second half.
        stretched: The same, padded otherwise.
    """

    def read(marked):
        return [[pieces(marked.text, row, half) for half in (0, 1)] for row in range(marked.size)]

    pool = objective.lend(whole)
    together = mark(objective, whole, pool)
    assert 2 < (~together.matched).sum() < 6
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    shuffled = mark(objective, take(whole, order), take(pool, order))
    parts = [take(stretched, rows) for rows in torch.arange(6).split(3)]
    joined = join_rows([objective.lend(part) for part in parts])
    split = [mark(objective, part, joined) for part in parts]
    assert read(together) == [row for part in split for row in read(part)]
    assert [read(together)[row] for row in order] == read(shuffled)
    costs = [score(encoder, objective, one).total for one in (together, shuffled)]
    torch.testing.assert_close(costs[1], costs[0])
    torch.testing.assert_close(sum(score(encoder, objective, one).total for one in split), costs[0])
    # What a choice from the micro-batch alone would give is another step.
    alone = [mark(objective, part) for part in parts]
    assert seconds(together) != [second for part in alone for second in seconds(part)]


def check_long_pairs(objective, batch: Batch) -> None:
    """They are cut after the exchange, to 64 tokens: the row says nothing about which second half it has."""
    marked = mark(objective, batch)
    assert 0 < marked.matched.sum() < batch.size
    assert (marked.text.present.sum(1) == 64).all()
    assert ((marked.text.segment == 1) & marked.text.present).sum(1).unique().numel() == 1


def check_order_in_the_pass(encoder, objective, batch: Batch) -> None:
    """Marks are kept by masked language modelling that comes after it; where it comes before, that is refused."""
    language = MaskedLanguage(rate=1.0)
    language.connect(encoder)
    marked = mark(objective, batch)
    hidden = language.mark(marked)
    assert hidden.text.hidden.equal(marked.text.word >= 0)
    assert hidden.matched.equal(marked.matched)
    with pytest.raises(ValueError, match=rf"source {batch.source}: .* name it before masked language modelling"):
        mark(objective, language.mark(batch))
