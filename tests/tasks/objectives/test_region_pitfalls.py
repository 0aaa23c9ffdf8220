"""What others stumbled over, for every objective that reads pictures beside texts: rows of nothing, in any precision."""

import pytest
import tiny
import torch
from costs import gradients, score
from region_pairs import NOTHING, check_nothing, connected, pictures
from torch import nn

from interlingua.modalities.batch import take
from interlingua.models.region_embeddings import TypedRegions
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.hard_image_text_matching import HardImageTextMatching
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.masked_region_classification import MaskedRegionClassification
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.objectives.region_contrast import RegionContrast
from interlingua.tasks.objectives.region_hiding import RegionHiding
from interlingua.tasks.objectives.word_region_alignment import WordRegionAlignment

HALF = RegionHiding(0.5, other=0.3)
OBJECTIVES = {
    "mlm": lambda: MaskedLanguage(0.5),
    "hard": lambda: MaskedRegionClassification(tiny.CLASSES, hiding=HALF),
    "soft": lambda: MaskedRegionClassification(tiny.CLASSES, "soft", hiding=HALF),
    "weighted": lambda: MaskedRegionClassification(tiny.CLASSES, over="all_weighted", hiding=HALF),
    "features": lambda: MaskedRegionFeatures(tied=True, hiding=HALF),
    "contrast": lambda: RegionContrast(8, hiding=HALF),
    "alignment": WordRegionAlignment,
    "matching": lambda: ImageTextMatching(replaced="either"),
}
ALIGNED = {"itc": Contrast, "hard matching": HardImageTextMatching}
"""Objectives that compare vectors of text and picture before they meet."""
LENGTHS, COUNTS = [0, 7, 2, 9, 0], [4, 0, 3, 5, 0]
"""A text or a picture is missing, or both; the third text has no word."""


def mixed():
    return pictures(COUNTS, LENGTHS, padded=7)


def build(name):
    if name in OBJECTIVES:
        return connected(OBJECTIVES[name]())
    torch.manual_seed(0)
    picture = TypedRegions(tiny.FEATURES, tiny.WIDTH, dropout=0.0)
    text, layers = tiny.text_tower(segments=2), tiny.transformer(1)
    encoder = tiny.fused("text, picture, joint", text, picture, layers=layers, vector_width=24, pooling="mean")
    return connected(ALIGNED[name](), encoder)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [*OBJECTIVES, *ALIGNED])
def test_rows_of_nothing_give_finite_costs_and_gradients(name, precision):
    """Pitfalls O10 and R03."""
    encoder, objective = build(name)
    nn.init.normal_(encoder.picture.mask, std=0.02)  # the gradient of a norm over zeros is beyond half precision
    marked = objective.mark(mixed())
    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) > 0
    assert loss.total.dtype == torch.float32
    assert loss.total.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients(encoder, objective, loss.total))


@pytest.mark.parametrize("name", [*OBJECTIVES, *ALIGNED])
def test_rows_of_nothing_change_no_other_row(name):
    """Pitfalls O10 and R03: the cost is that without them, to 1e-6."""
    encoder, objective = build(name)
    batch = mixed()
    pool = objective.lend(batch)
    marked = objective.mark(batch, pool)
    some = take(marked, torch.tensor([0, 1, 2, 3]))
    whole, part = (score(encoder, objective, one) for one in (marked, some))
    assert whole.count == part.count
    torch.testing.assert_close(whole.total, part.total, rtol=1e-6, atol=1e-6)
    assert score(encoder, objective, take(marked, torch.tensor([4]))).total.item() == 0


@pytest.mark.parametrize("name", ALIGNED)
@pytest.mark.parametrize("batch", NOTHING)
def test_nothing_to_compare_costs_exactly_nothing(name, batch):
    """Pitfall R03: vectors of pictures in which nothing was found."""
    check_nothing(*build(name), NOTHING[batch]())
