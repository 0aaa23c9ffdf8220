"""Temperature sampling by hand, and training that repeats itself."""

import json
from collections import Counter

from trained import names

from interlingua.datamodules.train_tokenizer import draw, gather, shares, train_tokenizer


def quiet(line: str) -> None:
    pass


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
