"""The tiled contrast is the plain one, in value and in gradient, whatever the tile and however the rows are split."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from interlingua.tasks.objectives.objective import Embeddings
from interlingua.tasks.objectives.tiled_contrast import repeated_rows, same_thing, tiled_contrast

SPLITS = [(13, 13, 0), (13, 20, 0), (13, 20, 4), (13, 20, 7), (1, 1, 0), (1, 9, 8), (0, 6, 2), (0, 0, 0)]
"""Own rows, all rows, where the own begin."""


def problem(rows=20, width=8, items=None, dtype=torch.float32, scale=20.0):
    """All rows, and the leaves of their graph."""
    generator = torch.Generator().manual_seed(0)
    vectors = F.normalize(torch.randn(2, rows, width, generator=generator, dtype=torch.float64), dim=2).to(dtype)
    left, right = (side.clone().requires_grad_() for side in vectors)
    item = torch.arange(rows) if items is None else torch.tensor(items, dtype=torch.int64)
    every = Embeddings(left, right, torch.stack([item, torch.arange(rows) + 100], dim=1))
    return every, [left, right, torch.tensor(scale, dtype=dtype, requires_grad=True)]


def part(every, start, count):
    return Embeddings(*(field[start : start + count] for field in every))


def plain(own, every, start, scale):
    """With the scores of all pairs, in both directions."""
    positive = start + torch.arange(len(own.left))
    masked = same_thing(own.identity, every.identity).scatter(1, positive[:, None], False)
    forth, back = (
        F.cross_entropy((scale * mine @ theirs.T).masked_fill(masked, -torch.inf), positive, reduction="sum")
        for mine, theirs in ((own.left, every.right), (own.right, every.left))
    )
    return (forth + back) / 2


def step(loss, leaves, factor=0.37):
    """The loss and its gradients."""
    return [loss.detach(), *torch.autograd.grad(loss * factor, leaves)]


def assert_equal(found, expected, rtol, atol):
    for pair in zip(found, expected, strict=True):
        torch.testing.assert_close(*pair, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("dtype", "rtol", "atol"), [(torch.float32, 1e-6, 2e-6), (torch.float64, 1e-12, 1e-13)])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize(("count", "rows", "start"), SPLITS)
def test_equals_the_plain_loss_and_its_gradients(count, rows, start, repeats, dtype, rtol, atol):
    """Some or all rows against all, with and without items that stand in several rows; of magnitude 20 in float32."""
    items = [3 * row % 7 if row % 4 else 50 + row for row in range(rows)] if repeats else None
    every, leaves = problem(rows, items=items, dtype=dtype)
    own = part(every, start, count)
    expected = step(plain(own, every, start, leaves[2]), leaves)
    for tile in (1, 5, 13, None):
        assert_equal(step(tiled_contrast(own, every, start, leaves[2], tile), leaves), expected, rtol, atol)


def test_means_and_their_gradients_over_more_rows_than_a_tile_has_equal_to_a_millionth():
    every, leaves = problem(600, 32, items=[row // 2 for row in range(600)], scale=50.0)
    losses = tiled_contrast(every, every, 0, leaves[2]), plain(every, every, 0, leaves[2])
    found, expected = (step(loss / 600, leaves, factor=1.0) for loss in losses)
    assert_equal(found, expected, 1e-6, 1e-6)


class Largest(TorchDispatchMode):
    """Elements of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for one in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(one, torch.Tensor):
                self.elements = max(self.elements, one.numel())
        return made


@pytest.mark.parametrize("repeats", [1, 4])
def test_neither_scores_nor_masks_of_all_pairs_are_ever_there(repeats):
    every, leaves = problem(90, 2, items=[row // repeats for row in range(90)])
    with Largest() as largest:
        step(tiled_contrast(every, every, 0, leaves[2], tile=10), leaves)
    assert largest.elements <= 2 * 10 * 10
    with Largest() as largest:
        step(plain(every, every, 0, leaves[2]), leaves)
    assert largest.elements == 90 * 90


def test_a_row_with_nothing_to_be_told_from_costs_nothing_and_changes_nothing():
    """The first row shares its item with the second, its text with the third; those two are told from each other."""
    every, leaves = problem(3)
    every = every._replace(identity=torch.tensor([[7, 1], [7, 2], [8, 1]]))
    loss, *gradients = step(tiled_contrast(every, every, 0, leaves[2], tile=2), leaves)
    two = part(every, 1, 2)
    torch.testing.assert_close(loss, tiled_contrast(two, two, 0, leaves[2]).detach(), rtol=1e-6, atol=1e-6)
    assert loss > 0
    assert all((gradient[0] == 0).all() for gradient in gradients[:2])
    same = every._replace(identity=torch.zeros_like(every.identity))
    assert all((found == 0).all() for found in step(tiled_contrast(same, same, 0, leaves[2], tile=2), leaves))


@pytest.mark.parametrize("scale", [1e-3, 100.0, 1e4])
def test_survives_scores_that_overflow_their_exponentials(scale):
    every, leaves = problem(scale=scale, dtype=torch.float64)
    expected = step(plain(every, every, 0, leaves[2]), leaves)
    assert_equal(step(tiled_contrast(every, every, 0, leaves[2], tile=7), leaves), expected, 1e-10, 1e-10)
    every, leaves = problem(scale=scale)
    found = step(tiled_contrast(every, every, 0, leaves[2], tile=7), leaves)
    assert all(one.isfinite().all() for one in found)
    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-5, atol=1e-5)


def test_a_small_cost_keeps_its_digits():
    """Where softmax and logarithm in float32 give 0."""
    vectors = torch.eye(4)
    rows = Embeddings(vectors, vectors, torch.arange(4)[:, None])
    loss = tiled_contrast(rows, rows, 0, torch.tensor(40.0))
    assert loss.item() == pytest.approx(4 * math.log1p(3 * math.exp(-40)), rel=1e-5)
    assert plain(rows, rows, 0, torch.tensor(40.0)) == 0


def test_bfloat16_vectors_are_compared_in_float32():
    every, _ = problem()
    narrow = [side.detach().bfloat16().requires_grad_() for side in every[:2]]
    wide = [side.detach().float().requires_grad_() for side in narrow]
    scale = torch.tensor(20.0)
    loss, *gradients = step(tiled_contrast(*2 * [Embeddings(*narrow, every.identity)], 0, scale), narrow)
    expected, *expected_gradients = step(tiled_contrast(*2 * [Embeddings(*wide, every.identity)], 0, scale), wide)
    assert torch.equal(loss, expected)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted.bfloat16(), rtol=1e-2, atol=1e-2)  # both shares of a row are rounded


def test_autocast_changes_no_bit_in_either_pass():
    every, leaves = problem()
    expected = step(tiled_contrast(every, every, 0, leaves[2]), leaves)
    with torch.autocast("cpu", torch.bfloat16):
        found = step(tiled_contrast(every, every, 0, leaves[2]), leaves)
    assert all(map(torch.equal, found, expected))


def test_a_graph_can_be_walked_twice():
    every, leaves = problem()
    loss = tiled_contrast(every, every, 0, leaves[2], tile=7)
    first, second = (torch.autograd.grad(loss, leaves, retain_graph=True) for _ in range(2))
    assert all(map(torch.equal, first, second))


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_what_is_not_finite_is_not_hidden(broken):
    every, leaves = problem()
    with torch.no_grad():
        every.right[4, 2] = broken
    assert not tiled_contrast(every, every, 0, leaves[2], tile=7).isfinite()


def test_repeated_rows_share_an_identity_in_any_column():
    identity = torch.tensor([[1, 9], [2, 8], [1, 7], [3, 6], [4, 6], [9, 2]])
    assert repeated_rows(identity).tolist() == [True, False, True, True, True, False]
    assert (repeated_rows(identity) == (same_thing(identity, identity).sum(1) > 1)).all()
