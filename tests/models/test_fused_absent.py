"""Samples without regions, without text, or with neither, in every way to embed regions: pitfalls R03, R05 and O10."""

import pytest
import torch
from foreign_fused import FEATURES, batch, shake, tower

from interlingua.modalities.batch import take
from interlingua.models import fused_presets
from interlingua.models.fused_layouts import LXMERT_PART
from interlingua.models.fused_presets import Pool

VILBERT = {"plan": "text, 2 x (cross, own)", "width": 24, "heads": 3, "inner": 40}
BUILD = {
    "vilbert": lambda: fused_presets.vilbert(tower(3), FEATURES, **VILBERT),
    "lxmert": lambda: fused_presets.lxmert(tower(3), FEATURES, f"text, picture, 2 x {LXMERT_PART}"),
    "uniter": lambda: fused_presets.uniter(tower(), FEATURES, "3 joint"),
    "muniter": lambda: fused_presets.uniter(tower(), FEATURES, "3 joint", 5, "first", False, pool=Pool("product", 20, "relu")),
    "visualbert": lambda: fused_presets.visualbert(tower(), FEATURES, "3 joint"),
    "vl_bert": lambda: fused_presets.vl_bert(tower(segments=3), FEATURES, "3 joint", pool=Pool()),
    "m3p": lambda: fused_presets.m3p(tower(family="xlm-roberta"), FEATURES, "3 joint"),
}
NAME = pytest.mark.parametrize("name", BUILD)
TYPES = pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16], ids=["float32", "bfloat16", "float16"])


def build(name):
    return shake(BUILD[name]()).eval()


def given_to(name, counts, lengths=(8, 5, 4)):
    family = "xlm-roberta" if name == "m3p" else "bert"
    return batch(lengths=lengths, counts=counts, family=family, segments=family == "bert")


@NAME
def test_a_sample_without_regions_is_read_as_its_text_alone(name):
    """Pitfall R03: a picture in which nothing was found, beside others, and in a batch of nothing else."""
    encoder = build(name)
    for counts in ((5, 0, 6), (0, 0, 0)):
        given = given_to(name, counts)
        states, alone = encoder(given), encoder(given._replace(regions=None))
        for row, count in enumerate(counts):
            same = torch.allclose(states.text[row], alone.text[row], atol=1e-5)
            assert same == (not count)
        assert not states.regions[1].any()
        if name == "uniter":
            assert torch.allclose(states.joint[1], alone.joint[1], atol=1e-5)


@NAME
@TYPES
def test_rows_of_nothing_are_finite_and_change_no_other(name, dtype):
    """Pitfall O10: no text in one row, no regions in another, neither in a third; gradients are finite too."""
    encoder = build(name)
    given = given_to(name, (5, 0, 6, 0), (8, 5, 0, 0))
    present = given.regions.present & torch.tensor([True, False, True, False])[:, None]
    given = given._replace(regions=given.regions._replace(present=present))
    with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
        states = encoder(given)
    (states.text.float().sum() + states.regions.float().sum() + states.joint.float().sum()).backward()
    for one in (states.text, states.regions, states.joint):
        assert one.isfinite().all()
    assert all(one.grad is None or one.grad.isfinite().all() for one in encoder.parameters())
    assert not states.text[2:].any()
    assert not states.regions[[1, 3]].any()
    if dtype is None:
        for row in range(4):
            one = encoder(take(given, torch.tensor([row])))
            assert torch.allclose(one.text[0], states.text[row], atol=1e-5)
            assert torch.allclose(one.regions[0], states.regions[row], atol=1e-5)
            assert torch.allclose(one.joint[0], states.joint[row], atol=1e-5)


def plain_attention(query, key, value, mask, dropout):
    """In which a place that may see nothing gets no number."""
    scores = query @ key.transpose(2, 3) / query.shape[3] ** 0.5
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(3) @ value


@NAME
def test_plain_sums_give_what_the_kernel_gives_where_there_is_nothing(name, monkeypatch):
    """Pitfall O10: in states and gradients; no place is left that may see nothing."""
    given, found = given_to(name, (5, 0, 6, 0), (8, 5, 0, 0)), []
    for attention in (None, plain_attention):
        if attention is not None:
            monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
        encoder = build(name)
        states = encoder(given)
        (states.text.square().sum() + states.regions.square().sum() + states.joint.square().sum()).backward()
        gradients = [one.grad for one in encoder.parameters() if one.grad is not None]
        found.append([states.text, states.regions, states.joint, *gradients])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@NAME
def test_what_stands_in_the_padding_of_regions_changes_nothing(name):
    """Pitfall R05."""
    encoder, given = build(name), given_to(name, (5, 3, 6))
    absent = ~given.regions.present[..., None]
    other = given.regions._replace(
        features=given.regions.features.masked_fill(absent, 1e3), boxes=given.regions.boxes.masked_fill(absent, 0.7)
    )
    one, two = encoder(given), encoder(given._replace(regions=other))
    assert torch.equal(one.text, two.text)
    assert torch.equal(one.regions, two.regions)
    assert torch.equal(one.joint, two.joint)


@NAME
def test_no_weight_is_dead(name):
    """All weights have a gradient, but those of positions and words that are not there, and of what is masked."""
    encoder, given = build(name), given_to(name, (5, 3, 6))
    hidden = torch.zeros_like(given.regions.present)
    hidden[0, 0] = True
    shown = given.regions.features.masked_fill(hidden[..., None], 0)
    states = encoder(given._replace(regions=given.regions._replace(shown=shown, hidden=hidden)))
    (states.text.square().sum() + states.regions.square().sum() + states.joint.sum()).backward()
    for part, parameter in encoder.named_parameters():
        assert parameter.grad is not None, part
        assert parameter.grad.any(), part
