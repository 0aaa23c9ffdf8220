"""Cross-lingual word recovery: what is read, what is predicted, and what it costs."""

import math
from functools import partial

import pytest
import tiny
import torch
import torch.nn.functional as F
from costs import check_padding, check_sum_of_samples, gradients, score
from halves import NOTHING, check_nothing_to_score, connected, mark, pack_first_row
from learning import reach_half
from real_pairs import real_pairs
from torch import nn
from trained import small_tokenizer
from translation_pairs import XLM, ids, pairs

from interlingua.modalities.batch import take
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.word_recovery import WordRecovery


def objective(vocabulary=XLM, languages=2, **options):
    """Over XLM's tower: language vectors, a plain head."""
    torch.manual_seed(0)
    head = "plain" if languages else "transform"
    tower = TextTower(tiny.embeddings(vocabulary=vocabulary, languages=languages, head=head), tiny.transformer())
    encoder, clwr = connected(WordRecovery(**options), tower)
    nn.init.normal_(clwr.attention.weight, std=0.3)  # far from even shares
    for part in encoder.modules():  # and far from states that are alike
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.2)
    return encoder, clwr


def features(x, y, wrong):
    return torch.cat([x, y, 0 * x if wrong == "no product" else x * y])


def by_hand(encoder, clwr, batch, wrong=None):
    """The paper's formula, row by row and pair by pair of tokens."""
    total = torch.zeros((), dtype=clwr.attention.weight.dtype)
    for row in range(batch.size):
        one = take(batch, torch.tensor([row]))
        own, others = encoder.embeddings(one.text), encoder.embeddings(one.translation)
        if wrong == "padding attended":
            others = torch.cat([others, torch.zeros(3, others.shape[1], dtype=others.dtype)])
        scores = torch.stack([torch.stack([clwr.attention.weight[0] @ features(x, y, wrong) for y in others]) for x in own])
        read = torch.softmax(scores, 0 if wrong == "softmax over the text" else 1) @ others
        if wrong == "own vectors":
            read = own
        if wrong == "own control tokens":
            read = torch.cat([own[:1], read[1:-1], own[-1:]])
        states, _ = encoder.transformer(read[None])
        ordinary = one.text.word[one.text.present] >= 0
        logits = states[0][ordinary] @ encoder.tokens.weight.T + clwr.head.bias
        total = total + F.cross_entropy(logits, one.text.tokens[one.text.present][ordinary], reduction="sum")
    return total


# What is hidden and read.


def test_all_ordinary_tokens_of_the_text_are_predicted_where_both_texts_are_there():
    encoder, clwr = objective()
    batch = pairs([7, 0, 5, 4, 9], [6, 8, 0, 2, 5], vocabulary=XLM, alignment=torch.zeros(5, 1, 2, dtype=torch.long))
    batch = batch._replace(matched=torch.tensor([True, True, True, True, False]))
    marked = mark(clwr, batch)
    assert marked.item.tolist() == [0]
    assert marked.text.hidden[0].tolist() == [False, True, True, True, True, True, False, False, False]
    assert ids(marked.text, 0) == ids(batch.text, 0)
    assert ids(marked.translation, 0) == ids(batch.translation, 0)
    assert marked.text.shown is marked.translation.shown is marked.translation.hidden is marked.alignment is None
    assert clwr.count(marked) == score(encoder, clwr, marked).count == 5


def test_with_even_shares_every_place_reads_the_mean_of_the_translation():
    """Nothing of the text is left but its length: texts of other words give the same states."""
    encoder, clwr = objective()
    batch = pairs(vocabulary=XLM)
    other = batch._replace(text=tiny.text([7, 5, 9, 4], seed=9, vocabulary=XLM))
    assert not torch.equal(clwr.read(encoder, mark(clwr, batch)).text, clwr.read(encoder, mark(clwr, other)).text)
    nn.init.zeros_(clwr.attention.weight)
    read = []
    encoder.transformer.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].flatten(0, 1)))
    states = [clwr.read(encoder, mark(clwr, one)).text for one in (batch, other)]
    assert torch.equal(*states)
    for row in range(4):
        mean = encoder.embeddings(take(batch.translation, torch.tensor([row]))).mean(0)
        assert (torch.isclose(read[0], mean, atol=1e-6).all(1)).sum() >= batch.text.present[row].sum()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_value_and_gradients_are_those_of_the_paper_s_formula(dtype, tolerance):
    encoder, clwr = (part.to(dtype) for part in objective())
    batch = pairs(padded=14, vocabulary=XLM)
    loss, expected = score(encoder, clwr, mark(clwr, batch)), by_hand(encoder, clwr, batch)
    assert loss.count == 25 - 8
    torch.testing.assert_close(loss.total, expected, rtol=tolerance, atol=tolerance)
    found, wanted = gradients(encoder, clwr, loss.total), gradients(encoder, clwr, expected)
    for pair in zip(found, wanted, strict=True):
        torch.testing.assert_close(*pair, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(
    "wrong", ["own vectors", "own control tokens", "softmax over the text", "no product", "padding attended"]
)
def test_the_well_known_wrong_choices_cost_something_else(wrong):
    encoder, clwr = objective()
    batch = pairs(vocabulary=XLM)
    assert (score(encoder, clwr, mark(clwr, batch)).total - by_hand(encoder, clwr, batch, wrong)).abs() > 1e-2


def test_the_part_of_the_weight_for_the_text_s_own_vector_cancels():
    encoder, clwr = (part.double() for part in objective())
    marked = mark(clwr, pairs(vocabulary=XLM))
    loss = score(encoder, clwr, marked).total
    gradient = torch.autograd.grad(loss, clwr.attention.weight)[0].view(3, -1)
    assert gradient[0].abs().max() < 1e-12
    assert (gradient[1:].abs().amax(1) > 1e-4).all()


def test_half_of_the_pairs_are_recovered_the_other_way_round_by_sample_and_epoch():
    _, clwr = objective(orders="drawn")
    _, given = objective()
    whole = pairs([6] * 400, [5] * 400, vocabulary=XLM)

    def turned(batch):
        return mark(clwr, batch).text.language[:, 0] == 1

    found = turned(whole)
    assert abs(found.float().mean() - 0.5) < 0.08
    assert not (mark(given, whole).text.language[:, 0] == 1).any()
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    assert (turned(take(whole, order)) == found[order]).all()
    assert (turned(whole._replace(epoch=whole.epoch + 1)) != found).any()
    marked, row = mark(clwr, whole), int(found.nonzero()[0])
    assert (ids(marked.text, row), ids(marked.translation, row)) == (ids(whole.translation, row), ids(whole.text, row))
    assert (marked.text.hidden == (marked.text.word >= 0)).all()


# What it costs.


@pytest.mark.parametrize("languages", [0, 2])
def test_an_ignorant_head_costs_log_v_a_token(languages):
    encoder, clwr = objective(languages=languages)
    nn.init.zeros_(encoder.tokens.weight)
    marked = mark(clwr, pairs(vocabulary=XLM))
    loss = score(encoder, clwr, marked)
    assert loss.count == clwr.count(marked) == 25 - 8
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(100), rel=1e-5)


@pytest.mark.parametrize("batch", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("languages", [0, 2])
def test_nothing_to_recover_costs_exactly_nothing(batch, languages):
    encoder, clwr = objective(tiny.VOCABULARY, languages)
    check_nothing_to_score(encoder, clwr, mark(clwr, batch))


def test_a_sample_without_translation_changes_neither_cost_nor_gradient():
    encoder, clwr = objective()
    batches = (pairs([6, 4, 7], [5, 3, 0], vocabulary=XLM), pairs([6, 4], [5, 3], vocabulary=XLM))
    losses = [score(encoder, clwr, mark(clwr, batch)) for batch in batches]
    assert losses[0].count == losses[1].count == 4 + 2
    torch.testing.assert_close(losses[0].total, losses[1].total, rtol=1e-6, atol=1e-6)
    for pair in zip(*(gradients(encoder, clwr, loss.total) for loss in losses), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-5, atol=1e-6)


def test_padding_on_either_side_costs_the_same():
    check_padding(*objective(orders="drawn"), partial(pairs, vocabulary=XLM), atol=1e-5)


def test_the_whole_is_the_sum_of_its_samples_and_means_of_means_are_not():
    """Pitfall O09."""
    check_sum_of_samples(*objective(orders="drawn"), pairs([9, 3, 12, 5, 20], [4, 0, 30, 6, 3], vocabulary=XLM))


def test_scores_and_mixtures_are_float32_under_autocast():
    encoder, clwr = objective()
    generator = torch.Generator().manual_seed(0)
    own, others = (torch.randn(3, length, tiny.WIDTH, generator=generator) for length in (5, 7))
    present = torch.arange(7) < torch.tensor([[7], [4], [1]])
    plain = clwr.mix(own, others, present)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(clwr.mix(own, others, present), plain)
        loss = score(encoder, clwr, mark(clwr, pairs(vocabulary=XLM)))
    assert loss.total.dtype == torch.float32
    assert loss.total.isfinite()
    torch.testing.assert_close(plain[2], others[2, :1].expand(5, -1))  # the one that is present


def test_the_cost_halves_in_sixty_steps():
    encoder, clwr = objective()
    marked = mark(clwr, pairs([20, 30, 25], [18, 30, 28], vocabulary=XLM))
    reach_half(lambda: score(encoder, clwr, marked).total, encoder, clwr)


def test_a_text_tower_beside_a_picture_s_is_read_as_it_is_alone():
    encoder = tiny.two_towers()
    _, clwr = connected(WordRecovery(), encoder)
    marked = mark(clwr, pairs())
    assert torch.equal(score(encoder, clwr, marked).total, score(encoder.text, clwr, marked).total)


def test_real_sentences_are_predicted_whole(data):
    tokenizer = small_tokenizer(data)
    rows, batch = real_pairs(data, tokenizer, ("de", "ja"), 20)
    encoder, clwr = objective(tokenizer.vocabulary, languages=len(tokenizer.languages))
    marked = mark(clwr, batch)
    for number, row in enumerate(rows):
        written = tokenizer.decode(marked.text.tokens[number][marked.text.hidden[number]].tolist())
        assert tokenizer.normalize(row["src"]).startswith(written.strip(" ⁇\ufffd"))
    loss = score(encoder, clwr, marked)
    assert loss.count == clwr.count(marked) == (batch.text.present.sum(1) - 2).sum()
    assert loss.total.isfinite()


# What is refused, and what is saved.


def test_what_cannot_be_meant_is_refused():
    _, clwr = objective()
    with pytest.raises(ValueError, match="word recovery: source 'parallel' has no translation"):
        clwr.view(pairs()._replace(translation=None))
    with pytest.raises(ValueError, match="rows of source 'parallel' are packed"):
        clwr.view(pairs()._replace(translation=pack_first_row(pairs().translation)))
    for encoder, reads in ((tiny.single_stream(), "text, translation, image, joint"), (tiny.two_towers().image, "image")):
        with pytest.raises(ValueError, match=f"needs a text tower, .*{type(encoder).__name__} reads {reads} in another way"):
            WordRecovery().connect(encoder)


def test_saves_its_weight_and_its_head_without_the_table():
    _, clwr = objective(languages=0)
    names = {f"head.{name}" for name in clwr.head.state_dict()}
    assert set(clwr.state_dict()) == {"attention.weight", *names}
