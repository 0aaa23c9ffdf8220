"""Cross-lingual contrast: what is read, what it costs, and what waits for the end of a step, with a real tower."""

import math

import pytest
import tiny
import torch
import torch.nn.functional as F
from learning import reach_half
from torch import nn

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.cross_lingual_contrast import CrossLingualContrast, Sides

LENGTHS = [7, 5, 9, 4, 6, 8]


def pairs(lengths=LENGTHS, left=False, **options):
    texts = {"text": tiny.text(lengths, left=left), "translation": tiny.text(lengths[::-1], left=left, seed=1, language=1)}
    return tiny.batch(lengths, **options)._replace(**texts)


def connected(queue=20, warm=True, **options):
    """A tower of two blocks and an objective over it whose queue is full of random keys about nothing in the batch."""
    torch.manual_seed(0)
    encoder, objective = tiny.text_tower(), CrossLingualContrast(**{"layer": 1, "queue": queue, "rate": 0.0, **options})
    objective.connect(encoder)
    if warm:
        fill(objective)
    return encoder, objective


def fill(objective, seed=1):
    generator = torch.Generator().manual_seed(seed)
    size, columns = objective.queue.identity.shape
    keys = torch.randn(size, tiny.WIDTH, generator=generator)
    objective.queue.push(keys, torch.arange(size * columns).view(size, columns))


def score(encoder, objective, batch):
    marked = objective.mark(batch)
    return objective.loss(objective.read(encoder, marked), marked)


def heard(encoder, objective, batch):
    """The texts of the query's and of the key's reading, as lists of ids."""
    read, marked = [], objective.mark(batch)
    hooks = [one.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].text)) for one in (encoder, objective.slow)]
    objective.read(encoder, marked)
    for hook in hooks:
        hook.remove()
    return tuple([row[there].tolist() for row, there in zip(text.tokens, text.present, strict=True)] for text in read)


def words(text):
    return [row[present][1:-1].tolist() for row, present in zip(text.tokens, text.present, strict=True)]


# What is read.


def test_each_row_is_read_in_one_direction_that_is_the_sample_s_own():
    encoder, objective = connected(mixup=False)
    batch = pairs([6] * 64)
    query, key = heard(encoder, objective, batch)
    texts, translations = words(batch.text), words(batch.translation)
    forth = [row[1:-1] == text for row, text in zip(query, texts, strict=True)]
    for row, straight in enumerate(forth):
        expected = (texts[row], translations[row]) if straight else (translations[row], texts[row])
        assert (query[row][1:-1], key[row][1:-1]) == expected
    assert 16 < sum(forth) < 48
    alone = [heard(encoder, objective, take(batch, torch.tensor([row])))[0][0] for row in (5, 17)]
    assert alone == [query[5], query[17]]
    again = batch._replace(epoch=batch.epoch + 1)
    assert heard(encoder, objective, again)[0] != query


def test_mixed_rows_are_two_pairs_in_orders_drawn_apart():
    encoder, objective = connected()
    batch = pairs([6] * 63)
    query, key = heard(encoder, objective, batch)
    assert len(query) == len(key) == 32
    texts, translations = words(batch.text), words(batch.translation)
    start, end = tiny.VOCABULARY.start, tiny.VOCABULARY.end
    seen, crossed, turned = set(), 0, 0
    for one, other in zip(query, key, strict=True):
        assert one[0] == other[0] == start
        assert one[-1] == other[-1] == end
        halves, others = ([row[1:5], row[6:-1]] if len(row) > 6 else [row[1:-1]] for row in (one, other))
        assert len(one) == len(other) == 2 + 5 * len(halves) - 1
        assert len(halves) == 1 or one[5] == other[5] == end  # one end token between them
        back = halves[0] in translations
        own, facing = (translations, texts) if back else (texts, translations)
        members = [own.index(half) for half in halves]
        assert sorted(facing.index(half) for half in others) == sorted(members)
        crossed += others[0] != facing[members[0]]
        turned += back
        seen.update(members)
    assert seen == set(range(63))
    assert 6 < crossed < 26
    assert 6 < turned < 26


@pytest.mark.parametrize("mixup", [True, False])
def test_tokens_of_both_sides_are_hidden_at_the_rate_and_controls_never(mixup):
    encoder, objective = connected(rate=0.3, mixup=mixup)
    batch = pairs([40] * 60)
    marked = objective.mark(batch)
    plain = CrossLingualContrast(layer=1, queue=1, rate=0.0, mixup=mixup)
    plain.connect(encoder)
    plain.key = objective.key
    untouched = plain.mark(batch)
    for one, other in ((marked.text, untouched.text), (marked.translation, untouched.translation)):
        ordinary = one.word >= 0
        assert torch.equal(one.tokens, other.tokens)  # the truth
        assert torch.equal(other.read, other.tokens)
        assert one.hidden[ordinary].float().mean().item() == pytest.approx(0.3, abs=0.03)
        assert not one.hidden[~ordinary].any()
        masked = (one.read == tiny.VOCABULARY.mask) & one.hidden
        assert masked.sum() / one.hidden.sum() == pytest.approx(0.8, abs=0.05)
    query, _ = heard(encoder, objective, batch)
    assert sum(row.count(tiny.VOCABULARY.mask) for row in query) > 0.2 * sum(map(len, query))


def test_the_states_are_those_of_the_first_token_after_the_layer():
    encoder, objective = connected(mixup=False, layer=1)
    batch = pairs()
    marked = objective.mark(batch)
    states = objective.read(encoder, marked)
    read = encoder(marked, keep=(0, 1)).layers[1]
    torch.testing.assert_close(states.query, objective.projection(read.text[:, 0]))
    torch.testing.assert_close(states.key, objective.projection(read.translation[:, 0]))  # the copy has not moved yet
    assert objective.projection.bias is None
    assert objective.projection.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert (states.query - objective.projection(encoder(marked).text[:, 0])).abs().max() > 1e-3


@pytest.mark.parametrize("mixup", [True, False])
def test_padding_and_batch_mates_change_nothing(mixup):
    encoder, objective = connected(mixup=mixup, rate=0.3)
    batch = pairs()
    right, left = (objective.read(encoder, objective.mark(pairs(left=side))) for side in (False, True))
    for one, other in zip(right, left, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    pool = objective.lend(batch)
    parts = [objective.mark(take(batch, rows), pool) for rows in torch.arange(6).split(2)]
    together = objective.read(encoder, objective.mark(batch, pool))
    apart = [objective.read(encoder, part) for part in parts]
    for number, one in enumerate(together):
        rows = torch.cat([part[number] for part in apart])
        torch.testing.assert_close(rows, one, rtol=1e-5, atol=1e-6)


# What it costs.


def test_an_ignorant_projection_costs_log_of_one_and_the_queue():
    encoder, objective = connected(queue=20)
    nn.init.zeros_(objective.projection.weight)
    loss = score(encoder, objective, pairs())
    assert loss.count == 3
    assert loss.total.item() / 3 == pytest.approx(math.log(21), rel=1e-6)


def by_hand(states, keys, temperature):
    """The loss, written out."""
    total = 0.0
    for query, key in zip(states.query.detach().double(), states.key.double(), strict=True):
        products = [float(query @ other) / temperature for other in [key, *keys.double()]]
        total += math.log(sum(map(math.exp, products))) - products[0]
    return total


@pytest.mark.parametrize("temperature", [0.25, 1.0])
def test_the_key_is_the_one_to_find_and_products_are_divided_by_the_temperature(temperature):
    _, objective = connected(temperature=temperature)
    marked = objective.mark(pairs())
    generator = torch.Generator().manual_seed(4)
    states = Sides(*(torch.randn(3, tiny.WIDTH, generator=generator) / 4 for _ in range(2)))
    assert objective.loss(states, marked).total.item() == pytest.approx(by_hand(states, objective.queue.keys, temperature))
    wrong = objective.loss(Sides(states.query, states.key.roll(1, 0)), marked).total.item()
    assert abs(wrong - by_hand(states, objective.queue.keys, temperature)) > 0.1


def test_the_published_numbers_are_the_defaults():
    objective = CrossLingualContrast()
    assert (objective.layer, objective.size, objective.temperature, objective.normalize) == (8, 131072, 0.25, False)
    assert (objective.mixup, objective.hiding.rate, objective.momentum.at(1)) == (True, 0.15, 0.9999)
    assert (objective.form.ends, objective.form.positions) == (1, "continue")


def test_vectors_of_length_one_are_another_loss():
    _, plain = connected()
    encoder, normal = connected(normalize=True)
    found = normal.read(encoder, normal.mark(pairs()))
    for side, other in zip(found, plain.read(encoder, plain.mark(pairs())), strict=True):
        torch.testing.assert_close(side, F.normalize(other, dim=1))
        torch.testing.assert_close(side.norm(dim=1), torch.ones(3))
    assert abs(score(encoder, normal, pairs()).total - score(encoder, plain, pairs()).total) > 0.1


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


NOTHING = {
    "no translation": pairs()._replace(translation=None),
    "absent": pairs([5, 4])._replace(text=tiny.text([0, 4]), translation=tiny.text([5, 0], seed=1)),
    "empty": take(pairs(), torch.zeros(6, dtype=torch.bool)),
}


@pytest.mark.parametrize("mixup", [True, False])
@pytest.mark.parametrize("batch", NOTHING.values(), ids=NOTHING)
def test_nothing_to_compare_costs_exactly_nothing_with_finite_gradients(batch, mixup):
    encoder, objective = connected(mixup=mixup)
    loss = score(encoder, objective, batch)
    assert loss.total.item() == 0
    assert loss.count == objective.count(objective.mark(batch)) == 0
    assert torch.equal(torch.autograd.grad(loss.total, objective.projection.weight)[0], torch.zeros(tiny.WIDTH, tiny.WIDTH))
    objective.after_step(encoder)


@pytest.mark.parametrize(("mixup", "count"), [(True, 3), (False, 6)])
def test_count_is_the_losses_count(mixup, count):
    encoder, objective = connected(mixup=mixup)
    assert objective.count(objective.mark(pairs())) == score(encoder, objective, pairs()).count == count


def test_before_the_queue_is_full_nothing_is_scored():
    encoder, objective = connected(warm=False)
    objective.queue.push(torch.ones(19, tiny.WIDTH), torch.zeros(19, 6, dtype=torch.long))
    assert objective.cold
    loss = score(encoder, objective, pairs())
    assert loss.total.item() == loss.count == objective.count(objective.mark(pairs())) == 0
    loss.total.backward()


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected(mixup=True, temperature=1.0)
    reach_half(lambda: score(encoder, objective, pairs()).total, encoder, objective, rate=2e-3)


# What waits.


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": 0}, "queue is 0; expected 1 or more"),
        ({"layer": -1}, "layer is -1"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"rate": 1.5}, "rate is 1.5"),
        ({"momentum": 1.5}, "least <= most <= 1"),
        ({"pair": "xml"}, "pair is 'xml', expected one of bert"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CrossLingualContrast(**options)


def test_encoders_that_cannot_serve_are_refused():
    image = tiny.two_towers().streams["image"]
    with pytest.raises(ValueError, match="needs an encoder that reads text; ImageTower reads image"):
        CrossLingualContrast().connect(image)
    encoder, objective = connected(layer=8)
    with pytest.raises(ValueError, match="there are 2 blocks"):
        score(encoder, objective, pairs())
