"""Turns: exact proportions, any part without the parts before it, and limits that hold."""

import numpy as np
import pytest
import torch

from interlingua.datamodules.turns import ExhaustedError, Turns

WEIGHTS = np.array([0.6, 0.25, 0.1, 0.04, 0.0095, 0.0005])


def turns(weights=WEIGHTS, **options):
    return Turns(lambda _: weights, key=7, **{"block": 64, **options})


def test_each_category_has_its_share_to_within_one_draw_after_every_block():
    some = turns()
    for blocks in (1, 2, 3, 10, 157, 1000):
        counts = some.counts(64 * blocks)
        assert counts.sum() == 64 * blocks
        assert np.abs(counts - WEIGHTS * 64 * blocks).max() <= 1


def test_any_cut_is_the_same_and_occurrences_count_up():
    whole = turns().at(0, 1000)
    for first, count in ((0, 1), (63, 2), (500, 300), (999, 1), (128, 0)):
        part = turns().at(first, count)
        assert part.category.equal(whole.category[first : first + count])
        assert part.occurrence.equal(whole.occurrence[first : first + count])
    one = turns()
    assert one.at(900, 20).category.equal(whole.category[900:920])
    assert one.at(10, 20).category.equal(whole.category[10:30])  # back again
    for category in range(len(WEIGHTS)):
        found = whole.occurrence[whole.category == category]
        assert found.tolist() == list(range(len(found)))


def test_the_order_within_a_block_is_shuffled_anew():
    first, second = turns().at(0, 128).category.view(2, 64)
    assert first.tolist() != second.tolist()
    assert first.tolist() != sorted(first.tolist())


def test_a_limit_is_never_passed_and_its_share_goes_to_the_others():
    limits = np.array([10**6, 10**6, 37, 10**6, 10**6, 10**6])
    counts = turns(limits=limits).counts(6400)
    assert counts[2] == 37
    assert counts.sum() == 6400
    assert counts[0] / counts[1] == pytest.approx(0.6 / 0.25, rel=0.01)


def test_when_all_limits_are_reached_it_says_so():
    some = turns(limits=np.full(6, 50))
    assert torch.bincount(some.at(0, 300).category).tolist() == [50] * 6  # to the last one
    for first in (290, 300, 6400):
        with pytest.raises(ExhaustedError, match="300 times in all" if first == 290 else "limit allows"):
            turns(limits=np.full(6, 50)).at(first, 20)


def test_proportions_may_change_from_block_to_block():
    def weights(first):
        return np.array([0.9, 0.1]) if first < 6400 else np.array([0.5, 0.5])

    some = Turns(weights, key=1, block=64)
    before = some.counts(6400)
    after = some.counts(12800) - before
    assert before.tolist() == [5760, 640]
    assert after.tolist() == [3200, 3200]


def test_ten_billion_turns_ahead_takes_no_ten_billion_steps():
    some = Turns(lambda _: WEIGHTS, key=1)
    assert len(some.at(10**9, 5).category) == 5
    assert torch.bincount(some.at(10**9, 65536).category, minlength=6)[0].item() == pytest.approx(0.6 * 65536, rel=0.01)
