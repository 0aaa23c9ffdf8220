"""The chunked output layer is the plain one, in value and in gradient, whatever the chunk."""

import pytest
import torch
import torch.nn.functional as F

from interlingua.models.linear_cross_entropy import linear_cross_entropy


def problem(rows=13, width=8, vocabulary=29, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = (rows, width), (vocabulary, width), (vocabulary,)
    leaves = [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]
    return leaves, torch.randint(vocabulary, (rows,), generator=generator)


def gradients(loss, leaves, factor=0.37):
    return torch.autograd.grad(loss * factor, leaves)


@pytest.mark.parametrize("block", [1, 7, 29, 100])
@pytest.mark.parametrize("tokens", [1, 4, 13, 100])
def test_equals_the_plain_loss_and_its_gradients(tokens, block):
    leaves, targets = problem()
    plain = F.cross_entropy(F.linear(*leaves), targets, reduction="sum")
    chunked = linear_cross_entropy(*leaves, targets, elements=29 * tokens, block=block)
    torch.testing.assert_close(chunked, plain, rtol=1e-6, atol=1e-6)
    for ours, expected in zip(gradients(chunked, leaves), gradients(plain, leaves), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_is_exact_to_the_last_digits_in_float64():
    leaves, targets = problem(dtype=torch.float64)
    plain = F.cross_entropy(F.linear(*leaves), targets, reduction="sum")
    chunked = linear_cross_entropy(*leaves, targets, elements=60, block=7)
    for ours, expected in zip(gradients(chunked, leaves), gradients(plain, leaves), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-14)


def test_survives_scores_that_overflow_their_exponentials_and_certain_answers():
    leaves, targets = problem()
    rows, table, bias = (leaf.detach() * 1000 for leaf in leaves)
    rows.requires_grad_()
    loss = linear_cross_entropy(rows, table, bias, targets, elements=60, block=7)
    torch.testing.assert_close(loss, F.cross_entropy(F.linear(rows, table, bias), targets, reduction="sum"))
    assert gradients(loss, [rows])[0].isfinite().all()


def test_no_rows_cost_exactly_nothing_and_leave_a_path():
    leaves, targets = problem(rows=0)
    loss = linear_cross_entropy(*leaves, targets)
    assert loss.item() == 0
    rows, bias = gradients(loss, [leaves[0], leaves[2]])
    assert rows.shape == (0, 8)
    assert (bias == 0).all()


def test_without_gradient_only_the_loss_is_made():
    leaves, targets = problem()
    with torch.no_grad():
        loss = linear_cross_entropy(*leaves, targets, elements=60)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, F.cross_entropy(F.linear(*leaves), targets, reduction="sum").detach())


def test_a_frozen_table_gets_no_gradient():
    leaves, targets = problem()
    leaves[1].requires_grad_(False)
    linear_cross_entropy(*leaves, targets).backward()
    assert leaves[1].grad is None
    assert leaves[0].grad is not None


def test_under_autocast_the_loss_is_float32_and_gradients_have_the_leaves_type():
    leaves, targets = problem()
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(*leaves, targets, elements=60, block=7)
    assert loss.dtype == torch.float32
    exact = F.cross_entropy(F.linear(*leaves), targets, reduction="sum")
    torch.testing.assert_close(loss, exact, rtol=0.02, atol=0.02)
    for ours, expected in zip(gradients(loss, leaves), gradients(exact, leaves), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, expected, rtol=0.05, atol=0.05)


def test_a_second_walk_backward_is_refused_rather_than_wrong():
    leaves, targets = problem()
    loss = linear_cross_entropy(*leaves, targets)
    (loss * 0.5).backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (loss * 0.5).backward()
