"""Word contrast: what it costs to tell a pair's words from others."""

import math

import pytest
import tiny
import torch
import torch.nn.functional as F
from halves import NOTHING, check_nothing_to_score
from learning import reach_half
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from translation_pairs import pairs
from word_pairs import connected, read, score, words

from interlingua.modalities.batch import take
from interlingua.modalities.chance import chance, salt
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.encoder import States
from interlingua.models.table_gradients import in_place_table_gradients
from interlingua.tasks.objectives import word_contrast
from interlingua.tasks.objectives.word_contrast import OTHERS, bag_of_words, costs, draw_others


def by_hand(objective, encoder, marked):
    """The paper's formula, one word at a time."""
    states, table, total = encoder(marked).text, encoder.tokens.weight, 0.0
    bags = bag_of_words(marked.text, objective.vocabulary)
    seed = chance(objective.key, salt(marked.source), marked.epoch, marked.sample, OTHERS)
    drawn = draw_others(seed, bags, objective.vocabulary, objective.others)

    def similarity(query, word):
        product = query @ table[word]
        product = product if objective.similarity == "dot" else product / (query.norm() * table[word].norm())
        return (product / objective.temperature).exp()

    for row in range(marked.size):
        query = objective.projection(states[row, marked.text.present[row]][0])
        against = sum(similarity(query, word) for word in drawn[row])
        bag = words(marked.text, row, objective.vocabulary)
        own = [similarity(query, word) for word in bag]
        total = total - sum((one / (one + against)).log() for one in own) / len(bag)
    return total


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("factor", [None, 16])
@pytest.mark.parametrize(("dtype", "exact"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_the_loss_by_hand_and_its_gradients(similarity, factor, dtype, exact, monkeypatch):
    encoder, objective = connected(factor=factor, similarity=similarity, temperature=0.2)
    encoder.to(dtype), objective.to(dtype)
    with torch.no_grad():
        encoder.tokens.weight.mul_(20)
    monkeypatch.setattr(word_contrast, "ROOM", 1)  # a row at a time
    marked = read(objective, pairs())
    loss, expected = objective.loss(encoder(marked), marked), by_hand(objective, encoder, marked)
    assert loss.count == 4
    torch.testing.assert_close(loss.total, expected, rtol=exact, atol=exact)
    leaves = [*encoder.parameters(), *objective.parameters()]
    for pair in zip(torch.autograd.grad(loss.total, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(*pair, rtol=exact, atol=exact)


def test_gradients_of_the_table_are_the_same_where_they_are_made_in_place():
    encoder, objective = connected(temperature=0.1)
    score(encoder, objective, pairs()).total.backward()
    expected = encoder.tokens.weight.grad.clone()
    encoder.zero_grad()
    with in_place_table_gradients():
        score(encoder, objective, pairs()).total.backward()
    torch.testing.assert_close(encoder.tokens.weight.grad, expected)
    assert (expected[tiny.VOCABULARY.mask] == 0).all()


@pytest.mark.parametrize("others", [1, 30])
def test_a_query_that_knows_nothing_costs_log_of_one_and_the_others(others):
    encoder, objective = connected(others=others, similarity="dot")
    nn.init.zeros_(objective.projection.weight)
    loss = score(encoder, objective, pairs())
    assert loss.total.item() / 4 == pytest.approx(math.log(1 + others), rel=1e-6)


def test_the_well_known_wrong_choices_are_told_apart():
    table = torch.randn(100, 8, generator=torch.Generator().manual_seed(0))
    query = table[[5, 9]] + table[[6, 9]]
    bag, others = torch.tensor([[5, 6, 100], [9, 100, 100]]), torch.tensor([[20, 21, 22], [30, 31, 32]])
    right = costs(table, query, bag, others, True, 0.2)
    scores = F.normalize(query, dim=1) @ F.normalize(table, dim=1).T / 0.2
    expected = []
    for row, own in enumerate(([5, 6], [9])):
        each = [F.cross_entropy(scores[row, [one, *others[row].tolist()]], torch.tensor(0)) for one in own]
        expected.append(sum(each) / len(own))
    torch.testing.assert_close(right, torch.stack(expected))
    together = scores[0, [5, 6, *others[0].tolist()]].log_softmax(0)[:2].mean().neg()  # words are each other's negatives
    assert abs(together - right[0]) > 0.1
    summed = costs(table, query, bag, others, True, 0.2) * (bag < 100).sum(1)
    assert abs(summed[0] - right[0]) > 0.1
    among = costs(table, query, bag, torch.cat([others, bag[:, :1]], 1), True, 0.2)  # the bag is drawn from, too
    assert (among - right).min() > 0.1
    filled = costs(table, query, bag.clamp_max(99), others, True, 0.2)  # padding counts as a word
    assert (filled - right).abs().max() > 0.1


def test_padding_and_batch_mates_change_nothing():
    encoder, objective = connected(temperature=0.1)
    batch = pairs()
    alone = [score(encoder, objective, take(batch, torch.tensor([row]))) for row in range(4)]
    together = score(encoder, objective, batch)
    left = score(encoder, objective, pairs(left=True, padded=14))
    torch.testing.assert_close(sum(one.total for one in alone), together.total, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(left.total, together.total, rtol=1e-5, atol=1e-5)
    assert sum(one.count for one in alone) == left.count == together.count == 4


def test_only_pairs_that_belong_together_are_scored():
    encoder, objective = connected()
    batch = pairs([7, 0, 9, 4, 2], [6, 8, 0, 5, 6], matched=torch.tensor([True, True, True, False, True]))
    loss = score(encoder, objective, batch)
    assert loss.count == objective.count(read(objective, batch)) == 1
    alone = score(encoder, objective, take(batch, torch.tensor([0])))
    torch.testing.assert_close(loss.total, alone.total)


def test_a_pair_of_all_words_or_of_none_has_nothing_to_be_told_from():
    encoder, objective = connected(Vocabulary(9), others=3)
    batch = pairs([6, 6, 6], [6, 6, 6], vocabulary=Vocabulary(9))
    batch.text.tokens[0, 1:5] = torch.tensor([5, 6, 7, 8])
    for text in (batch.text, batch.translation):
        text.tokens[1, 1:5] = Vocabulary(9).unknown
        text.tokens[2, 1:5] = torch.tensor([5, 6, 5, 5])
    loss = score(encoder, objective, batch)
    assert loss.count == objective.count(read(objective, batch)) == 1
    loss.total.backward()
    assert all(value.grad.isfinite().all() for value in encoder.parameters() if value.grad is not None)


@pytest.mark.parametrize("batch", NOTHING.values(), ids=NOTHING)
def test_nothing_to_score_costs_exactly_nothing_with_finite_gradients(batch):
    encoder, objective = connected()
    check_nothing_to_score(encoder, objective, read(objective, batch))


class Largest(TorchDispatchMode):
    """Elements of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for one in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(one, torch.Tensor):
                self.elements = max(self.elements, one.numel())
        return made


def test_neither_all_scores_nor_all_vectors_are_ever_there(monkeypatch):
    vocabulary = Vocabulary(5000)
    _, objective = connected(vocabulary)
    monkeypatch.setattr(word_contrast, "ROOM", 3 * tiny.WIDTH * 20)
    marked = read(objective, pairs([6] * 40, [6] * 40, vocabulary=vocabulary))
    states = torch.randn(*marked.text.tokens.shape, tiny.WIDTH, requires_grad=True)
    with Largest() as largest:
        loss = objective.loss(States(text=states), marked)
        torch.autograd.grad(loss.total, states)
    assert largest.elements <= states.numel()  # 40 rows x 12 tokens x 32 < 40 x 5,000, and < 40 x 24 words x 32


def test_autocast_reaches_no_comparison():
    encoder, objective = connected(temperature=0.1)
    marked = read(objective, pairs())
    with torch.autocast("cpu", torch.bfloat16):
        loss = objective.loss(encoder(marked), marked)
    assert loss.total.dtype == torch.float32
    loss.total.backward()
    assert encoder.tokens.weight.grad.isfinite().all()


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected(temperature=0.1)
    reach_half(lambda: score(encoder, objective, pairs()).total, encoder, objective, rate=2e-3)
