"""Order is arithmetic: every epoch holds each sample once, whatever the block, step or split."""

import pytest
import torch

from interlingua.datamodules.order import Units, draw, permute, share


@pytest.mark.parametrize(("size", "block"), [(1, 4), (7, 4), (8, 4), (23, 5), (1000, 1 << 18)])
def test_every_epoch_holds_each_sample_once(size, block):
    draws = draw(0, 3 * size, size, key=5, block=block)
    assert draws.epoch.tolist() == [0] * size + [1] * size + [2] * size
    for epoch in draws.sample.view(3, size):
        assert sorted(epoch.tolist()) == list(range(size))


def test_order_differs_by_epoch_and_by_key():
    first, second = draw(0, 200, 100, key=1).sample.view(2, 100)
    other = draw(0, 100, 100, key=2).sample
    assert (first == second).float().mean() < 0.1
    assert (first == other).float().mean() < 0.1
    assert first.tolist() != list(range(100))


@pytest.mark.parametrize("block", [8, 1 << 18])
def test_any_cut_of_the_sequence_draws_the_same(block):
    whole = draw(0, 120, 50, key=3, block=block)
    for first, count in [(0, 1), (17, 13), (45, 10), (99, 21), (119, 1), (60, 0)]:
        part = draw(first, count, 50, key=3, block=block)
        assert part.sample.equal(whole.sample[first : first + count])
        assert part.epoch.equal(whole.epoch[first : first + count])


def test_blocks_stay_together_and_come_in_random_turn():
    block = permute(torch.arange(64), Units.of(64, 8), key=11) // 8
    turns = block.view(8, 8)
    assert (turns == turns[:, :1]).all()
    assert turns[:, 0].tolist() != list(range(8))
    assert sorted(turns[:, 0].tolist()) == list(range(8))


def test_all_orders_of_a_small_set_are_equally_likely():
    counts: dict[tuple, int] = {}
    for key in range(1200):
        order = tuple(draw(0, 3, 3, key).sample.tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(130 < count < 270 for count in counts.values())  # 200 each, five standard deviations


def test_more_than_two_billion_samples_are_no_trouble():
    size = 5_000_000_000
    draws = draw(3 * size - 4, 8, size, key=1)
    assert draws.epoch.tolist() == [2] * 4 + [3] * 4
    assert ((draws.sample >= 0) & (draws.sample < size)).all()


@pytest.mark.parametrize(("count", "parts"), [(8, 2), (21, 2), (3, 4), (0, 3)])
def test_shares_make_the_whole_in_order(count, parts):
    shares = [share(count, part, parts) for part in range(parts)]
    assert [row for part in shares for row in part] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_window_of_shards_is_shuffled_together_and_each_shard_is_visited_once():
    sizes = torch.tensor([5, 1, 7, 3, 4, 6])
    units = Units(sizes, group=2)
    shard = torch.repeat_interleave(torch.arange(6), sizes)
    for epoch in draw(0, 2 * 26, units, key=4).sample.view(2, 26):
        assert sorted(epoch.tolist()) == list(range(26))
        turns = list(dict.fromkeys(shard[epoch].tolist()))
        places = {one: (shard[epoch] == one).nonzero()[:, 0] for one in turns}
        for first in range(0, 6, 2):  # two shards share a stretch, and no other shard is read in it
            both = torch.cat([places[one] for one in turns[first : first + 2]])
            assert both.max() - both.min() + 1 == len(both)
    assert draw(0, 26, units, key=4).sample.tolist() != draw(26, 26, units, key=4).sample.tolist()
    assert units.ends_of_blocks(3)[-1] == 26
