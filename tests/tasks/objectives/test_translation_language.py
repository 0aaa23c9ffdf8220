"""Translation language modelling: what is hidden of both halves, and what it costs."""

import math

import pytest
import tiny
import torch
from learning import reach_half
from torch import nn
from translation_pairs import XLM, connected, ids, pairs, read, score

from interlingua.modalities.batch import take
from interlingua.modalities.pair import PAIR_FORMS
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.translation_language import TranslationLanguage


def gradients(encoder, objective, total):
    parameters = [*encoder.parameters(), *objective.parameters()]
    return torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("pair", PAIR_FORMS)
def test_both_halves_are_hidden_at_the_rate_and_control_tokens_never(pair):
    """Pitfall O01: over 10,000 tokens."""
    vocabulary = XLM if pair.startswith("xlm-c") or pair == "xlm" else tiny.VOCABULARY
    _, objective = connected(vocabulary, pair=pair)
    lengths = [10 + row % 20 for row in range(400)]
    marked = read(objective, pairs(lengths, lengths[::-1], vocabulary=vocabulary)).text
    ordinary = marked.word >= 0
    assert not (marked.hidden & ~ordinary).any()
    assert ordinary.sum() == 2 * sum(lengths) - 4 * 400 > 10_000
    for half in (0, 1):
        own = ordinary & (marked.segment == half)
        assert abs(marked.hidden[own].float().mean() - 0.15) < 0.015
    shown, truth = marked.shown[marked.hidden], marked.tokens[marked.hidden]
    assert abs((shown == vocabulary.mask).float().mean() - 0.8) < 0.03
    assert abs((shown == truth).float().mean() - 0.1) < 0.03
    others = shown[(shown != vocabulary.mask) & (shown != truth)]
    assert not torch.isin(others, torch.tensor(vocabulary.controls)).any()
    assert (marked.shown[~marked.hidden] == marked.tokens[~marked.hidden]).all()


def test_count_is_the_losses_count_and_an_ignorant_head_costs_log_v_a_token():
    encoder, objective = connected(rate=0.5)
    nn.init.zeros_(encoder.tokens.weight)
    marked = read(objective, pairs())
    loss = score(encoder, objective, marked)
    assert objective.count(marked) == loss.count == marked.text.hidden.sum() > 0
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(100), rel=1e-5)


def test_a_sample_without_translation_is_masked_language_modelling():
    """Pitfall O11: an empty side."""
    encoder, objective = connected(rate=0.5)
    plain = MaskedLanguage(rate=0.5)
    plain.connect(encoder)
    plain.key = objective.key
    batch = pairs([9, 9, 9], [8, 0, 2])
    wanted = plain.mark(batch._replace(translation=None)).text
    empty = batch.translation._replace(present=torch.zeros_like(batch.translation.present))
    mixed, alone = read(objective, batch).text, read(objective, batch._replace(translation=empty)).text
    for text, rows in ((mixed, (1, 2)), (alone, (0, 1, 2))):
        for row in rows:
            for field in ("tokens", "shown", "hidden", "position", "language", "word"):
                there = getattr(text, field)[row][text.present[row]]
                assert (there == getattr(wanted, field)[row][wanted.present[row]]).all(), field
    nothing = batch.text._replace(present=torch.zeros_like(batch.text.present))
    swapped = read(objective, batch._replace(text=nothing, translation=batch.text)).text
    assert ids(swapped, 0) == ids(alone, 0)


@pytest.mark.parametrize("field", ["text", "translation"])
def test_a_source_without_translation_is_refused(field):
    _, objective = connected()
    with pytest.raises(ValueError, match=r"translation language: source 'parallel' has no translation; .*`translation: {}`"):
        objective.view(pairs()._replace(**{field: None}))


@pytest.mark.parametrize(("rate", "lengths"), [(0.0, (7, 5)), (1.0, (2, 2)), (1.0, (0, 0))], ids=["rate", "controls", "absent"])
def test_nothing_hidden_costs_exactly_nothing_with_finite_gradients(rate, lengths):
    """Pitfall O03 a and b."""
    encoder, objective = connected(rate=rate)
    marked = read(objective, pairs(lengths, lengths))
    loss = score(encoder, objective, marked)
    assert loss.total.item() == 0
    assert loss.count == objective.count(marked) == 0
    assert loss.total.requires_grad
    assert all(gradient.isfinite().all() for gradient in gradients(encoder, objective, loss.total))


def test_an_empty_row_changes_neither_loss_nor_gradient():
    """Pitfall O03 c."""
    encoder, objective = connected(rate=1.0)
    batches = (pairs([6, 4, 0], [5, 3, 0]), pairs([6, 4], [5, 3]))
    losses = [score(encoder, objective, read(objective, batch)) for batch in batches]
    assert losses[0].count == losses[1].count == 4 + 2 + 3 + 1
    means = [loss.total / loss.count for loss in losses]
    torch.testing.assert_close(*means, rtol=1e-6, atol=1e-6)
    for pair in zip(*(gradients(encoder, objective, mean) for mean in means), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("orders", ["given", "drawn"])
def test_the_whole_is_the_sum_of_its_samples_and_means_of_means_are_not(orders):
    """Pitfall O09; marks and order of a sample alone are those in a batch."""
    encoder, objective = connected(rate=0.4, orders=orders)
    whole = pairs([9, 3, 12, 5, 20], [4, 0, 30, 6, 3])
    marked = read(objective, whole)
    loss = score(encoder, objective, marked)
    alone = [read(objective, take(whole, torch.tensor([row]))) for row in range(5)]
    parts = [score(encoder, objective, one) for one in alone]
    for row, one in enumerate(alone):
        for field in ("tokens", "hidden", "shown"):
            there = getattr(one.text, field)[0][one.text.present[0]]
            assert (there == getattr(marked.text, field)[row][marked.text.present[row]]).all()
    torch.testing.assert_close(sum(part.total for part in parts), loss.total, rtol=1e-5, atol=1e-5)
    assert sum(part.count for part in parts) == loss.count
    means = [part.total / part.count for part in parts if part.count]
    assert abs(sum(means) / len(means) - loss.total / loss.count) > 1e-4


@pytest.mark.parametrize("pair", ["xlm-roberta", "xlm"])
def test_padding_on_either_side_costs_the_same(pair):
    encoder, objective = connected(XLM, languages=2, pair=pair, rate=0.5, orders="drawn")
    losses = [
        score(encoder, objective, read(objective, pairs(left=left, padded=padded, vocabulary=XLM)))
        for left, padded in ((False, None), (True, None), (True, 30))
    ]
    assert losses[0].count > 0
    for loss in losses[1:]:
        assert loss.count == losses[0].count
        torch.testing.assert_close(loss.total, losses[0].total, rtol=1e-6, atol=1e-6)


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected()
    marked = read(objective, pairs([20, 30, 25], [18, 30, 28]))
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pair": "roberta"}, "pair is 'roberta', expected one of bert"),
        ({"pair": "xlm", "max_tokens": 5}, "max_tokens is 5; pairs of the form xlm need at least 6"),
        ({"rate": 1.5}, "translation language: rate is 1.5"),
    ],
)
def test_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        TranslationLanguage(**options)


def test_refuses_an_encoder_without_text():
    with pytest.raises(ValueError, match="reads text with a token table; ImageTower reads image"):
        TranslationLanguage().connect(tiny.two_towers().image)


def test_saves_its_head_without_the_table():
    _, objective = connected()
    assert set(objective.state_dict()) == {f"head.{name}" for name in objective.head.state_dict()}
