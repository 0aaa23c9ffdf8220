"""Masked language modelling: what it hides of a batch and what it costs, with a real tower."""

import pytest
import tiny
import torch
from costs import check_log_v, check_nothing_hidden, check_saves_alone, check_sum_of_samples, gradients, score
from learning import reach_half

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.masked_language import MaskedLanguage


def connected(**options):
    torch.manual_seed(0)
    encoder, objective = tiny.text_tower(), MaskedLanguage(**options)
    objective.connect(encoder)
    return encoder, objective


def test_count_is_the_losses_count_and_the_number_of_hidden_tokens():
    encoder, objective = connected(rate=0.5)
    marked = objective.mark(tiny.batch())
    loss = score(encoder, objective, marked)
    assert objective.count(marked) == loss.count == marked.text.hidden.sum() > 0
    assert loss.total.dtype == torch.float32


def test_an_ignorant_head_costs_log_v_a_token():
    check_log_v(*connected(rate=0.5), tiny.batch())


@pytest.mark.parametrize(("rate", "lengths"), [(0.0, (7, 5)), (1.0, (2, 2)), (1.0, (0, 0))], ids=["rate", "controls", "absent"])
def test_nothing_hidden_costs_exactly_nothing_with_finite_gradients(rate, lengths):
    """Pitfall O03 a and b."""
    check_nothing_hidden(*connected(rate=rate), tiny.batch(lengths))


def test_a_batch_without_text_costs_nothing():
    encoder, objective = connected()
    marked = objective.mark(tiny.batch()._replace(text=None))
    loss = objective.loss(encoder(tiny.batch()), marked)
    assert loss.total.item() == 0
    assert loss.total.requires_grad


def test_an_empty_row_changes_neither_loss_nor_gradient():
    """Pitfall O03 c."""
    encoder, objective = connected(rate=1.0)
    with_empty, without = (objective.mark(tiny.batch(lengths)) for lengths in ([6, 4, 2], [6, 4]))
    losses = [score(encoder, objective, marked) for marked in (with_empty, without)]
    assert losses[0].count == losses[1].count == 6
    means = [loss.total / loss.count for loss in losses]
    torch.testing.assert_close(*means, rtol=1e-6, atol=1e-6)
    for pair in zip(*(gradients(encoder, objective, mean) for mean in means), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-5, atol=1e-6)


def test_the_whole_is_the_sum_of_its_samples_and_means_of_means_are_not():
    """Pitfall O09."""
    encoder, objective = connected(rate=0.4)
    whole = tiny.batch([9, 3, 12, 5, 20])
    marked = objective.mark(whole)
    for row in range(5):
        alone = objective.mark(take(whole, torch.tensor([row])))
        assert (alone.text.hidden == marked.text.hidden[row]).all()
        assert (alone.text.shown == marked.text.shown[row]).all()
    check_sum_of_samples(encoder, objective, whole, apart=1e-3)


def test_marks_depend_on_sample_epoch_source_and_key_and_on_nothing_else():
    _, objective = connected(rate=0.5)
    batch = tiny.batch([30, 30, 30])
    hidden = objective.mark(batch).text.hidden
    order = torch.tensor([2, 0, 1])
    assert (objective.mark(take(batch, order)).text.hidden == hidden[order]).all()
    assert (objective.mark(batch).text.hidden == hidden).all()
    for other in (batch._replace(sample=batch.sample + 3), batch._replace(epoch=batch.epoch + 1), batch._replace(source="b")):
        assert (objective.mark(other).text.hidden != hidden).any()
    objective.key += 1
    assert (objective.mark(batch).text.hidden != hidden).any()


def test_two_texts_are_both_hidden_and_scored_by_draws_of_their_own():
    encoder, objective = connected(rate=0.5, fields=("text", "translation"))
    batch = tiny.batch([30, 20], translation=tiny.text([30, 20]))
    marked = objective.mark(batch)
    assert (marked.text.hidden != marked.translation.hidden).any()
    loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) == marked.text.hidden.sum() + marked.translation.hidden.sum()
    assert MaskedLanguage().fields == ("text",)
    _, single = connected(rate=0.5)
    assert single.mark(batch).translation.hidden is None


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected()
    marked = objective.mark(tiny.batch([20, 30, 25, 18, 30, 28]))
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_saves_its_head_without_the_table():
    _, objective = connected()
    check_saves_alone(objective)
    assert "head.bias" in objective.state_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 1.5}, "rate is 1.5"),
        ({"keep": 0.6, "random": 0.6}, r"keep \+ random is 1.2"),
        ({"fields": ("caption",)}, r"fields is \['caption'\]"),
        ({"fields": ()}, "fields is"),
    ],
)
def test_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        MaskedLanguage(**options)


def test_refuses_an_encoder_without_text():
    towers = tiny.two_towers()
    with pytest.raises(ValueError, match="reads text with a token table; ImageTower reads image"):
        MaskedLanguage().connect(towers.image)


def test_the_tally_counts_hidden_tokens_that_score_highest():
    encoder, objective = connected(rate=0.6)
    marked = objective.mark(tiny.batch())
    states = encoder(marked)
    best = objective.head(states.text[marked.text.hidden]).argmax(1)
    right = marked.text.tokens[marked.text.hidden]
    assert objective.tally(states, marked)["accuracy"].tolist() == [(best == right).sum(), len(right)]
    with torch.no_grad():  # a head that always says one entry is right as often as that entry was hidden
        objective.head.bias.zero_()[right[0]] = 1e4
    assert objective.tally(states, marked)["accuracy"].tolist() == [(right == right[0]).sum(), len(right)]
    nothing = tiny.batch((2, 2))
    assert objective.tally(encoder(nothing), objective.mark(nothing))["accuracy"].tolist() == [0, 0]
