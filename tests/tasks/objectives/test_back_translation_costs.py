"""Back-translation language: what it costs to read what is left of a text with its pseudo-translation."""

from functools import partial

import costs
import pytest
import tiny
import torch
from back_translations import connected, made_up, texts
from costs import gradients, read, score
from learning import reach_half
from translation_pairs import XLM

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.back_translation_language import places
from interlingua.tasks.objectives.cross_attention_language import across_halves


def by_hand(encoder, objective, batch, marked):
    """The formula, row by row: argmax over the places given the text, then -log P(x_i | rest of x, pseudo-translation)."""
    total, vocabulary = 0.0, tiny.VOCABULARY
    for row in range(batch.size):
        own = take(marked, torch.tensor([row]))
        text = own.text
        wanted = places(text)
        alone = text._replace(shown=None, hidden=wanted)
        scores = objective.head(encoder(own._replace(text=alone), allow=across_halves).text[0])
        entries = [max(set(range(vocabulary.size)) - set(vocabulary.controls), key=one.__getitem__) for one in scores.tolist()]
        shown = torch.where(wanted, torch.tensor([entries]), text.shown)
        states = encoder(own._replace(text=text._replace(tokens=shown, shown=None, hidden=None))).text[0]
        for place in text.hidden[0].nonzero()[:, 0].tolist():
            total = total - objective.head(states[place][None])[0].log_softmax(0)[batch.text.tokens[row, place]]
    return total


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_value_and_gradients_are_those_of_the_formula(dtype, tolerance):
    encoder, objective = (part.to(dtype) for part in connected(rate=0.5, ratio=0.8, spread=2.0))
    batch = texts([7, 12, 5])
    marked = read(objective, batch)
    loss = score(encoder, objective, marked)
    wanted = by_hand(encoder, objective, batch, marked)
    assert abs(loss.total - wanted) / loss.count < tolerance
    found = gradients(encoder, objective, loss.total / loss.count)
    for mine, other in zip(found, gradients(encoder, objective, wanted / loss.count), strict=True):
        assert (mine - other).abs().max() < tolerance * max(1.0, other.abs().max().item())


def test_the_weights_have_gradients_under_autocast():
    """Weights that are cast without gradient must not serve the second reading, as they do where autocast keeps them."""
    encoder, objective = connected(rate=0.5)
    marked = read(objective, texts())
    inner = encoder.transformer.blocks[0].feed_forward.inward.weight

    def gradient(filled=None):
        with torch.autocast("cpu", torch.bfloat16):
            states = objective.read(encoder, marked) if filled is None else encoder(filled)
            loss = objective.loss(states, marked)
        assert loss.total.dtype is torch.float32
        return torch.autograd.grad(loss.total, inner, allow_unused=True)[0]

    with torch.autocast("cpu", torch.bfloat16):
        filled = objective.fill(encoder, marked)
    assert gradient().abs().max() > 0
    assert gradient().equal(gradient(filled))


def test_an_ignorant_head_costs_log_v_a_token():
    costs.check_log_v(*connected(rate=0.5), texts())


NOTHING = {
    "rate": (0.0, texts()),
    "controls": (1.0, texts((2, 2))),
    "absent": (1.0, texts((0, 0))),
    "no row": (1.0, take(texts(), torch.arange(0))),
}


@pytest.mark.parametrize(("rate", "batch"), NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nothing_hidden_costs_exactly_nothing_with_finite_gradients(rate, batch, temperature):
    """Pitfalls O03 a and b, T07."""
    costs.check_nothing_hidden(*connected(rate=rate, temperature=temperature), batch)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_whole_is_the_sum_of_its_samples_however_they_are_padded(temperature):
    """Pitfall O09; what a sample is filled with alone is what it is filled with in a batch."""
    encoder, objective = connected(rate=0.4, spread=3.0, temperature=temperature)
    lengths = [9, 3, 12, 0, 20]
    alone = [read(objective, take(texts(lengths), torch.tensor([row]))) for row in range(5)]
    whole = made_up(encoder, objective, read(objective, texts(lengths)))
    assert [made_up(encoder, objective, one)[0] for one in alone] == whole
    costs.check_sum_of_samples(encoder, objective, texts(lengths))
    costs.check_padding(encoder, objective, partial(texts, lengths))


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected()
    marked = read(objective, texts([20, 30, 25]))
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_saves_its_head_alone():
    costs.check_saves_alone(connected(XLM, 3, pair="xlm")[1])
