"""Table gradients that are added where they are kept are the gradients that autograd gives."""

import copy

import pytest
import torch
import torch.nn.functional as F

from interlingua.models.linear_cross_entropy import linear_cross_entropy
from interlingua.models.table_gradients import drop_gradients, in_place_table_gradients, look_up

WORDS, WIDTH = 23, 8


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(WORDS, WIDTH)
        self.middle = torch.nn.Linear(WIDTH, WIDTH)
        self.bias = torch.nn.Parameter(torch.zeros(WORDS))

    def loss(self, ids, targets, elements=WORDS * 3):
        states = torch.tanh(self.middle(look_up(self.table.weight, ids)))
        return linear_cross_entropy(states.flatten(0, 1), self.table.weight, self.bias, targets.flatten(), elements, block=5)

    def plain_loss(self, ids, targets):
        states = torch.tanh(self.middle(self.table(ids)))
        scores = F.linear(states.flatten(0, 1), self.table.weight, self.bias)
        return F.cross_entropy(scores, targets.flatten(), reduction="sum")

    def gradients(self):
        return {name: parameter.grad for name, parameter in self.named_parameters()}


def parts(count=2):
    generator = torch.Generator().manual_seed(1)
    return [tuple(torch.randint(WORDS, (2, 5), generator=generator) for _ in range(2)) for _ in range(count)]


def expected(model, batches, factor):
    model = copy.deepcopy(model)
    for batch in batches:
        (model.plain_loss(*batch) * factor).backward()
    return model.gradients()


@pytest.mark.parametrize("elements", [WORDS * 3, WORDS * 100], ids=["in chunks", "in one"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_autograd_gives_them_over_one_and_several_backward_passes(count, elements):
    model = Model()
    with in_place_table_gradients():
        for batch in parts(count):
            (model.loss(*batch, elements) * 0.3).backward()
    torch.testing.assert_close(model.gradients(), expected(model, parts(count), 0.3))


def test_the_gradient_is_kept_in_one_place_and_never_copied():
    model = Model()
    with in_place_table_gradients():
        model.loss(*parts()[0]).backward()
        place = model.table.weight.grad.data_ptr()
        model.loss(*parts()[1]).backward()
    assert model.table.weight.grad.data_ptr() == place


def test_a_table_that_is_only_looked_up():
    model, (ids, _) = Model(), parts()[0]
    with in_place_table_gradients():
        for _ in range(2):
            look_up(model.table.weight, ids).pow(2).sum().backward()
    found, model.table.weight.grad = model.table.weight.grad, None
    (2 * model.table(ids).pow(2).sum()).backward()
    torch.testing.assert_close(found, model.table.weight.grad)


def test_hooks_on_a_table_see_its_whole_gradient():
    model, seen = Model(), []
    model.table.weight.register_hook(lambda gradient: seen.append(gradient.clone()))
    with in_place_table_gradients():
        model.loss(*parts()[0]).backward()
    assert len(seen) == 1
    torch.testing.assert_close(seen[0], expected(Model(), parts(1), 1.0)["table.weight"])


def test_a_frozen_table_stays_without_gradient_and_costs_none():
    model = Model()
    model.table.weight.requires_grad_(False)
    with in_place_table_gradients():
        model.loss(*parts()[0]).backward()
    assert model.table.weight.grad is None
    assert model.middle.weight.grad is not None


def test_outside_nothing_changes():
    model = Model()
    with in_place_table_gradients():
        pass
    (found,) = torch.autograd.grad(model.loss(*parts()[0]), [model.table.weight])
    torch.testing.assert_close(found, expected(model, parts(1), 1.0)["table.weight"])


def test_under_autocast_gradients_are_float32():
    model = Model()
    with in_place_table_gradients(), torch.autocast("cpu", torch.bfloat16):
        model.loss(*parts()[0]).backward()
    assert {gradient.dtype for gradient in model.gradients().values()} == {torch.float32}
    torch.testing.assert_close(model.gradients(), expected(model, parts(1), 1.0), rtol=0.05, atol=0.1)


def test_the_next_step_writes_over_the_last_gradient_where_it_was():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with in_place_table_gradients():
        model.loss(*parts()[0]).backward()
        place = model.table.weight.grad.data_ptr()
        drop_gradients(optimizer)
        assert all(gradient is None for gradient in model.gradients().values())
        model.loss(*parts()[1], elements=WORDS * 100).backward()
    assert model.table.weight.grad.data_ptr() == place
    torch.testing.assert_close(model.gradients(), expected(Model(), parts()[1:], 1.0))


def test_a_step_that_does_not_use_the_table_leaves_it_without_gradient():
    model, (ids, _) = Model(), parts()[0]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with in_place_table_gradients():
        look_up(model.table.weight, ids).sum().backward()
        drop_gradients(optimizer)
        model.middle(torch.ones(1, WIDTH)).sum().backward()
        assert model.table.weight.grad is None
        drop_gradients(optimizer)
        look_up(model.table.weight, ids).sum().backward()
    torch.testing.assert_close(model.table.weight.grad.sum(), torch.tensor(float(ids.numel() * WIDTH)))


@pytest.mark.parametrize("shape", [(2, 4), (1, 3), (1, 1)], ids=["as many rows as the table is wide", "few", "one"])
def test_scores_that_lie_in_the_gradient_s_memory_are_used_up_before_it_comes_there(shape):
    """Alone, after another backward pass has left a gradient, and as one of two losses that are walked together."""
    generator = torch.Generator().manual_seed(2)
    batches = [tuple(torch.randint(WORDS, shape, generator=generator) for _ in range(2)) for _ in range(3)]
    for together in (False, True):
        model = Model()
        with in_place_table_gradients():
            (model.loss(*batches[0], WORDS * 100) * 0.3).backward()
            losses = [model.loss(*batch, WORDS * 100) * 0.3 for batch in batches[1:]]
            for loss in [sum(losses)] if together else losses:
                loss.backward()
        torch.testing.assert_close(model.gradients(), expected(model, batches, 0.3))
    model = Model()
    with in_place_table_gradients():
        sum(model.loss(*batch, WORDS * 100) * 0.3 for batch in batches).backward()
    torch.testing.assert_close(model.gradients(), expected(model, batches, 0.3))


def test_few_rows_need_no_memory_for_their_scores(monkeypatch):
    model, kept = Model(), []
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *_, **__: kept.append(1))
    with in_place_table_gradients():
        loss = model.loss(*(part[:, :4] for part in parts(1)[0]), WORDS * 100)
    loss.backward()
    assert not kept
    assert model.table.weight.grad is not None
