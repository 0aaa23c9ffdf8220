"""Cross-lingual contrast: what is read and what it costs, with a real tower."""

import math

import pytest
import tiny
import torch
import torch.nn.functional as F
from cross_lingual import by_hand, connected, pairs, score
from learning import reach_half
from torch import nn

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.cross_lingual_contrast import CrossLingualContrast, Sides


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


def test_a_sentence_may_be_the_mean_of_its_tokens():
    encoder, objective = connected(mixup=False, layer=1, pooling="mean")
    marked = objective.mark(pairs())
    read, present = encoder(marked, keep=(1,)).layers[1].text, marked.text.present
    means = torch.stack([states[there].mean(0) for states, there in zip(read, present, strict=True)])
    torch.testing.assert_close(objective.read(encoder, marked).query, objective.projection(means))


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("mixup", [True, False])
def test_padding_and_batch_mates_change_nothing(mixup, pooling):
    encoder, objective = connected(mixup=mixup, rate=0.3, pooling=pooling)
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
    assert (objective.pair, objective.max_tokens) == ("infoxlm", None)


def test_vectors_of_length_one_are_another_loss():
    _, plain = connected()
    encoder, normal = connected(normalize=True)
    found = normal.read(encoder, normal.mark(pairs()))
    for side, other in zip(found, plain.read(encoder, plain.mark(pairs())), strict=True):
        torch.testing.assert_close(side, F.normalize(other, dim=1))
        torch.testing.assert_close(side.norm(dim=1), torch.ones(3))
    assert abs(score(encoder, normal, pairs()).total - score(encoder, plain, pairs()).total) > 0.1


NOTHING = {
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


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected(mixup=True, temperature=1.0)
    reach_half(lambda: score(encoder, objective, pairs()).total, encoder, objective, rate=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": 0}, "queue is 0; expected a number from 1 to 4e"),
        ({"queue": 10**12}, "queue is 1000000000000; expected a number from 1 to"),
        ({"layer": -1}, "layer is -1"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"rate": 1.5}, "rate is 1.5"),
        ({"momentum": 1.5}, "least <= most <= 1"),
        ({"max_tokens": 4}, "cross-lingual contrast: max_tokens is 4; pairs of the form infoxlm need at least 5"),
        ({"max_tokens": 64, "mixup": False}, "max_tokens is 64, but mixup is off"),
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
    with pytest.raises(ValueError, match=r"contrast: layer is 3, but TextTower has 2 blocks; set layer to 0 .* to 2"):
        connected(layer=3)
    _, objective = connected(layer=2)
    with pytest.raises(ValueError, match="contrast: source 'captions' has no translation"):
        objective.mark(pairs()._replace(translation=None))


@pytest.mark.parametrize("build", [tiny.text_tower, tiny.two_towers, tiny.single_stream])
def test_encoders_say_after_which_blocks_they_can_be_asked(build):
    encoder = build()
    assert encoder.layers == 2
    CrossLingualContrast(layer=2, queue=1).connect(encoder)
    with pytest.raises(ValueError, match=r"layer is 8, but .* has 2 blocks"):
        CrossLingualContrast().connect(encoder)
    assert tiny.two_towers().image.layers is None
