"""Documents and alignments in shards: written, read back, learnt from the shards themselves, refused where broken."""

import json
import tarfile
from collections import Counter

import pytest
from small_shards import picture, record, write_tar
from test_align_words import parallel

from interlingua.datamodules.align.words import split_words
from interlingua.datamodules.alignments import read_alignment
from interlingua.datamodules.sample import Alignment, Caption
from interlingua.datamodules.shards import FieldMap, ShardSet, ShardWriter, TextField
from interlingua.datamodules.shards.align import align_shards, pair_texts
from interlingua.datamodules.shards.command import main
from interlingua.datamodules.shards.documents import read_documents


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_documents_from_lines(tmp_path):
    file = put(tmp_path / "d.txt", "\n\nOne.\nTwo.\n \nThree.\n\u200b\nFour.\n\n\n")
    skipped = Counter()
    records = list(read_documents(file, "en", 512, skipped))
    assert [[caption.text for caption in one.texts] for one in records] == [["One.", "Two."], ["Three.", "Four."]]
    assert {(caption.language, caption.role) for one in records for caption in one.texts} == {("en", "sentence")}
    assert all(one.document for one in records)
    assert +skipped == Counter({"blank sentence": 1})


def test_documents_from_objects_and_long_ones(tmp_path):
    rows = [
        {"sentences": ["a", "b", "c", "", "d", "e"], "language": "de", "item": "x", "title": "t"},
        {"sentences": [" "]},
        {"sentences": ["f"], "item": 7},
    ]
    file = put(tmp_path / "d.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n")
    skipped = Counter()
    records = list(read_documents(file, "en", 2, skipped))
    assert [[tuple(caption) for caption in one.texts] for one in records] == [
        [("de", "a", "sentence"), ("de", "b", "sentence")],
        [("de", "c", "sentence"), ("de", "d", "sentence")],
        [("de", "e", "sentence")],
        [("en", "f", "sentence")],
    ]
    assert [one.item for one in records] == ["x, sentence 0", "x, sentence 2", "x, sentence 4", 7]
    assert +skipped == Counter(
        {
            "blank sentence": 2,
            "document without sentences": 1,
            "field title, not read": 1,
            "noted: document cut into several": 1,
            "blank line": 1,
        }
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "a"}, r"d\.jsonl, line 1: expected `sentences`, a list of texts in order; found the fields text"),
        ({"sentences": "a b"}, "expected `sentences`, a list"),
        ({"sentences": ["a", 3]}, "expected `sentences`, a list"),
        ({"sentences": ["a"], "language": 3}, "field language: found 3, expected a text"),
        ({"sentences": ["a"], "language": "german"}, "'german' is not a language code"),
        ({"sentences": ["a"], "item": [1]}, "field item: found "),
    ],
)
def test_faults_of_documents(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        list(read_documents(put(tmp_path / "d.jsonl", json.dumps(row)), "en", 512, Counter()))


def test_documents_written_and_read_back(tmp_path, data, capsys):
    """Real sentences, ten a document, keep their order; captions are no documents."""
    sentences = [row[2] for row in parallel(data, ["de"], 40)]
    blocks = [sentences[first : first + 10] for first in range(0, 40, 10)]
    file = put(tmp_path / "d.txt", "\n\n".join("\n".join(block) for block in blocks))
    assert main(["write", "documents", str(file), str(tmp_path / "out"), "--language", "de", "--max-sentences", "7"]) == 0
    assert "document cut into several: 4" in capsys.readouterr().err
    samples = list(ShardSet(str(tmp_path / "out")))
    assert all(sample.document for sample in samples)
    assert [len(sample.texts) for sample in samples] == [7, 3] * 4
    assert [caption.text for sample in samples for caption in sample.texts] == [text.strip() for text in sentences]
    with ShardWriter(tmp_path / "captions") as writer:
        writer.write("a", [Caption("en", "a dog"), Caption("en", "a brown dog")])
    assert not ShardSet(str(tmp_path / "captions")).read(0).document
    assert main(["write", "documents", str(file), str(tmp_path / "no"), "--max-sentences", "0"]) == 2


TEXTS = [Caption("en", "a red dog"), Caption("de", "ein roter Hund"), Caption("zh", "红狗")]


def test_alignments_written_and_read_back(tmp_path):
    alignments = [Alignment(0, 1, ((2, 2), (0, 0)), ((1, 1),)), Alignment(2, 0, ((0, 1), (1, 2)))]
    with ShardWriter(tmp_path) as writer:
        writer.write("a", TEXTS, alignments=alignments, document=True)
    shards = ShardSet(str(tmp_path))
    sample = shards.read(0)
    assert shards.read(0) == sample
    assert sample.alignments == (Alignment(0, 1, ((0, 0), (2, 2)), ((1, 1),)), alignments[1])
    assert sample.document
    assert read_alignment(sample, 1, 0) == [(0, 0), (2, 2)]
    foreign = ShardSet(str(tmp_path), FieldMap(texts=[TextField("json", "texts"), TextField("txt")])).read(0)
    assert (foreign.alignments, foreign.document) == ((), False)


@pytest.mark.parametrize(
    ("alignment", "message"),
    [
        (Alignment(0, 3, ()), "alignment of texts 0 and 3: expected two numbers from 0 to 2"),
        (Alignment(1, 1, ()), "expected two numbers"),
        (Alignment(0, 1, ((3, 0),)), "found words 3 and 0, the texts have 3 and 3"),
        (Alignment(0, 2, ((0, 0),), ((0, 2),)), "found words 0 and 2, the texts have 3 and 2"),
        (Alignment(0, 1, ((-1, 0),)), "found words -1 and 0"),
    ],
)
def test_alignments_of_what_is_not_there_are_not_written(tmp_path, alignment, message):
    with ShardWriter(tmp_path) as writer:
        writer.write("good", TEXTS)
        with pytest.raises(ValueError, match=message):
            writer.write("a", TEXTS, alignments=[alignment])


def test_blank_texts_shift_no_alignment(tmp_path):
    """Readers leave blank texts out and number the others anew."""
    texts = ("en", "a dog"), ("fr", " "), ("de", "ein Hund")
    alignments = [{"texts": [0, 2], "words": [[1, 1]]}, {"texts": [0, 1], "words": [[0, 0]]}]
    tar = write_tar(tmp_path / "a.tar", {"k.json": record(*texts, alignments=alignments, document="yes")})
    sample = ShardSet(tar).read(0)
    assert sample.alignments == (Alignment(0, 1, ((1, 1),)),)
    assert not sample.document


@pytest.mark.parametrize(
    "alignments",
    [
        3,
        [[0, 1]],
        [{"texts": [0, 2], "words": []}],
        [{"texts": [0, 0], "words": []}],
        [{"texts": [0, True], "words": []}],
        [{"texts": [0, 1], "words": [[0]]}],
        [{"texts": [0, 1], "words": [[0, -1]]}],
        [{"texts": [0, 1], "words": [[0, 1.5]]}],
        [{"texts": [0, 1], "words": "0-0"}],
        [{"texts": [0, 1], "words": [], "possible": 1}],
    ],
)
def test_broken_alignments_are_faults_that_the_index_finds(tmp_path, alignments):
    texts = ("en", "a dog"), ("de", "ein Hund")
    tar = write_tar(
        tmp_path / "a.tar", {"bad.json": record(*texts, alignments=alignments), "good.json": record(*texts, alignments=None)}
    )
    shards = ShardSet(tar)
    assert [(fault.kind, fault.key) for fault in shards.faults] == [("broken alignment", "bad")]
    assert [sample.key for sample in shards] == ["good"]


def test_shards_aligned_by_their_own_texts(tmp_path, data, capsys):
    """The copy has the samples as they were, and links between words that translate each other."""
    rows = parallel(data, ["de"], 400)
    for shard, part in enumerate((rows[:250], rows[250:])):
        with ShardWriter(tmp_path / "in" / f"{shard}", f"part{shard}") as writer:
            for number, (_, english, german) in enumerate(part):
                texts = [
                    Caption("en", english, "sentence"),
                    Caption("de", german, "sentence"),
                    Caption("fr", "un mot", "sentence"),
                ]
                image = picture(number) if number < 3 else None
                writer.write(f"k{number}", texts, number, image, alignments=[Alignment(0, 2, ((0, 0),))], origin="gnome")
    sources = [str(tmp_path / "in" / f"{shard}") for shard in (0, 1)]
    out = tmp_path / "out"
    assert main(["align", *sources, str(out), "--languages", "en", "de"]) == 0
    assert capsys.readouterr().out.startswith("en-de: 400 pairs of texts, ")
    before, after = list(ShardSet(sources)), list(ShardSet(str(out)))
    assert [sample._replace(alignments=()) for sample in after] == [sample._replace(alignments=()) for sample in before]
    with tarfile.open(out / "part0-000000.tar") as tar:
        assert json.loads(tar.extractfile("k1.json").read())["origin"] == "gnome"
    counts = Counter()
    for sample in after:
        assert read_alignment(sample, 0, 2) == [(0, 0)]
        english, german = split_words([sample.texts[0].text, sample.texts[1].text])
        for source, target in read_alignment(sample, 0, 1):
            counts[english[source].lower(), german[target].lower()] += 1
    assert counts["and", "und"] > 0.9 * sum(count for (source, _), count in counts.items() if source == "and")
    assert counts["file", "datei"] > counts["file", "der"]
    assert not list((tmp_path / "in").rglob("*.index-*"))
    again = tmp_path / "again"
    align_shards(str(out), again, ["en", "de"], "intersection")
    fewer = list(ShardSet(str(again)))
    assert sum(len(read_alignment(sample, 0, 1)) for sample in fewer) < sum(counts.values())
    assert all(len(sample.alignments) == 2 for sample in fewer[:1])  # replaced, not added


def test_which_texts_translate_each_other(tmp_path):
    def pairs(texts, document=False):
        with ShardWriter(tmp_path, force=True) as writer:
            writer.write("a", [Caption(*text) for text in texts], document=document)
        return pair_texts(ShardSet(str(tmp_path)).read(0), ("en", "de"))

    assert pairs([("de", "x", "name"), ("en", "y", "name"), ("en", "z", "keyword"), ("fr", "z", "name")]) == [(1, 0)]
    assert pairs([("en", "x"), ("en", "y"), ("de", "z"), ("de", "w")]) is None
    assert pairs([("en", "x"), ("en", "y"), ("de", "z"), ("de", "w")], document=True) == [(0, 2), (1, 3)]
    assert pairs([("en", "x"), ("en", "y"), ("de", "z")], document=True) is None
    assert pairs([("en", "x"), ("fr", "y")]) == []


def test_texts_that_are_no_sentences_are_not_aligned(tmp_path):
    with ShardWriter(tmp_path / "in") as writer:
        writer.write("short", TEXTS)
        writer.write("long", [Caption("en", "a " * 401), Caption("de", "ein")])
    done, skipped = align_shards(str(tmp_path / "in"), tmp_path / "out", ["en", "de", "zh"], "intersection")
    assert [(one.languages, one.pairs) for one in done] == [(("en", "de"), 1), (("en", "zh"), 1)]
    assert +skipped == Counter({"pair of texts in en and de of more than 400 words": 1})
    first, second = ShardSet(str(tmp_path / "out"))
    assert [set(alignment[:2]) for alignment in first.alignments] == [{0, 1}, {0, 2}]
    assert second.alignments == ()


def test_what_align_refuses(tmp_path, capsys):
    for name in ("a", "b"):
        with ShardWriter(tmp_path / name) as writer:
            writer.write("k", [Caption("en", "dogs"), Caption("en", "cats"), Caption("de", "Hunde")])

    def refused(*argv):
        assert main(["align", *map(str, argv)]) == 2
        return capsys.readouterr().err

    a, b, out = tmp_path / "a", tmp_path / "b", tmp_path / "out"
    assert "expected two or more, each once, found en" in refused(a, out, "--languages", "en")
    assert "no text is in fr; found de, en" in refused(a, out, "--languages", "en", "fr")
    assert "the shards to align are in this folder" in refused(a, a, "--languages", "en", "de", "--force")
    assert "several shards have this name" in refused(a, b, out, "--languages", "en", "de")
    assert "the folder is not empty" in refused(a, b, "--languages", "en", "de")
    assert "no sample has one text in each of en and de" in refused(a, out, "--languages", "en", "de")
    assert not list(out.glob("*"))
