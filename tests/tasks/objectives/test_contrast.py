"""Contrast: positives and negatives by identity, exact however the rows are split."""

import math
from itertools import pairwise

import pytest
import tiny
import torch
import torch.nn.functional as F
from learning import reach_half

from interlingua.modalities.batch import take
from interlingua.models.encoder import States, Vectors
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.objective import Embeddings

LENGTHS = (7, 5, 9, 4, 6, 8)


def captions(lengths=LENGTHS, items=None, **options):
    return tiny.batch(lengths, items, image=tiny.image(len(lengths)), **options)


def connected(**options):
    torch.manual_seed(0)
    encoder, objective = tiny.two_towers(), Contrast(**options)
    objective.connect(encoder)
    return encoder, objective


def embeddings(rows=7, width=5, items=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    left, right = (F.normalize(torch.randn(rows, width, generator=generator), dim=1).requires_grad_() for _ in range(2))
    item = torch.arange(rows) if items is None else torch.tensor(items)
    return Embeddings(left, right, torch.stack([item, torch.arange(rows) + 100], dim=1))


def part(every, start, end):
    return Embeddings(*(field[start:end] for field in every))


def by_hand(objective, every):
    """The sum of section 2.3's loss over rows, one scalar at a time."""
    scale, total = objective.scale.exp(), 0.0
    for here, there in ((every.left, every.right), (every.right, every.left)):
        for row in range(len(here)):
            same = (every.identity[row] == every.identity).any(1).tolist()
            against = [other for other in range(len(here)) if other == row or not same[other]]
            scores = torch.stack([scale * here[row] @ there[other] for other in against])
            total = total + (scores.logsumexp(0) - scale * here[row] @ there[row]) / 2
    return total


@pytest.mark.parametrize("items", [None, [1, 1, 2, 3, 3, 3, 4]])
def test_equals_the_loss_by_hand_and_its_gradients(items):
    objective, every = Contrast(), embeddings(items=items)
    loss, expected = objective.contrast(every, every, 0), by_hand(objective, every)
    assert loss.count == 7
    torch.testing.assert_close(loss.total, expected, rtol=1e-6, atol=1e-5)
    leaves = [every.left, every.right, objective.scale]
    for pair in zip(torch.autograd.grad(loss.total, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("items", "expected"), [([7, 8, 9], math.log(3)), ([7, 7, 9], (2 * math.log(2) + math.log(3)) / 3)])
def test_duplicates_of_an_item_leave_the_denominator(items, expected):
    """Pitfall O06: ln 3 = 1.0986 for three items, 0.8283 for 7, 7 and 9."""
    zeros = torch.zeros(3, 4)
    rows = Embeddings(zeros, zeros, torch.tensor([[item, row] for row, item in enumerate(items)]))
    loss = Contrast().contrast(rows, rows, 0)
    assert loss.total.item() / 3 == pytest.approx(expected, abs=1e-5)
    assert expected == pytest.approx(1.0986 if items[1] == 8 else 0.8283, abs=1e-4)


@pytest.mark.parametrize("about", ["item", "text"])
def test_the_same_item_and_equal_texts_are_not_each_others_negatives(about):
    """Pitfall O06: two captions of one picture, and two equal captions of different pictures, from the batch on."""
    _, objective = connected()
    batch = captions([6, 6, 6], items=[7, 7, 9] if about == "item" else [1, 2, 3])
    if about == "text":
        batch = batch._replace(text=take(batch.text, torch.tensor([0, 0, 2])))
    states = States(vectors=Vectors(text=torch.zeros(3, 24), image=torch.zeros(3, 24)))
    assert objective.loss(states, batch).total.item() / 3 == pytest.approx(0.8283, abs=1e-4)


@pytest.mark.parametrize("cuts", [(0, 3, 7), (0, 1, 2, 3, 4, 5, 6, 7), (0, 0, 7)])
@pytest.mark.parametrize("items", [None, [1, 5, 2, 1, 3, 3, 1]])
def test_ranks_sum_to_the_whole_in_loss_and_gradients(cuts, items):
    """Duplicates across ranks included; gradients flow into other ranks' rows."""
    objective, every = Contrast(), embeddings(items=items)
    leaves = [every.left, every.right, objective.scale]
    whole = objective.contrast(every, every, 0)
    losses = [objective.contrast(part(every, a, b), every, a) for a, b in pairwise(cuts)]
    assert sum(loss.count for loss in losses) == whole.count
    torch.testing.assert_close(sum(loss.total for loss in losses), whole.total, rtol=1e-6, atol=1e-6)
    apart = torch.autograd.grad(sum(loss.total for loss in losses), leaves)
    for pair in zip(apart, torch.autograd.grad(whole.total, leaves), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-6, atol=1e-6)


def test_the_well_known_wrong_choices_are_told_apart():
    """Pitfall O05."""
    objective, every = Contrast(), embeddings(items=[1, 5, 2, 1, 3, 3, 1])
    whole = objective.contrast(every, every, 0).total
    parts = [(0, 3), (3, 7)]
    local = sum(objective.contrast(part(every, a, b), part(every, a, b), 0).total for a, b in parts)
    by_place = sum(objective.contrast(part(every, a, b), every, 0).total for a, b in parts)
    plain = objective.contrast(*2 * [every._replace(identity=torch.arange(7)[:, None])], 0).total
    means = sum(objective.contrast(part(every, a, b), every, a).total / (b - a) for a, b in parts) / 2
    for wrong in (local / 7, by_place / 7, plain / 7, means):
        assert abs(wrong - whole / 7) > 0.01
    # A gather without gradient loses what a row owes to the other rank's losses.
    detached = Embeddings(every.left.detach(), every.right.detach(), every.identity)
    cut = sum(objective.contrast(part(every, a, b), detached, a).total for a, b in parts)
    assert (torch.autograd.grad(cut, every.left)[0] - torch.autograd.grad(whole, every.left)[0]).abs().max() > 0.01


def test_rows_may_come_in_any_order():
    objective, every = Contrast(), embeddings(items=[1, 5, 2, 1, 3, 3, 1])
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    shuffled = Embeddings(*(field[order] for field in every))
    torch.testing.assert_close(
        objective.contrast(shuffled, shuffled, 0).total, objective.contrast(every, every, 0).total, rtol=1e-6, atol=1e-5
    )


@pytest.mark.parametrize("items", [[1], [1, 1, 1]])
def test_one_row_or_one_item_costs_nothing_with_finite_gradients(items):
    objective, every = Contrast(), embeddings(rows=len(items), items=items)
    loss = objective.contrast(every, every, 0)
    assert loss.total.item() == 0
    gradients = torch.autograd.grad(loss.total, [every.left, every.right, objective.scale])
    assert all((gradient == 0).all() for gradient in gradients)


@pytest.mark.parametrize("batch", [captions([0, 0]), tiny.batch(), captions()._replace(text=None)])
def test_nothing_to_compare_costs_exactly_nothing_with_finite_gradients(batch):
    encoder, objective = connected()
    loss = objective.loss(encoder(batch), batch)
    assert loss.total.item() == 0
    assert loss.count == objective.count(batch) == 0
    assert torch.autograd.grad(loss.total, objective.scale)[0] == 0
    other = embeddings(4, 24)
    none = objective.embed(encoder(batch), batch)
    assert objective.contrast(none, other, 0).total.item() == 0


def test_only_rows_with_both_sides_that_belong_together_are_compared():
    encoder, objective = connected()
    batch = captions([5, 0, 6, 7, 4])
    batch = batch._replace(
        image=batch.image._replace(present=torch.tensor([True, True, False, True, True])),
        matched=torch.tensor([True, True, True, False, True]),
    )
    found = objective.embed(encoder(batch), batch)
    assert found.identity[:, 0].tolist() == [0, 4]
    loss = objective.loss(encoder(batch), batch)
    assert loss.count == objective.count(batch) == 2


def test_vectors_have_length_one_in_float32():
    _, objective = connected()
    vectors = Vectors(torch.full((6, 24), 1e4, dtype=torch.bfloat16), image=torch.full((6, 24), -3e-4, dtype=torch.bfloat16))
    found = objective.embed(States(vectors=vectors), captions())
    for side in (found.left, found.right):
        assert side.dtype == torch.float32
        torch.testing.assert_close(side.norm(dim=1), torch.ones(6))
    with torch.autocast("cpu", torch.bfloat16):
        assert objective.contrast(found, found, 0).total.dtype == torch.float32


def test_an_ignorant_pair_of_towers_costs_log_n():
    _, objective = connected()
    states = States(vectors=Vectors(text=torch.ones(6, 24), image=torch.ones(6, 24)))
    assert objective.loss(states, captions()).total.item() / 6 == pytest.approx(math.log(6), rel=1e-5)


def test_a_text_and_its_translation_are_compared_alike():
    encoder, objective = connected(left="text", right="translation")
    batch = tiny.batch([6, 7, 8, 5], [1, 2, 1, 3], translation=tiny.text([5, 5, 6, 4], seed=1))
    found = objective.embed(encoder(batch), batch)
    assert found.identity.shape == (4, 3)
    loss = objective.loss(encoder(batch), batch)
    assert loss.count == objective.count(batch) == 4
    torch.testing.assert_close(loss.total, by_hand(objective, found), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sides", [("text", "image"), ("text", "translation")])
def test_the_cost_halves_in_sixty_steps(sides):
    encoder, objective = connected(left=sides[0], right=sides[1])
    batch = captions(translation=tiny.text([5, 5, 6, 4, 7, 5], seed=1))
    reach_half(lambda: objective.loss(encoder(batch), batch).total, encoder, objective, rate=2e-3)


def test_the_scale_starts_at_the_temperature_and_returns_to_its_bound_with_a_live_gradient():
    encoder, objective = connected(temperature=0.02, max_scale=100.0)
    assert objective.scale.exp().item() == pytest.approx(50.0)
    with torch.no_grad():
        objective.scale.fill_(6.0)
    objective.after_step(encoder)
    assert objective.scale.exp().item() == pytest.approx(100.0)
    every = embeddings()
    assert torch.autograd.grad(objective.contrast(every, every, 0).total, objective.scale)[0] != 0
    assert [name for name, _ in objective.named_parameters()] == ["scale"]


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_vectors_that_are_not_finite_are_an_error_that_names_the_samples(broken):
    _, objective = connected()
    vectors = torch.ones(6, 24)
    vectors[3, 2] = broken
    states = States(vectors=Vectors(text=vectors, image=torch.ones(6, 24)))
    with pytest.raises(ValueError, match=r"1 text vectors of source captions are not finite \(samples \[3\]\)"):
        objective.loss(states, captions())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"left": "regions"}, "found regions and image"),
        ({"left": "image"}, "found image and image"),
        ({"temperature": 0.001}, "starts above the max_scale"),
    ],
)
def test_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        Contrast(**options)


def test_refuses_encoders_without_vectors():
    with pytest.raises(ValueError, match=r"Fused reads .* gives no vectors"):
        Contrast().connect(tiny.single_stream())
    with pytest.raises(ValueError, match="text and audio"):
        Contrast(right="audio").connect(tiny.two_towers())
