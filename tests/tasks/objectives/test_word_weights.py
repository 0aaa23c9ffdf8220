"""Rare tokens hidden more often: probabilities in closed form, exact rates, and no say for other texts of the batch."""

import math

import numpy as np
import pytest
import tiny
import torch
from costs import check_saves_alone

from interlingua.modalities.batch import Text, number_positions, take
from interlingua.modalities.entry_counts import EntryCounts, write_counts
from interlingua.tasks.objectives.hiding import Hiding, hide_tokens
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.translation_language import TranslationLanguage
from interlingua.tasks.objectives.word_weights import BITS, spread_rate, weigh_entries

COUNTS = torch.tensor([0, 0, 0, 0, 0, *(10_000_000 // rank**2 for rank in range(1, 96))])
"""Of the vocabulary of 100 in `tiny`: none of the control tokens, then from 10 million down to 1,108."""


def spread(rate, counts, alpha, group=None):
    weight = weigh_entries(torch.tensor(counts), alpha)
    return spread_rate(rate, weight, torch.tensor(group or [0] * len(counts)))


def expected(rate, counts, alpha):
    """The same by hand: whoever would be hidden more than surely is hidden surely, the rest share what is left."""
    weights = [max(count, 1) ** -alpha for count in counts]
    sure: set[int] = set()
    while True:
        left = rate * len(counts) - len(sure)
        rest = sum(weight for index, weight in enumerate(weights) if index not in sure)
        found = [1.0 if index in sure else left * weight / rest for index, weight in enumerate(weights)]
        more = {index for index, chance in enumerate(found) if chance >= 1}
        if more == sure:
            return found
        sure = more


def test_four_tokens_by_hand():
    """Weights 1, 1/2, 1/4 and 1/10 of counts 1, 4, 16 and 100 at rate 0.25: one token of four, shared as 20 : 10 : 5 : 2."""
    found = spread(0.25, [1, 4, 16, 100], 0.5)
    assert found.tolist() == pytest.approx([20 / 37, 10 / 37, 5 / 37, 2 / 37], rel=1e-9)
    # At rate 0.5 the first would have 40 / 37: it is certain, and the other one token is shared as 10 : 5 : 2.
    found = spread(0.5, [1, 4, 16, 100], 0.5)
    assert found.tolist() == pytest.approx([1, 10 / 17, 5 / 17, 2 / 17], rel=1e-9)


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.15, 0.5, 0.9, 1.0])
def test_the_closed_form_of_many_texts_at_once(rate, alpha):
    generator = torch.Generator().manual_seed(int(100 * rate) + int(1000 * alpha))
    sizes = [1, 2, 3, 7, 20, 60]
    texts = [(10 ** (7 * torch.rand(size, generator=generator))).long().tolist() for size in sizes]
    texts[3] = [0, 0, *texts[3][2:]]
    order = torch.randperm(sum(sizes), generator=generator)
    weight = weigh_entries(torch.tensor([count for text in texts for count in text]), alpha)
    group = torch.repeat_interleave(torch.arange(6), torch.tensor(sizes))
    found = torch.empty(sum(sizes), dtype=torch.float64)
    found[order] = spread_rate(rate, weight[order], group[order])
    for number, text in enumerate(texts):
        own = found[group == number]
        assert own.tolist() == pytest.approx(expected(rate, text, alpha), rel=1e-6, abs=1e-9)
        assert own.sum().item() == pytest.approx(rate * len(text), rel=1e-9)  # exact, however many are certain
        assert own.max() <= 1 + 1e-12
        assert (spread_rate(rate, weight[group == number], torch.zeros(len(text)).long()) == own).all()


def test_sums_stay_exact_at_the_longest_text_and_over_many_texts():
    size = 2 ** (63 - BITS)
    weight = torch.full((3 * size,), 2**BITS)
    group = torch.arange(3).repeat_interleave(size)
    weight[:-1:2] -= 1
    found = spread_rate(0.15, weight[: 3 * size - 3], group[: 3 * size - 3])
    assert (found - 0.15).abs().max() < 1e-12
    assert (spread_rate(0.15, torch.full((7,), 2**BITS), torch.zeros(7).long()) == 0.15).all()


def hide(text: Text, weights, rate=0.15, seed=None):
    seed = torch.arange(len(text.tokens)) * 7919 + 13 if seed is None else seed
    return hide_tokens(text, seed, Hiding("token", rate, 0.1, 0.1), tiny.VOCABULARY, weights)


def test_how_often_each_entry_is_hidden():
    """20,000 readings of one text: every token at its own closed form, the text at the rate."""
    text = tiny.text([40])
    counts = COUNTS[text.tokens[0, 1:-1]].tolist()
    rows = torch.zeros(20_000, dtype=torch.long)
    hidden = hide(take(text, rows), weigh_entries(COUNTS, 0.5)).hidden
    assert not hidden[:, [0, -1]].any()
    found = hidden[:, 1:-1].double().mean(0)
    wanted = torch.tensor(expected(0.15, counts, 0.5), dtype=torch.float64)
    assert wanted.max() > 4 * wanted.min()
    assert ((found - wanted).abs() < 5 * (wanted * (1 - wanted) / 20_000).sqrt() + 1e-9).all()
    assert abs(found.mean() - 0.15) < 0.002


def test_alpha_zero_is_plain_hiding_bit_for_bit():
    text = tiny.text([2 + row % 60 for row in range(500)])
    plain, weighted = hide(text, None), hide(text, weigh_entries(COUNTS, 0.0))
    assert plain.hidden.any()
    assert (plain.hidden == weighted.hidden).all()
    assert (plain.shown == weighted.shown).all()
    assert (hide(text, weigh_entries(COUNTS, 0.5)).hidden != plain.hidden).any()


def test_what_is_hidden_depends_on_neither_batch_mates_nor_padding():
    weights, text = weigh_entries(COUNTS, 0.5), tiny.text([30, 9, 50, 2, 0, 17])
    seed = torch.arange(6) * 7919 + 13
    together, left = hide(text, weights, 0.4), hide(tiny.text([30, 9, 50, 2, 0, 17], 70, left=True), weights, 0.4)
    for row in range(6):
        alone = hide(take(text, torch.tensor([row])), weights, 0.4, seed[row : row + 1])
        for other, number in ((alone, 0), (left, row)):
            assert (other.hidden[number][other.present[number]] == together.hidden[row][together.present[row]]).all()


def test_each_document_of_a_packed_row_has_its_own_mean():
    """A text of rare tokens alone is hidden at the rate, whatever it is packed with."""
    tokens = torch.tensor([[2, *[5] * 20, 3, 2, *[99] * 20, 3]])
    word = torch.tensor([[-1, *range(20), -1, -1, *range(20), -1]])
    zeros, present = torch.zeros_like(tokens), torch.ones_like(tokens, dtype=torch.bool)
    document = torch.tensor([[0] * 22 + [1] * 22])
    text = Text(tokens, present, zeros, word, zeros, document, number_positions(present))
    rows = take(text, torch.zeros(4000, dtype=torch.long))
    weights = weigh_entries(COUNTS, 0.5)
    halves = hide(rows, weights).hidden[:, :22], hide(rows, weights).hidden[:, 22:]
    assert [abs(half[:, 1:-1].float().mean() - 0.15) < 0.005 for half in halves] == [True, True]
    joined = hide(rows._replace(document=zeros.expand(4000, -1)), weights).hidden
    assert joined[:, 22:].float().mean() > 2 * joined[:, :22].float().mean()


def counts_file(folder, size=100, tokenizer="abc"):
    path = folder / "small.counts.json"
    write_counts(EntryCounts(tokenizer, 7, np.resize(COUNTS.numpy(), size)), path)
    return str(path)


@pytest.mark.parametrize("kind", [MaskedLanguage, TranslationLanguage])
def test_objectives_weigh_by_a_file_of_counts(kind, tmp_path):
    objectives = [kind(rate=0.15, alpha=0.5, counts=counts_file(tmp_path)), kind(rate=0.15)]
    encoder, lengths = tiny.text_tower(), [30] * 400
    batch = tiny.batch(lengths, translation=tiny.text(lengths, seed=3, language=1))
    marked = []
    for objective in objectives:
        objective.connect(encoder)
        objective.key = 11
        marked.append(objective.mark(objective.view(batch)).text)
        check_saves_alone(objective)
    weighted, plain = marked
    ordinary = plain.word >= 0
    assert abs(weighted.hidden[ordinary].float().mean() - 0.15) < 0.01
    frequent = ordinary & (plain.tokens < 15)
    assert weighted.hidden[frequent].float().mean() < 0.1 < 0.12 < plain.hidden[frequent].float().mean()
    objective = objectives[0]
    assert objective.counts.tokenizer == "abc"
    marked = objective.mark(objective.view(batch))
    loss = objective.loss(encoder(marked), marked)
    assert loss.count == objective.count(marked) > 0
    assert loss.total.isfinite()


@pytest.mark.parametrize("kind", [MaskedLanguage, TranslationLanguage])
def test_refuses_weights_without_counts_of_this_vocabulary(kind, tmp_path):
    with pytest.raises(ValueError, match=r"alpha is 0\.5, but counts names no file"):
        kind(alpha=0.5)
    for options in ({}, {"alpha": 0.0}):  # whether the file is there or not
        with pytest.raises(ValueError, match=r"counts is there\.json, but alpha is 0, so nothing .*; set alpha"):
            kind(counts="there.json", **options)
    for alpha in (-0.5, 1.5, math.nan):
        with pytest.raises(ValueError, match=r"lies between 0 \(every token alike\) and 1"):
            kind(alpha=alpha)
    with pytest.raises(ValueError, match="scheme is 'span'; use scheme token"):
        kind(alpha=0.5, counts=counts_file(tmp_path), scheme="span")
    with pytest.raises(FileNotFoundError, match=r"there\.json does not exist"):
        kind(alpha=0.5, counts=str(tmp_path / "there.json"))
    with pytest.raises(ValueError, match=r"small.counts.json counts 90 entries, but the encoder's vocabulary has 100"):
        kind(alpha=0.5, counts=counts_file(tmp_path, 90)).connect(tiny.text_tower())
