"""Pairs of sentences: XNLI, MultiNLI, PAWS-X and XTREME's copies, quotation marks and all."""

import csv
import io
import logging
from collections import Counter

import pytest
from labelled_files import put, table

from interlingua.datamodules.labelled.examples import Sentences
from interlingua.datamodules.labelled.pairs import PawsX, Xnli, XtremePairs

XNLI = ("language", "gold_label", "sentence1_binary_parse", "sentence1", "sentence2", "promptID", "label1", "match")
PAWS = ("id", "sentence1", "sentence2", "label")


def inference(language, label, first, second):
    return (language, label, "( x )", first, second, "7", label, "True")


@pytest.fixture
def xnli(tmp_path):
    return table(
        tmp_path / "xnli.dev.tsv",
        XNLI,
        inference("ar", "neutral", "الجسر قديم", "بني الجسر من حجر"),
        inference("de", "contradiction", '"Die Brücke, sagte er', "Niemand sprach"),
        inference("de", "-", "Der Fluss", "Das Wasser"),
        inference("de", "entailment", "Der Fluss steigt", 'Es gibt "mehr Wasser"'),
        inference("de", "neutral", " ", "Der Fluss"),
    )


def test_xnli(xnli):
    """A mark that is never closed joins no lines."""
    skipped = Counter()
    assert list(Xnli().read(xnli, None, skipped)) == [
        Sentences("ar", "الجسر قديم", "بني الجسر من حجر", "neutral"),
        Sentences("de", '"Die Brücke, sagte er', "Niemand sprach", "contradiction"),
        Sentences("de", "Der Fluss steigt", 'Es gibt "mehr Wasser"', "entailment"),
    ]
    assert +skipped == Counter({"pair on which annotators do not agree": 1, "pair with a blank sentence": 1})


def test_the_well_known_wrong_way_loses_lines(xnli):
    """Python's csv with its defaults takes the open mark for the start of a cell, and reads on over line ends."""
    with open(xnli, encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file, delimiter="\t"))) < 5


def test_xnli_in_one_language(xnli):
    skipped = Counter()
    assert [pair.language for pair in Xnli().read(xnli, "ar", skipped)] == ["ar"]
    assert not skipped  # what was asked for is no fault
    with pytest.raises(ValueError, match=r"xnli.dev.tsv: nothing in it is in 'fr'; give a language that is \(ar, de\)"):
        list(Xnli().read(xnli, "fr", skipped))


def test_translated_training_pairs(tmp_path):
    """The files of XNLI-MT say `contradictory`, and have no language."""
    file = table(
        tmp_path / "multinli.train.sw.tsv.gz",
        ("premise", "hypo", "label"),
        ("Daraja ni la zamani", "Daraja ni jipya", "contradictory"),
        ("Mto unapita", "Kuna mto", "entailment"),
    )
    assert list(Xnli().read(file, "sw")) == [
        Sentences("sw", "Daraja ni la zamani", "Daraja ni jipya", "contradiction"),
        Sentences("sw", "Mto unapita", "Kuna mto", "entailment"),
    ]
    with pytest.raises(ValueError, match=r"multinli.train.sw.tsv.gz: it does not say its language; give it, as {en: FILE}"):
        list(Xnli().read(file))


def test_columns_that_a_line_leaves_out_at_its_end(tmp_path):
    """MultiNLI's own lines end before the header does."""
    file = table(
        tmp_path / "m.txt", ("gold_label", "sentence1", "sentence2", "label1", "label2"), ("neutral", "a", "b", "neutral")
    )
    assert list(Xnli().read(file, "en")) == [Sentences("en", "a", "b", "neutral")]


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([XNLI[:-4]], r"t.tsv, line 1: expected a header with one column sentence2 or hypo or hypothesis, found 'language'"),
        ([], r"line 1: expected a header .* found an empty file"),
        ([XNLI, inference("de", "neutral", "a", "b\tc")], r"line 2: found 9 columns, the header has 8; a text may hold no tab"),
        ([XNLI, ("de", "neutral", "a")], r"line 2: found 3 columns, the header has 8"),
        ([XNLI, inference("de", "Neutral", "a", "b")], r"line 2, label: found 'Neutral', expected one of entailment, neutral"),
        ([(*XNLI, "label")], r"line 1: expected a header with one column gold_label or label"),
    ],
)
def test_xnli_faults(tmp_path, rows, match):
    with pytest.raises(ValueError, match=match):
        list(Xnli().read(table(tmp_path / "t.tsv", *rows), None, Counter()))


def test_paws_x(tmp_path):
    file = table(
        tmp_path / "de" / "test_2k.tsv",
        PAWS,
        ("1", "Die alte Brücke führt über den Fluss .", 'Über den "Fluss führt die alte Brücke .', "1"),
        ("2", "Die Straße führt nach Westen .", "NS", "0"),
        ("3", "", "", "0"),
        ("4", 'b"It\'s a caf\\xc3\\xa9 ."', "b'A bridge .'", "0"),
        ("5", "b'ok' or 'b", "b'", "0"),
    )
    skipped = Counter()
    assert list(PawsX().read(file, "de", skipped)) == [
        Sentences("de", "Die alte Brücke führt über den Fluss .", 'Über den "Fluss führt die alte Brücke .', "1"),
        Sentences("de", "It's a café .", "A bridge .", "0"),
        Sentences("de", "b'ok' or 'b", "b'", "0"),
    ]
    assert skipped == Counter(
        {"pair with a sentence NS": 1, "pair with a blank sentence": 1, "noted: text written as bytes, read as text": 2}
    )
    with pytest.raises(ValueError, match="does not say its language"):
        list(PawsX().read(file))
    with pytest.raises(ValueError, match=r"line 2, label: found '2', expected one of 0, 1"):
        list(PawsX().read(table(tmp_path / "t.tsv", PAWS, ("1", "a", "b", "2")), "en"))


def test_what_is_left_out_is_told(tmp_path, caplog):
    file = table(tmp_path / "dev_2k.tsv", PAWS, ("1", "a", "NS", "0"), ("2", "a", "b", "0"))
    with caplog.at_level(logging.WARNING):
        assert len(list(PawsX().read(file, "fr"))) == 1
    assert f"{file}: pair with a sentence NS: 1" in caplog.text


def xtreme(path, *rows):
    """As XTREME's script writes them."""
    content = io.StringIO()
    csv.writer(content, delimiter="\t").writerows(rows)
    return put(path, content.getvalue())


def test_xtreme_keeps_marks_as_its_own_reader_does(tmp_path):
    rows = [('He said "no".', 'It was "no"', "neutral"), ('a 5" pipe', "b", "contradictory"), ("plain", '"', "0")]
    file = xtreme(tmp_path / "dev-en.tsv", *rows)
    skipped = Counter()
    found = [tuple(pair) for pair in XtremePairs().read(file, "en", skipped)]
    assert found == [
        ("en", '"He said ""no""."', '"It was ""no"""', "neutral"),
        ("en", '"a 5"" pipe"', "b", "contradiction"),
        ("en", "plain", '""""', "0"),
    ]
    assert skipped == Counter({"noted: text wrapped in quotation marks, kept": 4})
    assert [(first, second) for _, first, second, _ in XtremePairs(unquote=True).read(file, "en", Counter())] == [
        (first, second) for first, second, _ in rows
    ]


def test_only_marks_that_the_writer_made_are_undone(tmp_path):
    """A text in marks of its own has three when it was written so; one in single ones never was."""
    file = table(tmp_path / "t.tsv", ('"no"', '"a" and "b"', "1"), ('"""no"""', "c", "1"))
    pairs = list(XtremePairs(unquote=True).read(file, "en", Counter()))
    assert [(pair.first, pair.second) for pair in pairs] == [('"no"', '"a" and "b"'), ('"no"', "c")]


def test_xtreme_without_labels(tmp_path):
    file = xtreme(tmp_path / "test-de.tsv", ("Die Brücke", "Der Fluss"), ("NS", "Der Fluss"))
    skipped = Counter()
    assert list(XtremePairs().read(file, "de", skipped)) == [Sentences("de", "Die Brücke", "Der Fluss", "")]
    assert skipped == Counter({"pair with a sentence NS": 1})


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([PAWS, ("1", "a", "b", "0")], r"line 1: found 4 columns, expected a sentence, another and a label"),
        ([("a", "b", "0"), ("a", "b")], r"line 2: found 2 columns"),
        ([("premise", "hypo", "label")], r"line 1, label: found 'label', expected one of entailment"),
    ],
)
def test_xtreme_faults(tmp_path, rows, match):
    with pytest.raises(ValueError, match=match):
        list(XtremePairs().read(table(tmp_path / "t.tsv", *rows), "en"))
