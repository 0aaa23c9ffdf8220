"""Plans in which text and picture never meet: two towers over regions, with a vector of both as their product."""

import pytest
import tiny
import torch

from interlingua.models.fused import Fused
from interlingua.models.fused_presets import Pool, vilbert
from interlingua.models.pooling import JointPooler, pool
from interlingua.models.region_embeddings import SummedRegions
from interlingua.models.towers import TextTower
from interlingua.models.transformer import Transformer
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching

PLAN = "2 text, picture"


def build(**options) -> Fused:
    torch.manual_seed(0)
    picture = SummedRegions(tiny.FEATURES, tiny.WIDTH, dropout=0.0)
    pooler = options.pop("pooler", JointPooler(tiny.WIDTH, tiny.WIDTH, "product"))
    text = TextTower(tiny.embeddings(), tiny.transformer())
    return Fused(PLAN, text, picture, Transformer(tiny.WIDTH, 1, 4, dropout=0.0), pooler=pooler, **options)


def batch(counts=(3, 5, 0, 2)):
    """Four samples; the third has no region, the fourth no text."""
    return tiny.batch([7, 4, 5, 0])._replace(text=tiny.text([7, 4, 5, 0], padded=9), regions=tiny.regions(counts))


def test_neither_changes_the_others_states_and_the_product_is_of_both():
    encoder, given = build(vector_width=6).eval(), batch()
    both, text, picture = (encoder(one) for one in (given, given._replace(regions=None), given._replace(text=None)))
    assert torch.allclose(both.text, text.text, atol=1e-6)
    assert torch.allclose(both.regions, picture.regions, atol=1e-6)
    assert torch.allclose(both.text, encoder.text.encode(given.text)[0], atol=1e-6)
    first = pool(both.text, given.text.present, "first")
    joint = torch.tanh(encoder.pooler.text(first))
    places = encoder.picture.places(given)
    whole = encoder.picture_layers.block(1)(encoder.picture(given, encoder.text.embeddings).picture[None, :4], None)[0, 0]
    assert places.present.sum(1).tolist() == [4, 6, 0, 3]
    assert torch.allclose(both.joint[0], joint[0] * torch.tanh(encoder.pooler.picture(whole)), atol=1e-6)
    assert torch.allclose(both.vectors.text[0], encoder.projections["text"](first[0]), atol=1e-6)
    assert torch.allclose(both.vectors.image[0], encoder.projections["picture"](whole), atol=1e-6)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_vectors_do_not_depend_on_padding_or_on_neighbours(pooling):
    """Pitfall M10, for a text and for a picture's regions: alone, beside longer ones, and padded on the left."""
    encoder = build(vector_width=6, pooling=pooling).eval()
    alone = encoder(tiny.batch([5])._replace(regions=tiny.regions([3]))).vectors
    for left in (False, True):
        beside = tiny.batch([5, 40])._replace(text=tiny.text([5, 40], padded=50, left=left), regions=tiny.regions([3, 9], 12))
        found = encoder(beside).vectors
        for one, other in ((found.text, alone.text), (found.image, alone.image)):
            torch.testing.assert_close(one[:1], other, atol=1e-5, rtol=0)
            assert not torch.allclose(one[1], other[0], atol=1e-3)


def test_contrast_compares_texts_with_regions():
    """Rows with both, each against the others; a row's cost by hand."""
    encoder, given, objective = build(vector_width=6), batch(), Contrast()
    objective.connect(encoder)
    states = encoder(given)
    found = objective.embed(states, given)
    assert found.identity[:, 0].tolist() == [0, 1]
    vectors = [torch.nn.functional.normalize(one[:2], dim=1) for one in (states.vectors.text, states.vectors.image)]
    scores = vectors[0] @ vectors[1].T * objective.scale.exp()
    right = torch.arange(2)
    expected = sum(torch.nn.functional.cross_entropy(one, right, reduction="sum") for one in (scores, scores.T)) / 2
    loss = objective.loss(states, given)
    assert loss.count == 2
    torch.testing.assert_close(loss.total, expected)
    loss.total.backward()
    assert encoder.picture.feature.weight.grad.abs().sum() > 0
    text_alone = given._replace(regions=None)
    assert objective.count(text_alone) == 0
    assert objective.loss(encoder(text_alone), text_alone).total == 0


def test_matching_is_learned_from_the_product_alone():
    encoder, objective = build(), ImageTextMatching()
    objective.connect(encoder)
    given = batch()._replace(matched=torch.tensor([True, False, True, True]))
    loss = objective.loss(encoder(given), given)
    assert loss.count == 2
    loss.total.backward()
    assert all(encoder.pooler.get_submodule(name).weight.grad.abs().sum() > 0 for name in ("text", "picture"))


def test_the_preset_of_two_towers_has_no_layer_between_them():
    text = TextTower(tiny.embeddings(), tiny.transformer())
    options = {"width": 24, "heads": 4, "inner": 48, "pool": Pool("product", 16, "relu")}
    encoder = vilbert(text, tiny.FEATURES, "2 text, 2 picture", vector_width=8, **options)
    assert not list(encoder.cross.parameters())
    assert (encoder.widths["joint"], encoder.vector_width) == (16, 8)


def test_a_joint_vector_of_one_alone_is_refused():
    for how, other in (("text", "picture"), ("picture", "text")):
        with pytest.raises(ValueError, match=f"nothing attends to the {other} in what makes the joint vector, the first"):
            build(pooler=JointPooler(tiny.WIDTH, tiny.WIDTH, how), vector_width=6)
    with pytest.raises(ValueError, match="text and picture never meet"):
        build(pooler=JointPooler(tiny.WIDTH, tiny.WIDTH, "none"))
