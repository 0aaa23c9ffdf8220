"""Cross-lingual paraphrase classification: what it costs."""

import pytest
import tiny
import torch
import torch.nn.functional as F
from costs import check_saves_alone, gradients, score
from halves import (
    NOTHING,
    check_ignorance,
    check_nothing_to_score,
    check_rows_that_lack_a_half,
    check_sum_of_pairs,
    claim_class_zero,
    mark,
    pieces,
    seconds,
)
from learning import reach_half
from paraphrases import NEGATIVES, objective, translations


@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_an_ignorant_head_costs_log_two_a_pair(negatives, rate):
    check_ignorance(*objective(negatives, rate=rate))


def test_class_zero_means_that_they_belong_together():
    encoder, clpc = objective(rate=0.8)
    claim_class_zero(clpc)
    batch = translations()
    marked = mark(clpc, batch)
    replaced = (~marked.matched).sum().item()
    assert 3 < replaced < 6  # the other way round, the cost would be that of the others
    assert score(encoder, clpc, marked).total.item() == pytest.approx(20.0 * replaced, rel=1e-5)
    taken = batch._replace(matched=torch.tensor([False] + [True] * 5))  # another objective has replaced it already
    assert mark(clpc, taken).matched[0].item() is False
    assert seconds(mark(clpc, taken))[0] == pieces(batch.translation, 0)


@pytest.mark.parametrize("wrong", [None, "last state", "mean", "other class"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_binary_cross_entropy_on_the_first_state(dtype, tolerance, wrong):
    encoder, clpc = (part.to(dtype) for part in objective())
    for layer in (clpc.pair_head.pooler, clpc.pair_head.head):
        torch.nn.init.normal_(layer.weight, std=0.3)
    batch = translations([5 + row for row in range(12)], [9 - row % 5 for row in range(12)])
    marked = mark(clpc, batch)
    logits, classes = [], []
    for row, second in enumerate(seconds(marked)):
        ids = torch.tensor([[2, *pieces(batch.text, row), 3, 3, *second, 3]])
        halves = torch.tensor([[0] * (batch.text.present[row].sum()) + [1] * (len(second) + 2)])
        text = tiny.text([ids.shape[1]])._replace(tokens=ids, segment=halves)
        states = tiny.encode(encoder, text)[0]
        state = {"last state": states[-1], "mean": states.mean(0)}.get(wrong, states[0])
        scores = clpc.pair_head.head.weight @ torch.tanh(clpc.pair_head.pooler(state)) + clpc.pair_head.head.bias
        logits.append(scores[1] - scores[0])
        same = second == pieces(batch.translation, row)
        classes.append(float(same if wrong == "other class" else not same))
    assert 2 < sum(classes) < 10
    expected = F.binary_cross_entropy_with_logits(torch.stack(logits), torch.tensor(classes, dtype=dtype), reduction="sum")
    loss = score(encoder, clpc, marked)
    assert loss.count == 12
    if wrong is not None:
        assert (loss.total - expected).abs() > 1e-3
        return
    first, second = clpc.pair_head(clpc.read(encoder, marked).text, marked.text.present).T
    torch.testing.assert_close(second - first, torch.stack(logits), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(loss.total, expected.float(), rtol=1e-5, atol=1e-5)
    found, wanted = (gradients(encoder, clpc, one) for one in (loss.total, expected))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("batch", NOTHING.values(), ids=NOTHING)
def test_nothing_to_score_costs_exactly_nothing(batch, negatives):
    encoder, clpc = objective(negatives)
    check_nothing_to_score(encoder, clpc, mark(clpc, batch))


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_rows_that_lack_a_half_are_read_alone_and_not_counted(negatives):
    encoder, clpc = objective(negatives, rate=1.0)
    marked = check_rows_that_lack_a_half(encoder, clpc, translations([5, 0, 6, 7, 0], [4, 5, 0, 6, 0]), pairs=2)
    assert marked.matched.tolist() == [False, True, True, False, True]


def test_the_cost_halves_in_sixty_steps():
    encoder, clpc = objective("random")
    marked = mark(clpc, translations())
    assert 0 < marked.matched.sum() < 6
    reach_half(lambda: score(encoder, clpc, marked).total, encoder, clpc)


def test_the_whole_is_the_sum_of_its_samples():
    check_sum_of_pairs(*objective(), translations())


def test_saves_its_head_without_the_table():
    check_saves_alone(objective()[1], "pair_head")
