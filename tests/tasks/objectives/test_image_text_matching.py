"""Image-text matching: negatives by identity, never the positive, from the whole step, the same however it is split."""

import logging
import math

import pytest
import tiny
import torch
from learning import reach_half
from torch import nn

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.rows import join_rows

LENGTHS = (7, 5, 9, 4, 6, 8)


def captions(lengths=LENGTHS, items=None, **options):
    return tiny.batch(lengths, items, image=tiny.image(len(lengths)), **options)


def connected(**options):
    torch.manual_seed(0)
    encoder, objective = tiny.single_stream(), ImageTextMatching(**options)
    objective.connect(encoder)
    return encoder, objective


def score(encoder, objective, marked):
    return objective.loss(objective.read(encoder, marked), marked)


def own_text(batch, row):
    return batch.text.tokens[row][batch.text.present[row]].tolist()


def test_half_of_many_texts_are_swapped_for_those_of_other_items():
    _, objective = connected()
    batch = captions([7 + row % 9 for row in range(400)], items=[row // 2 for row in range(400)])
    marked = objective.mark(batch)
    assert abs((~marked.matched).float().mean() - 0.5) < 0.08
    owners = {tuple(own_text(batch, row)): batch.item[row].item() for row in range(400)}
    for row in range(400):
        text = own_text(marked, row)
        assert (text == own_text(batch, row)) == marked.matched[row].item()
        assert (owners[tuple(text)] == batch.item[row]) == marked.matched[row].item()
    assert (batch.item == marked.item).all()
    assert (marked.image.pixels == batch.image.pixels).all()


def test_every_other_text_is_drawn_as_often():
    _, objective = connected(rate=1.0)
    few = captions([4, 5, 6, 7, 8])
    rows, epochs = torch.arange(5).repeat(1000), torch.arange(1000).repeat_interleave(5)
    many = take(few, rows)._replace(epoch=epochs)
    lengths = objective.mark(many, objective.lend(few)).text.present.sum(1)
    counts = torch.zeros(5, 5).index_put((rows, lengths - 4), torch.ones(5000), accumulate=True)
    assert (counts.diag() == 0).all()
    assert (counts[~torch.eye(5, dtype=torch.bool)] - 250).abs().max() < 60


def test_the_choice_depends_on_neither_order_nor_split_nor_padding_of_the_pool():
    _, objective = connected()
    whole = captions()
    pool = objective.lend(whole)
    together = objective.mark(whole, pool)
    assert 0 < (~together.matched).sum() < len(LENGTHS)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    shuffled = objective.mark(take(whole, order), take(pool, order))
    halves = [captions()._replace(text=tiny.text(LENGTHS, padded=20, left=True))] * 2
    halves = [take(half, rows) for half, rows in zip(halves, torch.arange(6).split(3), strict=True)]
    joined = join_rows([objective.lend(half) for half in halves])
    parts = [objective.mark(half, joined) for half in halves]
    for row in range(6):
        assert own_text(together, row) == own_text(parts[row // 3], row % 3)
        assert own_text(together, order[row]) == own_text(shuffled, row)
    # What a choice from the micro-batch alone would give is another step.
    alone = [objective.mark(half) for half in halves]
    assert any(own_text(together, row) != own_text(alone[row // 3], row % 3) for row in range(6))


def test_a_text_that_reads_the_same_is_no_negative_though_its_item_differs():
    _, objective = connected(rate=1.0)
    batch = captions([5, 5, 7], items=[1, 2, 1])
    same = take(batch.text, torch.tensor([0, 0, 2]))
    marked = objective.mark(batch._replace(text=same))
    assert marked.matched.tolist() == [True, False, False]
    assert own_text(marked, 1) == own_text(batch, 2)


def test_of_items_7_7_and_9_the_negative_is_always_the_other_item():
    """Pitfall O07: 1,000 draws."""
    _, objective = connected(rate=1.0)
    few = captions([4, 5, 6], items=[7, 7, 9])
    many = take(few, torch.arange(3).repeat(1000))._replace(epoch=torch.arange(1000).repeat_interleave(3))
    marked = objective.mark(many, objective.lend(few))
    lengths = marked.text.present.sum(1).view(1000, 3)
    assert not marked.matched.any()
    assert (lengths[:, :2] == 6).all()
    assert lengths[:, 2].unique().tolist() == [4, 5]


@pytest.mark.parametrize("items", [[7], [7, 7, 7]])
def test_without_another_item_pairs_stay_matched_are_counted_and_said_once(items, caplog):
    """Pitfall O07: one sample; three of one item."""
    encoder, objective = connected(rate=1.0)
    batch = captions(LENGTHS[: len(items)], items=items)
    with caplog.at_level(logging.WARNING):
        marked = objective.mark(batch)
        objective.mark(batch)
    assert marked.matched.all()
    loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) == len(items)
    assert loss.total.isfinite()
    assert [f"{len(items)} samples of a step have no text of another item" in message for message in caplog.messages] == [True]


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_an_ignorant_head_costs_log_two_a_pair(rate):
    encoder, objective = connected(rate=rate)
    nn.init.zeros_(objective.head.weight)
    marked = objective.mark(captions())
    loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) == 6
    assert loss.total.item() / 6 == pytest.approx(math.log(2), rel=1e-6)


def test_class_one_means_that_they_match():
    encoder, objective = connected()
    nn.init.zeros_(objective.head.weight)
    objective.head.bias.data = torch.tensor([0.0, 20.0])
    marked = objective.mark(captions())
    assert score(encoder, objective, marked).total.item() == pytest.approx(20.0 * (~marked.matched).sum().item(), rel=1e-5)


def test_rows_without_text_or_picture_are_left_alone_and_not_counted():
    encoder, objective = connected(rate=1.0)
    batch = captions([5, 0, 6, 7])
    batch = batch._replace(image=batch.image._replace(present=torch.tensor([True, True, False, True])))
    marked = objective.mark(batch)
    assert marked.matched.tolist() == [False, True, True, False]
    assert not marked.text.present[1].any()
    loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) == 2


@pytest.mark.parametrize(
    "batch", [captions([0, 0]), captions()._replace(text=None), tiny.batch()], ids=["empty texts", "no text", "no picture"]
)
def test_nothing_to_match_costs_exactly_nothing_with_finite_gradients(batch):
    encoder, objective = connected()
    marked = objective.mark(batch)
    states = encoder(marked)
    loss = objective.loss(states, marked)
    assert loss.total.item() == 0
    assert loss.count == objective.count(marked) == 0
    gradients = torch.autograd.grad(loss.total, list(objective.parameters()), allow_unused=True, materialize_grads=True)
    assert all((gradient == 0).all() for gradient in gradients)


def test_marks_that_are_there_stay_and_hidden_tokens_are_not_swapped_away():
    _, objective = connected(rate=1.0)
    batch = captions()._replace(matched=torch.tensor([False, True, True, True, True, True]))
    marked = objective.mark(batch)
    assert own_text(marked, 0) == own_text(batch, 0)
    assert not marked.matched.any()
    hidden = batch._replace(text=batch.text._replace(hidden=batch.text.present))
    with pytest.raises(ValueError, match=r"source captions: .* name it before masked language modelling"):
        objective.mark(hidden)


def test_alignments_of_a_text_that_left_are_dropped():
    _, objective = connected()
    marked = objective.mark(captions()._replace(alignment=torch.zeros(6, 3, 2, dtype=torch.long)))
    assert ((marked.alignment == -1).all((1, 2)) == ~marked.matched).all()


def test_absent_positions_of_borrowed_texts_hold_the_pad_id():
    _, objective = connected(rate=1.0)
    objective.pad = 1
    marked = objective.mark(captions())
    assert (marked.text.tokens[~marked.text.present] == 1).all()


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected()
    marked = objective.mark(captions(LENGTHS[:4]))
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_the_whole_is_the_sum_of_its_samples():
    encoder, objective = connected()
    marked = objective.mark(captions())
    loss = score(encoder, objective, marked)
    parts = [score(encoder, objective, take(marked, torch.tensor([row]))) for row in range(6)]
    torch.testing.assert_close(sum(part.total for part in parts), loss.total, rtol=1e-5, atol=1e-5)
    assert sum(part.count for part in parts) == loss.count


def test_refuses_an_encoder_that_does_not_fuse():
    with pytest.raises(ValueError, match=r"TwoTowers reads text, .* fuses nothing"):
        ImageTextMatching().connect(tiny.two_towers())


def test_refuses_a_rate_out_of_range():
    with pytest.raises(ValueError, match=r"rate is -0\.1"):
        ImageTextMatching(rate=-0.1)


def test_the_tally_counts_pairs_that_are_told_right():
    encoder, objective = connected(rate=0.5)
    marked = objective.mark(tiny.batch((7, 5, 9, 4), image=tiny.image(4)))
    states = encoder(marked)
    for always, right in ((0, (~marked.matched).sum()), (1, marked.matched.sum())):
        with torch.no_grad():
            objective.head.weight.zero_()
            objective.head.bias.copy_(torch.eye(2)[always])
        assert objective.tally(states, marked)["accuracy"].tolist() == [right, 4]
