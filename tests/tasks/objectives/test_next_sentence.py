"""Next sentence prediction: second halves of other documents, by identity and in one language, the same however it is split."""

import logging

import pytest
import tiny
import torch
from costs import score
from halves import (
    LENGTHS,
    NOTHING,
    OTHERS,
    check_choices_of_a_split,
    check_ignorance,
    check_long_pairs,
    check_nothing_to_score,
    check_order_in_the_pass,
    check_rows_that_lack_a_half,
    check_sum_of_pairs,
    claim_class_zero,
    connected,
    halves,
    mark,
    pack_first_row,
    pieces,
)
from learning import reach_half

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.next_sentence import NextSentence


def objective(**options):
    return connected(NextSentence(**options))


def test_half_of_many_second_halves_come_from_another_document():
    _, nsp = objective()
    lengths, others = [5 + row % 9 for row in range(400)], [4 + row % 7 for row in range(400)]
    batch = halves(lengths, others, items=[row // 2 for row in range(400)])
    marked = mark(nsp, batch)
    assert abs((~marked.matched).float().mean() - 0.5) < 0.08
    owners = {tuple(pieces(batch.translation, row)): batch.item[row].item() for row in range(400)}
    for row in range(400):
        assert pieces(marked.text, row, 0) == pieces(batch.text, row)
        second = pieces(marked.text, row, 1)
        assert (second == pieces(batch.translation, row)) == marked.matched[row].item()
        assert (owners[tuple(second)] == batch.item[row]) == marked.matched[row].item()
    assert marked.translation is None
    assert marked.item.equal(batch.item)


def test_every_other_second_half_is_drawn_as_often():
    _, nsp = objective(rate=1.0)
    few = halves([4] * 5, [4, 5, 6, 7, 8])
    rows, epochs = torch.arange(5).repeat(600), torch.arange(600).repeat_interleave(5)
    many = take(few, rows)._replace(epoch=epochs)
    marked = mark(nsp, many, nsp.lend(few))
    lengths = (marked.text.present & (marked.text.segment == 1)).sum(1) - 3  # 0 to 4: which second half it is
    counts = torch.zeros(5, 5).index_put((rows, lengths), torch.ones(3000), accumulate=True)
    assert (counts.diag() == 0).all()
    assert (counts[~torch.eye(5, dtype=torch.bool)] - 150).abs().max() < 50


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_an_ignorant_head_costs_log_two_a_pair(rate):
    check_ignorance(*objective(rate=rate))


def test_class_zero_means_that_it_is_next():
    """BERT's released code; the other way round the cost would be that of the other rows."""
    encoder, nsp = objective()
    claim_class_zero(nsp)
    marked = mark(nsp, halves(items=[0, 1, 2, 3, 4, 5]))
    replaced = (~marked.matched).sum().item()
    assert replaced != 3
    assert score(encoder, nsp, marked).total.item() == pytest.approx(20.0 * replaced, rel=1e-5)


def test_only_halves_of_the_same_language_are_borrowed():
    """A second half in another language would tell at once that it is not the next."""
    _, nsp = objective(rate=1.0)
    batch = halves()
    codes = torch.tensor([0, 1, 0, 1, 0, 1])
    texts = [text._replace(language=codes[:, None].expand_as(text.language)) for text in (batch.text, batch.translation)]
    for epoch in range(20):
        own = batch._replace(text=texts[0], translation=texts[1], epoch=batch.epoch + epoch)
        marked = mark(nsp, own)
        assert not marked.matched.any()
        assert (marked.text.language == codes[:, None]).all()
    alone = own._replace(translation=texts[1]._replace(language=torch.arange(6)[:, None].expand_as(texts[1].language)))
    assert mark(nsp, alone).matched.all()


def test_of_items_7_7_and_9_the_second_half_is_always_the_other_items():
    """Pitfall O07: 300 draws."""
    _, nsp = objective(rate=1.0)
    few = halves([4, 4, 4], [4, 5, 6], items=[7, 7, 9])
    many = take(few, torch.arange(3).repeat(300))._replace(epoch=torch.arange(300).repeat_interleave(3))
    marked = mark(nsp, many, nsp.lend(few))
    lengths = (marked.text.present & (marked.text.segment == 1)).sum(1).view(300, 3) + 1
    assert not marked.matched.any()
    assert (lengths[:, :2] == 6).all()
    assert lengths[:, 2].unique().tolist() == [4, 5]


def test_a_half_that_reads_the_same_is_no_negative_though_its_document_differs():
    _, nsp = objective(rate=1.0)
    batch = halves([5, 6, 7], [5, 5, 7], items=[1, 2, 1])
    batch = batch._replace(translation=take(batch.translation, torch.tensor([0, 0, 2])))
    assert mark(nsp, batch).matched.tolist() == [True, False, False]


@pytest.mark.parametrize("items", [[7], [7, 7, 7]])
def test_without_another_document_all_stay_next_and_it_is_said_once(items, caplog):
    encoder, nsp = objective(rate=1.0)
    count = len(items)
    batch = halves(LENGTHS[:count], OTHERS[:count], items=items)
    with caplog.at_level(logging.WARNING):
        marked = mark(nsp, batch)
        mark(nsp, batch)
    assert marked.matched.all()
    loss = score(encoder, nsp, marked)
    assert loss.count == nsp.count(marked) == count
    assert loss.total.isfinite()
    said = f"{count} samples of a step have no text of another item in their language"
    assert [said in message for message in caplog.messages] == [True]


def test_the_choice_depends_on_neither_order_nor_split_nor_padding_of_the_pool():
    check_choices_of_a_split(*objective(rate=0.8), halves(), halves(left=True, padded=20))


def test_rows_that_lack_a_half_are_read_alone_and_not_counted():
    encoder, nsp = objective(rate=1.0)
    marked = check_rows_that_lack_a_half(encoder, nsp, halves([5, 0, 6, 7, 0], [4, 5, 0, 6, 0]), pairs=2)
    assert marked.matched.tolist() == [False, True, True, False, True]


@pytest.mark.parametrize("batch", NOTHING.values(), ids=NOTHING)
def test_nothing_to_score_costs_exactly_nothing(batch):
    encoder, nsp = objective()
    check_nothing_to_score(encoder, nsp, mark(nsp, batch))


def test_long_pairs_are_cut_after_the_exchange():
    check_long_pairs(objective(rate=0.5)[1], halves([60] * 12, [50] * 12))


def test_the_form_of_the_row_is_an_option():
    _, nsp = objective(pair="xlm-roberta", rate=0.0)
    marked = mark(nsp, halves())
    assert marked.text.present.sum(1).tolist() == [first + second for first, second in zip(LENGTHS, OTHERS, strict=True)]
    with pytest.raises(ValueError, match="next sentence: pair is 'roberta', expected one of bert, xlm-roberta"):
        NextSentence(pair="roberta")


def test_the_order_in_its_pass_is_that_in_which_marks_can_be_kept():
    check_order_in_the_pass(*objective(), halves())


def test_the_cost_halves_in_sixty_steps():
    encoder, nsp = objective()
    marked = mark(nsp, halves())
    assert 0 < marked.matched.sum() < 6
    reach_half(lambda: score(encoder, nsp, marked).total, encoder, nsp)


def test_the_whole_is_the_sum_of_its_samples():
    check_sum_of_pairs(*objective(), halves())


def test_what_cannot_be_meant_is_refused():
    _, nsp = objective()
    with pytest.raises(ValueError, match=r"next sentence: source 'captions' has no second text; .*following: 1"):
        nsp.view(tiny.batch())
    packed = halves()
    with pytest.raises(ValueError, match="rows of source 'pages' are packed"):
        nsp.view(packed._replace(text=pack_first_row(packed.text)))
    with pytest.raises(ValueError, match=r"rate is 1\.5"):
        NextSentence(rate=1.5)
    with pytest.raises(ValueError, match="ImageTower reads image; use an encoder with a text stream"):
        NextSentence().connect(tiny.two_towers().image)
