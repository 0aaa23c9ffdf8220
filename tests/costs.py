"""What marked batches cost, and what the tests of many objectives check of it."""

import math

import pytest
import tiny
import torch
from torch import nn

from interlingua.modalities.batch import take


def read(objective, batch):
    return objective.mark(objective.view(batch))


def score(encoder, objective, marked):
    return objective.loss(objective.read(encoder, marked), marked)


def gradients(encoder, objective, total):
    """With respect to all parameters; zeros where the total does not depend on one."""
    parameters = [*encoder.parameters(), *objective.parameters()]
    return torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)


def check_log_v(encoder, objective, batch) -> None:
    """A head to which all entries of the vocabulary are alike costs log V a hidden token."""
    nn.init.zeros_(encoder.tokens.weight)
    marked = read(objective, batch)
    loss = score(encoder, objective, marked)
    assert objective.count(marked) == loss.count == marked.text.hidden.sum() > 0
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(tiny.VOCABULARY.size), rel=1e-5)


def check_nothing_hidden(encoder, objective, batch) -> None:
    """Costs exactly nothing, with finite gradients."""
    marked = read(objective, batch)
    loss = score(encoder, objective, marked)
    assert loss.total.item() == 0
    assert loss.count == objective.count(marked) == 0
    assert loss.total.requires_grad
    assert all(gradient.isfinite().all() for gradient in gradients(encoder, objective, loss.total))


def check_sum(whole, parts) -> None:
    """A loss is the sum of the losses of parts."""
    torch.testing.assert_close(sum(part.total for part in parts), whole.total, rtol=1e-5, atol=1e-5)
    assert sum(part.count for part in parts) == whole.count > 0


def check_sum_of_samples(encoder, objective, batch, apart=1e-4) -> None:
    """The whole is the sum of its samples, each marked alone; the mean of their means is another, by more than `apart`."""
    alone = [take(batch, torch.tensor([row])) for row in range(batch.size)]
    whole, *parts = (score(encoder, objective, read(objective, one)) for one in (batch, *alone))
    check_sum(whole, parts)
    means = [part.total / part.count for part in parts if part.count]
    assert abs(sum(means) / len(means) - whole.total / whole.count) > apart


def check_padding(encoder, objective, make, atol=1e-6) -> None:
    """Padding on either side costs the same: `make` makes a batch, given `left` and `padded`."""
    batches = [make(left=left, padded=padded) for left, padded in ((False, None), (True, None), (True, 30))]
    first, *others = (score(encoder, objective, read(objective, batch)) for batch in batches)
    for loss in others:
        assert loss.count == first.count > 0
        torch.testing.assert_close(loss.total, first.total, rtol=1e-6, atol=atol)


def check_saves_alone(objective, part="head") -> None:
    """Of an objective, one part is saved and nothing else."""
    assert set(objective.state_dict()) == {f"{part}.{name}" for name in getattr(objective, part).state_dict()}
