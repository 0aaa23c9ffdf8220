"""Files and options that are damaged, or wrong: an error that names option, file and line, or a count in a warning."""

import json
import logging

import pytest
from labelled_files import put
from labelled_texts import LABELS, build, examples, write
from small_shards import as_rank

from interlingua.datamodules.labelled.conll_u import ConllU
from interlingua.datamodules.labelled.json_lines import JsonLines
from interlingua.datamodules.labelled.pairs import PawsX, Xnli, XtremePairs
from interlingua.datamodules.labelled.question_layout import QuestionLayout
from interlingua.datamodules.labelled.squad import Squad
from interlingua.datamodules.labelled.tagged_layout import TaggedLayout
from interlingua.datamodules.labelled.wikiann import WikiAnn

INFERENCE = ["entailment", "neutral", "contradiction"]
XNLI = "language\tgold_label\tsentence1\tsentence2\nen\tneutral\ta heart\ta red one\nen\tentailment\ta dog\tan animal\n"
NAMES = ["O", "B-PER", "I-PER"]
WIKIANN = "en:Ada\tB-PER\nen:Love\tI-PER\n\nen:sang\tO\n"
PARTS = ["NOUN", "VERB"]
CONLL_U = "1\tdogs\t_\tNOUN\t_\t_\t0\t_\t_\t_\n2\tbark\t_\tVERB\t_\t_\t0\t_\t_\t_\n\n"
READERS = {
    "xnli": (Xnli(), {"labels": INFERENCE}),
    "json": (JsonLines(), {"labels": LABELS}),
    "pairs": (XtremePairs(), {"labels": ["0", "1"]}),
    "wikiann": (WikiAnn(), {"labels": NAMES, "layout": TaggedLayout()}),
    "conllu": (ConllU(), {"labels": PARTS, "layout": TaggedLayout()}),
    "squad": (Squad(), {"labels": None, "layout": QuestionLayout(max_question=8)}),
}


def squad(**changed):
    answer = {"text": "a red heart", "answer_start": 8}
    asked = {"id": "1", "question": "What?", "answers": [answer], **changed}
    return json.dumps({"data": [{"paragraphs": [{"context": "This is a red heart.", "qas": [asked]}]}]})


def fit(data, tmp_path, reader, content, **options):
    format, usual = READERS[reader]
    content = content if isinstance(content, bytes) else content.encode()
    file = tmp_path / "t.txt"
    file.write_bytes(content)
    module = as_rank(build(data, format, **{"train": {"en": str(file)}, **usual, **options}))
    module.setup("fit")
    return module.readers["train"].records


@pytest.mark.parametrize("change", [str, lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")])
@pytest.mark.parametrize(
    ("reader", "content"), [("xnli", XNLI), ("wikiann", WIKIANN), ("conllu", CONLL_U), ("squad", squad()), ("json", None)]
)
def test_a_byte_order_mark_and_line_ends_of_windows_change_nothing(data, tmp_path, reader, content, change):
    content = content or "".join(f"{json.dumps(one)}\n" for one in examples(3))
    assert fit(data, tmp_path, reader, change(content)) == fit(data, tmp_path, reader, content)


@pytest.mark.parametrize(
    ("reader", "content", "words"),
    [
        ("xnli", "", "line 1: expected a header with one column sentence1 or premise, found an empty file"),
        ("xnli", XNLI.splitlines()[0], "no example is left of .*t.txt; leave the file out, or copy it anew"),
        ("xnli", XNLI[:-20], "line 3: found [23] columns, the header has 4"),
        ("xnli", XNLI + "\0\0\0\0\n", "line 4: found a NUL character, so the file is damaged"),
        ("xnli", XNLI + "\tneutral\ta\tb\n", "line 4: '' is not a language code"),
        ("xnli", XNLI + "e n\tneutral\ta\tb\n", "line 4: 'e n' is not a language code"),
        ("xnli", XNLI + XNLI, "line 4: 'language' is not a language code"),
        ("xnli", XNLI.encode("utf-16"), "line 1: not UTF-8"),
        ("xnli", XNLI.replace("\n", "\r"), "its lines end with carriage returns alone"),
        ("json", json.dumps(examples(1)), "line 1: found (a )?list, expected an object"),
        ("json", '{"text": "a", "label": null}', "line 1, field label: found null; expected a label, a text or a whole number"),
        ("json", '{"text": 1, "label": "a"}', "line 1, field text: found 1; expected a text"),
        ("json", '{"text": "a", "la', "line 1: not JSON"),
        (
            "json",
            '{"text": "a", "label": "open"}\n{"text": "a", "label": "x"}',
            "found the label 'x' in example 2",
        ),
        ("json", '{"text": "a", "label": ""}', "data.train: not one of 1 examples has a label, so nothing can be learnt"),
        ("pairs", "a\tb\na\tc\n", "data.train: not one of 2 examples has a label"),
        ("pairs", "a\tb\t0\na\tc\n", "line 2: found 2 columns, expected a sentence, another and a label"),
        ("wikiann", "", "no example is left of .*t.txt"),
        ("wikiann", WIKIANN.replace("\t", " "), "line 1: found 'en:Ada B-PER', a word and a tag without a tab between them"),
        ("wikiann", WIKIANN + "\nen:Bob", "line 6: found a sentence without tags after others with; give each word a tag"),
        ("wikiann", "en:Bob\n\n" + WIKIANN, "line 3: found a sentence with tags after others without"),
        ("wikiann", WIKIANN + "en:Bob\tB-P", "found the label 'B-P' in example 2, but data.labels are B-PER, I-PER, O"),
        ("wikiann", "en:Ada\nen:Bob\n", "data.train: not one of 1 examples has a label"),
        ("conllu", CONLL_U[:-30], "line .: found . columns, expected 10"),
        ("conllu", CONLL_U.replace("bark", ""), "line 2, column 2: found nothing, expected a word"),
        ("conllu", CONLL_U.replace("\n\n", "\n") * 2, "line 3: found word number '1', expected 3; is a line lost"),
        ("conllu", CONLL_U.replace("VERB", "ADJ"), "found the label 'ADJ' in example 1, but data.labels are NOUN, VERB"),
        ("squad", squad()[:60], "not JSON .*expected a file in SQuAD's form"),
        ("squad", squad(answers=None), r"qas\[0\], field answers: found null, expected a list"),
        ("squad", squad(question="a \ud800"), r"qas\[0\]: found half of a surrogate pair"),
        ("squad", squad(answers=[]), "data.train: not one of 1 examples has a label"),
        ("squad", '{"data": []}', "no example is left of .*t.txt"),
    ],
)
def test_what_is_damaged_is_named_by_option_file_and_place(data, tmp_path, reader, content, words):
    with pytest.raises(ValueError, match=words) as refused:
        fit(data, tmp_path, reader, content)
    assert str(refused.value).startswith("data.train")


def test_a_file_without_examples_beside_another_is_refused(data, files, tmp_path):
    bare = str(put(tmp_path / "bare.jsonl", "\n"))
    with pytest.raises(ValueError, match=r"data.train.en: no example is left of .*bare.jsonl"):
        as_rank(build(data, train={"en": [files["en"], bare]})).setup("fit")


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ({}, "data.train: no example is left to read; it names no file"),
        ({"en": []}, "data.train.en: it names no file; give one"),
        ({"en": ""}, "data.train.en: it names no file; give one"),
        ({"en": "."}, r"data.train.en: there is a folder \.; give the files in it"),
        ({"en": "gone"}, "data.train.en: there is no file gone"),
    ],
)
def test_no_file_is_refused(data, train, words):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        as_rank(build(data, train=train)).setup("fit")


def test_what_is_left_out_or_not_scored_is_counted_in_a_warning(data, files, tmp_path, caplog):
    mixed = write(tmp_path / "mixed.jsonl", examples(3) + examples(4, "nl") + [{**examples(1, "fr")[0], "label": ""}])
    module = as_rank(build(data, train={"en": files["en"]}, validation=mixed))
    with caplog.at_level(logging.WARNING):
        module.setup("fit")
    assert (
        "validation: 4 examples (en 3, fr 1); 4 left out, in languages that the tokenizer does not know (nl); 1 without a "
        "label, which are not scored (fr 1)"
    ) in caplog.text


def test_more_asked_for_than_there_is_and_a_language_that_nothing_watches_are_told(data, files, caplog):
    train = {"en": files["en"], "de": files["de"]}
    with caplog.at_level(logging.WARNING):
        as_rank(build(data, train=train, limit={"de": 100})).setup("fit")
        as_rank(build(data, train=train, validation={"en": files["all"]})).setup("fit")
    assert "bucket 0: 11 of 11 in de, limit 100" in caplog.text
    assert "data.validation: nothing in de, which is trained in: no checkpoint can be chosen by it" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        as_rank(build(data, train=train, limit={"de": 5}, validation=train)).setup("fit")
    assert caplog.messages == [
        "data.validation: 25 of its 31 examples, in languages that are in both, have the texts of examples of data.train: "
        "figures on them tell little of others"
    ]


def test_a_share_that_leaves_one_side_empty_is_told_without_what_was_not_given(data, tmp_path):
    file = write(tmp_path / "one.jsonl", examples(1))
    with pytest.raises(ValueError, match=r"data.(train|validation): held_out 0.5 leaves no example, as it parts texts by"):
        as_rank(build(data, train=file, validation=file, held_out=0.5)).setup("fit")


def test_files_of_labels(data, tmp_path):
    named = tmp_path / "labels.txt"
    named.write_bytes("\ufeffopen\r\nclose\r\n".encode())
    assert build(data, train="x", labels=str(named)).labels == ["open", "close"]
    named.write_bytes("open\nclose\n".encode("utf-16"))
    with pytest.raises(ValueError, match=r"labels.txt, line 1: not UTF-8"):
        build(data, train="x", labels=str(named))
    with pytest.raises(ValueError, match=r"data.labels: names must be different and not blank; found 'a'$"):
        build(data, train="x", labels=["a", "a", "b"])


def test_a_format_that_is_told_no_language_says_how_to_tell_it(data, tmp_path):
    file = str(put(tmp_path / "p.tsv", "id\tsentence1\tsentence2\tlabel\n1\ta\tb\t0\n"))
    with pytest.raises(ValueError, match=r"data.train: .*p.tsv: it does not say its language; give it, as {en: FILE}"):
        as_rank(build(data, PawsX(), train=file, labels=["0", "1"])).setup("fit")
