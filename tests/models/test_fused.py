"""The fused encoder against the same sums written out sample by sample, without padding, rows or masks."""

import pytest
import tiny
import torch
import torch.nn.functional as F

from interlingua.modalities.batch import Image, take
from interlingua.modalities.image_front_ends import Patches
from interlingua.models.crossing import Cross
from interlingua.models.fused import Fused
from interlingua.models.picture_embeddings import ImageEmbeddings
from interlingua.models.plan import lay_out
from interlingua.models.pooling import JointPooler
from interlingua.models.towers import TextTower
from interlingua.models.transformer import Transformer

VILBERT = "text, 2 x (cross, own)"
LXMERT = "2 text, picture, 2 x (shared cross attention, own attention, own feed-forward)"
ALBEF = "picture, text, 2 x (text attention, text from picture attention, text feed-forward)"
PLANS = [VILBERT, LXMERT, ALBEF, "2 joint", "text, 2 x separate joint", "picture, 2 joint", "2 x text from both & picture"]


def build(plan, norm="post", width=tiny.WIDTH, **options) -> Fused:
    """An encoder with random weights everywhere, norms and biases too; `width` is the picture's."""
    torch.manual_seed(1)
    layers = lay_out(plan).layers
    text = TextTower(tiny.embeddings(norm=norm == "post"), tiny.transformer(layers["text"], norm=norm))
    picture = ImageEmbeddings(Patches(16, patch=8, size=16), width, dropout=0.0)
    own = (
        Transformer(
            width, layers["picture"], heads=4 if "both" in plan or "joint" in plan else 2, inner=40, norm=norm, dropout=0.0
        )
        if layers["picture"]
        else None
    )
    encoder = Fused(plan, text, picture, own, **options)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return encoder.eval()


def batch(left=False):
    """Four samples; the third has no picture, the fourth no text."""
    pictures = Image(tiny.image(4, seed=2).pixels, torch.tensor([True, True, False, True]))
    return tiny.batch([7, 4, 5, 0])._replace(text=tiny.text([7, 4, 5, 0], padded=9, left=left), image=pictures)


def heads_of(attention, states):
    """Query, key and value of a sample, `[heads, length, width]`: those of them that there are."""
    joined = F.linear(states, attention.inward.weight, attention.inward.bias)
    parts = joined.split(attention.inner, dim=1)
    return [part.unflatten(1, (attention.heads, -1)).transpose(0, 1) for part in parts]


def find(encoder, where):
    """The block that a sub-layer's weights are in."""
    if where.stack == "cross":
        return encoder.cross[where.number][where.part]
    return (encoder.text.transformer if where.stack == "text" else encoder.picture_layers).blocks[where.number]


def normed(block, states):
    """What attention reads: in a pre-norm block the normed states, unless it is only told."""
    return block.attention_norm(states) if block.prenorm and block.attention.asks else states


def by_hand(encoder, text, picture):
    """States of one sample by the plan, from the vectors of its streams."""
    states = {name: one for name, one in (("text", text), ("picture", picture)) if one is not None and len(one)}
    for number, (sublayer, weights) in enumerate(encoder.layout.sublayers):
        blocks = {stream: find(encoder, where) for stream, where in weights.items()}
        after = dict(states)
        for stream, sources in sublayer.reads.items():
            if stream not in states:
                continue
            block = blocks[stream]
            if sublayer.kind == "attention":
                sources = [source for source in sources if source in states]
                if not sources:
                    continue
                seen = [heads_of(blocks[name].attention, normed(blocks[name], states[name]))[-2:] for name in sources]
                query = heads_of(block.attention, normed(block, states[stream]))[0]
                keys, values = zip(*seen, strict=True)
                scores = query @ torch.cat(keys, 1).transpose(1, 2) / query.shape[2] ** 0.5
                found = block.attention.outward((scores.softmax(2) @ torch.cat(values, 1)).transpose(0, 1).flatten(1))
                moved = states[stream] + found
                after[stream] = moved if block.prenorm else block.attention_norm(moved)
            elif block.prenorm:
                after[stream] = states[stream] + block.feed_forward(block.feed_forward_norm(states[stream]))
            else:
                after[stream] = block.feed_forward_norm(states[stream] + block.feed_forward(states[stream]))
        states = after
        for stream in states:
            rest = encoder.layout.sublayers[number + 1 :]
            if stream in sublayer.reads and not any(stream in later.sublayer.reads for later in rest):
                tower = encoder.picture_layers if stream == "picture" and encoder.picture_layers else encoder.text.transformer
                states[stream] = tower.norm(states[stream])
    return states


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("plan", PLANS)
def test_every_plan_is_the_same_sums_as_sample_by_sample(plan, norm, left):
    encoder, given = build(plan, norm), batch(left)
    with torch.no_grad():
        states = encoder(given)
        text, picture = encoder.picture(given, encoder.text.embeddings)
        texts, pictures = text.split(given.text.present.sum(1).tolist()), picture.split((given.image.present * 4).tolist())
        for row in range(4):
            expected = by_hand(encoder, texts[row], pictures[row])
            for name, found, present in (
                ("text", states.text[row], given.text.present[row]),
                ("picture", states.image[row], given.image.present[row].expand(4)),
            ):
                assert not found[~present].any()
                if name in expected:
                    assert torch.allclose(found[present], expected[name], atol=2e-5)


@pytest.mark.parametrize("plan", PLANS)
def test_alone_as_in_a_batch_and_no_weight_is_dead(plan):
    encoder, given = build(plan), batch()
    states = encoder(given)
    for row in range(4):
        alone = encoder(take(given, torch.tensor([row])))
        for name in ("text", "image", "joint"):
            assert torch.allclose(getattr(alone, name)[0], getattr(states, name)[row], atol=2e-5)
    (states.text.square().sum() + states.image.square().sum() + states.joint.sum()).backward()
    for name, parameter in encoder.named_parameters():
        if "segments" not in name and "languages" not in name:
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.any(), name


@pytest.mark.parametrize("plan", PLANS)
def test_a_picture_reaches_the_text_of_its_own_sample_alone(plan):
    encoder, given = build(plan), batch()
    other = given.image.pixels.clone()
    other[0] = 255 - other[0]
    moved = (encoder(given).text - encoder(given._replace(image=given.image._replace(pixels=other))).text).abs().amax((1, 2))
    assert moved[0] > 1e-3
    assert moved[1:].max() == 0


def test_streams_of_unequal_width_with_layers_of_their_own_size_between():
    encoder = build(
        VILBERT, width=24, cross=Cross(width=20, heads=5, text_inner=12), pooler=JointPooler(32, 24, "product", 16, "relu")
    )
    given = batch()
    states = encoder(given)
    assert (states.text.shape[2], states.image.shape[2], states.joint.shape[1]) == (32, 24, 16)
    assert encoder.widths == {"text": 32, "translation": 32, "image": 24, "joint": 16}
    half = encoder.cross[0]["text"]
    assert half.attention.inward.weight.shape == (60, 32)
    assert half.feed_forward.inward.weight.shape == (12, 32)
    assert encoder.cross[0]["picture"].feed_forward.inward.weight.shape == (40, 24)  # as the picture's own layers
    expected = torch.relu(encoder.pooler.text(states.text[0, 0])) * torch.relu(encoder.pooler.picture(states.image[0, 0]))
    assert torch.allclose(states.joint[0], expected, atol=1e-6)
    text, picture = encoder.picture(given, encoder.text.embeddings)
    assert torch.allclose(states.text[0, :7], by_hand(encoder, text[:7], picture[:4])["text"], atol=2e-5)


def test_shared_cross_attention_reads_what_was_before_it_on_both_sides():
    """LXMERT: both directions read the states before the layer, by one set of weights. The well-known wrong choice, text first
    and the picture from the new text, is another result."""
    encoder, given = build(LXMERT), take(batch(), torch.tensor([0]))
    text, picture = encoder.picture(given, encoder.text.embeddings)
    right = by_hand(encoder, text, picture)
    assert torch.allclose(encoder(given).image[0], right["picture"], atol=2e-5)
    one_after_the_other = LXMERT.replace("shared cross attention", "text from picture attention, picture from text attention")
    wrong = build(one_after_the_other)
    for number, block in enumerate(encoder.cross):
        for half in (wrong.cross[2 * number], wrong.cross[2 * number + 1]):
            for name, module in half.items():
                rows = {(True, False): slice(0, 32), (False, True): slice(32, None)}[
                    module.attention.asks, module.attention.told
                ]
                module.attention.inward.weight.data = block["both"].attention.inward.weight.data[rows]
                module.attention.inward.bias.data = block["both"].attention.inward.bias.data[rows]
                if name and module.attention.asks:
                    module.attention.outward.load_state_dict(block["both"].attention.outward.state_dict())
                    module.attention_norm.load_state_dict(block["both"].attention_norm.state_dict())
    for part in ("text", "picture_layers", "picture", "pooler"):
        getattr(wrong, part).load_state_dict(getattr(encoder, part).state_dict())
    assert not torch.allclose(wrong(given).image[0], right["picture"], atol=1e-2)


def test_vectors_are_of_what_has_not_met_yet():
    """Text and picture before fusion: each the same whatever the other is; the picture's after its last layer."""
    encoder, given = build(ALBEF, vector_width=6, pooling="mean"), batch()
    vectors = encoder(given).vectors
    alone = encoder(given._replace(image=None)).vectors, encoder(given._replace(text=None)).vectors
    assert torch.allclose(vectors.text, alone[0].text, atol=1e-5)
    assert torch.allclose(vectors.image, alone[1].image, atol=1e-5)
    picture = encoder.picture(given, encoder.text.embeddings).picture
    block = encoder.picture_layers.blocks[0]
    assert torch.allclose(
        vectors.image[0], encoder.projections["picture"](block(picture[None, :4], None).mean((0, 1))), atol=1e-5
    )
    both = given._replace(translation=tiny.text([5, 6, 3, 4], seed=3))
    assert torch.allclose(
        encoder(both).vectors.translation,
        encoder(both._replace(text=both.translation, translation=None)).vectors.text,
        atol=1e-5,
    )
    with pytest.raises(ValueError, match=r"vector_width is 6 in plan '2 joint'; .*there must be layers before that"):
        build("2 joint", vector_width=6)


def test_states_of_lower_layers_are_numbered_by_what_the_text_has_passed():
    encoder, given = build(VILBERT), batch()
    assert encoder.layers == 5
    states = encoder(given, keep=range(6))
    assert torch.equal(states.layers[5].text, states.text)
    assert torch.equal(states.layers[5].image, states.image)
    assert torch.equal(states.layers[1].image, states.layers[0].image)  # the picture has no layer before they meet
    assert not torch.equal(states.layers[2].image, states.layers[1].image)
    with pytest.raises(ValueError, match=r"after blocks \[6\] are asked for, but there are 5"):
        encoder(given, keep=[6])


@pytest.mark.parametrize("plan", ["2 joint", VILBERT])
def test_activation_checkpointing_changes_nothing(plan):
    given, gradients = batch(), []
    for recompute in (False, True):
        encoder = build(plan)
        encoder.text.transformer.recompute = recompute
        encoder(given).text.square().sum().backward()
        gradients.append([one.grad for one in encoder.parameters() if one.grad is not None])
    assert len(gradients[0]) == len(gradients[1]) > 20
    for one, two in zip(*gradients, strict=True):
        assert torch.allclose(one, two, atol=1e-6)


def test_empty_rows_and_whole_batches_of_nothing():
    """Pitfall O10: no NaN where there is nothing to attend to, in states or gradients."""
    for plan in PLANS:
        encoder = build(plan)
        nothing = Image(tiny.image(2).pixels, torch.zeros(2, dtype=torch.bool))
        given = tiny.batch([0, 3])._replace(text=tiny.text([0, 3]), image=nothing)
        states = encoder(given)
        (states.text.sum() + states.image.sum() + states.joint.sum()).backward()
        assert states.text.isfinite().all()
        assert not states.image.any()
        assert not states.text[0].any()
        assert all(one.grad is None or one.grad.isfinite().all() for one in encoder.parameters())
        empty = encoder(tiny.batch([], image=tiny.image(0)))
        assert empty.text.shape[0] == empty.image.shape[0] == empty.joint.shape[0] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"plan": "3 joint"}, "has 3 text layers .*, but `text` has 2; change the one or the other"),
        ({"plan": "2 text, picture, cross"}, "has 1 picture layers .*, but `layers` has 0"),
        ({"plan": "2 text"}, "nothing attends to the picture"),
        ({"picture": 24}, "layers of both streams at once, but the text has width 32 and the picture 24"),
        ({"plan": "2 text, shared cross", "picture": 24}, "layers of both streams at once, but the text has width 32"),
        (
            {"plan": "2 text, picture, cross", "layers": tiny.WIDTH, "picture": 24},
            "embeddings of the picture have width 24, its layers 32",
        ),
        (
            {"plan": "text, text from picture & picture", "layers": tiny.WIDTH, "cross": {"heads": 2}},
            "one attention has heads of different kinds, 2 of text, 32 wide and 4 of picture, 32 wide; make them equal",
        ),
        ({"plan": "2 text, cross", "cross": {"heads": 5}}, "width 32 is not divisible by 5 heads"),
        ({"plan": "2 text, cross", "cross": {"width": 0}}, "cross: width is 0; expected 1 or more"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Fused(
            change.get("plan", "2 joint"),
            TextTower(tiny.embeddings(), tiny.transformer(1 if "layers" in change and "cross" in change else 2)),
            ImageEmbeddings(Patches(16, patch=8, size=16), change.get("picture", tiny.WIDTH)),
            Transformer(change["layers"], 1, 4) if "layers" in change else None,
            Cross(**change["cross"]) if "cross" in change else None,
        )
