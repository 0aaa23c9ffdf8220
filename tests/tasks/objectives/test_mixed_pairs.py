"""Pairs two by two: every pair once, however the step is split."""

import pytest
import tiny
import torch

from interlingua.modalities.batch import take
from interlingua.modalities.chance import chance
from interlingua.tasks.objectives.mixed_pairs import mix_pairs, translated


def pairs(count, seed=0):
    lengths = [4 + row % 5 for row in range(count)]
    return tiny.batch(lengths, translation=tiny.text(lengths[::-1], seed=seed + 1, language=1))


def draw(batch, seed=3):
    return chance(seed, batch.sample)


def mixed(parts, pool):
    """(leader, follower) of all parts; the follower is None where there is none."""
    found = []
    for part in parts:
        result = mix_pairs(part, pool, draw(part), draw(pool))
        half = result.size // 2
        followers = zip(result.sample[half:].tolist(), result.text.present[half:].any(1).tolist(), strict=True)
        found += [
            (lead, follower if there else None)
            for lead, (follower, there) in zip(result.sample[:half].tolist(), followers, strict=True)
        ]
    return sorted(found)


@pytest.mark.parametrize("count", [1, 2, 7, 8])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_every_pair_is_in_one_row_however_the_step_is_split(count, size):
    pool = pairs(count)
    parts = [take(pool, rows) for rows in torch.arange(count).split(size)]
    found = mixed(parts, pool)
    members = [one for row in found for one in row if one is not None]
    assert sorted(members) == list(range(count))
    assert len(found) == (count + 1) // 2
    shuffled = take(pool, torch.randperm(count, generator=torch.Generator().manual_seed(1)))
    assert mixed([pool], shuffled) == found


def test_rows_keep_their_texts_and_items():
    pool = pairs(8)._replace(item=torch.arange(8) + 50)
    result = mix_pairs(pool, pool, draw(pool), draw(pool))
    for row, sample in enumerate(result.sample.tolist()):
        for side in ("text", "translation"):
            one, whole = getattr(result, side), getattr(pool, side)
            assert torch.equal(one.tokens[row][one.present[row]], whole.tokens[sample][whole.present[sample]])
        assert result.item[row] == 50 + sample


def test_a_sample_that_is_drawn_twice_is_one_pair():
    pool = pairs(6)
    twice = take(pool, torch.tensor([0, 1, 2, 2, 3, 4, 5]))
    once, double = mixed([pool], pool), mixed([twice], twice)
    assert set(once) == set(double)


def test_rows_without_a_text_or_a_translation_are_no_pairs():
    batch = pairs(4)._replace(text=tiny.text([5, 0, 6, 7]), translation=tiny.text([0, 5, 6, 7], seed=1))
    assert translated(batch).sample.tolist() == [2, 3]
    assert translated(batch._replace(matched=torch.tensor([True, True, False, True]))).sample.tolist() == [3]
    assert translated(batch._replace(translation=None)) is None
    none = take(batch, torch.zeros(4, dtype=torch.bool))
    assert mix_pairs(none, none, draw(none), draw(none)).size == 0
