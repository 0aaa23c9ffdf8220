"""Lines of parallel text that become one sample with many languages, and those that are left out."""

import gzip
import json
from collections import Counter

import pytest

from interlingua.datamodules.shards.command import main
from interlingua.datamodules.shards.joining import LineChoice, parse_conditions
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.shards.sources import read_jsonl


def line(number, language, text, source="Good day", split="train", **more):
    return {"src": source, "src_lang": "en", "tgt": text, "tgt_lang": language, "id": number, "split": split, **more}


ROWS = [
    line(7, "de", "Guten Tag"),
    line(8, "de", "Danke", "Thanks"),
    line(7, "fr", "Bonjour"),
    line(9, "de", "Nein", "No", split="test"),
    line(7, "fr", "Bonne journée"),
    line(7, "de", "Guten Tag"),
    line(8, "fuv2", "x", "Thanks"),
]


def write(path, rows=ROWS):
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def read(path, **choice):
    skipped = Counter()
    return list(read_jsonl(path, "und", None, skipped, LineChoice(**choice))), +skipped


def test_lines_of_one_sentence_become_one_sample(tmp_path):
    """In the order of the first lines, each text once; two renderings of one language both stay, and are told."""
    records, skipped = read(write(tmp_path / "t.jsonl"), languages={"en", "de", "fr"}, group=["id"])
    assert [[text[:2] for text in record.texts] for record in records] == [
        [("en", "Good day"), ("de", "Guten Tag"), ("fr", "Bonjour"), ("fr", "Bonne journée")],
        [("en", "Thanks"), ("de", "Danke")],
        [("en", "No"), ("de", "Nein")],
    ]
    assert [record.item for record in records] == ["7", "8", "9"]
    assert skipped == {
        "(not skipped) sample with several texts of a language": 1,
        "text in a language that --languages leaves out": 1,
        "field split, not read": 7,
    }


def test_conditions_choose_lines_before_anything_else_is_read(tmp_path):
    rows = [*ROWS[:6], {"id": 1, "split": "test", "nothing": "that could be read"}]
    records, skipped = read(write(tmp_path / "t.jsonl", rows), conditions={"split": "train", "id": "8"})
    assert [[text.text for text in record.texts] for record in records] == [["Thanks", "Danke"]]
    assert records[0].item is None
    assert skipped == {"line that --where leaves out": 6}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({}, r"t.jsonl, line 7, language of 'x': 'fuv2' is not a language code"),
        ({"group": ["no"]}, r"line 1: there is no field 'no', found src, src_lang, tgt, tgt_lang, id, split"),
        ({"conditions": {"splt": "train"}}, r"line 1: there is no field 'splt'"),
    ],
)
def test_faults(tmp_path, choice, message):
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / "t.jsonl"), **choice)


def test_groups_that_cannot_be_meant(tmp_path):
    with pytest.raises(ValueError, match=r"line 1, field id: found \[1\], expected a text or a whole number"):
        read(write(tmp_path / "t.jsonl", [line([1], "de", "x")]), group=["id"])
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"x")
    rows = [{"caption": "x", "image": name, "id": 1} for name in ("a.png", "b.png")]
    with pytest.raises(ValueError, match=r"agree in 1 have the pictures .*a.png and .*b.png"):
        read(write(tmp_path / "t.jsonl", rows), group=["id"])
    for given in (["split"], ["=x"], ["a=1", "a=2"]):
        with pytest.raises(ValueError, match="expected FIELD=VALUE, each field once"):
            parse_conditions(given)
    assert parse_conditions(["a=1=2", "b="]) == {"a": "1=2", "b": ""}


def test_real_parallel_text_from_the_command_line(tmp_path, data, capsys):
    """Two languages of one source: every sentence of a split is one sample, and no other split is in it."""
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in file if '"gnome"' in row and ('"tgt_lang": "fa"' in row or '"tgt_lang": "de"' in row)]
    (tmp_path / "t.jsonl").write_text("".join(rows), encoding="utf-8")
    arguments = ["write", "jsonl", str(tmp_path / "t.jsonl"), str(tmp_path / "out"), "--group", "source", "id", "src"]
    assert main([*arguments, "--languages", "en", "fa", "--where", "split=test", "source=gnome"]) == 0
    assert "48 samples in" in capsys.readouterr().out
    assert main([*arguments, "--where", "split=test", "--force"]) == 0
    assert "112 samples in" in capsys.readouterr().out
    shards = ShardSet(str(tmp_path / "out"))
    wanted = {row["src"] for row in map(json.loads, rows) if row["split"] == "test"}
    assert {text.text for sample in shards for text in sample.texts if text.language == "en"} == wanted
    assert Counter(len(sample.texts) for sample in shards) == {2: 64, 3: 48}
