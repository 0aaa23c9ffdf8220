"""VisualBERT and LXMERT against Hugging Face's own with the same random weights: states, heads and gradients of every weight,
both paddings, both precisions; and every well-known wrong choice is caught."""

import pytest
import torch
from foreign_fused import batch, build, ours, part, read_names, reference, states_of, theirs
from foreign_models import apart

from interlingua.models import fused_layouts
from interlingua.models.fused_presets import Pool
from interlingua.models.region_head import RegionHead

pytest.importorskip("transformers")
NAMES = ["visualbert", "lxmert"]
NAME = pytest.mark.parametrize("name", NAMES)
PRECISIONS = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["32", "64"])
PADDING = pytest.mark.parametrize("left", [False, True], ids=["right", "left"])


def counts(name):
    """Regions of each sample; a VisualBERT of theirs reads a sample without any, an LXMERT of theirs makes nothing of it."""
    return (5, 0, 6) if name == "visualbert" else (5, 3, 6)


@NAME
@PADDING
@PRECISIONS
def test_states_and_heads(name, left, dtype, tolerance):
    model = reference(name).to(dtype)
    encoder, head, matching = ours(name, model)
    given = batch(left, counts=counts(name), dtype=dtype)
    with torch.no_grad():
        right = batch(counts=counts(name), dtype=dtype)
        text, picture, joint = states_of(name, model, right)
        scores, states = theirs(name, model, right), encoder(given)
    there = given.text.present
    assert apart(states.text[there], text) < tolerance
    assert apart(states.regions[given.regions.present], picture) < tolerance
    assert apart(states.joint, joint) < tolerance
    words = scores.prediction_logits[:, : there.shape[1]][right.text.present]
    assert apart(head(states.text[there]), words) < tolerance
    pairs = scores.seq_relationship_logits if name == "visualbert" else scores.cross_relationship_score
    assert apart(matching(states.joint), pairs) < tolerance


@NAME
@PADDING
@PRECISIONS
def test_gradients_of_every_weight_in_training_mode(name, left, dtype, tolerance):
    model = reference(name).to(dtype).train()
    encoder, head, matching = ours(name, model)
    encoder.train(), head.train()
    given, right = (batch(one, counts=counts(name), dtype=dtype) for one in (left, False))
    states, there = encoder(given), given.text.present
    wanted, scores = states_of(name, model, right), theirs(name, model, right)
    weights = [torch.randn(one.shape, generator=torch.Generator().manual_seed(5), dtype=dtype) for one in wanted]
    found = (states.text[there], states.regions[given.regions.present], states.joint)
    mine = sum((one * weight).sum() for one, weight in zip(found, weights, strict=True))
    mine = mine + torch.nn.functional.cross_entropy(head(states.text[there]), given.text.tokens[there])
    mine = mine + torch.nn.functional.cross_entropy(matching(states.joint), torch.tensor([0, 1, 1]))
    words = scores.prediction_logits[:, : there.shape[1]][right.text.present]
    pairs = scores.seq_relationship_logits if name == "visualbert" else scores.cross_relationship_score
    other = sum((one * weight).sum() for one, weight in zip(wanted, weights, strict=True))
    other = other + torch.nn.functional.cross_entropy(words, right.text.tokens[right.text.present])
    other = other + torch.nn.functional.cross_entropy(pairs, torch.tensor([0, 1, 1]))
    mine.backward(), other.backward()
    want = read_names(
        {key: one.grad for key, one in model.named_parameters() if one.grad is not None}, layout_of(name, encoder)
    )
    assert not want.missing
    for module, start in ((encoder, "encoder"), (head, "head"), (matching, "matching")):
        expected = part(want, start)
        assert expected.keys() == dict(module.named_parameters()).keys()
        largest = max(one.abs().max() for one in expected.values())
        for key, parameter in module.named_parameters():
            found = parameter.grad
            if name == "lxmert" and key.endswith(("positions.weight", "segments.weight")):
                # their tables of positions and segments name row 0 as padding, and never learn it
                assert found[0].any()
                assert not expected[key][0].any()
                found, expected[key] = found[1:], expected[key][1:]
            assert (found - expected[key]).abs().max() < tolerance * largest, key


def test_heads_over_regions():
    """LXMERT's classes, attributes and features come of one inner layer; ours of one each, here with the same weights."""
    model = reference("lxmert")
    states = torch.randn(5, 32)
    want = model.obj_predict_head(states)
    inner = {f"{mine}.{end}": getattr(layer, end) for mine, layer in _inner(model) for end in ("weight", "bias")}
    assert set(want) == {"obj", "attr", "feat"}
    for name, layer in model.obj_predict_head.decoder_dict.items():
        head = RegionHead(32, layer.out_features)
        head.load_state_dict({**inner, "output.weight": layer.weight, "output.bias": layer.bias})
        assert apart(head(states), want[name]) < 1e-5


def _inner(model):
    transform = model.obj_predict_head.transform
    return ("dense", transform.dense), ("norm", transform.LayerNorm)


def layout_of(name, encoder):
    return getattr(fused_layouts, name)(encoder)


def difference(name, model, encoder):
    """Of states and pooled vectors, as a share of the largest."""
    given = batch()
    with torch.no_grad():
        found = encoder(given)
        want = states_of(name, model, given)
    return [
        apart(one, other)
        for one, other in zip(
            (found.text[given.text.present], found.regions[given.regions.present], found.joint), want, strict=True
        )
    ]


def test_a_picture_that_reads_the_text_after_it_was_updated_is_another_lxmert(monkeypatch):
    """Both directions of LXMERT's cross attention read the states before it."""
    model = reference("lxmert")
    encoder, _, _ = ours("lxmert", model)
    assert max(difference("lxmert", model, encoder)) < 1e-5
    attend = type(encoder)._attend

    def one_after_the_other(self, placed, rows, aligned):
        for stream, sources in placed.sublayer.reads.items():
            one = placed._replace(sublayer=placed.sublayer._replace(reads={stream: sources}))
            rows = attend(self, one, rows, aligned)
        return rows

    monkeypatch.setattr(type(encoder), "_attend", one_after_the_other)
    assert min(difference("lxmert", model, encoder)) > 1e-2


def test_positions_and_types_of_regions_are_missed():
    model = reference("visualbert")
    for table in ("positions", "types"):
        encoder, _, _ = ours("visualbert", model)
        getattr(encoder.picture, table).weight.data.zero_()
        assert min(difference("visualbert", model, encoder)) > 1e-2


def test_regions_outside_the_norm_of_the_text_are_another_visualbert(monkeypatch):
    model = reference("visualbert")
    encoder, _, _ = ours("visualbert", model)
    bare = lambda self, features, boxes, text: (  # noqa: E731
        self.feature(features) + self.types.weight[-1] + self.positions.weight[0]
    )
    monkeypatch.setattr(type(encoder.picture), "embed", bare)
    assert min(difference("visualbert", model, encoder)) > 1e-2


@NAME
def test_relu_is_another_pooler(name):
    model = reference(name)
    encoder, _, _ = ours(name, model, pool=Pool(activation="relu"))
    text, picture, joint = difference(name, model, encoder)
    assert max(text, picture) < 1e-5
    assert joint > 1e-2


def test_boxes_of_another_kind_or_a_sum_for_the_mean_are_another_lxmert(monkeypatch):
    model = reference("lxmert")
    encoder, _, _ = ours("lxmert", model)
    given = batch()
    turned = given._replace(regions=given.regions._replace(boxes=given.regions.boxes[..., [1, 0, 3, 2]]))
    assert apart(encoder(turned).regions, encoder(given).regions) > 1e-2
    whole = lambda self, f, b, text: self.feature_norm(self.feature(f)) + self.box_norm(self.box(b))  # noqa: E731
    monkeypatch.setattr(type(encoder.picture), "embed", whole)
    assert min(difference("lxmert", model, encoder)) > 1e-2


@NAME
def test_the_other_epsilon_shows(name):
    model = reference(name)
    encoder, _, _ = ours(name, model)
    for module in encoder.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
    assert max(difference(name, model, encoder)) > 1.5e-5


def test_a_plan_that_is_none_of_lxmerts_is_refused():
    with pytest.raises(ValueError, match="plan '3 joint' is none of LXMERT's; expected L text, R picture, X x"):
        fused_layouts.lxmert(build("visualbert"))
