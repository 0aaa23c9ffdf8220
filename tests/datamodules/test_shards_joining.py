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
        "noted: sample with several texts of a language": 1,
        "text in a language that --languages leaves out": 1,
        "pair that lacks a text": 1,
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


def test_lines_of_documents_become_a_document_a_language(tmp_path):
    """In the order of their numbers, whatever the order of the lines; a text that stands where another stands is told."""
    rows = [
        line("page#10", "de", "Ende", "End"),
        line("page#2", "de", "Mitte", "Middle"),
        line("page#2", "fr", "Milieu", "Middle"),
        line("other#0", "de", "Anders", "Else"),
        line("page#2", "fr", "Centre", "Middle"),
        line("page#0", "fr", "  ", "Start"),
    ]
    records, skipped = read(write(tmp_path / "t.jsonl", rows), documents="id", conditions={"split": "train"})
    assert [(record.item, [tuple(text[:2]) for text in record.texts]) for record in records] == [
        ("page", [("en", "Start"), ("en", "Middle"), ("en", "End")]),
        ("page", [("de", "Mitte"), ("de", "Ende")]),
        ("page", [("fr", "Milieu")]),
        ("other", [("en", "Else")]),
        ("other", [("de", "Anders")]),
    ]
    assert all(record.document for record in records)
    assert skipped == {
        "text at a place of a document that has another": 1,
        "blank src or tgt": 1,
        "noted: document of one sentence": 3,
    }
    apart, _ = read(write(tmp_path / "t.jsonl", rows), documents="id", group=["split"], languages={"de"})
    assert [(record.item, len(record.texts)) for record in apart] == [("train/page", 2), ("train/other", 1)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "4ec30b6da1"}, "line 1, field id: found '4ec30b6da1', but --documents expects DOCUMENT#NUMBER"),
        ({"id": "page#par_id3"}, "expects DOCUMENT#NUMBER"),
        ({"id": "#3"}, "expects DOCUMENT#NUMBER"),
        ({}, "there is no field 'id'"),
    ],
)
def test_lines_that_are_of_no_document_are_refused(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / "t.jsonl", [{"caption": "x", "language": "en", **row}]), documents="id")


def test_documents_have_no_pictures(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(ValueError, match="line 1: found a picture, but documents have none"):
        read(write(tmp_path / "t.jsonl", [{"caption": "x", "image": "a.png", "id": "page#0"}]), documents="id")


def test_documents_are_written_and_read_back(tmp_path, capsys):
    rows = [line(f"{page}#{place}", "de", f"{page} {place}", f"{page} {place} en") for page in "ab" for place in (1, 0)]
    write(tmp_path / "t.jsonl", rows)
    assert main(["write", "jsonl", str(tmp_path / "t.jsonl"), str(tmp_path / "out"), "--documents", "id"]) == 0
    shards = ShardSet(str(tmp_path / "out"))
    assert shards.is_document.all()
    assert [[text.text for text in sample.texts] for sample in shards] == [
        ["a 0 en", "a 1 en"],
        ["a 0", "a 1"],
        ["b 0 en", "b 1 en"],
        ["b 0", "b 1"],
    ]
    assert len(set(shards.items.tolist())) == 2


def test_translations_of_a_document_stay_beside_it(tmp_path):
    """The texts of each language in their order, at the places that have both, so that the n-th translates the n-th."""
    rows = [
        line("page#10", "de", "Ende", "End"),
        line("page#2", "de", "Mitte", "Middle"),
        line("page#2", "fr", "Milieu", "Middle"),
        line("other#0", "de", "Anders", "Else"),
        line("page#2", "fr", "Centre", "Middle"),
        line("page#0", "fr", "  ", "Start"),
        line("page#1", "fuv2", "x", "Left out"),
        line("page#1", "en", "The same", "The same"),
        line("page#10", "de", "Ende", "End"),
    ]
    choice = {"documents": "id", "parallel": True, "conditions": {"split": "train"}, "languages": {"en", "de", "fr"}}
    records, skipped = read(write(tmp_path / "t.jsonl", rows), **choice)
    assert [(record.item, [tuple(text) for text in record.texts]) for record in records] == [
        ("page", [(*text, "sentence") for text in (("en", "Middle"), ("en", "End"), ("de", "Mitte"), ("de", "Ende"))]),
        ("page", [("en", "Middle", "sentence"), ("fr", "Milieu", "sentence")]),
        ("other", [("en", "Else", "sentence"), ("de", "Anders", "sentence")]),
    ]
    assert all(record.document for record in records)
    assert skipped == {
        "pair at a place of a document that has another": 1,
        "pair that lacks a text": 2,
        "blank src or tgt": 1,
        "noted: document of one sentence": 2,
        "text in a language that --languages leaves out": 1,
        "pair in one language": 1,
    }
    apart, _ = read(write(tmp_path / "t.jsonl", rows[:4]), group=["split"], **choice)
    assert [record.item for record in apart] == ["train/page", "train/page", "train/other"]


@pytest.mark.parametrize("row", [{"caption": "x", "language": "en"}, {"src": "x", "src_lang": "en"}])
def test_only_parallel_text_has_translations_beside_it(tmp_path, row):
    path = write(tmp_path / "t.jsonl", [{**row, "id": "page#0"}])
    with pytest.raises(ValueError, match=r"line 1: found \w+, \w+, id, but --parallel reads the texts of src and tgt"):
        read(path, documents="id", parallel=True)


def test_documents_with_translations_are_written_and_read_back(tmp_path, capsys):
    rows = [line(f"{page}#{place}", "de", f"{page} {place}", f"{page} {place} en") for page in "ab" for place in (1, 0)]
    arguments = ["write", "jsonl", str(write(tmp_path / "t.jsonl", rows)), str(tmp_path / "out"), "--parallel"]
    assert main(arguments) == 2
    assert "--parallel keeps two languages of a document together; give --documents FIELD, too" in capsys.readouterr().err
    assert main([*arguments, "--documents", "id"]) == 0
    shards = ShardSet(str(tmp_path / "out"))
    assert shards.is_document.all()
    assert [[text.text for text in sample.texts] for sample in shards] == [
        ["a 0 en", "a 1 en", "a 0", "a 1"],
        ["b 0 en", "b 1 en", "b 0", "b 1"],
    ]
    assert len(set(shards.items.tolist())) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--documents", "id", "--group", "id"], "--group: found id, which differs from line to line of a document"),
        (["--documents", "id", "--group", "split", "src"], "--group: found src, which differs from line to line"),
        (["--documents", "id", "--parallel", "--group", "tgt"], "--group: found tgt, which differs from line to line"),
        (["--documents", "id", "--where", "id=page#1"], "--where: found id, which differs from line to line"),
        (["--documents", "id", "--group", "line"], "--group: each of the 4 documents has one sentence, since lines of one"),
        (["--documents", "id", "--parallel", "--group", "line"], "--group: each of the 2 documents has one sentence"),
        (["--documents", "id", "--parallel", "--languages", "en"], "--languages: found en alone, but --parallel keeps two"),
        (["--languages", "english"], "--languages: 'english' is not a language code"),
    ],
)
def test_choices_that_cannot_be_meant_are_refused_before_anything_is_written(tmp_path, capsys, options, message):
    rows = [line("page#1", "de", "Eins", "One", line=1), line("page#2", "de", "Zwei", "Two", line=2)]
    write(tmp_path / "t.jsonl", rows)
    assert main(["write", "jsonl", str(tmp_path / "t.jsonl"), str(tmp_path / "out"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*"))


def test_documents_of_one_sentence_each_may_be_meant(tmp_path):
    """As no field of `group` made them so."""
    rows = [line("a#0", "de", "Eins", "One", line=1), line("b#0", "de", "Zwei", "Two", line=2)]
    records, skipped = read(write(tmp_path / "t.jsonl", rows), documents="id", group=["line"])
    assert [len(record.texts) for record in records] == [1, 1, 1, 1]
    assert skipped["noted: document of one sentence"] == 4


def test_both_directions_of_a_pair_are_one_document(tmp_path):
    """The languages stand as in its first line; what was turned round is counted, and so are places that disagree."""

    def back(number, german, english):
        return {"src": german, "src_lang": "de", "tgt": english, "tgt_lang": "en", "id": number}

    rows = [
        line("page#2", "de", "Mitte", "Middle"),
        back("page#3", "Ende", "End"),
        back("page#2", "Mitte", "Middle"),
        line("page#0", "de", "Anfang", "Start"),
        back("page#0", "Beginn", "Start"),
        back("other#0", "Anders", "Else"),
        line("other#1", "de", "Mehr", "More"),
    ]
    records, skipped = read(write(tmp_path / "t.jsonl", rows), documents="id", parallel=True)
    assert [[text[:2] for text in record.texts] for record in records] == [
        [*(("en", text) for text in ("Start", "Middle", "End")), *(("de", text) for text in ("Anfang", "Mitte", "Ende"))],
        [("de", "Anders"), ("de", "Mehr"), ("en", "Else"), ("en", "More")],
    ]
    assert skipped == {
        "noted: pair whose languages were turned round, as in the first line of its document": 4,
        "pair at a place of a document that has another": 1,
        "field split, not read": 3,
    }


def test_lines_without_a_translation_are_counted_as_what_they_are(tmp_path):
    rows = [line("page#0", "de", "Eins", "One"), {"src": "Two", "src_lang": "en", "id": "page#1", "split": "train"}]
    file = write(tmp_path / "t.jsonl", rows)
    records, skipped = read(file, documents="id", conditions={"split": "train"})
    assert [[text.text for text in record.texts] for record in records] == [["One", "Two"], ["Eins"]]
    assert skipped == {"noted: line without tgt": 1, "noted: document of one sentence": 1}
    records, skipped = read(file, conditions={"split": "train"}, group=["id"])
    assert [[text.text for text in record.texts] for record in records] == [["One", "Eins"]]
    assert skipped == {"noted: line without tgt": 1, "pair that lacks a text": 1}


def test_a_language_that_no_text_is_in_is_told(tmp_path):
    _, skipped = read(write(tmp_path / "t.jsonl", ROWS[:2]), languages=["en", "de", "sv"], group=["id"])
    assert skipped["noted: language of --languages that no text is in: sv"] == 1
