"""What is left of a modality's losses without the other, and with another sample's."""

import math

import pytest
import tiny
import torch

from interlingua.modalities.batch import take
from interlingua.tasks.ablation import measure_ablation
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining


@pytest.fixture
def module():
    torch.manual_seed(0)
    objectives = {"itm": ImageTextMatching(), "mlm": MaskedLanguage(0.4), "mrfr": MaskedRegionFeatures()}
    passes = {"captions": [["itm", "mlm", "mrfr"]]}
    return Pretraining(tiny.region_stream(), objectives, passes, Optimization(learning_rate=1e-3)).eval()


def captions(items=None, lengths=(7, 5, 9, 4)):
    return tiny.batch(lengths, items, regions=tiny.regions([3, 2, 4, 3][: len(lengths)]))


def test_losses_of_each_side_by_hand(module):
    given = captions()
    words, told, regions = measure_ablation(module, [given])
    assert (words.figure, told.figure, regions.figure) == ("loss", "accuracy", "loss")
    assert (words.objective, words.taken, regions.objective, regions.taken) == ("mlm", "picture", "mrfr", "text")
    with torch.no_grad():
        marked = given
        for name in ("mlm", "mrfr"):  # nothing is replaced: pairs belong together
            marked = module.objectives[name].mark(marked)
        blank = marked._replace(regions=marked.regions._replace(present=torch.zeros_like(marked.regions.present)))
        for found, read in ((words.whole, marked), (words.without, blank)):
            loss = module.objectives["mlm"].loss(module.encoder(read), marked)
            assert found == pytest.approx(float(loss.total / loss.count), rel=1e-5)
        partner = torch.tensor([1, 2, 3, 0])
        other = marked._replace(regions=take(marked.regions, partner))
        loss = module.objectives["mlm"].loss(module.encoder(other), other)
        assert words.swapped == pytest.approx(float(loss.total / loss.count), rel=1e-5)
        right = module.objectives["mlm"].tally(module.encoder(other), other)["accuracy"]
        assert told.swapped == pytest.approx(float(right[0] / right[1]))
    assert words.count == told.count == int(marked.text.hidden.sum())
    assert len({round(value, 4) for value in (words.whole, words.without, words.swapped)}) == 3


def test_halves_of_the_data_are_the_whole(module):
    given = captions()
    whole = measure_ablation(module, [given])
    halves = measure_ablation(module, [take(given, torch.arange(2)), take(given, torch.arange(2, 4))])
    for one, two in zip(whole, halves, strict=True):
        assert (one.count, one.objective) == (two.count, two.objective)
        assert one.whole == pytest.approx(two.whole, rel=1e-5)
        assert one.without == pytest.approx(two.without, rel=1e-5)


def test_a_picture_of_the_same_item_is_no_other(module):
    """Captions of one picture are not swapped for each other; a row without a partner is not scored with another's."""
    assert math.isnan(measure_ablation(module, [captions(items=[5, 5, 5, 5])])[0].swapped)
    assert math.isnan(measure_ablation(module, [captions(lengths=(7,))])[0].swapped)
    assert not math.isnan(measure_ablation(module, [captions(items=[5, 5, 6, 6])])[0].swapped)


def test_sources_without_both_are_left_out(module):
    assert measure_ablation(module, [tiny.batch(), captions()._replace(source="others"), captions()._replace(text=None)]) == []
