"""`interlingua tokenizer`: train, check and show, and every mistake in one line."""

import gzip
import hashlib
import json
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from trained import names, small_tokenizer

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.train_tokenizer import LONGEST, train_tokenizer
from interlingua.modalities.entry_counts import read_counts
from interlingua.modalities.normalization import POLICY
from interlingua.modalities.tokenizer import Tokenizer
from interlingua.modalities.trained_tokenizer import identify
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.tokenizer_command import main

WORDS = "the a red blue dog cat house tree runs sleeps big small under over old new"
LANGUAGES = ["ar", "de", "en", "es", "fr", "hi", "ja", "ko", "ru", "sw", "tr", "zh"]


@pytest.fixture
def english(tmp_path):
    """A text file of 300 distinct lines."""
    chance = random.Random(0)
    path = tmp_path / "english.txt"
    path.write_text(
        "\n".join(" ".join(chance.sample(WORDS.split(), 5)) for _ in range(300)) + "\n\n  \n\u200b\n", encoding="utf-8"
    )
    return path


def test_command_trains_from_text_files_and_shows(english, tmp_path, capsys):
    output = tmp_path / "folder" / "toy.model"
    command = ["train", "--text", f"en={english}", "--output", str(output), "--size", "290", "--languages", "sw,en"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "290 pieces on 300 lines in 1 languages" in printed
    assert "300 lines,        300 drawn" in printed
    assert Tokenizer(output).languages == ("sw", "en")
    assert main(["show", str(output), "--text", "the </s> dog"]) == 0
    printed = capsys.readouterr().out
    assert "290 pieces of the family interlingua, hash " + Tokenizer(output).hash in printed
    (line,) = [line for line in printed.splitlines() if line.startswith("vocabulary:")]
    assert line == "vocabulary: {size: 290, pad: 0, unknown: 1, start: 2, end: 3, mask: 4}"
    assert Vocabulary(**yaml.safe_load(line)["vocabulary"]) == Tokenizer(output).vocabulary
    assert "sw 0, en 1" in printed
    assert "text: the </s> dog" in printed
    assert len(printed.split("words: ")[1].split("|")) == 4


def test_command_trains_from_shards_and_leaves_roles_out(english, tmp_path, capsys):
    with ShardWriter(tmp_path / "shards") as writer:
        for number, line in enumerate(english.read_text(encoding="utf-8").split("\n")[:300]):
            texts = [Caption("en", line), Caption("de", "\u00fcber alles", "keyword"), Caption("fr", line, "name")]
            writer.write(f"{number:05}", texts, item=str(number))
    command = ["train", "--shards", str(tmp_path / "shards"), "--size", "290", "--output", str(tmp_path / "toy.model")]
    assert main([*command, "--roles", "caption,name"]) == 0
    assert Tokenizer(tmp_path / "toy.model").languages == ("en", "fr")
    assert "600 lines in 2 languages" in capsys.readouterr().out


def failing(capsys, *arguments: str) -> str:
    """What a command that must fail prints: one line."""
    assert main([*map(str, arguments)]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1, printed
    return printed


def test_errors_are_one_line_with_the_fix(english, tmp_path, capsys):
    train = ["train", "--text", f"en={english}", "--output", tmp_path / "toy.model"]
    printed = failing(capsys, *train, "--size", 8000)
    assert "--size is 8000" in printed
    assert "pieces at most; give more text, or --size" in printed
    fits = int(printed.split("or --size ")[1].split()[0])
    assert "are 281 pieces; give --size 281 or more" in failing(capsys, *train, "--size", 100)
    assert "--output is" in failing(capsys, *train[:-1], tmp_path / "toy")
    assert "names only de,fr: add it" in failing(capsys, *train, "--languages", "de,fr")
    assert "every code must be there once" in failing(capsys, *train, "--languages", "en,en")
    assert "--temperature is 2.0" in failing(capsys, *train, "--temperature", 2)
    assert "--limit-lines is 0" in failing(capsys, *train, "--limit-lines", 0)
    assert not (tmp_path / "toy.model").exists()
    assert main([*map(str, train), "--size", str(fits)]) == 0
    capsys.readouterr()
    assert "would be overwritten" in failing(capsys, *train, "--size", fits)
    assert main([*map(str, train), "--size", "290", "--force"]) == 0
    assert Tokenizer(tmp_path / "toy.model").vocabulary.size == 290


def test_bad_input_is_named(tmp_path, capsys):
    output = ["--output", tmp_path / "toy.model"]
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    assert "no text to train" in failing(capsys, "train", "--text", f"en={tmp_path / 'empty.txt'}", *output)
    assert "latin.txt, line 1: not UTF-8" in failing(capsys, "train", "--text", f"en={tmp_path / 'latin.txt'}", *output)
    assert "none.txt" in failing(capsys, "train", "--text", f"en={tmp_path / 'none.txt'}", *output)
    assert "expected LANG=FILE" in failing(capsys, "train", "--text", tmp_path / "empty.txt", *output)
    assert "none.model does not exist" in failing(capsys, "show", tmp_path / "none.model")
    assert "no" in failing(capsys, "train", "--shards", Path(tmp_path / "nowhere"), *output)


def test_text_files_are_read_whole(english, tmp_path, capsys):
    chance = random.Random(1)
    lines = english.read_text(encoding="utf-8")
    document = " ".join(chance.choice([*WORDS.split(), "zzebra"]) for _ in range(60_000))  # longer than a part
    assert len(document) > 4 * LONGEST
    (tmp_path / "en.txt.gz").write_bytes(gzip.compress((lines + document + "\n").encode()))
    german = tmp_path / "de.txt"
    german.write_text("der Hund\ndie Katze\n", encoding="utf-8")
    texts = ["--text", f"en={tmp_path / 'en.txt.gz'}", "--text", f"de={german}"]  # a list given twice is one list
    assert main(["train", *texts, "--output", str(tmp_path / "toy.model"), "--size", "300"]) == 0
    assert Tokenizer(tmp_path / "toy.model").languages == ("de", "en")
    assert "z" in "".join(Tokenizer(tmp_path / "toy.model").pieces(range(261, 300)))  # of the end of the longest line, too
    capsys.readouterr()
    output = ["--output", tmp_path / "other.model"]
    assert "is given twice" in failing(capsys, "train", "--text", f"de={german}", f"de={german}", *output)
    assert "'de utsch' is not a language code" in failing(capsys, "train", "--text", f"de utsch={german}", *output)
    for size in (0, -5, 2**31):
        assert f"--size is {size}" in failing(capsys, "train", "--text", f"de={german}", *output, "--size", size)


def test_a_damaged_tokenizer_is_named(english, tmp_path, capsys):
    model, card = tmp_path / "toy.model", tmp_path / "toy.json"
    assert main(["train", "--text", f"en={english}", "--output", str(model), "--size", "285"]) == 0
    capsys.readouterr()
    good = json.loads(card.read_text(encoding="utf-8"))
    for languages in (5, "en", [], [1], ["en", "en"]):
        card.write_text(json.dumps(good | {"languages": languages}))
        assert "toy.json: languages is" in failing(capsys, "show", model)
    model.write_bytes(b"no model")
    card.write_text(json.dumps(good | {"sha256": hashlib.sha256(b"no model").hexdigest()}))
    assert "toy.model: not a SentencePiece model" in failing(capsys, "show", model)


def test_source_is_required(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--output", "x.model"])
    assert "one of the arguments --shards --text is required" in capsys.readouterr().err


@pytest.fixture(scope="module")
def checked(data, tmp_path_factory):
    """Real names as shards, and a tokenizer in files of this test's own."""
    folder = tmp_path_factory.mktemp("checked")
    with ShardWriter(folder / "shards") as writer:
        for number, (code, text) in enumerate(names(data)[::25]):
            writer.write(f"{number:05}", [Caption(code, text, "name")])
    for suffix in (".model", ".json"):
        shutil.copy(Path(small_tokenizer(data).path).with_suffix(suffix), folder / f"small{suffix}")
    return folder


def describe(checked: Path, folder: Path, tokenizer: str | None = None, **changes) -> tuple[Path, Path]:
    """A configuration, and a checkpoint with it, of an encoder for the tokenizer but for some changes."""
    ids = {"size": 1500, "pad": 0, "unknown": 1, "start": 2, "end": 3, "mask": 4}
    embeddings = {"vocabulary": ids | changes.pop("ids", {}), "width": 16, "max_tokens": 64, **changes}
    transformer = {
        "class_path": "interlingua.models.transformer.Transformer",
        "init_args": {"width": 16, "layers": 1, "heads": 2},
    }
    tower = {"class_path": "interlingua.models.towers.TextTower"}
    tower["init_args"] = {
        "embeddings": {"class_path": "interlingua.models.embeddings.TextEmbeddings", "init_args": embeddings},
        "transformer": transformer,
    }
    named = {"tokenizer": str(checked / "small.model") if tokenizer is None else tokenizer}
    model = {"class_path": "interlingua.tasks.pretraining.Pretraining", "init_args": {"encoder": tower, **named}}
    config, ckpt = folder / "some.yaml", folder / "some.ckpt"
    config.write_text(json.dumps({"model": model}))  # JSON is YAML
    torch.save({"configuration": {"model": model}, "state_dict": {}}, ckpt)
    return config, ckpt


def check(checked: Path, *options) -> int:
    return main(["check", str(checked / "small.model"), "--shards", str(checked / "shards"), *map(str, options)])


def test_check_prints_a_table_and_fits(checked, tmp_path, capsys):
    for file in describe(checked, tmp_path):
        assert check(checked, "--encoder", file) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].endswith(
            "small.model: 1,500 pieces, hash " + Tokenizer(checked / "small.model").hash[:12] + ", " + POLICY
        )
        assert lines[1] == "ids: pad 0, unknown 1, start 2, end 3, mask 4"
        assert lines[2].split()[:3] == ["texts", "read", "a"]
        assert lines[2].endswith("over 64")  # of the encoder
        english = next(line.split() for line in lines if line.startswith("en "))
        assert english[4:7] == ["0", "0", "100%"]
        assert lines[-1] == "fit"
        assert f"{file}: its encoder has the same number of pieces, the same ids, and room for 64 tokens" in lines[-2]


def test_check_prints_json(checked, capsys):
    assert check(checked, "--json", "--languages", "en,ja", "--limit-texts", 10, "--roles", "name", "--max-tokens", 12) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["languages"]) == {"en", "ja"}
    assert report["max_tokens"] == 12
    assert {one["read"] for one in report["languages"].values()} == {10}
    assert report["languages"]["ja"]["unspaced"] is True
    assert report["fit"] is True


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ids": {"size": 1501}}, "size: tokenizer 1500, tower 1501"),
        ({"ids": {"mask": 1499}}, "mask: tokenizer 4, tower 1499"),
        ({"ids": {"pad": 1, "unknown": 0}}, "pad: tokenizer 0, tower 1; unknown: tokenizer 1, tower 0"),
        ({"languages": 15}, "the tokenizer knows 12 languages, the encoder's table has 15 rows"),
        ({"max_tokens": 32}, "max_tokens is 48, but the encoder reads at most 32 tokens"),
    ],
)
def test_an_encoder_that_numbers_tokens_otherwise_is_told_with_both_numbers(checked, tmp_path, capsys, changes, told):
    """Pitfall T04."""
    file, _ = describe(checked, tmp_path, **changes)
    assert check(checked, "--encoder", file, "--max-tokens", 48, "--limit-texts", 1) == 1
    (problem,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("NOT FIT")]
    assert str(file) in problem
    assert told in problem


def test_an_encoder_of_another_tokenizer_of_the_same_size_is_told(checked, data, tmp_path, capsys):
    """Pitfall T04: every number agrees, and every id means something else."""
    other = train_tokenizer(names(data)[:-50], tmp_path / "other.model", 1500, languages=LANGUAGES, report=lambda line: None)
    file, ckpt = describe(checked, tmp_path, tokenizer=other.path)
    assert check(checked, "--encoder", file, "--limit-texts", 1) == 1
    printed = capsys.readouterr().out
    assert f"NOT FIT: {file} names another tokenizer: {other.path} has hash {other.hash[:12]}" in printed
    Path(other.path).unlink()
    assert check(checked, "--encoder", file, "--limit-texts", 1) == 0
    assert "other.model, which cannot be read here" in capsys.readouterr().out
    torch.save({**torch.load(ckpt, weights_only=True), "tokenizer": identify(other)}, ckpt)  # as training writes it
    assert check(checked, "--encoder", ckpt, "--limit-texts", 1) == 1
    assert f"NOT FIT: {ckpt} names another tokenizer: {other.path} had hash {other.hash[:12]}" in capsys.readouterr().out


def test_mistakes_of_check_are_one_line(checked, tmp_path, capsys):
    def told(*options) -> str:
        assert check(checked, *options) == 2
        printed = capsys.readouterr().err
        assert printed.startswith("interlingua tokenizer check: ")
        assert printed.count("\n") == 1, printed
        return printed

    config, ckpt = describe(checked, tmp_path)
    assert "no such file" in told("--encoder", tmp_path / "none.yaml")
    assert "cannot be read" in told("--encoder", tmp_path / "none.ckpt")
    config.write_text("trainer: {max_steps: 1}")
    assert "describes no encoder; expected model.init_args.encoder" in told("--encoder", config)
    torch.save({"configuration": Path("somewhere")}, ckpt)
    assert "not a checkpoint of tensors and plain containers" in told("--encoder", ckpt)
    assert "no text in xx; the shards have languages" in told("--languages", "xx")
    assert "--limit-texts is 0; expected at least 1" in told("--limit-texts", 0)
    assert "--max-tokens is 2; expected at least 3" in told("--max-tokens", 2)
    assert main(["check", str(checked / "none.model"), "--shards", str(checked / "shards")]) == 2
    assert "none.model does not exist" in capsys.readouterr().err


def test_counts_of_entries_are_those_of_the_texts_and_nothing_is_written_over(english, tmp_path, capsys):
    model, output = str(tmp_path / "toy.model"), tmp_path / "toy.counts.json"
    assert main(["train", "--text", f"en={english}", "--output", model, "--size", "290"]) == 0
    command = ["counts", model, "--text", f"en={english}", "--output", str(output)]
    assert main(command) == 0
    found, tokenizer = read_counts(output), Tokenizer(model)
    lines = [line for line in english.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert found.tokenizer == tokenizer.hash
    assert found.counts.tolist() == np.bincount(tokenizer.encode(lines).ids, minlength=290).tolist()
    assert f"{found.counts.sum():,} pieces of" in capsys.readouterr().out
    for wrong, said in (
        (command, "would be overwritten"),
        ([*command[:-1], "counts.txt"], r"expected a file NAME\.counts\.json"),
    ):
        assert main(wrong) == 2
        assert re.search(said, capsys.readouterr().err)
    assert main([*command, "--force"]) == 0
