"""Words as pieces tell them, in scripts with and without spaces."""

import gzip
import json
from collections import defaultdict

import numpy as np
import pytest

from interlingua.datamodules.train_tokenizer import train_tokenizer
from interlingua.modalities.normalization import normalize
from interlingua.modalities.words import SPACE, WordFinder, is_unspaced


def words_of(pieces: str) -> str:
    """Words of pieces written with blanks between them, as WordFinder numbers them; `<0xE0>` is a byte."""
    names = pieces.split(" ")
    values = [int(name[3:5], 16) if name.startswith("<0x") else -1 for name in names]
    finder = WordFinder(names, values)
    words = finder(np.arange(len(names)), np.array([len(names)]))
    return " ".join(map(str, words.tolist()))


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ("▁a ▁dog s .", "0 1 1 1"),
        ("▁ dog ▁ cat", "0 0 1 1"),
        ("▁can ' t ▁well - known _x", "0 0 0 1 1 1 1"),
        ("▁( word ) ▁e . g .", "0 1 1 2 2 3 3"),
        ("▁http :// a . b / c", "0 0 1 1 2 2 3"),
        ("▁ 日 本語 の テスト です 。 Hel lo", "0 0 1 2 3 4 4 5 5"),
        ("▁ 日 ( 本 )", "0 0 0 1 1"),
        ("▁ ก า ี น", "0 0 1 1 2"),
        ("▁ኢት ዮ ፡ ሰው ፡የ መብት", "0 0 0 1 2 2"),
        ("▁ <0xE0> <0xB8> <0x81> <0xE0> <0xB8> <0xB5> <0xE0> <0xB8> <0x82>", "0 0 0 0 0 0 0 1 1 1"),
        ("▁ <0xE6> <0x97> <0xA5> <0xE6> <0x9C> <0xAC> x", "0 0 0 0 1 1 1 2"),
        ("▁ <0xF0> <0x9F> <0x98> <0x80> <0xE1> <0x88> <0x80> a", "0 0 0 0 0 0 0 0 0"),
        ("▁ <0x3C> s <0x3E> b", "0 0 0 0 0"),
        ("▁ a <0x2C> b", "0 0 0 1"),
        ("▁ <0xF0> <0xA0> <0x80> <0x80> 字", "0 0 0 0 0 1"),
    ],
)
def test_words_by_hand(pieces, words):
    assert words_of(pieces) == words


def test_scripts_without_spaces():
    assert all(map(is_unspaced, "\u4e2d\u3042\u30a2\u30fc\u3005\u0e01\u0e81\u1780\u1000\u0f40\U00020000"))
    assert not any(map(is_unspaced, "a\u00e9\u0416\u0627\u05d0\u0905\uac00\u1200\U0001f600 -"))


def test_words_of_real_lines_in_every_language(data, tmp_path):
    texts = defaultdict(list)
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            # Wesnoth's name grammars are templates of hundreds of characters without a space: no language.
            if row["source"] != "wesnoth" and len(texts[row["tgt_lang"]]) < 60:
                texts[row["tgt_lang"]].append(row["tgt"][:150])
    train = [(code, text) for code in ("de", "hi", "zh", "ja", "th", "fa", "am") for text in texts[code]]
    tokenizer = train_tokenizer(train, tmp_path / "many.model", size=2000, report=lambda line: None)
    every = [text for lines in texts.values() for text in lines[:4]]
    assert len(texts) > 400
    pieces = tokenizer.encode(every)
    for text, end, count in zip(every, np.cumsum(pieces.counts), pieces.counts, strict=True):
        ids, words = pieces.ids[end - count : end], pieces.words[end - count : end]
        assert words[0] == 0, text
        assert set(np.diff(words).tolist()) <= {0, 1}, text
        names = tokenizer.pieces(ids.tolist())
        # A space opens a word; pieces of one word decode to whole characters.
        assert all(words[place] > words[place - 1] for place in range(1, count) if names[place].startswith(SPACE)), text
        parts = [tokenizer.decode(ids[words == word].tolist()) for word in range(words[-1] + 1)]
        assert "".join(parts) == normalize(text).replace(" ", ""), text
        assert max(map(len, parts)) <= 60, text
        # What is written without spaces falls apart into many words.
        unspaced = sum(map(is_unspaced, text))
        assert words[-1] + 1 >= unspaced / 8, text
