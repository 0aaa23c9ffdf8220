"""What the commands of `interlingua tokenizer` cannot read or write is told in one line, before any work."""

import gzip

import pytest

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.train_tokenizer import train_tokenizer
from interlingua.tokenizer_command import main


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A tokenizer that knows English and German, its text, a lexicon, and files that are damaged."""
    folder = tmp_path_factory.mktemp("refusals")
    text = [f"the house number {number} is red and a man walks in it {7 * number}" for number in range(30)]
    (folder / "en.txt").write_text("\n".join(text), encoding="utf-8")
    train_tokenizer([("en", line) for line in text], folder / "t.model", 300, languages=["en", "de"], report=lambda _: None)
    (folder / "lexicon.txt").write_text("house Haus\n", encoding="utf-8")
    (folder / "empty.txt").write_text("")
    (folder / "blank.txt").write_text(" \n\n")
    (folder / "latin.txt").write_bytes(b"a b\nf\xfcr b\n")
    (folder / "cut.txt.gz").write_bytes(gzip.compress(b"house Haus\n" * 100)[:30])
    (folder / "plain.txt.gz").write_bytes(b"house Haus\n")
    (folder / "folder").mkdir()
    (folder / "beside.json").mkdir()
    return folder


def commands(folder, texts, output):
    """What each command that reads texts and writes is told; the file that it writes stands last."""
    return {
        "train": ["train", "--size", 300, "--text", f"en={texts}", "--output", folder / f"{output}.model"],
        "counts": ["counts", folder / "t.model", "--text", f"en={texts}", "--output", folder / f"{output}.json"],
        "dictionary": [
            *("dictionary", texts, "--languages", "en", "de", "--tokenizer", folder / "t.model"),
            *("--output", folder / f"{output}.npz"),
        ],
    }


def refused(capsys, *argv):
    assert main([str(argument) for argument in argv]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "Errno" not in printed
    return printed


@pytest.mark.parametrize("command", ["train", "counts", "dictionary"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty.txt", "no "),
        ("blank.txt", "no "),
        ("latin.txt", "latin.txt, line 2: not UTF-8 (invalid start byte)"),
        ("cut.txt.gz", "cut.txt.gz, after line"),
        ("plain.txt.gz", "plain.txt.gz, after line 0: cannot be read (not gzipped)"),
        ("none.txt", "none.txt: cannot be read (No such file or directory)"),
        ("folder", "folder: cannot be read (Is a directory)"),
    ],
)
def test_what_cannot_be_read(made, capsys, command, name, message):
    assert message in refused(capsys, *commands(made, made / name, "new")[command])
    assert not list(made.glob("new*"))


@pytest.mark.parametrize("command", ["train", "counts", "dictionary"])
def test_what_cannot_be_written_is_told_before_anything_is_read(made, capsys, command):
    texts = made / "none.txt" if command == "dictionary" else made / "en.txt"
    assert "no file can be made in" in refused(capsys, *commands(made, texts, "en.txt/new")[command])
    *argv, output = commands(made, texts, "there")[command]
    output.write_text("mine")
    assert f"{output.name} would be overwritten; choose another --output" in refused(capsys, *argv, output)
    assert output.read_text() == "mine"
    output.unlink()
    output.mkdir()
    assert f"{output.name} is a folder; choose another name" in refused(capsys, *argv, output, "--force")
    output.rmdir()


def test_a_folder_beside_the_tokenizer_is_told_before_training(made, capsys):
    train = ["train", "--text", f"en={made / 'en.txt'}", "--size", 300, "--output"]
    assert "beside.json is a folder" in refused(capsys, *train, made / "beside.model", "--force")


def test_texts_and_roles_that_cannot_be_meant(made, capsys):
    train = ["train", "--output", made / "new.model", "--size", 300]
    text = f"en={made / 'en.txt'}"
    assert "is given twice; its" in refused(capsys, *train, "--text", text, f"en={made / 'folder' / '..' / 'en.txt'}")
    assert "--languages: 'de1' is not a language code" in refused(capsys, *train, "--text", text, "--languages", "en,de1")
    assert "--roles chooses texts of --shards" in refused(capsys, *train, "--text", text, "--roles", "name")
    with ShardWriter(made / "shards") as writer:
        writer.write("0", [Caption("en", "a house", "name"), Caption("xx", "ahouse", "name"), Caption("de", "Haus", "keyword")])
    shards = ["--shards", made / "shards", "--roles"]
    assert "--roles: no text has the role nam; found keyword, name" in refused(capsys, *train, *shards, "name,nam")
    counts = ["counts", made / "t.model", "--output", made / "counts.json"]
    assert main([*map(str, [*counts, *shards, "name"])]) == 0
    printed = capsys.readouterr().out
    assert "left out: 1 texts in xx, a language that the tokenizer does not know" in printed
    assert "pieces of 1 texts" in printed


def test_the_option_that_names_a_missing_configuration_is_told(made, capsys):
    with ShardWriter(made / "few") as writer:
        writer.write("0", [Caption("en", "a house")])
    check = ["check", made / "t.model", "--shards", made / "few", "--encoder", made / "none.yaml"]
    assert f"check: --encoder {made / 'none.yaml'}: no such file" in refused(capsys, *check)


def test_numbers_are_asked_for_in_words(made, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--text", "en=x", "--output", "x.model", "--size", "many"])
    assert "argument --size: found 'many', expected a whole number (" in capsys.readouterr().err
