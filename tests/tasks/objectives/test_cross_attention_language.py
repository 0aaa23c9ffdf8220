"""Cross-attention language: what is hidden, and what it costs."""

import costs
import pytest
import tiny
import torch
import torch.nn.functional as F
from costs import gradients, read, score
from cross_attention import connected
from halves import pack_first_row
from learning import reach_half
from translation_pairs import pairs

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.cross_attention_language import CrossAttentionLanguage
from interlingua.tasks.objectives.translation_language import TranslationLanguage


def without(batch, *rows):
    """The batch, and nothing of the translation of some rows."""
    present = batch.translation.present.clone()
    present[list(rows)] = False
    return batch._replace(translation=batch.translation._replace(present=present))


def attend(layer, queries, keys):
    """One head after the other, written out."""
    query, key, value = (
        F.linear(states, weight, bias)
        for states, weight, bias in zip(
            (queries, keys, keys), layer.inward.weight.chunk(3), layer.inward.bias.chunk(3), strict=True
        )
    )
    width, mixed = query.shape[1] // layer.heads, []
    for head in range(layer.heads):
        own = slice(head * width, (head + 1) * width)
        mixed.append((query[:, own] @ key[:, own].T / width**0.5).softmax(1) @ value[:, own])
    return F.linear(torch.cat(mixed, 1), layer.outward.weight, layer.outward.bias)


def pass_block(block, queries, keys):
    states = block.attention_norm(queries + attend(block.attention, queries, keys))
    return block.feed_forward_norm(states + block.feed_forward(states))


def by_hand(encoder, objective, marked):
    """The formula: log P(x_i | visible y) and log P(y_j | visible x), each half encoded as a text of its own."""
    text, table, total = marked.text, encoder.embeddings, 0.0
    for row in range(len(text.tokens)):
        vectors = table.norm(table.tokens.weight[text.read[row]] + table.positions.weight[text.position[row]])
        halves = [text.present[row] & (text.segment[row] == half) for half in (0, 1)]
        for half in (0, 1):
            context = vectors[halves[1 - half] & ~text.hidden[row]]
            for place in (halves[half] & text.hidden[row]).nonzero()[:, 0].tolist():
                state, seen = vectors[place][None], context
                for block in encoder.transformer.blocks:
                    state, seen = pass_block(block, state, torch.cat([state, seen])), pass_block(block, seen, seen)
                total = total - objective.head(state)[0].log_softmax(0)[text.tokens[row, place]]
    return total


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_value_and_gradients_are_those_of_the_formula(dtype, tolerance):
    encoder, objective = (part.to(dtype) for part in connected(rate=0.4))
    marked = read(objective, pairs([7, 9, 5], [6, 8, 0]))
    loss = score(encoder, objective, marked)
    wanted = by_hand(encoder, objective, marked)
    assert abs(loss.total - wanted) / loss.count < tolerance
    found = gradients(encoder, objective, loss.total / loss.count)
    for mine, other in zip(found, gradients(encoder, objective, wanted / loss.count), strict=True):
        assert (mine - other).abs().max() < tolerance


@pytest.mark.parametrize("orders", ["given", "drawn"])
def test_rows_and_marks_of_pairs_are_those_of_translation_language(orders):
    options = {"rate": 0.4, "scheme": "span", "keep": 0.2, "random": 0.3, "orders": orders, "pair": "infoxlm"}
    _, objective = connected(**options)
    _, other = connected(kind=TranslationLanguage, **options)
    other.key = objective.key
    batch = pairs([9, 12, 5, 20], [8, 7, 10, 15], alignment=torch.zeros(4, 2, 2, dtype=torch.long))
    found, wanted = read(objective, batch), read(other, batch)
    assert found.translation is None
    assert found.alignment is None
    for field in found.text._fields:
        assert getattr(found.text, field).equal(getattr(wanted.text, field)), field


def test_rows_without_a_translation_are_neither_hidden_nor_counted():
    encoder, objective = connected(rate=1.0)
    batch = without(pairs([7, 5, 9, 2], [6, 8, 4, 5]), 1)
    marked = read(objective, batch)
    assert marked.text.hidden.sum(1).tolist() == [5 + 4, 0, 7 + 2, 0]
    assert marked.text.shown[[1, 3]].equal(marked.text.tokens[[1, 3]])
    assert score(encoder, objective, marked).count == objective.count(marked) == 18


def test_an_ignorant_head_costs_log_v_a_token():
    costs.check_log_v(*connected(rate=0.5), pairs())


NOTHING = {
    "rate": (0.0, pairs()),
    "controls": (1.0, pairs((2, 2), (2, 2))),
    "absent": (1.0, pairs((0, 0), (0, 0))),
    "alone": (1.0, without(pairs(), 0, 1, 2, 3)),
    "no row": (1.0, take(pairs(), torch.arange(0))),
}


@pytest.mark.parametrize(("rate", "batch"), NOTHING.values(), ids=NOTHING)
def test_nothing_hidden_costs_exactly_nothing_with_finite_gradients(rate, batch):
    """Pitfall O03 a and b."""
    costs.check_nothing_hidden(*connected(rate=rate), batch)


def test_all_of_a_row_hidden_is_finite():
    """Pitfall O10: what is left to see is the other half's control tokens."""
    encoder, objective = connected(rate=1.0, keep=0.0, random=0.0)
    loss = score(encoder, objective, read(objective, pairs()))
    assert loss.total.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients(encoder, objective, loss.total))


def test_a_row_without_translation_changes_neither_loss_nor_gradient():
    """Pitfall O03 c."""
    encoder, objective = connected(rate=1.0)
    batches = (without(pairs([6, 4, 9], [5, 3, 7]), 2), pairs([6, 4], [5, 3]))
    losses = [score(encoder, objective, read(objective, batch)) for batch in batches]
    assert losses[0].count == losses[1].count == 4 + 2 + 3 + 1
    torch.testing.assert_close(losses[0].total, losses[1].total, rtol=1e-6, atol=1e-6)
    for pair in zip(*(gradients(encoder, objective, loss.total) for loss in losses), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("orders", ["given", "drawn"])
def test_the_whole_is_the_sum_of_its_samples_and_means_of_means_are_not(orders):
    """Pitfall O09; marks and order of a sample alone are those in a batch."""
    costs.check_sum_of_samples(*connected(rate=0.4, orders=orders), pairs([9, 3, 12, 5, 20], [4, 0, 30, 6, 3]))


def test_padding_on_either_side_costs_the_same():
    costs.check_padding(*connected(rate=0.5, orders="drawn"), pairs)


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected()
    marked = read(objective, pairs([20, 30, 25], [18, 30, 28]))
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_refuses_packed_rows_and_sources_without_translation():
    _, objective = connected()
    batch = pairs([5], [5])
    with pytest.raises(ValueError, match="cross-attention language scores one item a row, but rows of source 'parallel'"):
        objective.view(batch._replace(text=pack_first_row(batch.text)))
    with pytest.raises(ValueError, match=r"cross-attention language: source 'parallel' has no translation"):
        objective.view(batch._replace(translation=None))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pair": "roberta"}, "pair is 'roberta', expected one of bert"),
        ({"max_tokens": 5}, "max_tokens is 5; pairs of the form ernie-m need at least 6"),
        ({"rate": 1.5}, "cross-attention language: rate is 1.5"),
    ],
)
def test_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        CrossAttentionLanguage(**options)


def test_refuses_unfit_encoders():
    with pytest.raises(ValueError, match="reads text with a token table; ImageTower reads image"):
        CrossAttentionLanguage().connect(tiny.two_towers().image)
    with pytest.raises(ValueError, match="max_tokens is 65, but the encoder reads at most 64 positions"):
        CrossAttentionLanguage(max_tokens=65).connect(tiny.text_tower())


def test_saves_its_head_without_the_table():
    costs.check_saves_alone(connected()[1])
