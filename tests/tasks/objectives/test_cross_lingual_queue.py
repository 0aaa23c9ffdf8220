"""Cross-lingual contrast: what waits for the end of a step, and which keys of the queue are no negatives."""

import pytest
import tiny
import torch
from cross_lingual import LENGTHS, by_hand, connected, pairs, score

from interlingua.tasks.objectives.cross_lingual_contrast import Sides


def test_keys_about_the_same_are_no_negatives():
    encoder, objective = connected(queue=20)
    batch = pairs()
    marked = objective.mark(batch)
    states = objective.read(encoder, marked)
    objective.queue.keys[:3], objective.queue.keys[3:] = states.key, -states.key.mean(0)
    objective.queue.identity[:3] = objective._rows(states.key, marked).numbers[:, 1:]  # seen an epoch ago
    excluded = objective.loss(states, marked).total
    objective.exclude_same = False
    among = objective.loss(states, marked).total
    masked = by_hand_without(states, objective.queue, 0.25, range(3))
    assert excluded.item() == pytest.approx(masked, rel=1e-5)
    assert among.item() == pytest.approx(by_hand(states, objective.queue.keys, 0.25), rel=1e-5)
    assert among - excluded > 0.1


def by_hand_without(states, queue, temperature, own):
    """Each row's own old key left out."""
    total = 0.0
    for row in own:
        kept = torch.cat([queue.keys[:row], queue.keys[row + 1 :]])
        total += by_hand(Sides(states.query[row : row + 1], states.key[row : row + 1]), kept, temperature)
    return total


@pytest.mark.parametrize("about", ["item", "text", "translation"])
def test_the_same_is_what_shares_an_item_or_a_text(about):
    _, objective = connected(queue=3)
    batch, other = pairs(), pairs()._replace(item=torch.arange(6) + 100)
    texts = {"text": tiny.text(LENGTHS, seed=7), "translation": tiny.text(LENGTHS, seed=8)}
    other = other._replace(**texts)
    changed = other._replace(**{about: getattr(batch, about)})
    none, some = (objective._rows(torch.zeros(3, tiny.WIDTH), objective.mark(one)) for one in (other, changed))
    marked = objective.mark(batch)
    numbers = objective._rows(torch.zeros(3, tiny.WIDTH), marked).numbers[:, 1:]
    for rows, expected in ((none, 0), (some, 3)):
        objective.queue.push(rows.key, rows.numbers[:, 1:])
        assert objective.queue.shares(numbers).diagonal().sum() == expected
    elsewhere = objective._rows(torch.zeros(3, tiny.WIDTH), objective.mark(batch._replace(source="other")))
    objective.queue.push(elsewhere.key, elsewhere.numbers[:, 1:])
    assert objective.queue.shares(numbers).any()  # the same texts, though items of another source are others


def test_before_the_queue_is_full_nothing_is_scored():
    encoder, objective = connected(warm=False)
    objective.queue.push(torch.ones(19, tiny.WIDTH), torch.zeros(19, 6, dtype=torch.long))
    assert objective.cold
    loss = score(encoder, objective, pairs())
    assert loss.total.item() == loss.count == objective.count(objective.mark(pairs())) == 0
    loss.total.backward()


def test_the_query_learns_and_the_key_does_not():
    encoder, objective = connected()
    marked = objective.mark(pairs())
    states = objective.read(encoder, marked)
    assert not states.key.requires_grad
    loss = objective.loss(states, marked).total
    right = torch.autograd.grad(loss, objective.projection.weight, retain_graph=True)[0]
    # The wrong choice, a key that learns, has another gradient.
    live = objective._embed(encoder, objective.projection, marked, "translation")
    wrong = objective.loss(Sides(objective.read(encoder, marked).query, live), marked).total
    torch.testing.assert_close(wrong, loss)
    assert (torch.autograd.grad(wrong, objective.projection.weight)[0] - right).abs().max() > 1e-3


def test_the_queue_stands_still_until_the_step_is_over():
    encoder, objective = connected(queue=8)
    before, pointer = objective.queue.keys.clone(), int(objective.queue.pointer)
    first = score(encoder, objective, pairs()).total
    assert torch.equal(objective.queue.keys, before)
    assert score(encoder, objective, pairs()).total == first
    keys = objective.read(encoder, objective.mark(pairs())).key
    objective._waiting = objective._waiting[:1]
    objective.after_step(encoder)
    places = [(pointer + row) % 8 for row in range(3)]
    found = objective.queue.keys[places]
    assert all((found == key).all(1).any() for key in keys)
    assert torch.equal(objective.queue.keys[3:], before[3:])
    # The wrong choice, keys pushed before the loss, would be seen: they are not its negatives yet.
    objective.exclude_same = False
    assert abs(score(encoder, objective, pairs()).total - first) > 0.01


def test_validation_leaves_the_queue_alone():
    encoder, objective = connected()
    objective.eval()
    before = objective.queue.keys.clone()
    assert score(encoder, objective, pairs()).count == 3
    objective.after_step(encoder)
    assert torch.equal(objective.queue.keys, before)


def test_the_copy_moves_after_a_step_by_the_closed_form():
    encoder, objective = connected(momentum=0.9)
    start = {name: value.clone() for name, value in encoder.state_dict().items()}
    projection = objective.projection.weight.detach().clone()
    optimizer = torch.optim.SGD([*encoder.parameters(), *objective.parameters()], lr=0.5)
    score(encoder, objective, pairs()).total.backward()
    optimizer.step()
    slow = objective.slow.module.state_dict()
    assert all(torch.equal(slow[name], value) for name, value in start.items())
    objective.after_step(encoder)
    for name, value in encoder.state_dict().items():
        torch.testing.assert_close(objective.slow.module.state_dict()[name], 0.9 * start[name] + 0.1 * value)
    torch.testing.assert_close(
        objective.slow_projection.module.weight, 0.9 * projection + 0.1 * objective.projection.weight.detach()
    )
    assert not torch.equal(encoder.state_dict()["embeddings.tokens.weight"], start["embeddings.tokens.weight"])
    assert [name for name, _ in objective.named_parameters()] == ["projection.weight"]


def test_lower_precision_reaches_neither_products_nor_queue():
    encoder, objective = connected()
    with torch.autocast("cpu", torch.bfloat16):
        loss = score(encoder, objective, pairs())
    assert loss.total.dtype == objective._waiting[0].key.dtype == torch.float32
