"""`interlingua shards` as people use it."""

import gzip
import io
import itertools
import json
import os
import subprocess
import sys

import pytest
from PIL import Image
from trained import small_tokenizer

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import ShardSet, ShardWriter
from interlingua.datamodules.shards.check import check_shards, format_report, list_faults
from interlingua.datamodules.shards.command import main
from interlingua.modalities.batch import Fault


@pytest.fixture
def run(capsys):
    def call(*argv):
        status = main([str(argument) for argument in argv])
        return status, *capsys.readouterr()

    return call


def picture(color=(200, 30, 30), form="PNG", size=(40, 30)):
    stored = io.BytesIO()
    image = Image.effect_noise(size, 60).convert("RGB") if color is None else Image.new("RGB", size, color)
    image.save(stored, form)
    return stored.getvalue()


@pytest.fixture
def bad(tmp_path):
    """Pitfall I05: six good samples, one JPEG cut at 60 %, one 20000 x 20000 1-bit PNG, one empty file, one text named .jpg."""
    huge = io.BytesIO()
    Image.new("1", (20000, 20000)).save(huge, "PNG")
    jpeg = picture(None, "JPEG", (200, 200))
    faulty = [(jpeg[: len(jpeg) * 6 // 10], "jpg"), (huge.getvalue(), "png"), (b"", "png"), (b"hello", "jpg")]
    folder = tmp_path / "bad"
    with ShardWriter(folder) as writer:
        for number in range(6):
            writer.write(f"good{number}", [Caption("en", "a dog")], image=picture())
        for number, (content, extension) in enumerate(faulty):
            writer.write(f"bad{number}", [Caption("en", "a dog")], image=content, image_extension=extension)
    return folder


def test_check_finds_pictures_that_cannot_be_decoded(bad, run):
    status, out, _ = run("check", bad, "--json")
    report = json.loads(out)
    assert status == 1
    assert not report["fit"]
    assert report["samples"] == 10
    assert [(fault["shard"], fault["key"]) for fault in report["faults"]] == [
        ("shard-000000.tar", f"bad{number}") for number in range(4)
    ]
    assert report["kinds"]["truncated image"] == report["kinds"]["oversized image"] == report["kinds"]["empty image"] == 1
    status, out, _ = run("check", bad)
    assert status == 1
    assert "NOT FIT: " in out
    assert "shard-000000.tar bad0: truncated image" in out
    assert run("check", bad, "--no-decode")[0] == 0


def test_check_of_good_shards(tmp_path, run):
    with ShardWriter(tmp_path, samples_per_shard=2) as writer:
        for number, key in enumerate(("a", "b", "a", "c")):
            writer.write(key, [Caption("en", "dog"), Caption("de", "Hund", "name")], item=number // 2, image=picture())
    status, out, _ = run("check", tmp_path)
    assert status == 0
    assert "languages: en 4, de 4" in out or "languages: de 4, en 4" in out
    assert "keys in several shards: 1" in out
    assert "items of several samples: 2" in out
    assert out.endswith("fit: no faults\n")


def test_check_compares_checksums_and_needs_samples(tmp_path):
    with ShardWriter(tmp_path) as writer:
        writer.write("a", [Caption("en", "dog")])
    tar = tmp_path / "shard-000000.tar"
    tar.write_bytes(tar.read_bytes().replace(b"dog", b"cat"))
    report = check_shards(str(tmp_path))
    assert report.kinds == {"checksum": 1}
    (tmp_path / "index.json").unlink()
    assert check_shards(str(tmp_path)).fit
    tar.write_bytes(bytes(1024))
    report = check_shards(str(tmp_path))
    assert not report.fit
    assert "NOT FIT: there is no sample to read" in format_report(report)


def test_check_of_foreign_shards_by_a_map(data, tmp_path, run):
    table = tmp_path / "map.yaml"
    table.write_text("texts: [{member: json, path: captions, by_language: true}]\nitem: id\n")
    status, out, _ = run("check", data / "stamps-val.tar", "--map", table, "--index-folder", tmp_path / "index", "--no-decode")
    assert status == 0
    assert "samples                 98" in out


def test_mistakes_are_told_in_the_words_of_the_command_line(tmp_path, run, capsys):
    (tmp_path / "a.tar").write_bytes(b"")
    assert f"a.tar is named twice in '{tmp_path / 'a.tar'}' '{tmp_path}': each" in run("check", tmp_path / "a.tar", tmp_path)[2]
    (tmp_path / "t.tsv").write_text("en\tde\na\tb\n")
    command = ["write", "tsv", tmp_path / "t.tsv"]
    assert ": samples per shard: expected 1 or more, found 0" in run(*command, tmp_path / "o", "--samples-per-shard", 0)[2]
    assert "t.tsv/o: the folder cannot be made (Not a directory); name" in run(*command, tmp_path / "t.tsv" / "o")[2]
    for command, message in (
        (["stats", "--output", tmp_path / "t.tsv"], f"--output is {tmp_path / 't.tsv'}, which is a file; expected a folder"),
        (["stats", "--output", tmp_path / "t.tsv" / "o"], "no file can be made in"),
        (["show", "--sheet", tmp_path], f"--sheet is {tmp_path}, but {tmp_path} is a folder"),
        (["index", "--tokenizer", tmp_path / "none.model"], "none.model does not exist"),
    ):
        status, out, error = run(*command, tmp_path / "a.tar")
        assert (status, out) == (2, ""), "it is told before the shards are looked at"
        assert message in error
    with pytest.raises(SystemExit):
        run("show", tmp_path, "-n", "many")
    assert "argument -n: found 'many', expected a whole number" in capsys.readouterr().err
    assert run("check", tmp_path / "a.tar", "--map", tmp_path)[2] == f"interlingua shards check: {tmp_path}: Is a directory\n"


def test_write_folder_then_show(tmp_path, run):
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in ("dog", "cat"):
        (photos / f"{name}.png").write_bytes(picture(size=(80, 60)))
        (photos / f"{name}.txt").write_text(f"a {name}\n")
        (photos / f"{name}.hi.txt").write_text("कुत्ता\n")
    (photos / "broken.png").write_bytes(b"\x89PNG")
    (photos / "broken.txt").write_text("broken\n")
    status, out, error = run("write", "folder", photos, tmp_path / "out", "--language", "en", "--resize", 30)
    assert status == 0
    assert "2 samples in" in out
    assert f"skipped: {photos}/broken.png: " in error
    assert "skipped: picture that cannot be decoded" in error
    shards = ShardSet(str(tmp_path / "out"))
    assert [sample.texts[0].text for sample in shards] == ["a cat", "a dog"]
    assert Image.open(io.BytesIO(shards.read(0).image)).size == (40, 30)
    status, out, error = run("show", tmp_path / "out", "-n", 1, "--language", "hi", "--sheet", tmp_path / "sheet.png")
    assert status == 0
    assert "picture, " in out
    assert "40 x 30" in out
    assert "hi    caption   कुत्ता" in out
    assert "a cat" not in out
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (248, 358)
    status, _, error = run("write", "folder", photos, tmp_path / "out")
    assert status == 2
    assert "the folder is not empty; name another, or --force" in error
    assert run("write", "folder", photos, tmp_path / "out", "--force")[0] == 0


def test_sheet_says_which_scripts_no_font_has(tmp_path, run):
    with ShardWriter(tmp_path / "s") as writer:
        writer.write("a", [Caption("en", "dog"), Caption("xx", "\U0001ccd0\U0001ccd1 unheard-of")], image=picture())
    _, _, error = run("show", tmp_path / "s", "--sheet", tmp_path / "sheet.png")
    assert "no font of this machine has all characters of some texts in: xx" in error


def test_show_without_match(tmp_path, run):
    with ShardWriter(tmp_path) as writer:
        writer.write("a", [Caption("en", "dog")])
    status, _, error = run("show", tmp_path, "--language", "de")
    assert status == 2
    assert "no sample has a text in de; these shards have en" in error


def test_show_names_what_it_skips(tmp_path, run):
    with ShardWriter(tmp_path) as writer:
        for key in ("a", "b"):
            writer.write(key, [Caption("en", f"dog {key}")])
    assert run("index", tmp_path)[0] == 0
    tar = tmp_path / "shard-000000.tar"
    status = tar.stat()
    content = tar.read_bytes()
    tar.write_bytes(content.replace(b'"texts":[{"lang":"en","text":"dog b"', b'"texts":[{"lang":"en","text":"dog b}'))
    os.utime(tar, ns=(status.st_atime_ns, status.st_mtime_ns))
    status, out, error = run("show", tmp_path)
    assert (status, "dog a" in out) == (0, True)
    assert error.startswith("skipped:\n  shard-000000.tar b: broken json: ")


def test_index_counts_tokens_and_replaces_those_of_another_tokenizer(data, tmp_path, run):
    with ShardWriter(tmp_path / "s") as writer:
        writer.write("a", [Caption("en", "dog"), Caption("de", "Hund")])
    tokenizer = small_tokenizer(data)
    status, out, _ = run("index", tmp_path / "s", "--tokenizer", tokenizer.path)
    count = sum(tokenizer.count_tokens(["dog", "Hund"]))
    assert (status, out.splitlines()[-1]) == (0, f"{count} tokens, start and end of each text with them")
    stored = (tmp_path / "s" / "shard-000000.tar.lengths").read_bytes()
    other = stored.replace(tokenizer.hash.encode(), bytes(reversed(tokenizer.hash.encode())))
    (tmp_path / "s" / "shard-000000.tar.lengths").write_bytes(other)
    assert run("index", tmp_path / "s", "--tokenizer", tokenizer.path)[0] == 0
    assert (tmp_path / "s" / "shard-000000.tar.lengths").read_bytes() == stored
    status, _, error = run("index", tmp_path / "s", "--tokenizer", tmp_path / "gone.model")
    assert (status, error.count("\n")) == (2, 1)


def test_check_names_languages_that_the_tokenizer_does_not_know(data, tmp_path, run):
    with ShardWriter(tmp_path) as writer:
        writer.write("a", [Caption("en", "dog"), Caption("xx", "gol")])
        writer.write("b", [Caption("xx", "gol")])
    status, out, _ = run("check", tmp_path, "--tokenizer", small_tokenizer(data).path)
    assert status == 1
    assert "texts in languages that the tokenizer does not know: xx 2" in out
    assert "shard-000000.tar b: unknown language: all texts are in xx" in out
    assert "shard-000000.tar a:" not in out


def test_all_kinds_are_told_before_further_ones_of_a_kind():
    faults = [Fault("a", "s", str(number), "") for number in range(30)] + [Fault("b", "s", "30", "")]
    lines = list_faults(faults, 3)
    assert [line.split()[1] for line in lines[:-1]] == ["0:", "1:", "30:"]
    assert lines[-1] == "  and 28 more (--json lists all)"


def test_write_parallel_text_of_every_kind(data, tmp_path, run):
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = list(itertools.islice(lines, 300))
    (tmp_path / "p.jsonl").write_text("".join(rows))
    pairs = [json.loads(row) for row in rows]
    for side in ("src", "tgt"):
        (tmp_path / f"p.{side}").write_text("".join(pair[side] + "\n" for pair in pairs))
    (tmp_path / "p.tsv").write_text("".join(f"{pair['src']}\t{pair['tgt']}\n" for pair in pairs))
    languages = ["--languages", pairs[0]["src_lang"], pairs[0]["tgt_lang"]]
    assert run("write", "jsonl", tmp_path / "p.jsonl", tmp_path / "a")[0] == 0
    assert run("write", "moses", tmp_path / "p.src", tmp_path / "p.tgt", tmp_path / "b", *languages)[0] == 0
    assert run("write", "tsv", tmp_path / "p.tsv", tmp_path / "c", *languages)[0] == 0
    expected = [(pair["src"].strip(), pair["tgt"].strip()) for pair in pairs]
    for name in "abc":
        assert [tuple(text.text for text in sample.texts) for sample in ShardSet(str(tmp_path / name))] == expected


def test_write_csv_and_faults_are_one_line(tmp_path, run):
    (tmp_path / "t.csv").write_text("caption,language\na dog,en\n")
    assert run("write", "csv", tmp_path / "t.csv", tmp_path / "out")[0] == 0
    (tmp_path / "t.csv").write_text("caption,image\na dog,no.jpg\n")
    status, _, error = run("write", "csv", tmp_path / "t.csv", tmp_path / "other")
    assert status == 2
    assert error.count("\n") == 1
    assert error.startswith("interlingua shards write: ")
    assert run("write", "csv", tmp_path / "gone.csv", tmp_path / "more")[0] == 2
    with pytest.raises(SystemExit):
        main(["write", "csv", "x", "y", "--language", "english"])


def test_index(tmp_path, run):
    with ShardWriter(tmp_path) as writer:
        writer.write("a", [Caption("en", "dog")])
    status, out, _ = run("index", tmp_path)
    assert (status, out) == (0, "1 shards, 1 samples, 0 faults\n")
    assert (tmp_path / "shard-000000.tar.index").exists()


@pytest.mark.parametrize(
    "words",
    [
        *("", "write", "write folder", "write csv", "write jsonl", "write moses", "write tsv", "write quickstart"),
        *("check", "repair", "show", "stats", "index"),
    ],
)
def test_help_has_an_example(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*words.split(), "--help"])
    assert stopped.value.code == 0
    assert f"interlingua shards {words}".strip() in capsys.readouterr().out


def test_help_does_not_pay_for_torch():
    code = (
        "import sys; from interlingua.datamodules.shards.command import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    )
    code += "heavy = {'torch', 'numpy', 'PIL', 'matplotlib', 'rich', 'webdataset'} & set(sys.modules); assert not heavy, heavy"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_show_tells_which_words_translate_each_other(run, tmp_path):
    (tmp_path / "a.en").write_text("the red house\n")
    (tmp_path / "a.de").write_text("das rote Haus\n")
    (tmp_path / "a.align").write_text("0-0 1-1 2-2\n")
    files = (tmp_path / "a.en", tmp_path / "a.de", tmp_path / "s", "--alignments", tmp_path / "a.align")
    assert run("write", "moses", *files)[0] == 0
    assert "  en-de  the=das red=rote house=Haus" in run("show", tmp_path / "s")[1]
