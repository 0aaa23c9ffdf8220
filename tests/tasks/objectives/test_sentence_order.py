"""Sentence order prediction: halves exchanged in half of the samples, by the sample and the epoch alone."""

import pytest
import tiny
import torch
from costs import score
from halves import (
    NOTHING,
    check_ignorance,
    check_nothing_to_score,
    check_rows_that_lack_a_half,
    claim_class_zero,
    connected,
    halves,
    mark,
    pack_first_row,
    pieces,
)
from learning import reach_half

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.sentence_order import SentenceOrder


def objective(**options):
    return connected(SentenceOrder(**options))


def exchanged(batch, marked):
    """Rows in which the second half stands first, by what is read."""
    found = []
    for row in range(batch.size):
        own = [pieces(batch.text, row), pieces(batch.translation, row)]
        read = [pieces(marked.text, row, half) for half in (0, 1)]
        assert read in (own, own[::-1])
        found.append(read != own)
    return torch.tensor(found)


def test_halves_are_exchanged_in_half_of_the_samples_anew_in_each_epoch():
    _, sop = objective()
    batch = halves([5 + row % 9 for row in range(400)], [4 + row % 7 for row in range(400)])
    first = exchanged(batch, mark(sop, batch))
    assert abs(first.float().mean() - 0.5) < 0.08
    later = batch._replace(epoch=batch.epoch + 1)
    assert abs((first == exchanged(later, mark(sop, later))).float().mean() - 0.5) < 0.08
    assert mark(sop, batch).translation is None


def test_an_ignorant_head_costs_log_two_a_pair():
    encoder, sop = objective()
    check_ignorance(encoder, sop)


def test_class_one_means_that_they_are_exchanged():
    """ALBERT's released code; the other way round the cost would be that of the other rows."""
    encoder, sop = objective()
    claim_class_zero(sop)
    batch = halves([6] * 9, [7] * 9)
    marked = mark(sop, batch)
    assert score(encoder, sop, marked).total.item() == pytest.approx(20.0 * exchanged(batch, marked).sum().item(), rel=1e-5)


def test_neither_padding_nor_batch_mates_matter():
    encoder, sop = objective()
    whole = halves()
    marked = mark(sop, whole)
    assert 0 < exchanged(whole, marked).sum() < 6
    stretched = mark(sop, halves(left=True, padded=25))
    torch.testing.assert_close(score(encoder, sop, stretched).total, score(encoder, sop, marked).total)
    parts = [score(encoder, sop, mark(sop, take(whole, rows))) for rows in torch.arange(6).split(1)]
    torch.testing.assert_close(sum(part.total for part in parts), score(encoder, sop, marked).total, rtol=1e-5, atol=1e-5)


def test_rows_that_lack_a_half_are_read_alone_and_not_counted():
    encoder, sop = objective()
    check_rows_that_lack_a_half(encoder, sop, halves([5, 0, 6], [4, 5, 0]), pairs=1)


@pytest.mark.parametrize("batch", NOTHING.values(), ids=NOTHING)
def test_nothing_to_score_costs_exactly_nothing(batch):
    encoder, sop = objective()
    check_nothing_to_score(encoder, sop, mark(sop, batch))


def test_masked_language_modelling_reads_the_exchanged_row():
    encoder, sop = objective()
    mlm = MaskedLanguage(rate=1.0)
    mlm.connect(encoder)
    batch = halves()
    assert mlm.mark(mark(sop, batch)).text.hidden.sum() == (batch.text.word >= 0).sum() + (batch.translation.word >= 0).sum()


def test_the_cost_halves_in_sixty_steps():
    encoder, sop = objective()
    marked = mark(sop, halves())
    reach_half(lambda: score(encoder, sop, marked).total, encoder, sop)


def test_what_cannot_be_meant_is_refused():
    _, sop = objective()
    with pytest.raises(ValueError, match=r"sentence order: source 'captions' has no second text; .*following: 1"):
        sop.view(tiny.batch())
    packed = halves()
    with pytest.raises(ValueError, match=r"sentence order scores one item a row, .*several documents share a translation"):
        sop.view(packed._replace(translation=pack_first_row(packed.translation)))
    with pytest.raises(ValueError, match="sentence order: pair is 'b'"):
        SentenceOrder(pair="b")
