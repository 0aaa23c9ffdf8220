"""What is hidden of a text: how much, what stands in its place, and what it depends on."""

import pytest
import tiny
import torch

from interlingua.modalities.batch import Text, number_positions
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.tasks.objectives.hiding import Hiding, hide_tokens, span_starts

SCHEMES = ["token", "word", "span"]
XLM_R_LIKE = Vocabulary(200, start=0, pad=1, end=2, unknown=3, mask=199)


def long_text(rows=400, words=40, pieces=2, vocabulary=XLM_R_LIKE, left=False):
    """Texts of different lengths, every word of `pieces` pieces, ids unlike the controls."""
    lengths = [2 + pieces * (1 + row % words) for row in range(rows)]
    text = tiny.text(lengths, left=left, vocabulary=Vocabulary(199, start=0, pad=1, end=2, unknown=3, mask=4))
    word = torch.where(text.word >= 0, text.word // pieces, -1)
    return text._replace(word=word)


def seeds(rows):
    return torch.arange(rows) * 7919 + 13


def hide(text, scheme="token", rate=0.15, keep=0.1, random=0.1, seed=None):
    seed = seeds(len(text.tokens)) if seed is None else seed
    return hide_tokens(text, seed, Hiding(scheme, rate, keep, random), XLM_R_LIKE)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rates_hold_and_controls_and_padding_never_are_hidden(scheme):
    """Pitfall O01: over 10,000 tokens 15 %, of them 80/10/10 within 1.5 points; no control is hidden or drawn."""
    text = long_text(800)
    marked = hide(text, scheme)
    hidden, ordinary = marked.hidden, text.word >= 0
    assert ordinary.sum() > 10_000
    assert not (hidden & ~ordinary).any()
    chosen = hidden.sum().item()
    assert abs(chosen / ordinary.sum().item() - 0.15) < 0.01
    shown, truth = marked.shown[hidden], text.tokens[hidden]
    masked = (shown == XLM_R_LIKE.mask).sum().item()
    assert abs(masked / chosen - 0.8) < 0.015
    kept = (shown == truth).sum().item()
    assert abs(kept / chosen - 0.1) < 0.015
    drawn = shown[(shown != truth) & (shown != XLM_R_LIKE.mask)]
    assert abs(len(drawn) / chosen - 0.1) < 0.015
    assert not torch.isin(drawn, torch.tensor(XLM_R_LIKE.controls)).any()
    assert drawn.max() < XLM_R_LIKE.size
    assert (marked.shown[~hidden] == text.tokens[~hidden]).all()
    assert (marked.tokens == text.tokens).all()
    assert (marked.present == text.present).all()


def test_random_entries_reach_the_whole_vocabulary_evenly():
    marked = hide(long_text(800), rate=1.0, keep=0.0, random=1.0)
    counts = torch.bincount(marked.shown[marked.hidden], minlength=200)
    assert (counts[list(XLM_R_LIKE.controls)] == 0).all()
    ordinary = torch.ones(200, dtype=torch.bool).index_fill(0, torch.tensor(XLM_R_LIKE.controls), False)
    expected = counts.sum() / 195
    assert (counts[ordinary] > 0).all()
    chi_squared = ((counts[ordinary] - expected) ** 2 / expected).sum()
    assert chi_squared < 194 + 4 * (2 * 194) ** 0.5


@pytest.mark.parametrize("scheme", ["word", "span"])
def test_pieces_of_a_word_are_hidden_together(scheme):
    text = long_text(100)
    hidden = hide(text, scheme).hidden
    first, second = hidden[:, 1:-1:2], hidden[:, 2::2]
    width = min(first.shape[1], second.shape[1])
    assert hidden.any()
    assert (first[:, :width] == second[:, :width]).all()


def test_single_tokens_are_hidden_without_regard_to_words():
    hidden = hide(long_text(100), "token").hidden
    assert (hidden[:, 1:-1:2] != hidden[:, 2::2][:, : hidden[:, 1:-1:2].shape[1]]).any()


def test_span_lengths_and_coverage_are_those_of_the_law():
    """Starts alone, with few enough spans that they hardly touch: the mean length is SpanBERT's 3.8 words."""
    words = 4000
    text = tiny.text([words + 2] * 20, vocabulary=Vocabulary(199, start=0, pad=1, end=2, unknown=3, mask=4))
    hidden = hide(text, "span", rate=0.01).hidden[:, 1:-1]
    runs = (hidden[:, 1:] & ~hidden[:, :-1]).sum() + hidden[:, 0].sum()
    assert abs(hidden.float().mean() - 0.01) < 0.002
    assert abs(hidden.sum() / runs - 3.8) < 0.3


def test_words_at_a_start_are_hidden_in_spans_as_often_as_others():
    text = tiny.text([12] * 8000)
    hidden = hide(text, "span", rate=0.3).hidden[:, 1:-1].float().mean(0)
    assert (hidden - 0.3).abs().max() < 0.02


def test_a_span_has_one_fate():
    text = long_text(600, pieces=1)
    marked = hide(text, "span", rate=0.05, keep=0.5, random=0.0)
    both = marked.hidden[:, 1:] & marked.hidden[:, :-1]
    masked = marked.shown == XLM_R_LIKE.mask
    alike = (masked[:, 1:] == masked[:, :-1])[both].float().mean()
    assert alike > 0.9  # by chance 0.5; spans that touch may differ


@pytest.mark.parametrize(("rate", "starts"), [(0.0, 0.0), (1.0, 1.0)])
def test_span_starts_at_the_ends(rate, starts):
    assert span_starts(rate) == pytest.approx(starts)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_nothing_and_everything(scheme, rate):
    text = long_text(20)
    assert (hide(text, scheme, rate=rate).hidden == ((text.word >= 0) & (rate == 1))).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_marks_do_not_depend_on_padding_or_batch_mates(scheme):
    wide = long_text(30)
    whole = hide(wide, scheme, rate=0.4)
    flipped = hide(long_text(30, left=True), scheme, rate=0.4)
    for field in ("shown", "hidden"):
        assert (getattr(whole, field)[wide.present] == getattr(flipped, field)[flipped.present]).all()
    row = Text(*(None if field is None else field[7:8, :18] for field in wide))
    alone = hide(row, scheme, rate=0.4, seed=seeds(30)[7:8])
    assert (alone.shown[row.present] == whole.shown[7][wide.present[7]]).all()
    assert (alone.hidden[row.present] == whole.hidden[7][wide.present[7]]).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_draw_apart(scheme):
    text = tiny.text([40] * 2)
    hidden = hide(text, scheme, rate=0.5).hidden
    assert (hidden[0] != hidden[1]).any()


def test_spans_and_words_stay_within_their_document_and_segment():
    """Two packed documents of one word each, numbered 0 both, side by side without a control token between."""
    rows = 3000
    zeros = torch.zeros(rows, 4, dtype=torch.long)
    document = torch.tensor([0, 0, 1, 1]).expand(rows, 4)
    present = torch.ones(rows, 4, dtype=torch.bool)
    text = Text(zeros + 7, present, zeros, zeros, zeros, document, number_positions(present))
    for split in (text, text._replace(document=zeros, segment=document)):
        for scheme in ("word", "span"):
            hidden = hide(split, scheme, rate=0.5).hidden
            assert (hidden[:, 0] == hidden[:, 1]).all()
            assert (hidden[:, 2] == hidden[:, 3]).all()
            assert abs((hidden[:, 0] == hidden[:, 2]).float().mean() - 0.5) < 0.05


def test_marks_that_are_there_stay():
    text = long_text(50)
    before = torch.zeros_like(text.present)
    before[:, 1] = True
    shown = text.tokens.masked_fill(before, 77)
    marked = hide(text._replace(shown=shown, hidden=before), rate=0.5)
    assert marked.hidden[:, 1].all()
    assert (marked.shown[:, 1] == 77).all()
    assert marked.hidden[:, 2:].any()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_text_without_any_token_has_nothing_hidden(scheme):
    marked = hide(tiny.text([0, 0]), scheme)
    assert not marked.hidden.any()
    assert marked.shown.shape == (2, 1)
