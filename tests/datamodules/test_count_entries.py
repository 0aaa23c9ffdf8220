"""Counts of vocabulary entries over real texts, and their file."""

import json

import numpy as np
import pytest
from trained import names, small_tokenizer

from interlingua.datamodules.count_entries import TEXTS_AT_ONCE, count_entries
from interlingua.modalities.entry_counts import EntryCounts, read_counts, write_counts


def test_every_piece_of_every_text_is_counted_once(data):
    tokenizer, lines = small_tokenizer(data), names(data)
    lines = [*(lines * (1 + TEXTS_AT_ONCE // len(lines)))[: TEXTS_AT_ONCE + 10], ("en", ""), ("en", "  ")]
    found = count_entries(iter(lines), tokenizer)
    assert found.tokenizer == tokenizer.hash
    assert found.texts == len(lines) == TEXTS_AT_ONCE + 12
    assert len(found.counts) == tokenizer.vocabulary.size
    wanted = np.zeros(tokenizer.vocabulary.size, np.int64)
    for _, text in lines[:300]:
        np.add.at(wanted, tokenizer.encode([text]).ids, 1)
    assert (count_entries(lines[:300], tokenizer).counts == wanted).all()
    controls = [number for number in tokenizer.vocabulary.controls if number != tokenizer.vocabulary.unknown]
    assert found.counts[controls].sum() == 0
    assert found.counts.sum() == sum(tokenizer.count_tokens([text for _, text in lines])) - 2 * (len(lines) - 2)


def test_of_no_texts_all_counts_are_zero(data):
    found = count_entries([], small_tokenizer(data))
    assert found.texts == 0
    assert not found.counts.any()


def test_a_file_holds_the_counts_and_who_counted(tmp_path):
    found = EntryCounts("abc", 12, np.array([0, 5, 10**12], np.int64))
    write_counts(found, tmp_path / "folder" / "small.counts.json")
    back = read_counts(str(tmp_path / "folder" / "small.counts.json"))
    assert back[:2] == found[:2]
    assert back.counts.dtype == np.int64
    assert (back.counts == found.counts).all()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        '{"counts": [1]}',
        json.dumps({"format": 2, "tokenizer": "a", "texts": 1, "counts": [1]}),
        json.dumps({"format": 1, "tokenizer": "a", "texts": 1, "counts": [1, -1]}),
        json.dumps({"format": 1, "tokenizer": "a", "texts": 1, "counts": [1.5]}),
        json.dumps({"format": 1, "tokenizer": "a", "texts": 1, "counts": [[1], [2, 3]]}),
    ],
)
def test_refuses_other_files(content, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"other.json does not hold counts .* `interlingua tokenizer counts`"):
        read_counts(path)
