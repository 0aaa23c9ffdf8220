"""Region contrast: which regions are negatives, what they cost by hand, and that no split changes it."""

import math

import pytest
import torch
from costs import check_saves_alone, gradients, score
from learning import reach_half
from region_pairs import NOTHING, connected, pictures
from torch import nn

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.region_contrast import RegionContrast, draw_highest
from interlingua.tasks.objectives.region_hiding import RegionHiding

HALF = RegionHiding(0.5)
COUNTS = (5, 3, 6, 4, 0, 7)


def contrasted(negatives=None, **options):
    return connected(RegionContrast(negatives, **{"hiding": HALF, **options}))


def test_by_hand_over_all_regions():
    """Own picture: all its other regions; other pictures: their hidden ones; a picture of the same item: none
    (pitfall O06)."""
    encoder, objective = contrasted()
    marked = objective.mark(pictures(COUNTS, items=[1, 1, 2, 3, 4, 5]))
    loss, states, regions = score(encoder, objective, marked), encoder(marked), marked.regions
    expected, count = 0.0, 0
    for row, column in regions.hidden.nonzero().tolist():
        predicted = objective.head(states.regions[row, column][None])[0]
        others = [regions.features[row, other] for other in range(COUNTS[row]) if other != column]
        others += [regions.features[r, c] for r, c in regions.hidden.nonzero().tolist() if marked.item[r] != marked.item[row]]
        scores = torch.stack([regions.features[row, column], *others]) @ predicted
        expected, count = expected + scores.logsumexp(0) - scores[0], count + 1
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == objective.count(marked) == count > 5


@pytest.mark.parametrize(("negatives", "own"), [(4, 0.5), (1, 1.0), (2, 0.0), (5, 0.3)])
def test_an_ignorant_head_costs_the_logarithm_of_the_negatives_and_one(negatives, own):
    encoder, objective = contrasted(negatives, own=own)
    nn.init.zeros_(objective.head.output.weight)
    marked = objective.mark(pictures([9, 9, 9]))
    loss = score(encoder, objective, marked)
    assert loss.count == marked.regions.hidden.sum() > 8
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(1 + negatives), rel=1e-5)
    assert (objective.own, objective.others) == (round(negatives * own), negatives - round(negatives * own))
    assert (RegionContrast().own, RegionContrast().others) == (38, 90)


def test_negatives_are_drawn_each_as_often_and_never_the_region_itself():
    draw = torch.randint(-(2**62), 2**62, (4000, 6), generator=torch.Generator().manual_seed(0))
    candidate = torch.tensor([True, True, False, True, True, True])
    chosen = draw_highest(draw, candidate.expand(4000, 6), 2)
    assert (chosen.sum(1) == 2).all()
    counts = chosen.sum(0)
    assert counts[2] == 0
    assert (counts[candidate] - 1600).abs().max() < 130
    assert draw_highest(draw, candidate.expand(4000, 6), 5).equal(candidate.expand(4000, 6))


def test_one_region_alone_costs_nothing():
    """It has no negative: finite, and no gradient that is no number."""
    for options in ({}, {"negatives": 128}):
        encoder, objective = contrasted(**options, hiding=RegionHiding(1.0))
        loss = score(encoder, objective, objective.mark(pictures([1, 0])))
        assert loss.count == 1
        assert loss.total.item() == 0
        assert all(one.isfinite().all() for one in gradients(encoder, objective, loss.total))


@pytest.mark.parametrize("batch", NOTHING)
def test_no_regions_cost_exactly_nothing(batch):
    """Pitfall R03."""
    encoder, objective = contrasted()
    marked = objective.mark(NOTHING[batch]())
    loss = score(encoder, objective, marked)
    assert loss.total.item() == loss.count.item() == objective.count(marked).item() == 0
    assert loss.total.requires_grad


def test_only_states_of_hidden_regions_are_asked_to_change():
    """Pitfall R05."""
    encoder, objective = contrasted()
    marked = objective.mark(pictures(COUNTS))
    states = encoder(marked)
    leaf = states.regions.detach().requires_grad_()
    objective.loss(states._replace(regions=leaf), marked).total.backward()
    assert (leaf.grad[~marked.regions.hidden] == 0).all()
    assert (leaf.grad[marked.regions.hidden].abs().sum(1) > 0).all()


@pytest.mark.parametrize("negatives", [None, 6])
def test_neither_order_nor_padding_changes_the_cost(negatives):
    encoder, objective = contrasted(negatives, own=0.5)
    whole = objective.mark(pictures(COUNTS))
    first = score(encoder, objective, whole)
    for other in (take(whole, torch.tensor([4, 2, 0, 5, 1, 3])), objective.mark(pictures(COUNTS, padded=11))):
        torch.testing.assert_close(score(encoder, objective, other).total, first.total)


def test_pairs_that_do_not_belong_are_not_scored_where_that_is_asked_for():
    encoder, objective = contrasted(on="matched", hiding=RegionHiding(1.0))
    marked = objective.mark(pictures()._replace(matched=torch.tensor([True, False, True, False])))
    assert score(encoder, objective, marked).count == objective.count(marked) == 5 + 6


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = contrasted()
    marked = objective.mark(pictures())
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_saves_its_head():
    check_saves_alone(contrasted()[1])


@pytest.mark.parametrize(("options", "message"), [({"negatives": 0}, "negatives is 0"), ({"own": 1.5}, "own 1.5")])
def test_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        RegionContrast(**options)
