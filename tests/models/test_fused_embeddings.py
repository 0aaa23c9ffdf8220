"""Each published way to embed regions, against its formula written out sample by sample; and the single streams of UNITER's kin
as Hugging Face's text encoders over what those formulas give."""

import pytest
import tiny
import torch
import torch.nn.functional as F
from foreign_fused import FEATURES, batch, shake, tower
from foreign_models import SIZE, VOCABULARIES, apart, reference
from torch.nn.functional import layer_norm

from interlingua.models import fused_presets
from interlingua.models.fused_presets import Pool
from interlingua.models.loading import load_foreign
from interlingua.models.region_embeddings import AveragedRegions, SummedRegions, TypedRegions

VILBERT = {"plan": "text, 2 x (cross, own)", "width": 24, "heads": 3, "inner": 40}


def wide(boxes):
    """Seven numbers of a box: corners, width, height, area."""
    left, top, right, bottom = boxes.tolist()
    return torch.tensor([left, top, right, bottom, right - left, bottom - top, (right - left) * (bottom - top)])


def five(boxes):
    left, top, right, bottom = boxes.tolist()
    return torch.tensor([left, top, right, bottom, (right - left) * (bottom - top)])


def norm(module, one, epsilon=1e-12):
    return layer_norm(one, one.shape[-1:], module.weight, module.bias, epsilon)


def samples(given):
    """Of each sample: its token ids, segments, and the features and boxes of its regions."""
    for row in range(given.size):
        words, there = given.text.present[row], given.regions.present[row]
        yield (
            given.text.tokens[row, words],
            given.text.segment[row, words],
            *(getattr(given.regions, name)[row, there] for name in ("features", "boxes")),
        )


def embedded(encoder, given):
    """What our embeddings give, sample by sample: text, then picture."""
    found = encoder.picture(given, encoder.text.embeddings)
    lengths = given.text.present.sum(1), encoder.picture.places(given).present.sum(1)
    return zip(*(one.split(count.tolist()) for one, count in zip(found, lengths, strict=True)), strict=True)


def same(one, other):
    return torch.allclose(one, other, atol=2e-6)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_vilbert(left):
    """Reference, section 2.3: LN(Wf f + Wl l), five numbers of a box, the mean feature and the whole picture first."""
    encoder = shake(fused_presets.vilbert(tower(3), FEATURES, **VILBERT)).eval()
    given, e = batch(left, counts=(5, 0, 6)), encoder.picture
    for (ids, _, features, boxes), (words, found) in zip(samples(given), embedded(encoder, given), strict=True):
        assert len(words) == len(ids)
        if not len(features):
            assert not len(found)
            continue
        features = torch.cat([features.mean(0, keepdim=True), features])
        places = torch.stack([torch.tensor([0.0, 0, 1, 1, 1]), *map(five, boxes)])
        assert same(found, norm(e.norm, e.feature(features) + e.box(places)))


def test_the_global_region_of_regions_that_are_hidden():
    """It is the mean of those that are not: else it would tell what must be predicted; zeros that are shown do not count."""
    encoder, given = shake(fused_presets.vilbert(tower(3), FEATURES, **VILBERT)).eval(), batch()
    hidden = torch.zeros_like(given.regions.present)
    hidden[0, :2] = hidden[1] = True
    shown = torch.where(hidden[..., None], 0, given.regions.features)
    marked = given._replace(regions=given.regions._replace(shown=shown, hidden=hidden & given.regions.present))
    first = [found[0] for _, found in embedded(encoder, marked)]
    e, whole = encoder.picture, torch.tensor([0.0, 0, 1, 1, 1])
    for one, mean in zip(first, (given.regions.features[0, 2:5].mean(0), torch.zeros(FEATURES)), strict=False):
        assert same(one, norm(e.norm, e.feature(mean) + e.box(whole)))


def uniter_regions(e, features, boxes, kind, epsilon=1e-12, numbers=wide):
    """Reference, section 2.3: LN(LN(Wf f) + LN(Wl l) + type)."""
    places = torch.stack([*map(numbers, boxes)])
    return norm(
        e.norm,
        norm(e.feature_norm, e.feature(features), epsilon) + norm(e.box_norm, e.box(places), epsilon) + kind,
        epsilon,
    )


UNITER = {
    "uniter": ("bert", {}, {}),
    "xuniter": ("xlm-roberta", {}, {"shared_type": False}),
    "uc2": ("xlm-roberta", {"segments": 2}, {}),
    "muniter": ("bert", {}, {"values": 5, "whole": "first", "mask": False, "pool": Pool("product", 20, "relu")}),
}


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", UNITER)
def test_uniter_and_its_kin(name, left):
    """As Hugging Face's text encoder over words and regions side by side; mUNITER is UNITER around mBERT, with VOLTA's global
    region and product."""
    pytest.importorskip("transformers")
    family, table, options = UNITER[name]
    model = reference(family, "BertModel" if family == "bert" else "XLMRobertaModel")
    epsilon = model.config.layer_norm_eps
    text = tower(family=family)
    load_foreign(text, model.state_dict(), _family(family))
    if table:  # UC2's new table of two
        text = _with_segments(text, family)
    encoder = fused_presets.uniter(text, FEATURES, "3 joint", **options)
    shake(encoder.picture), shake(encoder.pooler)
    encoder.eval()
    given, e = batch(left, family=family, segments=family == "bert"), encoder.picture
    with torch.no_grad():
        states = encoder(given)
        for row, (ids, segment, features, boxes) in enumerate(samples(given)):
            places = torch.arange(len(ids)) + (0 if family == "bert" else 2)
            words = encoder.tokens.weight[ids] + model.embeddings.position_embeddings.weight[places]
            words = norm(text.embeddings.norm, words + text.embeddings.segments.weight[segment], epsilon)
            kind = e.kind if name == "xuniter" else text.embeddings.segments.weight[1]
            if options.get("whole"):
                features = torch.cat([features.mean(0, keepdim=True), features])
                boxes = torch.cat([torch.tensor([[0.0, 0, 1, 1]]), boxes])
            picture = uniter_regions(e, features, boxes, kind, epsilon, five if options.get("values") == 5 else wide)
            both = torch.cat([words, picture])[None]
            want = model.encoder(both, attention_mask=torch.zeros(1, 1, 1, both.shape[1])).last_hidden_state[0]
            before = len(features) - int(given.regions.present[row].sum())
            found = states.text[row, given.text.present[row]], states.regions[row, given.regions.present[row]]
            assert apart(found[0], want[: len(ids)]) < 1e-5
            assert apart(found[1], want[len(ids) + before :]) < 1e-5
            joint = torch.tanh(encoder.pooler.text(want[0]))
            if "pool" in options:
                joint = torch.relu(encoder.pooler.text(want[0])) * torch.relu(encoder.pooler.picture(want[len(ids)]))
            assert apart(states.joint[row], joint) < 1e-5


def _family(name):
    from interlingua.models.families import FAMILIES

    return FAMILIES[name]


def _with_segments(text, family):
    made = tower(family=family, segments=2)
    weights = text.state_dict()
    weights["embeddings.segments.weight"] = torch.randn(2, 32) * 0.2
    made.load_state_dict(weights)
    return made


def test_uniter_puts_its_mask_vector_where_features_are_shown_as_zeros():
    """Its code adds the vector to features that are zeroed; one that is kept, though hidden, is read as it is."""
    encoder, given = shake(fused_presets.uniter(tower(), FEATURES, "3 joint")).eval(), batch()
    hidden = torch.zeros_like(given.regions.present)
    hidden[0, :2] = True
    shown = given.regions.features.clone()
    shown[0, 0] = 0
    marked = given._replace(regions=given.regions._replace(shown=shown, hidden=hidden))
    (_, found), *_ = embedded(encoder, marked)
    e, kind = encoder.picture, encoder.text.embeddings.segments.weight[1]
    want = uniter_regions(e, torch.stack([e.mask, *given.regions.features[0, 1:5]]), given.regions.boxes[0, :5], kind)
    assert same(found, want)


def test_visualbert_reads_no_boxes():
    encoder, given = shake(fused_presets.visualbert(tower(), FEATURES, "3 joint")).eval(), batch()
    other = given._replace(regions=given.regions._replace(boxes=given.regions.boxes / 2))
    assert torch.equal(encoder(given).regions, encoder(other).regions)


def waves(box, count):
    """Sines and cosines of centre, width and height in hundredths, each by wave lengths from 1 to 1000."""
    left, top, right, bottom = box.tolist()
    out = []
    for number in ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top):
        angles = torch.tensor([100 * number / 1000 ** (one / count) for one in range(count)])
        out += [angles.sin(), angles.cos()]
    return torch.cat(out)


@pytest.mark.parametrize("whole", ["last", "first"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_vl_bert(left, whole):
    """Reference, section 2.3: ReLU(W [waves; f]) in a norm beside the vector of a word for objects; each word with the whole
    picture; one position behind the text for all regions, the next for the last; type 2."""
    encoder = shake(fused_presets.vl_bert(tower(segments=3), FEATURES, "3 joint", whole)).eval()
    given, e, t = batch(left, counts=(5, 0, 6)), encoder.picture, encoder.text.embeddings
    for (ids, segment, features, boxes), (words, found) in zip(samples(given), embedded(encoder, given), strict=True):
        side = torch.zeros(32)
        if len(features):
            order = slice(None, None, 1 if whole == "first" else -1)
            features = torch.cat([features.mean(0, keepdim=True), features][order])
            boxes = torch.cat([torch.tensor([[0.0, 0, 1, 1]]), boxes][order])
            inward = torch.stack([torch.cat([waves(box, e.waves), one]) for box, one in zip(boxes, features, strict=True)])
            visual = F.relu(e.inward(inward))
            side = norm(e.text_norm, visual[-1])
            word = torch.stack([e.words.weight[int(number == len(features) - 1)] for number in range(len(features))])
            place = torch.tensor([len(ids)] * (len(features) - 1) + [len(ids) + 1])
            regions = word + norm(e.region_norm, visual) + t.positions.weight[place] + t.segments.weight[2]
            assert torch.allclose(found, norm(t.norm, regions), atol=5e-5)  # angles of a hundred and more
        plain = t.tokens.weight[ids] + t.positions.weight[: len(ids)] + t.segments.weight[segment]
        assert torch.allclose(words, norm(t.norm, plain + side), atol=5e-5)


def test_vl_bert_starts_as_bert_with_no_picture_in_its_words():
    """Its norms of what is seen start at weight 0 (reference, section 2.2)."""
    encoder, given = fused_presets.vl_bert(tower(segments=3), FEATURES, "3 joint"), batch()
    found = encoder.picture(given, encoder.text.embeddings).text
    assert same(found, encoder.text.embeddings(given.text))
    assert encoder(given).joint is None
    assert "joint" not in encoder.widths


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_m3p(left):
    """Regions first, counted as positions; features and boxes of length 1; the first region pools."""
    encoder = shake(fused_presets.m3p(tower(family="xlm-roberta"), FEATURES, "3 joint")).eval()
    given = batch(left, counts=(5, 0, 6), family="xlm-roberta", segments=False)
    e, t, epsilon = encoder.picture, encoder.text.embeddings, 1e-5
    for (ids, _, features, boxes), (words, found) in zip(samples(given), embedded(encoder, given), strict=True):
        many = len(features)
        if many:
            places = torch.stack([*map(five, boxes)])
            visual = e.feature(features / features.norm(dim=1, keepdim=True)) + e.box(places / places.norm(dim=1, keepdim=True))
            visual = norm(e.norm, visual, epsilon) + t.positions.weight[2 : 2 + many]
            assert same(found, norm(t.norm, visual, epsilon))
        plain = t.tokens.weight[ids] + t.positions.weight[2 + many : 2 + many + len(ids)] + t.segments.weight[0]
        assert same(words, norm(t.norm, plain, epsilon))
    states = encoder(given)
    assert same(states.joint[0], torch.tanh(encoder.pooler.picture(states.regions[0, 0])))


@pytest.mark.parametrize(
    ("name", "lengths", "message"),
    [
        ("vl_bert", (39, 5, 4), "after 39 tokens there is no room in the text tower's max_tokens 40"),
        ("m3p", (36, 5, 4), "41 of regions and tokens together are more than the text tower's max_tokens 40"),
    ],
)
def test_texts_that_leave_no_room_for_regions(name, lengths, message):
    """One token fewer is read; the columns of padding do not count."""
    family = "xlm-roberta" if name == "m3p" else "bert"
    text = tower(segments=3) if name == "vl_bert" else tower(family=family)
    encoder = getattr(fused_presets, name)(text, FEATURES, "3 joint")
    with pytest.raises(ValueError, match=message):
        encoder(long(lengths, family))
    encoder(long((lengths[0] - 1, *lengths[1:]), family))


def long(lengths, family):
    given = batch(counts=(5, 3, 4), family=family, segments=False)
    return given._replace(text=tiny.text(lengths, 40, vocabulary=VOCABULARIES[family]))


def test_a_text_tower_without_the_segment_vector_is_named():
    given = batch()
    with pytest.raises(ValueError, match="SpokenRegions takes segment vector 2 of the text tower, which has 2"):
        fused_presets.vl_bert(tower(), FEATURES, "3 joint")(given)
    with pytest.raises(ValueError, match="TypedRegions: shared_type takes segment vector 1 of the text tower, which has 1"):
        fused_presets.uniter(tower(family="xlm-roberta"), FEATURES, "3 joint")(given)
    with pytest.raises(ValueError, match=r"JoinedRegions takes vectors of the text's tables.*leave `factor` of the text"):
        fused_presets.visualbert(tower(factor=16), FEATURES, "3 joint")


@pytest.mark.parametrize("kind", [AveragedRegions, TypedRegions])
def test_masked_regions_do_not_drown_the_first_gradient(kind):
    """A norm over a vector of zeros has a gradient of 1 / sqrt(epsilon), a million, which clipping turns into no learning."""

    def steepest(bias):
        torch.manual_seed(0)
        embeddings = kind(FEATURES, SIZE.width, mask=False, dropout=0.0)
        embeddings.feature.bias.data.mul_(bias)
        (embeddings(given, tower(1).embeddings).picture * torch.randn(SIZE.width)).sum().backward()
        return max(one.grad.norm() for one in embeddings.parameters() if one.grad is not None)

    given = batch()
    shown = torch.zeros_like(given.regions.features)
    given = given._replace(regions=given.regions._replace(hidden=given.regions.present, shown=shown))
    assert steepest(1.0) < steepest(0.0) / 1000


def test_the_global_region_leaves_out_what_is_hidden_and_neighbours_shown_as_zeros():
    """The mean of what is seen: hidden regions would tell of themselves, zeros make it another mean (12-in-1's code)."""
    embeddings = SummedRegions(FEATURES, SIZE.width, whole="first")
    regions = batch().regions
    hidden, shown = torch.zeros_like(regions.present), regions.features.clone()
    hidden[0, 1] = True
    shown[0, 1:3] = 0  # the hidden one, and a neighbour
    features, _, _ = embeddings.gather(regions._replace(hidden=hidden, shown=shown))
    assert torch.allclose(features[0, 0], regions.features[0, [0, 3, 4]].mean(0), atol=1e-6)
    kept, _, _ = embeddings.gather(regions._replace(hidden=hidden))
    assert torch.allclose(kept[0, 0], regions.features[0, [0, 2, 3, 4]].mean(0), atol=1e-6)
