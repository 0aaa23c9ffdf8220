"""Texts with regions of their pictures, and an objective over a real encoder of both."""

import tiny
import torch
from costs import check_sum, gradients, score

from interlingua.modalities.batch import Batch, take

LENGTHS, COUNTS = (7, 5, 9, 4), (5, 3, 6, 4)


def pictures(counts=COUNTS, lengths=None, items=None, padded=None, seed=0, **modalities) -> Batch:
    """Texts beside regions; a count of 0 is a picture in which nothing was found."""
    lengths = lengths or [4 + row % 6 for row in range(len(counts))]
    return tiny.batch(lengths, items, regions=tiny.regions(counts, padded, seed), **modalities)


def connected(objective, encoder=None):
    torch.manual_seed(0)
    encoder = encoder or tiny.region_stream()
    objective.connect(encoder)
    return encoder, objective


NOTHING = {
    "empty": lambda: pictures([0, 0]),
    "padding": lambda: pictures([0, 0], padded=3),
    "no regions": lambda: pictures()._replace(regions=None),
    "no row": lambda: take(pictures(), torch.arange(0)),
}
"""Batches in which nothing can be hidden of any picture (pitfall R03)."""


def check_nothing(encoder, objective, batch: Batch) -> None:
    """Costs exactly nothing, with gradients of exactly nothing."""
    marked = objective.mark(batch)
    loss = score(encoder, objective, marked)
    assert loss.total.item() == 0
    assert loss.count == objective.count(marked) == 0
    assert loss.total.requires_grad
    assert all((gradient == 0).all() for gradient in gradients(encoder, objective, loss.total))


def check_alone_as_in_a_batch(encoder, objective, batch: Batch) -> None:
    """The whole, marked with the step's pool, is the sum of its samples, each marked alone with that pool."""
    pool = objective.lend(batch)
    rows = [take(batch, torch.tensor([row])) for row in range(batch.size)]
    whole, *parts = (score(encoder, objective, objective.mark(one, pool)) for one in (batch, *rows))
    check_sum(whole, parts)


def unseen(objective, states, marked: Batch) -> torch.Tensor:
    """Gradient of the loss with respect to the states of each region."""
    leaf = states.regions.detach().requires_grad_()
    objective.loss(states._replace(regions=leaf), marked).total.backward()
    return leaf.grad


def one_of_four(objective) -> Batch:
    """Four regions and two of padding, of which region 2 is hidden (pitfall R05)."""
    marked = objective.mark(pictures([4], padded=6))
    hidden = torch.zeros(1, 6, dtype=torch.bool)
    hidden[0, 2] = True
    regions = marked.regions
    return marked._replace(regions=regions._replace(hidden=hidden, shown=regions.features * ~hidden[..., None]))
