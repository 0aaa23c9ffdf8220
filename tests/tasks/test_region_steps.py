"""A step over regions is the same however it is split over micro-batches and ranks."""

import streams
import tiny
import torch
import training
from ranks import run_on_ranks

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.masked_region_classification import MaskedRegionClassification
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.objectives.region_hiding import RegionHiding
from interlingua.tasks.objectives.word_region_alignment import WordRegionAlignment
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.ranks import world

LXMERT = RegionHiding(0.4, keep=0.1, other=0.5, neighbours=0.4)
COUNTS, HALF = [5, 0, 9, 1, 3, 7, 0, 4], [5, 2, 9, 1, 0, 0, 0, 0]


def objectives():
    """Pictures are replaced first, so that hidden regions may be of other items, and another's features shown there."""
    return {
        "itm": ImageTextMatching(replaced="either"),
        "mlm": MaskedLanguage(0.3, on="matched"),
        "mrc": MaskedRegionClassification(tiny.CLASSES, hiding=LXMERT, on="matched"),
        "kl": MaskedRegionClassification(tiny.CLASSES, "soft", divisor="regions_classes", hiding=LXMERT),
        "objects": MaskedRegionClassification(tiny.CLASSES, over="all_weighted", hiding=LXMERT),
        "wra": WordRegionAlignment(),
        "mrfr": MaskedRegionFeatures("smooth_l1", "all_features", tied=True, hiding=LXMERT),
    }


def model():
    torch.manual_seed(0)
    options = Optimization(1e-2, warmup_steps=2, weight_decay=0.1)
    own = objectives()
    return Pretraining(tiny.region_stream(), own, {"captions": [list(own)]}, options, seed=3)


def one_step(rank, ranks, micro, counts=COUNTS):
    def change(batch):
        return batch._replace(image=None, regions=take(tiny.regions(counts, 9), batch.sample % 8))

    return streams.one_step(model(), training.Steps(1, rank, ranks, micro, ("captions",), change)[0])


def on_ranks():
    """In two micro-batches a rank; and in one, of which the second rank has no region (pitfall R03)."""
    return one_step(*world(), 2), one_step(*world(), 1, HALF)


def test_one_by_eight_is_two_by_four_is_four_by_two():
    whole, half = one_step(0, 1, 1), one_step(0, 1, 1, HALF)
    assert min(*whole[1].values(), *half[1].values()) > 0
    assert whole[1]["itm"] == 6
    streams.assert_equal_steps(whole, one_step(0, 1, 2))
    streams.assert_equal_steps(whole, one_step(0, 1, 4))
    for found in run_on_ranks(on_ranks, 2):
        streams.assert_equal_steps(whole, found[0])
        streams.assert_equal_steps(half, found[1])
