"""The queue of keys: what stands where, after it has gone round."""

import pytest
import torch

from interlingua.tasks.objectives.queue import KeyQueue


def rows(*numbers):
    """Keys that tell their number, about it and about ten times it."""
    number = torch.tensor(numbers, dtype=torch.int64)
    return number[:, None].float().expand(-1, 3), torch.stack([number, 10 * number], 1)


def stands(queue):
    assert torch.equal(queue.keys[:, 0].long(), queue.identity[:, 0])
    assert torch.equal(queue.keys[:, 2].long() * 10, queue.identity[:, 1])
    return queue.identity[:, 0].tolist()


def test_the_oldest_give_way():
    queue = KeyQueue(5, 3, 2)
    assert not queue.full
    queue.push(*rows(1, 2, 3))
    assert (stands(queue), int(queue.pointer), int(queue.filled), queue.full) == ([1, 2, 3, 0, 0], 3, 3, False)
    queue.push(*rows(4, 5, 6, 7))
    assert (stands(queue), int(queue.pointer), queue.full) == ([6, 7, 3, 4, 5], 2, True)
    queue.push(*rows())
    assert (stands(queue), int(queue.pointer)) == ([6, 7, 3, 4, 5], 2)
    queue.push(*rows(*range(10, 23)))  # more than it holds: the last five
    assert sorted(stands(queue)) == list(range(18, 23))
    assert queue.identity[int(queue.pointer) - 1, 0] == 22


def test_it_is_saved_whole():
    queue, other = KeyQueue(4, 3, 2), KeyQueue(4, 3, 2)
    queue.push(*rows(1, 2, 3, 4, 5))
    other.load_state_dict(queue.state_dict())
    assert (stands(other), int(other.pointer), other.full) == ([5, 2, 3, 4], 1, True)
    assert not list(queue.parameters())


def test_few_keys_fill_it_over_and_over():
    queue = KeyQueue(5, 3, 2)
    queue.push(*rows(1, 2))
    queue.repeat()
    assert stands(queue) == [1, 2, 1, 2, 1]
    assert queue.full


@pytest.mark.parametrize("seed", range(3))
def test_what_shares_anything_is_found(seed):
    generator = torch.Generator().manual_seed(seed)
    queue = KeyQueue(50, 3, 2)
    queue.push(torch.zeros(50, 3), torch.randint(0, 40, (50, 2), generator=generator))
    asked = torch.randint(0, 40, (6, 4), generator=generator)
    expected = [[bool(set(own.tolist()) & set(other.tolist())) for other in queue.identity] for own in asked]
    assert queue.shares(asked).tolist() == expected
    assert queue.shares(asked[:0]).shape == (0, 50)
