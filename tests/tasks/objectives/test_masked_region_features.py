"""Masked region feature regression: the target is what was there, and each divisor is the published one."""

import pytest
import tiny
import torch
import torch.nn.functional as F
from costs import check_saves_alone, score
from learning import reach_half
from region_pairs import NOTHING, check_alone_as_in_a_batch, check_nothing, connected, one_of_four, pictures, unseen
from torch import nn

from interlingua.models.crossing import Cross
from interlingua.models.region_embeddings import SummedRegions
from interlingua.models.towers import TextTower
from interlingua.models.transformer import Transformer
from interlingua.models.worded_regions import SpokenRegions
from interlingua.tasks.objectives.masked_region_classification import MaskedRegionClassification
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.objectives.region_hiding import RegionHiding

HALF = RegionHiding(0.5)


def regression(**options):
    return connected(MaskedRegionFeatures(**{"hiding": HALF, **options}))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("loss", "by_hand"), [("l2", F.mse_loss), ("smooth_l1", F.smooth_l1_loss)])
def test_a_head_that_says_nothing_costs_what_the_features_were(tied, loss, by_hand):
    """Not what is shown in their place: zeros would cost nothing (VOLTA's fault)."""
    encoder, objective = regression(loss=loss, tied=tied)
    nn.init.zeros_(objective.head.norm.weight)
    batch = pictures()
    marked = objective.mark(batch)
    hidden = marked.regions.hidden
    found = score(encoder, objective, marked)
    truth = batch.regions.features[hidden]
    torch.testing.assert_close(found.total, by_hand(torch.zeros_like(truth), truth, reduction="sum"))
    assert found.total > 1
    assert by_hand(marked.regions.shown[hidden], torch.zeros_like(truth)) == 0
    assert found.count == objective.count(marked) == hidden.sum() * tiny.FEATURES > 0


def test_divisors_are_hidden_numbers_hidden_regions_and_all_numbers():
    """Features: UNITER's mean over n x D; all_features: LXMERT's over B x R x D, in which seen regions cost nothing."""
    found = {}
    for divisor in ("features", "regions", "all_features"):
        encoder, objective = regression(divisor=divisor)
        marked = objective.mark(pictures())
        found[divisor] = score(encoder, objective, marked)
        assert found[divisor].count == objective.count(marked)
        assert (unseen(objective, encoder(marked), marked)[~marked.regions.hidden] == 0).all()
    hidden = int(marked.regions.hidden.sum())
    assert [int(loss.count) for loss in found.values()] == [12 * hidden, hidden, 12 * 18]
    assert len({loss.total.item() for loss in found.values()}) == 1


def test_only_the_hidden_region_counts():
    """Pitfall R05."""
    encoder, objective = regression()
    marked = one_of_four(objective)
    states, regions = encoder(marked), marked.regions
    loss = objective.loss(states, marked)
    torch.testing.assert_close(
        loss.total, F.mse_loss(objective.head(states.regions[0, 2][None])[0], regions.features[0, 2], reduction="sum")
    )
    others = torch.tensor([[True, True, False, True, True, True]])
    changed = marked._replace(regions=regions._replace(features=regions.features.masked_fill(others[..., None], 7.0)))
    assert objective.loss(states, changed).total == loss.total
    padding = torch.tensor([[False] * 4 + [True] * 2])[..., None]
    padded = regions._replace(
        features=regions.features.masked_fill(padding, 7.0), shown=regions.shown.masked_fill(padding, 7.0)
    )
    assert score(encoder, objective, marked._replace(regions=padded)).total == loss.total
    assert (unseen(objective, states, marked)[0, [0, 1, 3, 4, 5]] == 0).all()


def test_a_tied_head_is_the_encoders_own_layer_transposed():
    encoder, objective = regression(tied=True)
    marked = objective.mark(pictures())
    rows = torch.randn(3, tiny.WIDTH)
    inner = objective.head.norm(F.gelu(objective.head.dense(rows)))
    torch.testing.assert_close(objective.head(rows), inner @ encoder.picture.feature.weight + objective.head.bias)
    assert set(dict(objective.named_parameters())) == {
        f"head.{name}" for name in ("dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias")
    }
    score(encoder, objective, marked).total.backward()
    assert encoder.picture.feature.weight.grad.abs().sum() > 0


def test_streams_of_two_widths_tie_as_well():
    """ViLBERT's: the head leads the picture's width to itself, then to features."""
    picture = SummedRegions(tiny.FEATURES, 48, dropout=0.0)
    layers = Transformer(48, 1, heads=4, dropout=0.0)
    text = TextTower(tiny.embeddings(), tiny.transformer(1))
    encoder = tiny.fused("text, picture, cross", text, picture, layers=layers, cross=Cross(width=32, heads=4))
    objective = connected(MaskedRegionFeatures(tied=True, hiding=HALF), encoder)[1]
    assert score(encoder, objective, objective.mark(pictures())).total.isfinite()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("batch", NOTHING)
def test_no_regions_cost_exactly_nothing(tied, batch):
    """Pitfall R03."""
    check_nothing(*regression(tied=tied), NOTHING[batch]())


def test_nothing_hidden_costs_exactly_nothing():
    check_nothing(*regression(hiding=RegionHiding(0.0)), pictures())


def test_alone_as_in_a_batch():
    check_alone_as_in_a_batch(*regression(hiding=RegionHiding(0.5, other=0.5)), pictures([5, 0, 6, 4, 3, 7]))


def test_it_predicts_what_another_objective_of_the_reading_hid():
    encoder, objective = regression()
    classes = MaskedRegionClassification(tiny.CLASSES, hiding=HALF)
    classes.connect(encoder)
    marked = classes.mark(pictures())
    assert objective.mark(marked) is marked
    assert objective.count(marked) == tiny.FEATURES * classes.count(marked) > 0


def test_pairs_that_do_not_belong_are_not_scored_where_that_is_asked_for():
    encoder, objective = regression(on="matched", divisor="all_features")
    marked = objective.mark(pictures()._replace(matched=torch.tensor([True, False, True, False])))
    assert score(encoder, objective, marked).count == objective.count(marked) == 12 * (5 + 6)


@pytest.mark.parametrize("tied", [False, True])
def test_the_cost_halves_in_sixty_steps(tied):
    encoder, objective = regression(tied=tied)
    marked = objective.mark(pictures())
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_saves_its_head_without_the_tied_layer():
    check_saves_alone(regression(tied=True)[1])


def test_refuses_what_it_cannot_read_or_tie():
    with pytest.raises(ValueError, match="needs an encoder that reads regions"):
        connected(MaskedRegionFeatures(), tiny.single_stream())
    spoken = tiny.fused("2 joint", tiny.text_tower(segments=3), SpokenRegions(tiny.FEATURES, tiny.WIDTH, 4))
    with pytest.raises(ValueError, match="tied is true, but SpokenRegions have no layer of features alone"):
        connected(MaskedRegionFeatures(tied=True), spoken)
    connected(MaskedRegionFeatures(), spoken)
