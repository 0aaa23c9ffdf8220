"""Classified sentences as JSON lines, with the fields that the user names."""

import json
from collections import Counter

import pytest
from labelled_files import put

from interlingua.datamodules.labelled.examples import Sentences
from interlingua.datamodules.labelled.json_lines import JsonLines


def lines(path, *objects):
    return put(path, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects))


def test_fields_by_name(tmp_path):
    file = lines(
        tmp_path / "t.jsonl",
        {"lang": "de", "s1": "Die Brücke", "s2": "Der Fluss", "class": 3, "split": "dev"},
        {"lang": "tr", "s1": " köprü ", "s2": "nehir", "class": "x", "split": "dev"},
        {"lang": "tr", "s1": "köprü", "s2": "", "class": "x", "split": "dev"},
        {"lang": "tr", "s1": "köprü", "s2": "nehir", "class": "x", "split": "test"},
    )
    reader = JsonLines("s1", "class", "s2", "lang", {"split": "dev"})
    skipped = Counter()
    assert list(reader.read(file, None, skipped)) == [
        Sentences("de", "Die Brücke", "Der Fluss", "3"),
        Sentences("tr", "köprü", "nehir", "x"),
    ]
    assert skipped == Counter({"blank sentence": 1})
    assert [pair.first for pair in reader.read(file, "tr", Counter())] == ["köprü"]
    assert [pair.language for pair in JsonLines("s1", "class").read(file, "de", Counter())] == ["de"] * 4


@pytest.mark.parametrize(
    ("reader", "language", "match"),
    [
        (
            JsonLines(),
            None,
            r"t.jsonl: it does not say its language; give it, as {en: FILE}, or name the field that has it",
        ),
        (JsonLines(), "no language", "language of .*t.jsonl: 'no language' is not a language code"),
        (JsonLines(language="code"), None, r"line 1, field code: it is not there, found text, label, lang, number"),
        (JsonLines(text="number"), "de", r"line 1, field number: found 7; expected a text"),
        (JsonLines(label="class"), "de", r"line 1, field class: it is not there, found text"),
        (JsonLines(language="lang", conditions={"number": "8"}), None, r"t.jsonl: no line has number=8"),
        (JsonLines(language="lang"), "fr", r"nothing in it is in 'fr'; give a language that is \(de\)"),
    ],
)
def test_faults(tmp_path, reader, language, match):
    file = lines(tmp_path / "t.jsonl", {"text": "Brücke", "label": "a", "lang": "de", "number": 7})
    with pytest.raises(ValueError, match=match):
        list(reader.read(file, language, Counter()))


def test_intents(data):
    """Real utterances in 65 languages; those of a split and a language are the same by both ways to choose."""
    reader = JsonLines(label="intent", language="lang")
    found = list(reader.read(data / "intents.jsonl.gz", None, Counter()))
    assert len(found) == 40829
    assert len({example.language for example in found}) == 65
    assert len({example.label for example in found}) == 42
    reader = JsonLines(label="intent", language="lang", conditions={"split": "test"})
    tests = list(reader.read(data / "intents.jsonl.gz", "sw", Counter()))
    assert tests
    assert not Counter(tests) - Counter(example for example in found if example.language == "sw")
