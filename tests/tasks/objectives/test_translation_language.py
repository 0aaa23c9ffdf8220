"""Translation language modelling: what is hidden of both halves, and what it costs."""

from functools import partial

import costs
import pytest
import tiny
import torch
from costs import gradients, read, score
from learning import reach_half
from translation_pairs import XLM, connected, ids, pairs

from interlingua.modalities.batch import take
from interlingua.modalities.pair import PAIR_FORMS
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.translation_language import TranslationLanguage


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
    costs.check_log_v(*connected(rate=0.5), pairs())


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
    costs.check_nothing_hidden(*connected(rate=rate), pairs(lengths, lengths))


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
    marked = read(objective, whole).text
    for row in range(5):
        alone = read(objective, take(whole, torch.tensor([row]))).text
        for field in ("tokens", "hidden", "shown"):
            there = getattr(alone, field)[0][alone.present[0]]
            assert (there == getattr(marked, field)[row][marked.present[row]]).all()
    costs.check_sum_of_samples(encoder, objective, whole)


@pytest.mark.parametrize("pair", ["xlm-roberta", "xlm"])
def test_padding_on_either_side_costs_the_same(pair):
    parts = connected(XLM, languages=2, pair=pair, rate=0.5, orders="drawn")
    costs.check_padding(*parts, partial(pairs, vocabulary=XLM))


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
    costs.check_saves_alone(connected()[1])
