"""The rule of cross-attention language: what a hidden token may see, and that nothing else reaches its prediction."""

import gzip
import json
from itertools import islice

import pytest
import tiny
import torch
from costs import read, score
from cross_attention import connected
from trained import small_tokenizer
from translation_pairs import XLM, pairs

from interlingua.modalities.text import collate_text
from interlingua.models.packing import Slots, same_document
from interlingua.tasks.objectives.cross_attention_language import across_halves


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


def test_real_sentences_are_read_off_their_translations_alone(data):
    """English and others: another word in a place that is not hidden changes what the other half's tokens cost, no other."""
    tokenizer = small_tokenizer(data)
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        wanted = (record for record in map(json.loads, file) if record["tgt_lang"] in ("de", "ar", "ja"))
        rows = [(one["src"], one["src_lang"], one["tgt"], one["tgt_lang"]) for one in islice(wanted, 0, 2000, 50)]
    columns = list(zip(*rows, strict=True))
    first, second = (collate_text(columns[half], columns[half + 1], tokenizer, 32) for half in (0, 2))
    encoder, objective = connected(vocabulary=tokenizer.vocabulary)
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
