"""Best-fit decreasing: against the rule written out, against first-fit on real lengths, and its properties."""

import gzip
import json
import time

import numpy as np
import pytest
from trained import small_tokenizer

from interlingua.datamodules.fit import fit_rows


def fit_one_by_one(lengths, capacity: int) -> list[int]:
    """Room left in each row by best-fit decreasing as it is told in words, ascending."""
    room: list[int] = []
    for need in sorted((max(1, int(length)) for length in lengths), reverse=True):
        fitting = [row for row, left in enumerate(room) if left >= need]
        if not fitting:
            room.append(capacity)
            fitting = [len(room) - 1]
        room[min(fitting, key=lambda row: room[row])] -= need
    return sorted(room)


def first_fit(lengths, capacity: int) -> int:
    """Rows that first-fit needs for texts in their own order."""
    room = np.full(len(lengths), capacity)
    for need in lengths:
        room[np.argmax(room >= need)] -= need
    return int((room < capacity).sum())


def real_lengths(data, count: int) -> np.ndarray:
    """Tokens of real sentences."""
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["src"] for _, line in zip(range(count), file, strict=False)]
    return small_tokenizer(data).count_tokens(texts)


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_those_of_the_rule(seed):
    chance = np.random.default_rng(seed)
    capacity = int(chance.integers(3, 60))
    lengths = chance.integers(0, capacity + 1, size=int(chance.integers(0, 90)))
    rows = fit_rows(lengths, capacity)
    assert rows.dtype == np.int64
    assert rows.shape == lengths.shape
    load = np.bincount(rows, np.maximum(lengths, 1)).astype(int)
    assert load.max(initial=0) <= capacity
    assert sorted(capacity - load) == fit_one_by_one(lengths, capacity)
    fewest = max(-(-np.maximum(lengths, 1).sum() // capacity), (lengths > capacity / 2).sum())
    assert fewest <= len(load) <= 11 / 9 * fewest + 4


def test_equal_texts_fill_whole_rows():
    assert fit_rows(np.full(7, 3), 10).tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert fit_rows(np.array([2, 7, 3, 10, 8]), 10).tolist() == [1, 2, 2, 0, 1]
    assert fit_rows(np.zeros(0, np.uint16), 10).tolist() == []


def test_real_lengths_leave_hardly_a_slot_empty(data):
    lengths = np.minimum(real_lengths(data, 4000), 128)
    rows = fit_rows(lengths.astype(np.uint16), 128)
    count = rows.max() + 1
    assert set(rows) == set(range(count))
    assert lengths.sum() / (count * 128) > 0.99
    assert count <= first_fit(lengths, 128)
    assert np.array_equal(rows, fit_rows(lengths.astype(np.uint32), 128))  # as often as asked, whatever the type


def test_a_block_of_texts_is_fitted_at_once():
    lengths = np.random.default_rng(0).lognormal(3.2, 0.7, 2**18).astype(np.int64).clip(3, 512)
    start = time.process_time()
    rows = fit_rows(lengths, 512)
    assert time.process_time() - start < 1.5
    assert np.bincount(rows, lengths).max() <= 512


@pytest.mark.parametrize("wrong", [11, -1])
def test_texts_that_fit_no_row_are_errors(wrong):
    with pytest.raises(ValueError, match=f"text 2 has {wrong} tokens, but a row holds 0 to 10"):
        fit_rows(np.array([3, 10, wrong]), 10)
