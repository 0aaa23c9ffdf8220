"""Rows of questions: windows of the text, the answer's tokens by its characters, and back into the text as it was written."""

import json
import pickle

import pytest
import torch
from labelled_files import put
from trained import names, small_tokenizer

from interlingua.datamodules.labelled.data import Labelled
from interlingua.datamodules.labelled.examples import Question
from interlingua.datamodules.labelled.question_layout import QuestionLayout, cut_windows
from interlingua.datamodules.labelled.squad import Squad
from interlingua.modalities.pair import PAIR_FORMS
from interlingua.modalities.piece_places import PiecePlacer

CONTEXT = "Die alte Bru\u0308cke \U0001f309 f\u00fchrt seit 1907 \u00fcber den \ufb02achen Fluss.\n\nDer Fluss ist breit."
MOST, ASKED = 128, 16
"""Room for the text above, and for the question below."""


def question(*answers, context=CONTEXT, text="Seit wann?", language="de"):
    placed = tuple((answer, context.index(answer)) if isinstance(answer, str) else answer for answer in answers)
    return Question(language, "q", text, context, placed)


def lay(data, *records, most=MOST, **options):
    return QuestionLayout(**{"max_question": ASKED, **options}).lay(records, {}, small_tokenizer(data), most)


def long_context(data, words=150):
    return " ".join(word for _, text in names(data)[::7] for word in text.split())[: words * 8]


@pytest.mark.parametrize("pair", PAIR_FORMS)
@pytest.mark.parametrize("answer", ["1907", "Bru\u0308cke", "\ufb02achen Fluss.", "Die", "breit.", "Fluss.\n\nDer"])
def test_the_tokens_of_the_answer_are_its_characters(pair, answer, data):
    tokenizer = small_tokenizer(data)
    record = question(answer)
    laid = lay(data, record, pair=pair)
    assert laid.target.span.shape == (1, 2)
    first, last = laid.target.span[0].tolist()
    assert laid.text.segment[0, first] == laid.text.segment[0, last] == 1
    read = tokenizer.decode(laid.text.tokens[0, first : last + 1].tolist())
    assert tokenizer.normalize(answer) in read
    [window] = QuestionLayout(pair, max_question=ASKED).windows(record, tokenizer, MOST)
    start, stop = window.locate(first, last)
    assert answer in record.context[start:stop]
    assert len(record.context[start:stop]) <= len(answer) + 1  # a full stop may be of the word's last piece
    pieces = PiecePlacer(tokenizer)(record.context, "de").ids.tolist()
    assert laid.text.tokens[0, window.first : window.first + len(pieces)].tolist() == pieces
    controls = PAIR_FORMS[pair].controls
    assert laid.text.present.sum() == tokenizer.encode([record.question]).counts.sum() + len(pieces) + controls


def test_the_row_reads_the_question_first(data):
    tokenizer = small_tokenizer(data)
    laid = lay(data, question("1907"), pair="bert")
    asked = tokenizer.encode(["Seit wann?"]).ids.tolist()
    vocabulary = tokenizer.vocabulary
    assert laid.text.tokens[0, : len(asked) + 2].tolist() == [vocabulary.start, *asked, vocabulary.end]
    assert laid.text.segment[0].diff().nonzero().flatten().tolist() == [len(asked) + 1]
    assert (laid.text.language[0] == tokenizer.language_id("de")).all()


def test_windows_begin_a_stride_apart_and_the_last_one_reaches_the_end():
    assert list(cut_windows(10, 10, 4)) == [(0, 10)]
    assert list(cut_windows(11, 10, 4)) == [(0, 10), (4, 11)]
    assert list(cut_windows(19, 10, 4)) == [(0, 10), (4, 14), (8, 18), (12, 19)]
    assert list(cut_windows(7, 3, 5)) == [(0, 3), (3, 6), (6, 7)]  # nothing is left out between
    # Read as what windows share, a stride of 4 would start them 6 apart.
    assert list(cut_windows(19, 10, 10 - 4)) == [(0, 10), (6, 16), (12, 19)]


def test_a_long_text_stands_in_overlapping_windows(data):
    tokenizer = small_tokenizer(data)
    context = long_context(data)
    words = context.split()
    wanted = words[len(words) // 2]
    record = question((wanted, context.index(f" {wanted} ") + 1), context=context, language="en")
    options = {"pair": "xlm-roberta", "stride": 20, "max_question": 8}
    layout = QuestionLayout(**options)
    laid, windows = layout.lay([record], {}, tokenizer, 64), layout.windows(record, tokenizer, 64)
    count = len(windows)
    assert count > 5
    assert laid.record.tolist() == [0] * count
    assert laid.text.present.sum(1).max() == 64
    assert (laid.text.present.sum(1)[:-1] == 64).all()
    placed = PiecePlacer(tokenizer)(context, "en")
    seen = set()
    for row, window in enumerate(windows):
        own = laid.text.present[row] & (laid.text.segment[row] == 1) & (laid.text.word[row] >= 0)
        assert own.nonzero().flatten().tolist() == list(range(window.first, window.first + len(window.starts)))
        assert laid.text.tokens[row][own].tolist() == placed.ids[20 * row : 20 * row + int(own.sum())].tolist()
        seen |= set(range(20 * row, 20 * row + int(own.sum())))
    assert seen == set(range(len(placed.ids)))
    first, last = placed.find(record.answers[0][1], record.answers[0][1] + len(wanted))
    holding = 0
    for row, (window, span) in enumerate(zip(windows, laid.target.span.tolist(), strict=True)):
        whole = 20 * row <= first and last < 20 * row + len(window.starts)
        assert (span != [-1, -1]) == whole
        if whole:
            holding += 1
            start, stop = window.locate(*span)
            assert context[start:stop].strip(",.:;()") == wanted.strip(",.:;()")
    assert 1 < holding < count


def test_an_answer_that_a_window_cuts_is_not_in_it(data):
    context = long_context(data)
    record = question(context[:400], context=context, language="en")
    layout = QuestionLayout(stride=20, max_question=8)
    assert (layout.lay([record], {}, small_tokenizer(data), 64).target.span == -1).all()


def test_the_answer_is_that_of_the_best_window(data):
    tokenizer = small_tokenizer(data)
    context = long_context(data)
    wanted = context.split()[60]
    record = question((wanted, context.index(wanted)), context=context, language="en")
    layout = QuestionLayout(stride=20, max_question=8)
    spans = layout.lay([record], {}, tokenizer, 64).target.span
    there = spans[:, 0] >= 0
    assert wanted in layout.answer(record, spans, torch.zeros(len(spans)), tokenizer, 64)
    other = spans.clone()
    other[:, :] = layout.windows(record, tokenizer, 64)[0].first
    scores = torch.where(there, 1.0, 0.0)
    mixed = torch.where(there[:, None], spans, other)
    assert wanted in layout.answer(record, mixed, scores, tokenizer, 64)
    assert layout.answer(record, mixed, -scores, tokenizer, 64) in context.split()[0]
    assert layout.answer(record, torch.full_like(spans, -1), scores, tokenizer, 64) == ""
    with pytest.raises(ValueError, match=rf"question q: spans of 1 rows, expected {len(spans)}, one a window"):
        layout.answer(record, spans[:1], scores[:1], tokenizer, 64)
    with pytest.raises(ValueError, match=r"a span from token 0 to 3; this row's text is from \d+ to \d+"):
        layout.windows(record, tokenizer, 64)[0].locate(0, 3)


def test_which_answer_is_learnt(data):
    """The first that has a place; none is told apart from none whose place is known."""
    year = CONTEXT.index("1907")
    several = lay(data, question(("Fluss", -1), ("1907", year), ("Die", 0))).target.span
    assert several.equal(lay(data, question("1907")).target.span)
    assert lay(data, question()).target.span.tolist() == [[-1, -1]]
    assert lay(data, question(("Fluss", -1))).target.span.tolist() == [[-2, -2]]


def test_a_long_question_is_cut(data):
    tokenizer = small_tokenizer(data)
    record = question("1907", text=long_context(data))
    laid = lay(data, record)
    assert laid.text.tokens[0, 1 : ASKED + 1].tolist() == tokenizer.encode([record.question]).ids[:ASKED].tolist()
    assert laid.text.tokens[0, ASKED + 1] == tokenizer.vocabulary.end
    [window] = QuestionLayout(max_question=ASKED).windows(record, tokenizer, MOST)
    assert window.first == ASKED + 3


def test_a_question_or_text_of_which_nothing_is_left_is_the_unknown_token(data):
    tokenizer = small_tokenizer(data)
    laid = lay(data, question("1907", text="\u200b"), question(context="\u200b\u200b"))
    unknown = laid.text.tokens == tokenizer.vocabulary.unknown
    assert unknown.sum(1).tolist() == [1, 1]
    assert (laid.text.segment[unknown] == torch.tensor([0, 1])).all()
    assert laid.target.span[0, 0] > 0


def test_records_beside_others_are_laid_as_alone(data):
    records = [question("1907"), Question("en", "x", "What?", long_context(data), ()), question("breit.")]
    together = lay(data, *records, stride=20)
    for number, record in enumerate(records):
        alone, mine = lay(data, record, stride=20), together.record == number
        width = alone.text.tokens.shape[1]
        assert alone.text.tokens[alone.text.present].equal(together.text.tokens[mine][:, :width][alone.text.present])
        assert alone.target.span.equal(together.target.span[mine])


def test_what_cannot_be_meant_is_refused(data):
    with pytest.raises(ValueError, match=r"data.max_tokens is 20; questions of 16 pieces .*need at least 21"):
        lay(data, question(), most=20)
    lay(data, question(), most=21)
    with pytest.raises(ValueError, match=r"data.layout: pair is 'squad', expected one of bert"):
        QuestionLayout("squad")
    for name in ("stride", "max_question"):
        with pytest.raises(ValueError, match=rf"data.layout: {name} is 0; expected 1 or more"):
            QuestionLayout(**{name: 0})


def test_a_file_becomes_batches(data, tmp_path):
    asked = {"id": "a", "question": "Seit wann?", "answers": [{"text": "1907", "answer_start": CONTEXT.index("1907")}]}
    content = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": [asked]}]}]}
    file = put(tmp_path / "xquad.de.json", json.dumps(content))
    path = small_tokenizer(data).path
    layout = QuestionLayout(stride=8, max_question=8)
    module = Labelled(Squad(), path, validation={"de": str(file)}, layout=layout, max_tokens=28)
    module.setup("validate")
    [part] = module.readers["validation"].once()
    batch = part().batch
    record = module.readers["validation"].records[0]
    assert batch.sample.tolist() == [0] * len(layout.windows(record, module.tokenizer, 28))
    scores = torch.zeros(len(batch.sample))
    assert layout.answer(record, batch.target.span, scores, module.tokenizer, 28) == "1907"


def test_it_pickles_for_workers(data):
    layout = QuestionLayout(stride=20, max_question=8)
    record = question("1907")
    laid = layout.lay([record], {}, small_tokenizer(data), 64)
    again = pickle.loads(pickle.dumps(layout)).lay([record], {}, small_tokenizer(data), 64)
    assert again.text.tokens.equal(laid.text.tokens)
    assert again.target.span.equal(laid.target.span)
    assert len(pickle.dumps(layout)) < 1000  # without the tokenizer and what it remembers
