"""Masked region classification: what is told of which regions, and what it costs by hand."""

import math

import pytest
import tiny
import torch
import torch.nn.functional as F
from costs import check_saves_alone, gradients, score
from learning import reach_half
from region_pairs import NOTHING, check_alone_as_in_a_batch, check_nothing, connected, one_of_four, pictures, unseen
from torch import nn

from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.masked_region_classification import MaskedRegionClassification
from interlingua.tasks.objectives.region_hiding import RegionHiding

HALF = RegionHiding(0.5)
KINDS = {
    "hard": {"target": "hard"},
    "soft": {"target": "soft"},
    "divided": {"target": "soft", "divisor": "regions_classes"},
    "attributes": {"target": "attributes", "classes": tiny.ATTRIBUTES},
    "weighted": {"over": "all_weighted"},
    "lxmert": {"hiding": RegionHiding(0.5, keep=0.2, other=0.4)},
}


def classification(**options):
    return connected(MaskedRegionClassification(**{"classes": tiny.CLASSES, "hiding": HALF, **options}))


def ignorant(**options):
    encoder, objective = classification(**options)
    nn.init.zeros_(objective.head.output.weight)
    return encoder, objective


@pytest.mark.parametrize("kind", ["hard", "attributes"])
def test_an_ignorant_head_costs_the_logarithm_of_the_classes(kind):
    encoder, objective = ignorant(**KINDS[kind])
    marked = objective.mark(pictures())
    loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) == marked.regions.hidden.sum() > 0
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(objective.classes), rel=1e-5)


@pytest.mark.parametrize(("divisor", "times"), [("regions", 1), ("regions_classes", tiny.CLASSES)])
def test_probabilities_cost_an_ignorant_head_what_they_lack_of_evenness(divisor, times):
    """Divergence from even odds is log C less the entropy; the published divisors are C apart."""
    encoder, objective = ignorant(target="soft", divisor=divisor)
    marked = objective.mark(pictures())
    loss = score(encoder, objective, marked)
    wanted = marked.regions.classes[marked.regions.hidden]
    entropy = -(wanted * wanted.log()).sum(1)
    assert loss.total.item() == pytest.approx((math.log(tiny.CLASSES) - entropy).sum().item(), rel=1e-5)
    assert loss.count == objective.count(marked) == len(wanted) * times


def test_a_head_that_says_what_the_detector_says_costs_nothing():
    encoder, objective = classification(target="soft")
    marked = objective.mark(pictures())
    states = encoder(marked)
    known = marked.regions.classes[marked.regions.hidden].log()
    objective.head.forward = lambda rows: known + 0 * rows.sum()
    assert abs(objective.loss(states, marked).total.item()) < 1e-5


def test_all_regions_weighted_by_confidence_as_lxmert_does():
    encoder, objective = classification(over="all_weighted", weight=1 / 0.15)
    marked, plain = objective.mark(pictures([5, 0, 3])), pictures([5, 0, 3]).regions
    states = encoder(marked)
    loss = objective.loss(states, marked)
    there = plain.present
    cost = F.cross_entropy(objective.head(states.regions[there]), plain.label[there], reduction="none")
    torch.testing.assert_close(loss.total, (cost * plain.confidence[there]).sum())
    assert loss.count == objective.count(marked) == 8
    assert 0 < marked.regions.hidden.sum() < 8
    assert (unseen(objective, states, marked)[there].abs().amax(1) > 0).all()


@pytest.mark.parametrize("kind", ["hard", "soft", "attributes"])
def test_only_the_hidden_region_counts(kind):
    """Pitfall R05: value, perturbations that change nothing, and gradients of exactly nothing."""
    encoder, objective = classification(**KINDS[kind])
    marked = one_of_four(objective)
    states, regions = encoder(marked), marked.regions
    loss = objective.loss(states, marked)
    scores = objective.head(states.regions[0, 2][None])
    truth = regions.attribute if kind == "attributes" else regions.label
    wanted = regions.classes[0, 2] if kind == "soft" else F.one_hot(truth[0, 2], objective.classes).float()
    expected = -(wanted * scores.log_softmax(1)).sum() + torch.special.xlogy(wanted, wanted).sum()
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == 1
    others = torch.tensor([[True, True, False, True, False, False]])
    padding = torch.tensor([[False] * 4 + [True] * 2])
    changed = regions._replace(
        label=torch.where(others, (regions.label + 1) % 4, regions.label),
        attribute=torch.where(others, (regions.attribute + 1) % 4, regions.attribute),
        classes=torch.where(others[..., None], regions.classes.flip(2), regions.classes),
        features=regions.features.masked_fill(padding[..., None], 7.0),
        shown=regions.shown.masked_fill(padding[..., None], 7.0),
    )
    torch.testing.assert_close(score(encoder, objective, marked._replace(regions=changed)).total, loss.total, rtol=0, atol=0)
    gradient = unseen(objective, states, marked)
    assert (gradient[0, [0, 1, 3, 4, 5]] == 0).all()
    assert (gradient[0, 2] != 0).any()


def test_regions_without_a_class_are_not_counted():
    encoder, objective = classification(hiding=RegionHiding(1.0))
    batch = pictures([3, 2])
    label = torch.tensor([[2, -1, 0], [-1, 5, -1]])
    named = batch._replace(regions=batch.regions._replace(label=label, classes=None))
    marked = objective.mark(named)
    assert marked.regions.hidden.sum() == 5
    assert score(encoder, objective, marked).count == objective.count(marked) == 3
    _, soft = classification(target="soft", hiding=RegionHiding(1.0))
    some = batch.regions.classes.clone()
    some[0, 1] = 0
    assert soft.count(soft.mark(batch._replace(regions=batch.regions._replace(classes=some)))) == 4


def test_the_background_is_no_target():
    """The next best class where probabilities tell it (UNITER), else nothing."""
    _, objective = classification(background=0, hiding=RegionHiding(1.0))
    classes = torch.tensor([[[0.6, 0.1, 0.3], [0.2, 0.5, 0.3], [0.0, 0.0, 0.0]]])
    regions = pictures([3]).regions._replace(classes=classes, label=None)
    assert objective.labels.of(regions).tolist() == [[2, 1, -1]]
    assert objective.labels.of(regions._replace(label=torch.tensor([[0, 2, 0]]))).tolist() == [[2, 2, -1]]
    assert objective.labels.of(regions._replace(label=torch.tensor([[0, 2, 1]]), classes=None)).tolist() == [[-1, 2, 1]]
    _, plain = classification()
    assert plain.labels.of(regions).tolist() == [[0, 1, -1]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", NOTHING)
def test_no_regions_cost_exactly_nothing(kind, batch):
    """Pitfall R03."""
    check_nothing(*classification(**KINDS[kind]), NOTHING[batch]())


def test_nothing_hidden_costs_exactly_nothing():
    check_nothing(*classification(hiding=RegionHiding(0.0)), pictures())


def test_a_picture_without_regions_changes_neither_loss_nor_gradient():
    """Pitfall R03."""
    encoder, objective = classification(hiding=RegionHiding(1.0))
    found = []
    for batch in (pictures([4, 3, 0], [5, 6, 4]), pictures([4, 3], [5, 6])):
        loss = score(encoder, objective, objective.mark(batch))
        assert loss.count == 7
        found.append([loss.total, *gradients(encoder, objective, loss.total)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_alone_as_in_a_batch(kind):
    check_alone_as_in_a_batch(*classification(**KINDS[kind]), pictures([5, 0, 6, 4, 3, 7]))


def test_pairs_that_do_not_belong_are_hidden_alike_and_not_scored_where_that_is_asked_for():
    matched = torch.tensor([True, False, True, False])
    batch = pictures()._replace(matched=matched)
    encoder, everything = classification(hiding=RegionHiding(1.0))
    _, belonging = classification(hiding=RegionHiding(1.0), on="matched")
    marked = everything.mark(batch)
    assert marked.regions.hidden.equal(belonging.mark(batch).regions.hidden)
    assert everything.count(marked) == 5 + 3 + 6 + 4
    assert belonging.count(marked) == score(encoder, belonging, marked).count == 5 + 6
    assert (unseen(belonging, encoder(marked), marked)[~matched] == 0).all()
    assert belonging.count(marked._replace(matched=None)) == everything.count(marked)


def test_it_tells_how_many_are_right():
    encoder, objective = ignorant()
    objective.head.output.bias.data[1] = 5.0
    marked = objective.mark(pictures())
    right = (marked.regions.label[marked.regions.hidden] == 1).sum()
    assert objective.tally(encoder(marked), marked)["accuracy"].tolist() == [right, marked.regions.hidden.sum()]
    nothing = objective.mark(pictures()._replace(regions=None))
    assert objective.tally(encoder(nothing), nothing)["accuracy"].tolist() == [0, 0]


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = classification()
    marked = objective.mark(pictures())
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_saves_its_head():
    check_saves_alone(classification()[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 1}, "classes is 1 and background None"),
        ({"background": 6}, "classes is 6 and background 6"),
        ({"target": "soft", "background": 0}, "background does not go with target: soft"),
        ({"target": "soft", "over": "all_weighted"}, "over: all_weighted does not go with target: soft"),
        ({"divisor": "regions_classes"}, "divisor: regions_classes does not go with target: hard"),
    ],
)
def test_refuses_options_that_do_not_go_together(options, message):
    with pytest.raises(ValueError, match=message):
        classification(**options)


@pytest.mark.parametrize(
    ("options", "without", "message"),
    [
        ({}, ("classes", "label"), "source 'captions' have no label or classes"),
        ({"target": "soft"}, ("classes",), "have no classes"),
        ({"target": "attributes"}, ("attribute",), "have no attribute"),
        ({"over": "all_weighted"}, ("confidence",), "have no confidence"),
        ({"classes": 9}, (), "classes is 9, but the regions of source 'captions' have 6 or more"),
        ({"classes": 2}, ("classes",), "classes is 2, but .* have 6 or more"),
    ],
)
def test_refuses_regions_that_lack_what_is_to_be_told(options, without, message):
    _, objective = classification(**options)
    batch = pictures()
    with pytest.raises(ValueError, match=message):
        objective.mark(batch._replace(regions=batch.regions._replace(**dict.fromkeys(without))))


def test_refuses_an_encoder_without_regions():
    with pytest.raises(ValueError, match="needs an encoder that reads regions; Fused reads text, translation, image"):
        connected(MaskedRegionClassification(6), tiny.single_stream())


def test_words_and_regions_of_one_reading():
    encoder, objective = classification()
    language = MaskedLanguage(0.5)
    language.connect(encoder)
    marked = objective.mark(language.mark(pictures()))
    states = encoder(marked)
    assert language.loss(states, marked).count == marked.text.hidden.sum() > 0
    assert objective.loss(states, marked).count == marked.regions.hidden.sum() > 0
