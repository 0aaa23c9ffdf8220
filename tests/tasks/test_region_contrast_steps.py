"""A step of region contrast is the same however it is split over micro-batches and ranks."""

import streams
import tiny
import torch
import training
from ranks import run_on_ranks

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.objective import Embeddings
from interlingua.tasks.objectives.region_contrast import RegionContrast
from interlingua.tasks.objectives.region_hiding import RegionHiding
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.ranks import world


def one_step(rank, ranks, micro, kind=RegionContrast):
    """Eight pictures, some of them replaced, two without regions, one item twice; negatives are fewer than there are."""
    torch.manual_seed(0)
    hiding = RegionHiding(0.4, other=0.5)
    own = {"itm": ImageTextMatching(replaced="picture"), "nce": kind(6, 0.5, hiding), "all": kind(None, hiding=hiding)}
    model = Pretraining(tiny.region_stream(), own, {"captions": [list(own)]}, Optimization(1e-2, warmup_steps=2), seed=3)

    def change(batch):
        return batch._replace(image=None, regions=take(tiny.regions([5, 0, 9, 1, 3, 7, 0, 4], 9), batch.sample % 8))

    return streams.one_step(model, training.Steps(1, rank, ranks, micro, ("captions",), change)[0])


def on_ranks():
    return one_step(*world(), 2)


class Alone(RegionContrast):
    """Negatives of the micro-batch alone: what the check must tell from the right ones."""

    coupled = False

    def loss(self, states, marked):
        own = self.embed(states, marked)
        return self.contrast(own, Embeddings(*own), 0)


def test_one_by_eight_is_two_by_four_is_four_by_two():
    whole = one_step(0, 1, 1)
    assert min(whole[1].values()) > 5
    streams.assert_equal_steps(whole, one_step(0, 1, 2))
    streams.assert_equal_steps(whole, one_step(0, 1, 4))
    assert abs(one_step(0, 1, 4, Alone)[0]["nce"] - whole[0]["nce"]) > 0.01
    for found in run_on_ranks(on_ranks, 2):
        streams.assert_equal_steps(whole, found)
