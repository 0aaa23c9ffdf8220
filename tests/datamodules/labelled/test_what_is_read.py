"""What is told of labelled data when they are read: how much is trained on and scored, what is left out, what is cut."""

import logging

import pytest
from labelled_texts import build, examples, write
from small_shards import as_rank
from test_question_layout import question
from trained import small_tokenizer

from interlingua.datamodules.labelled.examples import Sentences, Tagged
from interlingua.datamodules.labelled.json_lines import JsonLines
from interlingua.datamodules.labelled.question_layout import QuestionLayout
from interlingua.datamodules.labelled.sentence_layout import SentenceLayout
from interlingua.datamodules.labelled.tagged_layout import TaggedLayout
from interlingua.modalities.pair import PAIR_FORMS


def told(module, caplog, stage="fit"):
    caplog.clear()
    with caplog.at_level(logging.INFO):
        as_rank(module).setup(stage)
    return caplog.messages


def test_what_is_trained_on_and_scored_is_told_not_what_files_hold(data, files, caplog):
    """Of a file that is parted each side reads its own share."""
    module = build(data, train={"en": files["en"]}, validation={"en": files["en"], "de": files["de"]}, held_out=0.4)
    said = told(module, caplog)
    counts = {split: len(module.readers[split].records) for split in ("train", "validation")}
    watched = [record.language for record in module.readers["validation"].records]
    assert 0 < counts["train"] < 20
    assert f"training: {counts['train']} of 20 examples (en {counts['train']} of 20)" in said
    parts = f"de {watched.count('de')} of 11, en {watched.count('en')} of 20"
    assert f"validation: {counts['validation']} of 31 examples ({parts})" in said
    assert counts["train"] + watched.count("en") == 20


def test_languages_that_merging_added_are_seen_in_what_is_trained_on(data, files, caplog):
    assert "training: 31 examples (de 11, en 20)" in told(build(data, train={"en": files["en"], "de": files["de"]}), caplog)
    few = build(data, train={"en": files["en"], "de": files["de"]}, limit={"de": 3})
    assert "training: 23 of 31 examples (de 3 of 11, en 20)" in told(few, caplog)


def test_unknown_languages_are_named_once_and_not_all_of_them(data, files, tmp_path, caplog):
    codes = [f"q{letter}" for letter in "abcdefghij"]
    lines = [one for code in codes for one in examples(2, code)] + examples(3)
    mixed, copy = (write(tmp_path / f"{name}.jsonl", lines) for name in ("mixed", "copy"))
    said = told(build(data, train=mixed, validation=copy), caplog)
    assert [line for line in said if "left out" in line] == [
        "training: 3 examples (en 3); 20 left out, in languages that the tokenizer does not know (qa, qb, qc, qd, qe, qf, ... "
        "and 4 more)",
        "validation: 3 examples (en 3); 20 left out, in the same languages",
    ]


@pytest.mark.parametrize(("path", "words"), [("files", "the tokenizer does not know this language"), ("gone", "no file gone")])
def test_a_recipes_languages_that_one_has_not_are_refused_with_the_way_out(data, files, path, words):
    there = path == "files"
    module = build(data, train={"en": files["en"]}, validation={"nl" if there else "en": files["en"] if there else path})
    with pytest.raises((ValueError, FileNotFoundError), match=words) as raised:
        as_rank(module).setup("fit")
    assert "`data.validation null`, before one's own files, takes away all that a recipe names" in str(raised.value)


def test_texts_that_lose_pieces_are_counted_by_language(data, tmp_path, caplog):
    lines = examples(3) + [{"lang": code, "text": "a dog on a hill " * 9, "label": "open"} for code in ("en", "en", "de")]
    said = told(build(data, train={"en": write(tmp_path / "long.jsonl", lines)}, max_tokens=32), caplog)
    assert "training: 2 of 5 examples are longer than data.max_tokens allows, and lose their last pieces (en 2)" in said
    assert not any("longer" in line for line in told(build(data, test=str(tmp_path / "long.jsonl")), caplog, "fit"))
    said = told(build(data, test=str(tmp_path / "long.jsonl")), caplog, "test")
    assert "test: 3 of 6 examples are longer than data.max_tokens allows, and lose their last pieces (de 1, en 2)" in said


def test_of_many_examples_some_are_looked_at(data, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("interlingua.datamodules.labelled.data.LOOKED_AT", 4)
    lines = [{"lang": "en", "text": "a dog on a hill " * 9, "label": "open"}] * 10
    said = told(build(data, train=write(tmp_path / "long.jsonl", lines)), caplog)
    assert any(line.startswith("training: 4 of 4 examples that were looked at are longer") for line in said)


@pytest.mark.parametrize("pair", PAIR_FORMS)
def test_pairs_are_cut_where_rows_are(data, pair):
    """One is counted if, and only if, a longer row would hold more."""
    tokenizer, layout = small_tokenizer(data), SentenceLayout(pair)
    records = [
        Sentences("en", "a dog " * first, second and "on a hill " * second, "open")
        for first in range(1, 9)
        for second in (None, 1, 2, 3, 5)
    ]
    classes = {"": -1, "open": 0}
    cut = [
        int(layout.lay([one], classes, tokenizer, 20).text.present.sum())
        < int(layout.lay([one], classes, tokenizer, 200).text.present.sum())
        for one in records
    ]
    assert 0 < sum(cut) < len(cut)
    assert [layout.count_cut([one], tokenizer, 20).total() for one in records] == cut


def test_of_questions_only_the_question_is_cut_and_of_tagged_words_nothing(data):
    tokenizer = small_tokenizer(data)
    long = question("1907", text="Seit wann " * 20 + "?")
    assert QuestionLayout(max_question=16).count_cut([question("1907"), long], tokenizer, 24) == {"de": 1}
    assert QuestionLayout.bound == "data.layout.max_question"
    assert not TaggedLayout().count_cut([Tagged("en", ("word",) * 99, ("O",) * 99)], tokenizer, 8)


def test_a_split_that_repeats_another_is_refused_or_counted(data, files, tmp_path, caplog):
    """By language and text, whatever the labels: choosing or judging by what was trained on."""
    with pytest.raises(
        ValueError, match=r"data.validation: all of its 20 examples are those of data.train, read from .*en.jso"
    ):
        told(build(data, train={"en": files["en"]}, validation={"en": [files["en"]], "de": files["de"]}), caplog)
    with pytest.raises(ValueError, match=r"data.test: all of its 11 examples are those of data.validation.*de.jsonl; give"):
        told(build(data, validation={"de": files["de"]}, test=files["de"]), caplog, "test")
    other = [{**one, "label": "name"} for one in examples(3)] + [{**examples(1)[0], "text": f"a house {n}"} for n in range(7)]
    own = write(tmp_path / "own.jsonl", other)
    words = "3 of its 10 examples, in languages that are in both, have the texts of examples of data."
    said = told(build(data, train={"en": files["en"]}, validation={"en": own, "de": files["de"]}), caplog)
    assert [line for line in said if "texts of" in line] == [
        f"data.validation: {words}train: figures on them tell little of others"
    ]
    assert any(f"data.test: {words}" in line for line in told(build(data, validation=files["all"], test=own), caplog, "test"))
    parted = build(data, train={"en": files["en"]}, validation={"en": files["en"]}, held_out=0.4)
    assert not any("texts of" in line for line in told(parted, caplog))


def test_an_example_that_would_count_twice_is_refused(data, files, tmp_path, caplog):
    copy = write(tmp_path / "copy.jsonl", examples(20))
    for again in (files["en"], copy):
        with pytest.raises(ValueError, match=r"data.train.en: .*jsonl holds the same examples as .*en.jsonl, and each would"):
            told(build(data, train={"en": [files["en"], again]}), caplog)
    bare = write(tmp_path / "bare.jsonl", [{"text": f"dog {n}", "label": "open"} for n in range(9)])
    with pytest.raises(ValueError, match=r"data.train.de: .*bare.jsonl gives the same examples to data.train.en, in another"):
        told(build(data, JsonLines(), train={"en": bare, "de": bare}), caplog)
    told(build(data, train={"en": files["all"], "de": files["all"]}), caplog)


def test_labels_that_are_never_trained_are_named(data, files, tmp_path, caplog):
    file = write(tmp_path / "open.jsonl", examples(6, labels=["open"]))
    said = told(build(data, train={"en": file}, validation={"en": files["en"]}), caplog)
    assert said[0] == "training: 6 examples (en 6); 2 of 3 labels stand nowhere in it (close, name)"
    assert not any("stand nowhere" in line for line in told(build(data, train={"en": files["en"]}), caplog))
