"""Interpolated contrast: what is read, and what is remembered of a step."""

import math

import pytest
import tiny
import torch
from cross_lingual import pairs
from halves import NOTHING, pack_first_row
from interpolated import embeddings, part, remember
from learning import reach_half

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.interpolated_contrast import InterpolatedContrast
from interlingua.tasks.passes import Pass
from interlingua.tasks.reading import mark_pass


def connected(certainty=0.5, **options):
    torch.manual_seed(0)
    encoder, objective = tiny.text_tower(), InterpolatedContrast(**options)
    objective.connect(encoder)
    return encoder, remember(objective, certainty)


def score(encoder, objective, batch):
    marked = objective.mark(batch)
    return objective.loss(objective.read(encoder, marked), marked)


# What is read.


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_sentences_are_pooled_states_whatever_the_padding_and_the_batch(pooling):
    encoder, objective = connected(pooling=pooling)
    batch, states = pairs(), encoder(pairs())
    found = objective.embed(states, batch)
    for side, name in ((found.left, "text"), (found.right, "translation")):
        present = getattr(batch, name).present
        rows = [row[there] for row, there in zip(getattr(states, name), present, strict=True)]
        expected = torch.stack([row[0] if pooling == "first" else row.mean(0) for row in rows])
        torch.testing.assert_close(side, expected)
    left = objective.embed(encoder(pairs(left=True)), pairs(left=True))
    alone = [take(batch, torch.tensor([row])) for row in range(6)]
    alone = [objective.embed(encoder(one), one) for one in alone]
    for number, field in enumerate(found):
        torch.testing.assert_close(left[number], field, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(torch.cat([one[number] for one in alone]), field, rtol=1e-5, atol=1e-6)


def test_only_pairs_that_belong_together_are_compared():
    encoder, objective = connected()
    batch = pairs([5, 0, 6, 7, 4, 2])._replace(translation=tiny.text([6, 5, 0, 4, 8, 5], seed=1))
    batch = batch._replace(matched=torch.tensor([True, True, True, False, True, True]))
    found = objective.embed(encoder(batch), batch)
    assert found.identity[:, 0].tolist() == [0, 4]  # the last text has no piece
    loss = score(encoder, objective, batch)
    assert loss.count == objective.count(batch) == 2


@pytest.mark.parametrize("batch", NOTHING.values(), ids=NOTHING)
def test_nothing_to_compare_costs_exactly_nothing_with_finite_gradients(batch):
    encoder, objective = connected()
    loss = score(encoder, objective, batch)
    assert loss.total.item() == 0
    assert loss.count == objective.count(batch) == 0
    gradients = torch.autograd.grad(loss.total, list(encoder.parameters()), allow_unused=True)
    assert all((gradient == 0).all() for gradient in gradients if gradient is not None)
    assert any(gradient is not None for gradient in gradients)


def test_sources_and_encoders_without_translations_and_packed_rows_are_refused():
    _, objective = connected()
    with pytest.raises(ValueError, match="interpolated contrast: source 'captions' has no translation"):
        objective.mark(tiny.batch())
    with pytest.raises(ValueError, match="with their translations, but ImageTower reads image"):
        InterpolatedContrast().connect(tiny.two_towers().image)
    packed = pairs()._replace(text=pack_first_row(pairs().text))
    with pytest.raises(ValueError, match="rows of source 'captions' are packed"):
        mark_pass(Pass("captions", ("sctl",)), [packed], {"sctl": objective})


def test_autocast_reaches_no_product():
    encoder, objective = connected(temperature=0.1)
    every = embeddings()
    expected = objective.contrast(every, every, 0).total
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(objective.contrast(every, every, 0).total, expected)
        found = objective.embed(encoder(pairs()), pairs())
    assert found.left.dtype == found.right.dtype == torch.float32


# What is remembered.


def test_the_likelihood_of_a_step_is_noted_after_it_and_the_mean_is_of_the_last():
    encoder, objective = tiny.text_tower(), InterpolatedContrast(window=3)
    every, expected = embeddings(), []
    assert objective.certainty == 0
    for certainty in (0.0, 0.5, 1.0, 0.2):
        if expected:
            assert objective.certainty.item() == pytest.approx(sum(expected[-3:]) / len(expected[-3:]))
        own = [objective.contrast(part(every, a, b), every, a) for a, b in ((0, 3), (3, 7))]
        before = objective.certainty.item()
        assert before == objective.certainty.item()
        objective.after_step(encoder)
        expected.append(math.exp(-sum(one.total.item() for one in own) / 7))
        every = embeddings(shift=certainty)
    assert objective.certainty.item() == pytest.approx(sum(expected[-3:]) / 3)
    assert int(objective.steps) == 4
    # The wrong choice, a mean of the rows' own likelihoods, is larger.
    rows = [objective.contrast(part(every, row, row + 1), every, row).total.neg().exp().item() for row in range(7)]
    assert sum(rows) / 7 - math.exp(-objective.contrast(every, every, 0).total.item() / 7) > 1e-4


def test_neither_validation_nor_a_step_without_pairs_is_noted():
    encoder, objective = connected()
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    assert before.keys() == {"likelihoods", "steps"}
    score(encoder, objective, NOTHING["one"])
    objective.after_step(encoder)
    objective.eval()
    score(encoder, objective, pairs())
    objective.after_step(encoder)
    objective.train()
    objective.after_step(encoder)
    assert all(torch.equal(value, before[name]) for name, value in objective.state_dict().items())
    assert not list(objective.parameters())


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected(temperature=0.1, pooling="mean")
    reach_half(lambda: score(encoder, objective, pairs()).total, encoder, rate=2e-3)


def test_the_published_numbers_are_the_defaults():
    objective = InterpolatedContrast()
    assert (objective.temperature, objective.zeta, len(objective.likelihoods)) == (1.0, 0.9, 100)
    assert (objective.pooling, objective.exclude_same) == ("first", True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "interpolated contrast: temperature is 0.0; expected a number from"),
        ({"zeta": -0.1}, "zeta is -0.1; expected a number from 0 to 100"),
        ({"window": 0}, "window is 0; expected a number from 1 to"),
        ({"window": 10**12}, "window is 1000000000000; expected a number from 1 to"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        InterpolatedContrast(**options)
