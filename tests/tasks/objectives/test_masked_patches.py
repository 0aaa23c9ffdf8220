"""Masked patch modelling: what is hidden of a picture, and what its colours and pixels cost by hand."""

import math

import pytest
import tiny
import torch
from costs import check_saves_alone, check_sum, gradients, score
from learning import reach_half
from region_pairs import connected
from torch import nn

from interlingua.modalities.batch import take
from interlingua.modalities.image_front_ends import ConvolutionStem, Patches
from interlingua.models.picture_embeddings import ImageEmbeddings
from interlingua.models.towers import ImageTower
from interlingua.tasks.objectives.masked_patches import MaskedPatches, cut_patches, mean_colours

TARGETS = ["colour", "pixels", "normalised"]


def patches(size=16, **options):
    return Patches(tiny.WIDTH, patch=8, size=size, maskable=True, **options)


def stream(front_end=None):
    return tiny.fused("2 joint", picture=ImageEmbeddings(front_end or patches(), tiny.WIDTH, dropout=0.0))


def masked(front_end=None, **options):
    return connected(MaskedPatches(**options), stream(front_end))


def pictures(count=4, size=16):
    return tiny.batch([4 + row % 5 for row in range(count)], image=tiny.image(count, size))


def test_patches_are_hidden_at_the_rate_and_pixels_stay():
    _, objective = masked(patches(64), rate=0.6)
    batch = pictures(200, 64)
    present = torch.arange(200) % 5 > 0
    marked = objective.mark(batch._replace(image=batch.image._replace(present=present))).image
    assert marked.hidden.shape == (200, 64)
    assert not marked.hidden[~present].any()
    assert abs(marked.hidden[present].float().mean() - 0.6) < 0.015
    assert marked.pixels.equal(batch.image.pixels)


def test_draws_depend_on_sample_epoch_source_and_key():
    _, objective = masked(patches(64))
    batch = pictures(3, 64)
    hidden = objective.mark(batch).image.hidden
    order = torch.tensor([2, 0, 1])
    assert objective.mark(take(batch, order)).image.hidden.equal(hidden[order])
    for other in (batch._replace(sample=batch.sample + 3), batch._replace(epoch=batch.epoch + 1), batch._replace(source="b")):
        assert (objective.mark(other).image.hidden != hidden).any()
    objective.key += 1
    assert (objective.mark(batch).image.hidden != hidden).any()


def test_a_hiding_that_is_there_is_kept():
    _, objective = masked()
    marked = objective.mark(pictures())
    objective.key += 1
    assert objective.mark(marked) is marked


def test_nothing_of_a_hidden_patch_is_read():
    encoder, objective = masked()
    marked = objective.mark(pictures())
    cells = marked.image.hidden.view(4, 1, 2, 1, 2, 1).expand(-1, 3, -1, 8, -1, 8).reshape(4, 3, 16, 16)
    changed = marked._replace(image=marked.image._replace(pixels=torch.where(cells, 255, marked.image.pixels)))
    assert (changed.image.pixels != marked.image.pixels).any()
    torch.testing.assert_close(encoder(changed).image, encoder(marked).image, rtol=0, atol=0)


def test_an_ignorant_head_costs_log_512_a_patch():
    encoder, objective = masked()
    nn.init.zeros_(objective.head.weight)
    marked = objective.mark(pictures())
    loss = score(encoder, objective, marked)
    assert loss.count == objective.count(marked) == marked.image.hidden.sum() > 0
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(512), rel=1e-5)


def test_mean_colours_are_three_bits_of_each_channel():
    """Red 255, green 31.5 and blue 32 on average: levels 7, 0 and 1."""
    cells = torch.tensor([[[255] * 4, [31, 32, 31, 32], [0, 0, 64, 64]], [[0] * 4] * 3, [[255] * 4] * 3], dtype=torch.uint8)
    assert mean_colours(cells).tolist() == [7 * 64 + 0 * 8 + 1, 0, 511]


def test_patches_are_cut_as_the_front_end_reads_them():
    front_end = patches()
    image = tiny.image(2)
    cells = front_end.normalise(cut_patches(image.pixels, 8), channels=2).flatten(2)
    torch.testing.assert_close(front_end.project(cells) + front_end.positions(2, 2), front_end(image))
    assert cut_patches(image.pixels, 8)[1, 2, 0].view(8, 8).equal(image.pixels[1, 0, 8:, :8])


@pytest.mark.parametrize("target", ["pixels", "normalised"])
def test_a_head_that_says_nothing_costs_the_pixels_by_hand(target):
    encoder, objective = masked(target=target)
    nn.init.zeros_(objective.head.weight)
    marked = objective.mark(pictures())
    loss, expected, count = score(encoder, objective, marked), 0.0, 0
    for row, place in marked.image.hidden.nonzero().tolist():
        top, left = 8 * (place // 2), 8 * (place % 2)
        cell = marked.image.pixels[row, :, top : top + 8, left : left + 8].double()
        if target == "pixels":
            expected, count = expected + (cell / 127.5 - 1).abs().sum(), count + 192
        else:
            normal = (cell - cell.mean()) / cell.var(unbiased=False).sqrt()
            expected, count = expected + (normal**2).sum(), count + 192
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-4)
    assert loss.count == objective.count(marked) == count > 0


def test_a_patch_of_one_colour_has_a_finite_target():
    encoder, objective = masked(target="normalised")
    batch = pictures()
    flat = batch._replace(image=batch.image._replace(pixels=torch.full_like(batch.image.pixels, 200)))
    assert score(encoder, objective, objective.mark(flat)).total.isfinite()


@pytest.mark.parametrize("target", TARGETS)
def test_only_states_of_hidden_patches_are_asked_to_change(target):
    encoder, objective = masked(target=target)
    marked = objective.mark(pictures())
    states = encoder(marked)
    leaf = states.image.detach().requires_grad_()
    objective.loss(states._replace(image=leaf), marked).total.backward()
    assert (leaf.grad[~marked.image.hidden] == 0).all()
    assert (leaf.grad[marked.image.hidden] != 0).any(1).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["rate", "no picture", "absent pictures", "no row"])
def test_nothing_hidden_costs_exactly_nothing(target, kind):
    encoder, objective = masked(target=target, rate=0.0 if kind == "rate" else 1.0)
    batch = pictures()
    absent = batch.image._replace(present=torch.zeros_like(batch.image.present))
    given = {
        "no picture": tiny.batch(),
        "absent pictures": batch._replace(image=absent),
        "no row": take(batch, torch.arange(0)),
    }
    marked = objective.mark(given.get(kind, batch))
    loss = score(encoder, objective, marked)
    assert loss.total.item() == loss.count.item() == objective.count(marked).item() == 0
    assert loss.total.requires_grad
    assert all(gradient.isfinite().all() for gradient in gradients(encoder, objective, loss.total))


@pytest.mark.parametrize("target", TARGETS)
def test_the_whole_is_the_sum_of_its_samples_each_marked_alone(target):
    encoder, objective = masked(target=target)
    batch = pictures()
    rows = [take(batch, torch.tensor([row])) for row in range(4)]
    whole, *parts = (score(encoder, objective, objective.mark(one)) for one in (batch, *rows))
    check_sum(whole, parts)


@pytest.mark.parametrize("target", TARGETS)
def test_the_cost_halves_in_sixty_steps(target):
    encoder, objective = masked(target=target)
    batch = pictures()
    shades = (torch.arange(4)[:, None, None, None] * 60 + torch.arange(16)[:, None] * 3).expand(4, 3, 16, 16).to(torch.uint8)
    marked = objective.mark(batch._replace(image=batch.image._replace(pixels=shades)))
    reach_half(lambda: score(encoder, objective, marked).total, encoder, objective)


def test_a_tower_of_pictures_learns_it_alone():
    encoder, objective = connected(MaskedPatches(), ImageTower(patches(), tiny.transformer()))
    marked = objective.mark(pictures()._replace(text=None))
    assert score(encoder, objective, marked).count > 0
    check_saves_alone(objective)


def test_refuses_what_it_cannot_hide():
    with pytest.raises(ValueError, match=r"rate is 1\.5"):
        MaskedPatches(rate=1.5)
    with pytest.raises(ValueError, match="no vector for hidden patches; give it `maskable: true`"):
        connected(MaskedPatches(), tiny.single_stream())
    for encoder in (tiny.text_tower(), stream(ConvolutionStem(tiny.WIDTH, (8, 16), 0, 16, maskable=True))):
        with pytest.raises(ValueError, match="by the front end Patches"):
            connected(MaskedPatches(), encoder)
