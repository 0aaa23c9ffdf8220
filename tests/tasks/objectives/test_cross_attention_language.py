"""Cross-attention language: what a hidden token may see, what is hidden, and what it costs."""

import gzip
import json
import math
from itertools import islice

import pytest
import tiny
import torch
import torch.nn.functional as F
from learning import reach_half
from torch import nn
from trained import small_tokenizer
from translation_pairs import XLM, pairs, read, score

from interlingua.modalities.batch import take
from interlingua.modalities.text import collate_text
from interlingua.models.packing import Slots, same_document
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.cross_attention_language import CrossAttentionLanguage, across_halves
from interlingua.tasks.objectives.translation_language import TranslationLanguage

LAYERS = 3


def connected(vocabulary=tiny.VOCABULARY, languages=0, max_tokens=64, kind=CrossAttentionLanguage, **options):
    torch.manual_seed(0)
    embeddings = tiny.embeddings(vocabulary=vocabulary, languages=languages, max_tokens=max_tokens)
    encoder, objective = TextTower(embeddings, tiny.transformer(LAYERS)), kind(**options)
    objective.connect(encoder)
    return encoder, objective


def gradients(encoder, objective, total):
    parameters = [*encoder.parameters(), *objective.parameters()]
    return torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)


def without(batch, *rows):
    """The batch, and nothing of the translation of some rows."""
    present = batch.translation.present.clone()
    present[list(rows)] = False
    return batch._replace(translation=batch.translation._replace(present=present))


def test_what_each_token_may_see():
    """`<s> a [b] </s> </s> [c] d </s>`, where b and c are hidden, beside an empty slot."""
    segment = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, -1]])
    hidden = torch.tensor([[0, 0, 1, 0, 0, 1, 0, 0, 0]]).bool()
    sample, zeros = torch.where(segment < 0, -1, 0), torch.zeros_like(segment)
    found = across_halves(Slots(sample, zeros, zeros, segment, hidden))[0]
    first, second = [0, 1, 3], [4, 6, 7]
    wanted = {0: first, 1: first, 3: first, 4: second, 6: second, 7: second, 2: [2, *second], 5: [*first, 5], 8: [8]}
    assert {query: row.nonzero()[:, 0].tolist() for query, row in enumerate(found)} == {q: sorted(k) for q, k in wanted.items()}


def test_no_sample_sees_another():
    segment = torch.tensor([[0, 0, 1, 0, 1, 1]])
    hidden = torch.tensor([[0, 1, 0, 1, 0, 1]]).bool()
    sample, zeros = torch.tensor([[0, 0, 0, 1, 1, 1]]), torch.zeros_like(segment)
    found = across_halves(Slots(sample, zeros, zeros, segment, hidden))[0]
    assert not found[:3, 3:].any()
    assert not found[3:, :3].any()


def both_halves(slots):
    """The well-known wrong choice: visible tokens see what is visible of the whole row."""
    return across_halves(slots) | (same_document(slots) & ~slots.hidden[:, :, None] & ~slots.hidden[:, None, :])


def reach(encoder, objective, marked, allow):
    """For each hidden token, the tokens whose vectors its score has a gradient with respect to: row, query, key."""
    vectors = []
    hook = encoder.embeddings.register_forward_hook(lambda *call: vectors.append(call[-1]))
    states = encoder(marked, allow=allow).text
    hook.remove()
    there = marked.text.present.nonzero()
    found = set()
    for row, query in marked.text.hidden.nonzero().tolist():
        own = objective.head(states[row, query][None])[0, marked.text.tokens[row, query]]
        (gradient,) = torch.autograd.grad(own, vectors[0], retain_graph=True)
        found |= {(row, query, key) for other, key in there[gradient.abs().amax(1) > 0].tolist() if other == row}
        assert not gradient[there[:, 0] != row].any()
    return found


FORMS = [{}, {"pair": "infoxlm", "scheme": "word"}, {"vocabulary": XLM, "languages": 2, "pair": "xlm"}]


@pytest.mark.parametrize("options", FORMS, ids=["ernie-m", "infoxlm", "xlm"])
def test_nothing_but_the_other_half_reaches_a_prediction_through_three_layers(options):
    encoder, objective = connected(rate=0.4, **options)
    marked = read(objective, pairs([9, 12, 5], [8, 7, 10], vocabulary=options.get("vocabulary", tiny.VOCABULARY)))
    text = marked.text
    assert {text.segment[place].item() for place in map(tuple, text.hidden.nonzero().tolist())} == {0, 1}
    wanted = set()
    for row, query in text.hidden.nonzero().tolist():
        seen = text.present[row] & ~text.hidden[row] & (text.segment[row] != text.segment[row, query])
        wanted |= {(row, query, key) for key in [query, *seen.nonzero()[:, 0].tolist()]}
    assert reach(encoder, objective, marked, across_halves) == wanted
    told = reach(encoder, objective, marked, both_halves) - wanted
    segment, hidden = text.segment, text.hidden
    assert any(segment[row, query] == segment[row, key] and not hidden[row, key] for row, query, key in told)
    assert objective.read(encoder, marked).text.equal(encoder(marked, allow=across_halves).text)


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
    encoder, objective = connected(rate=0.5)
    nn.init.zeros_(encoder.tokens.weight)
    marked = read(objective, pairs())
    loss = score(encoder, objective, marked)
    assert objective.count(marked) == loss.count == marked.text.hidden.sum() > 0
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(100), rel=1e-5)


NOTHING = {
    "rate": (0.0, pairs()),
    "controls": (1.0, pairs((2, 2), (2, 2))),
    "absent": (1.0, pairs((0, 0), (0, 0))),
    "alone": (1.0, without(pairs(), 0, 1, 2, 3)),
    "no row": (1.0, take(pairs(), torch.arange(0))),
}


@pytest.mark.parametrize("case", NOTHING)
def test_nothing_hidden_costs_exactly_nothing_with_finite_gradients(case):
    """Pitfall O03 a and b."""
    rate, batch = NOTHING[case]
    encoder, objective = connected(rate=rate)
    marked = read(objective, batch)
    loss = score(encoder, objective, marked)
    assert loss.total.item() == 0
    assert loss.count == objective.count(marked) == 0
    assert loss.total.requires_grad
    assert all(gradient.isfinite().all() for gradient in gradients(encoder, objective, loss.total))


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
    encoder, objective = connected(rate=0.4, orders=orders)
    whole = pairs([9, 3, 12, 5, 20], [4, 0, 30, 6, 3])
    loss = score(encoder, objective, read(objective, whole))
    parts = [score(encoder, objective, read(objective, take(whole, torch.tensor([row])))) for row in range(5)]
    torch.testing.assert_close(sum(part.total for part in parts), loss.total, rtol=1e-5, atol=1e-5)
    assert sum(part.count for part in parts) == loss.count
    means = [part.total / part.count for part in parts if part.count]
    assert abs(sum(means) / len(means) - loss.total / loss.count) > 1e-4


def test_padding_on_either_side_costs_the_same():
    encoder, objective = connected(rate=0.5, orders="drawn")
    losses = [
        score(encoder, objective, read(objective, pairs(left=left, padded=padded)))
        for left, padded in ((False, None), (True, None), (True, 30))
    ]
    for loss in losses[1:]:
        assert loss.count == losses[0].count > 0
        torch.testing.assert_close(loss.total, losses[0].total, rtol=1e-6, atol=1e-6)


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected()
    marked = read(objective, pairs([20, 30, 25], [18, 30, 28]))
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_real_sentences_are_read_off_their_translations_alone(data):
    """English and others: another word in a place that is not hidden changes what the other half's tokens cost, no other."""
    tokenizer = small_tokenizer(data)
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        wanted = (record for record in map(json.loads, file) if record["tgt_lang"] in ("de", "ar", "ja"))
        rows = [(one["src"], one["src_lang"], one["tgt"], one["tgt_lang"]) for one in islice(wanted, 0, 2000, 50)]
    columns = list(zip(*rows, strict=True))
    first, second = (collate_text(columns[half], columns[half + 1], tokenizer, 32) for half in (0, 2))
    encoder, objective = connected(tokenizer.vocabulary)
    marked = read(objective, tiny.batch([4] * len(rows))._replace(text=first, translation=second))
    text = marked.text
    words = text.word >= 0
    assert abs(text.hidden[words].float().mean() - 0.15) < 0.03
    assert score(encoder, objective, marked).total.isfinite()
    mine = words & ~text.hidden & (text.segment == 0)
    shown = torch.where(mine, tokenizer.vocabulary.unknown, text.shown)
    states = [objective.read(encoder, marked._replace(text=text._replace(shown=one))).text for one in (text.shown, shown)]
    changed = (states[0] - states[1]).abs().amax(2) > 1e-6
    assert not changed[text.hidden & (text.segment == 0)].any()
    rows_changed = mine.any(1)[:, None] & (text.segment == 1)
    assert changed[text.hidden & rows_changed].all()


def test_refuses_packed_rows_and_sources_without_translation():
    _, objective = connected()
    batch = pairs([5], [5])
    packed = batch.text._replace(document=torch.tensor([[0, 0, 0, 1, 1]]))
    with pytest.raises(ValueError, match="cross-attention language scores one item a row, but rows of source 'parallel'"):
        objective.view(batch._replace(text=packed))
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
    _, objective = connected()
    assert set(objective.state_dict()) == {f"head.{name}" for name in objective.head.state_dict()}
