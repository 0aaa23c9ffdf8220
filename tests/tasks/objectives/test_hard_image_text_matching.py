"""Image-text matching with hard negatives: by identity, in proportion to similarity, with guards where there is none."""

import math

import pytest
import tiny
import torch
from learning import reach_half
from torch import nn

from interlingua.modalities.batch import take
from interlingua.models.encoder import Encoder, Vectors
from interlingua.tasks.objectives.hard_image_text_matching import HardImageTextMatching, compare, draw_negative

LENGTHS = (7, 5, 9, 4)


class Aligned(Encoder):
    """An encoder that aligns and fuses: vectors of two towers beside a single stream's joint vector."""

    def __init__(self):
        super().__init__()
        self.towers, self.stream = tiny.two_towers(), tiny.single_stream()
        self.widths, self.vector_width = self.stream.widths, self.towers.vector_width

    @property
    def text_embeddings(self):
        return self.stream.text_embeddings

    def forward(self, batch, **options):
        return self.stream(batch)._replace(vectors=self.towers(batch).vectors)


def captions(lengths=LENGTHS, items=None, **options):
    return tiny.batch(lengths, items, image=tiny.image(len(lengths)), **options)


def connected(**options):
    torch.manual_seed(0)
    encoder, objective = Aligned(), HardImageTextMatching(**options)
    objective.connect(encoder)
    return encoder, objective


def own_text(batch, row):
    return batch.text.tokens[row][batch.text.present[row]].tolist()


def score(encoder, objective, marked):
    return objective.loss(objective.read(encoder, marked), marked)


def test_hard_negatives_are_scored_beside_every_pair():
    encoder, objective = connected()
    batch = captions(LENGTHS[:4], items=[7, 7, 9, 7])
    read = []
    encoder.stream.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    marked = objective.mark(batch)
    assert objective.lend(batch) is None
    loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) == 8
    pairs = read[-1]
    assert pairs.matched.tolist() == [True] * 4 + [False] * 4
    assert pairs.item.tolist() == [7, 7, 9, 7] * 2
    assert [own_text(pairs, row) for row in range(4)] == [own_text(batch, row) for row in range(4)]
    assert [own_text(pairs, row) for row in (4, 5, 7)] == [own_text(batch, 2)] * 3
    assert (pairs.image.pixels[4:] == batch.image.pixels).all()
    nn.init.zeros_(objective.head.weight)
    assert score(encoder, objective, marked).total.item() / 8 == pytest.approx(math.log(2), rel=1e-6)


@pytest.mark.parametrize("items", [[7], [7, 7, 7]])
def test_hard_negatives_without_candidate_fall_back_to_the_pairs_and_say_so(items, caplog):
    """Pitfall O07: one sample; three of one item."""
    encoder, objective = connected()
    marked = objective.mark(captions(LENGTHS[: len(items)], items=items))
    loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) == len(items)
    assert loss.total.isfinite()
    assert len(caplog.messages) == 1


def test_draws_are_in_proportion_to_the_softmax_and_never_the_positive():
    """Pitfall O07: items 7, 7 and 9, 1,000 draws."""
    similarity = torch.tensor([[9.0, 9.0, 0.0], [9.0, 9.0, 0.0], [1.0, 2.0, 9.0]])
    item = torch.tensor([7, 7, 9])
    candidate = item[:, None] != item
    chances = torch.rand(1000, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drawn = torch.stack([draw_negative(similarity, candidate, one) for one in chances])
    assert (drawn[:, :2] == 2).all()
    assert (drawn[:, 2] < 2).all()
    assert abs(drawn[:, 2].float().mean() - torch.sigmoid(torch.tensor(1.0))) < 0.04


def fixed(encoder, text, image):
    """Vectors of three rows, each again and again, in the place of the towers' own."""

    def put(_, inputs, states):
        rows = inputs[0].sample % 3
        return states._replace(vectors=Vectors(text=text[rows], image=image[rows]))

    encoder.towers.register_forward_hook(put)


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_the_texts_that_a_picture_is_like_are_drawn_the_more_often_the_colder(temperature):
    """Neither the texts that are least like it, nor those whose picture its text is like."""
    encoder, objective = connected(temperature=temperature)
    cosine = torch.tensor([[1.0, 0.6, 0.0], [-0.6, 1.0, 0.3], [0.2, -0.7, 1.0]])  # of pictures with texts, before lengths of 1
    fixed(encoder, torch.eye(3), cosine)
    read = []
    encoder.stream.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    batch = take(captions([4, 5, 6]), torch.arange(3).repeat(200))._replace(epoch=torch.arange(200).repeat_interleave(3))
    objective.read(encoder, objective.mark(batch))
    drawn = read[-1].text.present.sum(1)[600:].view(200, 3) - 4
    for row in range(3):
        near, far = (other for other in range(3) if other != row)
        shares = torch.softmax(cosine[row] / cosine[row].norm() / temperature, 0)
        expected = shares[near] / (shares[near] + shares[far])
        assert abs((drawn[:, row] == near).float().mean() - expected) < 0.1, row


def test_a_text_that_reads_the_same_is_no_hard_negative_though_its_item_differs():
    encoder, objective = connected(temperature=0.01)
    fixed(encoder, torch.ones(3, 2), torch.ones(3, 2))
    batch = captions([5, 5, 7], items=[1, 2, 3])
    marked = objective.mark(batch._replace(text=take(batch.text, torch.tensor([0, 0, 2]))))
    read = []
    encoder.stream.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    assert score(encoder, objective, marked).count == 6
    assert [own_text(read[-1], row) for row in (3, 4)] == [own_text(batch, 2)] * 2


def test_vectors_of_half_precision_are_compared_in_full():
    """Their lengths are beyond what float16 holds: every similarity would be 0, or no number."""
    vectors = torch.tensor([[4e4, 4e4, 4e4], [4e4, -4e4, 4e4]], dtype=torch.float16)
    with torch.autocast("cpu", torch.float16):
        similarity = compare(vectors, vectors)
    torch.testing.assert_close(similarity, torch.tensor([[1.0, 1 / 3], [1 / 3, 1.0]]))


def test_vectors_that_are_not_finite_say_nothing():
    """Pitfall O07: infinite similarities."""
    vectors = torch.tensor([[1.0, 0.0], [math.inf, 1.0], [math.nan, 0.0], [1e30, 1e30]])
    similarity = compare(vectors, vectors)
    assert similarity.isfinite().all()
    assert (similarity[1:3] == 0).all()
    assert similarity[0, 0] == 1
    drawn = draw_negative(similarity / 1e-3, ~torch.eye(4, dtype=torch.bool), torch.zeros(4, 4, dtype=torch.float64))
    assert (drawn != torch.arange(4)).all()


@pytest.mark.parametrize(
    "batch", [captions([0, 0]), captions()._replace(text=None), tiny.batch()], ids=["empty texts", "no text", "no picture"]
)
def test_nothing_to_match_costs_exactly_nothing_with_finite_gradients(batch):
    encoder, objective = connected()
    marked = objective.mark(batch)
    loss = score(encoder, objective, marked)
    assert loss.total.item() == 0
    assert loss.count == objective.count(marked) == 0
    gradients = torch.autograd.grad(loss.total, list(objective.parameters()), allow_unused=True, materialize_grads=True)
    assert all((gradient == 0).all() for gradient in gradients)


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected()
    marked = objective.mark(captions(LENGTHS[:3]))
    reach_half(lambda: score(encoder, objective, marked).total, encoder.stream, objective)


def test_refuses_encoders_that_do_not_fuse_or_give_no_vectors():
    with pytest.raises(ValueError, match="fuses nothing"):
        HardImageTextMatching().connect(tiny.two_towers())
    with pytest.raises(ValueError, match="Fused gives no vectors"):
        HardImageTextMatching().connect(tiny.single_stream())


def test_refuses_a_temperature_of_nothing():
    with pytest.raises(ValueError, match=r"temperature is 0.0"):
        HardImageTextMatching(temperature=0.0)
