"""Questions in SQuAD's JSON: XQuAD, MLQA, TyDi QA."""

import json
from collections import Counter

import pytest
from labelled_files import put

from interlingua.datamodules.labelled.examples import Question
from interlingua.datamodules.labelled.squad import UNPLACED, Squad

BRIDGE = "Die alte Brücke 🌉 führt seit 1907 über den Fluss. Der Fluss ist breit."


def question(key, text, *answers):
    return {"id": key, "question": text, "answers": [{"text": text, "answer_start": start} for text, start in answers]}


def squad(path, *questions, context=BRIDGE):
    content = {"version": "1.1", "data": [{"title": "ours", "paragraphs": [{"context": context, "qas": list(questions)}]}]}
    return put(path, json.dumps(content, ensure_ascii=False, indent=1))


def test_squad(tmp_path):
    """Starts are characters (the picture before 1907 is one), and must be where the answer stands."""
    year = BRIDGE.index("1907")
    file = squad(
        tmp_path / "xquad.de.json.gz",
        question("56beb434", "Seit wann führt die Brücke?", ("1907", year), ("seit 1907", year - 5)),
        question(7, "Wie ist der Fluss?"),
        question("a", " ", ("1907", year)),
    )
    skipped = Counter()
    assert list(Squad().read(file, "de", skipped)) == [
        Question("de", "56beb434", "Seit wann führt die Brücke?", BRIDGE, (("1907", year), ("seit 1907", year - 5))),
        Question("de", "7", "Wie ist der Fluss?", BRIDGE, ()),
    ]
    assert skipped == Counter({"question or context that is blank": 1})
    with pytest.raises(ValueError, match=r"does not say its language; give it, as {en: FILE}, or set `language_in_id`"):
        list(Squad().read(file))


def test_answers_that_stand_elsewhere(tmp_path):
    """One place: that; several or none: no place, and the text is kept, since it is right all the same."""
    year = BRIDGE.index("1907")
    file = squad(
        tmp_path / "t.json",
        question("a", "Wann?", ("1907", len(BRIDGE[:year].encode())), ("1907", -1)),  # bytes, say
        question("b", "Was?", ("Fluss", 0), ("Tal", 3)),
        question("b", "Und?", ("", 0)),  # XTREME hides answers so
    )
    skipped = Counter()
    found = list(Squad().read(file, "de", skipped))
    assert [one.answers for one in found] == [
        (("1907", year), ("1907", year)),
        (("Fluss", UNPLACED), ("Tal", UNPLACED)),
        (),
    ]
    assert skipped == Counter(
        {
            "noted: answer not at its answer_start, placed where it stands": 2,
            "noted: answer not at its answer_start, at several places: without a place": 1,
            "noted: answer not at its answer_start, nowhere: without a place": 1,
            "noted: id that another question has": 1,
            "answer without text": 1,
        }
    )


def test_languages_in_ids(tmp_path):
    """TyDi names them, and so does an id with a code."""
    file = squad(
        tmp_path / "tydiqa-goldp-v1.1-train.json",
        question("german-12-3", "Wann?", ("1907", BRIDGE.index("1907"))),
        question("swahili-12-3", "Lini?", ("1907", BRIDGE.index("1907"))),
        question("te-4", "ఎప్పుడు?"),
    )
    reader = Squad(language_in_id=True)
    with pytest.raises(ValueError, match=r"qas\[0\], id 'german-12-3', before the hyphen: 'german' is not a language code"):
        list(reader.read(file))
    content = file.read_text(encoding="utf-8").replace("german-", "english-")
    file.write_text(content, encoding="utf-8")
    assert [(one.language, one.key) for one in reader.read(file)] == [
        ("en", "english-12-3"),
        ("sw", "swahili-12-3"),
        ("te", "te-4"),
    ]
    assert [one.key for one in reader.read(file, "sw")] == ["swahili-12-3"]
    with pytest.raises(
        ValueError, match=r"found id '12', expected LANGUAGE-...; unset `language_in_id`, and give the language"
    ):
        list(reader.read(squad(tmp_path / "t.json", question("12", "Wann?"))))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("[]", r"t.json, field data: found nothing, expected a list, as SQuAD 1.1 has it"),
        ("{", r"t.json: not JSON \(.*\); expected a file in SQuAD's form"),
        ('{"data": [{"paragraphs": [{"context": 3}]}]}', r"data\[0\].paragraphs\[0\], field context: found 3, expected a text"),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "x", "question": "b", "answers": [{"text": "a", '
            '"answer_start": true}]}]}]}]}',
            r"qas\[0\].answers\[0\], field answer_start: found true, expected a whole number",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{}]}]}]}',
            r"field id: found nothing, expected a text or a number",
        ),
    ],
)
def test_faults(tmp_path, content, match):
    with pytest.raises(ValueError, match=match):
        list(Squad().read(put(tmp_path / "t.json", content), "en"))
