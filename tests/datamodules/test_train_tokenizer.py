"""Temperature sampling by hand, training that repeats itself, the command line and its errors."""

import gzip
import hashlib
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from trained import names

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.train_tokenizer import LONGEST, draw, gather, main, shares, train_tokenizer
from interlingua.modalities.tokenizer import Tokenizer

WORDS = "the a red blue dog cat house tree runs sleeps big small under over old new"


def quiet(line: str) -> None:
    pass


@pytest.fixture
def english(tmp_path):
    """A text file of 300 distinct lines."""
    chance = random.Random(0)
    path = tmp_path / "english.txt"
    path.write_text(
        "\n".join(" ".join(chance.sample(WORDS.split(), 5)) for _ in range(300)) + "\n\n  \n\u200b\n", encoding="utf-8"
    )
    return path


def test_shares_by_hand():
    counts = Counter(en=10_000, sw=100)
    assert shares(counts, 1.0, 10**9) == {"en": 10_000, "sw": 100}
    assert shares(counts, 0.5, 10**9) == {"en": 9182, "sw": 918}  # 100 : 10 of 10,100
    assert shares(counts, 0.0, 10**9) == {"en": 5050, "sw": 5050}
    assert shares(counts, 0.5, 1100) == {"en": 1000, "sw": 100}
    assert shares(Counter(en=10**6, sw=1), 1.0, 1000) == {"en": 1000, "sw": 1}


def test_no_line_is_repeated_before_all_are_used():
    kept = {"en": [f"line {number}" for number in range(10)], "sw": ["moja", "mbili", "tatu"]}
    drawn = draw(kept, {"en": 4, "sw": 8}, seed=1)
    count = Counter(drawn)
    assert sum(number for (code, _), number in count.items() if code == "en") == 4
    assert {number for (code, _), number in count.items() if code == "en"} == {1}
    assert sorted(number for (code, _), number in count.items() if code == "sw") == [2, 3, 3]
    assert drawn == draw(kept, {"en": 4, "sw": 8}, seed=1) != draw(kept, {"en": 4, "sw": 8}, seed=2)


def test_gather_normalises_counts_and_samples_evenly():
    lines = [("en", f" line\u00a0{number} ") for number in range(1000)] + [("de", "  "), ("de", "\u200b"), ("fr", "un")]
    counts, kept = gather(iter(lines), 100, seed=0)
    assert counts == {"en": 1000, "fr": 1}
    assert set(kept) == {"en", "fr"}
    assert len(set(kept["en"])) == 100
    assert set(kept["en"]) <= {f"line {number}" for number in range(1000)}
    mean = sum(int(text.split()[1]) for text in kept["en"]) / 100
    assert 400 < mean < 600  # 499.5, standard deviation 29


def test_training_repeats_itself_byte_for_byte(data, tmp_path):
    for name in ("one", "two"):
        train_tokenizer(names(data), tmp_path / f"{name}.model", size=1500, report=quiet)
    one, two = tmp_path / "one.model", tmp_path / "two.model"
    assert one.read_bytes() == two.read_bytes()
    assert one.with_suffix(".json").read_text() == two.with_suffix(".json").read_text()
    card = json.loads(one.with_suffix(".json").read_text(encoding="utf-8"))
    assert card["vocabulary"] == {"size": 1500, "pad": 0, "unknown": 1, "start": 2, "end": 3, "mask": 4}
    assert card["normalization"] == "nfkc, joiners kept, version 1"
    assert card["training"]["lines"]["de"]["found"] == sum(code == "de" for code, _ in names(data))


def test_temperature_gives_small_languages_a_say(tmp_path, data):
    german = [text for code, text in names(data) if code == "de"][:20]
    lines = [pair for pair in names(data) if pair[0] == "en"] + [("de", text) for text in german]
    alike, as_is = (
        train_tokenizer(lines, tmp_path / f"{exponent}.model", 450, exponent, report=quiet) for exponent in (0.0, 1.0)
    )
    assert alike.encode(german).counts.sum() < as_is.encode(german).counts.sum()


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
    assert "290 pieces, hash " + Tokenizer(output).hash in printed
    assert "pad 0, unknown 1, start 2, end 3, mask 4" in printed
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
    assert main([*map(str, arguments)]) == 1
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
