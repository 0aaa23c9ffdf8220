"""Interpolated contrast: what negatives become, and what they cost."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from interpolated import by_hand, draw, embeddings, part, remember

from interlingua.tasks.objectives import interpolated_contrast
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.interpolated_contrast import InterpolatedContrast, costs, drawn_cosines, shares
from interlingua.tasks.objectives.objective import Embeddings

EXACT = {torch.float32: 1e-5, torch.float64: 1e-7}
"""The certainty is in float32 whatever the vectors are."""


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize("items", [None, [1, 1, 2, 3, 3, 3, 4]])
@pytest.mark.parametrize(("certainty", "temperature"), [(0.5, 1.0), (1.0, 0.1), (0.0, 0.1)])
def test_equals_the_loss_by_hand_and_its_gradients(certainty, temperature, items, exclude, dtype):
    objective = remember(InterpolatedContrast(temperature, exclude_same=exclude), certainty)
    every = embeddings(items=items, dtype=dtype)
    loss, expected = objective.contrast(every, every, 0), by_hand(every, 0.9 * certainty, temperature, exclude)
    assert loss.count == 7
    assert loss.total.dtype == dtype
    exact = {"rtol": EXACT[dtype], "atol": EXACT[dtype]}
    torch.testing.assert_close(loss.total, expected, **exact)
    leaves = every.left, every.right
    for pair in zip(torch.autograd.grad(loss.total, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(*pair, **exact)


def test_in_double_precision_costs_are_the_paper_s_to_ten_digits():
    every, exponent = embeddings(dtype=torch.float64), torch.tensor(0.45, dtype=torch.float64)
    own = torch.eye(7, dtype=torch.bool)
    sides = (every.left, every.right, every.right), (every.right, every.left, every.left)
    total = sum(costs(*one, own, exponent, 0.1).sum() for one in sides) / 2
    expected = by_hand(every, 0.45, 0.1)
    torch.testing.assert_close(total, expected, rtol=1e-10, atol=1e-10)
    leaves = every.left, every.right
    for pair in zip(torch.autograd.grad(total, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-10, atol=1e-10)


def test_the_share_of_a_negative_is_that_of_the_distances_to_the_power():
    """|x - y| = 1; negatives at 4, 1 and a half: only the first is drawn nearer, to 4 ** -0.5 of its way."""
    x, y = torch.tensor([[3.0, 0.0]]), torch.tensor([[3.0, 1.0]])
    z = torch.tensor([[7.0, 0.0], [3.0, -1.0], [3.0, 0.5]])
    found = shares(x, y, z, torch.tensor(0.5))
    torch.testing.assert_close(found, torch.tensor([[0.5, 1.0, 1.0]]))
    torch.testing.assert_close(shares(x, y, z, torch.tensor(1.0)), torch.tensor([[0.25, 1.0, 1.0]]))
    assert (shares(x, y, z, torch.tensor(0.0)) == 1).all()
    points = x + found.T * (z - x)
    torch.testing.assert_close(drawn_cosines(x, z, found), F.cosine_similarity(x, points, dim=1)[None])


def test_negatives_come_nearer_with_certainty_at_most_as_near_as_the_translation():
    every = embeddings(rows=12)
    exponents = torch.linspace(0, 1, 6)
    found = torch.stack([shares(every.left, every.right, every.right, one) for one in exponents])
    assert (found.diff(dim=0) <= 0).all()
    near, far = (every.left - every.right).norm(dim=1, keepdim=True), torch.cdist(every.left, every.right)
    torch.testing.assert_close(found[-1] * far, torch.minimum(near, far), rtol=1e-4, atol=1e-5)
    totals = [remember(InterpolatedContrast(), one).contrast(every, every, 0).total.item() for one in (0.0, 0.5, 1.0)]
    assert totals[0] < totals[1] < totals[2]


@pytest.mark.parametrize("off", [{"zeta": 0.0}, {"certainty": 0.0}], ids=str)
@pytest.mark.parametrize("items", [None, [1, 1, 2, 3, 3, 3, 4]])
def test_without_hardening_it_is_plain_contrast(off, items):
    objective = remember(InterpolatedContrast(0.1, zeta=off.get("zeta", 0.9)), off.get("certainty", 0.7))
    every = embeddings(items=items)
    units = Embeddings(*(F.normalize(side, dim=1) for side in every[:2]), every.identity)
    plain = Contrast(temperature=0.1).contrast(units, units, 0).total
    torch.testing.assert_close(objective.contrast(every, every, 0).total, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("items", "expected"), [([7, 8, 9], math.log(3)), ([7, 7, 9], (2 * math.log(2) + math.log(3)) / 3)])
def test_duplicates_of_an_item_are_no_negatives(items, expected):
    """Pitfall O06: ln 3 = 1.0986 for three items, 0.8283 for 7, 7 and 9."""
    vectors = torch.ones(3, 4)
    rows = Embeddings(vectors, vectors, torch.tensor([[item, row + 10, row + 20] for row, item in enumerate(items)]))
    excluding, plain = (remember(InterpolatedContrast(exclude_same=one), 0.5) for one in (True, False))
    assert excluding.contrast(rows, rows, 0).total.item() / 3 == pytest.approx(expected, abs=1e-5)
    assert plain.contrast(rows, rows, 0).total.item() / 3 == pytest.approx(math.log(3), abs=1e-5)


def test_equal_texts_of_different_items_are_no_negatives_on_whatever_side():
    vectors = torch.ones(3, 4)
    for texts in ([[5, 6], [5, 7], [8, 9]], [[5, 6], [7, 5], [8, 9]]):
        rows = Embeddings(vectors, vectors, torch.cat([torch.arange(3)[:, None], torch.tensor(texts)], 1))
        assert InterpolatedContrast().contrast(rows, rows, 0).total.item() / 3 == pytest.approx(0.8283, abs=1e-4)
    items = rows._replace(identity=torch.tensor([[5, 6, 7], [1, 5, 8], [2, 9, 10]]))  # an item's number is no text's
    assert InterpolatedContrast().contrast(items, items, 0).total.item() / 3 == pytest.approx(math.log(3), abs=1e-5)


def test_the_well_known_wrong_choices_are_told_apart():
    every, exponent = embeddings(), 0.9
    objective = remember(InterpolatedContrast(0.1), 1.0)
    whole = objective.contrast(every, every, 0).total
    units = Embeddings(*(F.normalize(side, dim=1) for side in every[:2]), every.identity)
    wrong = {
        "from the negative": by_hand(every, exponent, 0.1, draw=lambda x, y, z, power: draw(z, y, x, power)),
        "also nearer ones": by_hand(
            every, exponent, 0.1, draw=lambda x, y, z, power: x + ((x - y).norm() / (x - z).norm()) ** power * (z - x)
        ),
        "farther, not nearer": by_hand(every, -exponent, 0.1),
        "distances of unit vectors": by_hand(units, exponent, 0.1),
        "no halves": 2 * whole,
        "not hardened": by_hand(every, 0.0, 0.1),
    }
    for name, total in wrong.items():
        assert abs(total - whole) / 7 > 0.01, name

    def live(x, y, z, power):
        """A share with a gradient of its own: the same loss, which then learns to bring distances nearer."""
        near, far = (x - y).norm(), (x - z).norm()
        return x + (near / far) ** power * (z - x) if far > near else z

    alive = by_hand(every, exponent, 0.1, draw=live)
    torch.testing.assert_close(alive, whole, rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(one, every.left)[0] for one in (alive, whole)]
    assert (gradients[0] - gradients[1]).abs().max() > 0.01


@pytest.mark.parametrize("cuts", [(0, 3, 7), (0, 1, 2, 3, 4, 5, 6, 7), (0, 0, 7)])
@pytest.mark.parametrize("items", [None, [1, 5, 2, 1, 3, 3, 1]])
def test_ranks_and_blocks_sum_to_the_whole_in_loss_and_gradients(cuts, items, monkeypatch):
    """Duplicates across ranks included; gradients flow into other ranks' rows."""
    objective, every = remember(InterpolatedContrast(0.2), 0.6), embeddings(items=items)
    whole = objective.contrast(every, every, 0)
    monkeypatch.setattr(interpolated_contrast, "ROWS", 2)
    losses = [objective.contrast(part(every, a, b), every, a) for a, b in pairwise(cuts)]
    assert sum(loss.count for loss in losses) == whole.count
    torch.testing.assert_close(sum(loss.total for loss in losses), whole.total, rtol=1e-5, atol=1e-5)
    apart = torch.autograd.grad(sum(loss.total for loss in losses), every[:2])
    for pair in zip(apart, torch.autograd.grad(whole.total, every[:2]), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-5, atol=1e-5)


def test_states_far_off_the_origin_keep_their_distances():
    """Where cosines are 0.9999 and squared lengths swallow squared distances."""
    every, exact = (embeddings(40, shift=300.0, dtype=dtype) for dtype in EXACT)
    found, expected = (shares(one.left, one.right, one.right, torch.tensor(1.0)) for one in (every, exact))
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)
    rough = torch.cdist(every.left, every.right)  # of so many rows, by products
    assert (rough.double() - torch.cdist(exact.left, exact.right)).abs().max() > 1e-2


@pytest.mark.parametrize("rows", [[0], [0, 0, 0]])
def test_one_row_or_one_item_costs_nothing_with_finite_gradients(rows):
    objective, every = remember(InterpolatedContrast(), 0.5), embeddings(len(rows), items=rows)
    loss = objective.contrast(every, every, 0)
    assert loss.total.item() == 0
    assert all((gradient == 0).all() for gradient in torch.autograd.grad(loss.total, every[:2]))


def test_equal_and_vanishing_vectors_have_finite_costs_and_gradients():
    every = embeddings(4)
    twice = torch.cat([every.left[:1], every.left[:1], torch.zeros(2, 5)]).detach().requires_grad_()
    rows = Embeddings(twice, twice, every.identity[:4])
    loss = remember(InterpolatedContrast(0.1), 1.0).contrast(rows, rows, 0)
    assert loss.total.isfinite()
    assert torch.autograd.grad(loss.total, twice)[0].isfinite().all()
