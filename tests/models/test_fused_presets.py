"""Fused encoders by name: as many parameters as the published models, built without memory; and in a configuration."""

import pytest
import tiny
import torch
from foreign_fused import FEATURES, batch, shake, tower
from torch import nn

from interlingua.modalities.image_front_ends import Patches
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models import fused_presets, pixel_presets, presets
from interlingua.models.crossing import Cross
from interlingua.models.fused_presets import PRODUCT, Pool
from interlingua.models.presets import Size

BERT, MBERT = Vocabulary(30_522, 0, 100, 101, 102, 103), Vocabulary(119_547, 0, 100, 101, 102, 103)
XLMR = Vocabulary(250_002, pad=1, unknown=3, start=0, end=2, mask=250_001)
CONTROLLED = {"values": 5, "whole": "first", "pool": PRODUCT}


def parameters(*modules) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def linear(inward, outward):
    return inward * outward + outward


def attention(width, inner=None):
    inner = inner or width
    return 3 * linear(width, inner) + linear(inner, width) + 2 * width


def feed(width, inner):
    return linear(width, inner) + linear(inner, width) + 2 * width


def layers(count, width=768, inner=3072):
    return count * (attention(width) + feed(width, inner))


def words(vocabulary, positions=512, segments=2, width=768):
    return (vocabulary + positions + segments + 2) * width


def typed(values, features=2048, width=768):
    """UNITER's regions: two layers and three norms."""
    return linear(features, width) + linear(values, width) + 6 * width


POOL, BOTH = linear(768, 768), 2 * linear(768, 1024)
VL_BERT = linear(2048 + 2048, 768) + 2 * 768 + 2048 + 768 + 4 * 768
"""One layer of feature and waves, words of an object and of the whole, a feature and a word of what is masked, two norms."""
PUBLISHED = {
    "vilbert": (
        lambda: fused_presets.vilbert(presets.bert(BERT)),
        words(30_522)
        + layers(12)
        + layers(6, 1024, 1024)
        + 6 * (attention(768, 1024) + feed(768, 3072) + attention(1024) + feed(1024, 1024))
        + linear(2048, 1024)
        + linear(5, 1024)
        + 2 * 1024
        + linear(768, 1024)
        + linear(1024, 1024),
    ),
    "uniter": (lambda: fused_presets.uniter(presets.bert(BERT)), words(30_522) + layers(12) + typed(7) + 2048 + POOL),
    "muniter": (
        lambda: fused_presets.uniter(presets.bert(MBERT), mask=False, **CONTROLLED),
        words(119_547) + layers(12) + typed(5) + BOTH,
    ),
    "xuniter": (
        lambda: fused_presets.uniter(presets.xlm_roberta(XLMR), mask=False, shared_type=False, **CONTROLLED),
        words(250_002, 514, 1) + layers(12) + typed(5) + 768 + BOTH,
    ),
    "uc2": (
        lambda: fused_presets.uniter(presets.xlm_roberta(XLMR, segments=2)),
        words(250_002, 514, 2) + layers(12) + typed(7) + 2048 + POOL,
    ),
    "vl-bert": (lambda: fused_presets.vl_bert(presets.bert(BERT, segments=3)), words(30_522, 512, 3) + layers(12) + VL_BERT),
    "m3p": (
        lambda: fused_presets.m3p(presets.xlm_roberta(XLMR)),
        words(250_002, 514, 1) + layers(12) + linear(2048, 768) + linear(5, 768) + 2 * 768 + POOL,
    ),
    "albef": (
        lambda: pixel_presets.albef(presets.bert(BERT)),
        words(30_522)
        + layers(12)
        + 6 * attention(768)
        + layers(12)
        + 2 * 768
        + linear(3 * 16 * 16, 768)
        + 256 * 768
        + 768
        + POOL
        + 2 * 256 * 768,
    ),
}
"""Ours, and its number by hand from the published sizes (ALBEF has a class vector with its position, and no type vector)."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_as_many_parameters_as_the_published_sizes_ask_for(name):
    build, number = PUBLISHED[name]
    with torch.device("meta"):
        assert parameters(build()) == number


def test_as_many_parameters_as_hugging_face_has():
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        mine = fused_presets.visualbert(presets.bert(BERT), 512)
        theirs = transformers.VisualBertModel(transformers.VisualBertConfig())
        assert parameters(mine) == parameters(theirs) == 110_270_976
        assert parameters(mine.picture, mine.text.embeddings) == parameters(theirs.embeddings)
        assert parameters(mine.text.transformer) == parameters(theirs.encoder)
        mine = fused_presets.lxmert(presets.bert(BERT, Size(768, 14, 12)))
        theirs = transformers.LxmertModel(transformers.LxmertConfig())
        assert parameters(mine) == parameters(theirs) == 207_936_768
        assert parameters(mine.picture) == parameters(theirs.encoder.visn_fc)
        assert parameters(mine.cross) == parameters(*(one.visual_attention for one in theirs.encoder.x_layers))
        mine = pixel_presets.vilt(presets.bert(BERT, max_tokens=40, norm="pre"))
        theirs = transformers.ViltModel(transformers.ViltConfig())
        # a class vector and its position, and two type vectors where ours has one
        assert parameters(mine) + 3 * 768 == parameters(theirs) == 111_595_008


def test_dropout_epsilon_and_checkpointing_are_the_text_towers():
    text = presets.bert(Vocabulary(110), Size(32, 3, 4), 40, 0.2, 0.3, epsilon=1e-3)
    text.transformer.recompute = True
    encoder = fused_presets.vilbert(text, FEATURES, "text, 2 x (cross, own)", 24, 3, 40, Cross(20, 5))
    assert {module.p for module in encoder.modules() if isinstance(module, nn.Dropout)} == {0.2}
    assert {module.eps for module in encoder.modules() if isinstance(module, nn.LayerNorm)} == {1e-3}
    assert {module.dropout for module in encoder.modules() if hasattr(module, "asks")} == {0.3}
    encoder(batch()).text.sum().backward()
    assert encoder.cross[0]["text"].attention.inward.out_features == 60


def test_controlled_vilbert_has_one_width():
    encoder = fused_presets.vilbert(
        tower(3), FEATURES, "text, 2 x (cross, own)", None, None, None, Cross(), pool=Pool("product", 20, "relu")
    )
    states = shake(encoder)(batch())
    assert states.text.shape[2] == states.regions.shape[2] == 32
    assert states.joint.shape == (3, 20)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_vilt_reads_patches_and_albef_aligns_first(norm):
    text = presets.bert(tiny.VOCABULARY, Size(32, 2, 4), 40, 0.0, 0.0, norm=norm)
    front_end = Patches(24, 8, 16)
    encoder = pixel_presets.vilt(text, front_end, "2 joint")
    given = tiny.batch([7, 5], image=tiny.image(2))
    states = encoder(given)
    assert states.image.shape == (2, 4, 32)
    assert isinstance(encoder.picture.norm, nn.Identity) == (norm == "pre")
    if norm == "post":
        plan = "picture, text, text attention, text from picture attention, text feed-forward"
        encoder = pixel_presets.albef(text, Patches(24, 8, 16), plan, 24, 3, 6)
        states = encoder(given)
        assert states.vectors.text.shape == states.vectors.image.shape == (2, 6)
        assert encoder.picture_layers.prenorm
        assert encoder.picture_layers.epsilon == 1e-6
        cclm = pixel_presets.albef(text, Patches(24, 8, 16), plan.removeprefix("picture, "), 24, vector_width=6)
        assert cclm.picture_layers is None
        assert cclm(given).vectors.image.shape == (2, 6)


def test_one_type_vector_serves_both_halves_of_a_pair_and_two_are_told_apart():
    vocabulary = Vocabulary(110, 1, 3, 0, 2, 109)
    given = batch(family="xlm-roberta").text
    for segments, same in ((1, True), (2, False)):
        text = shake(presets.xlm_roberta(vocabulary, Size(32, 1, 4), 40, segments=segments)).eval()
        assert text.embeddings.segments.num_embeddings == segments
        whole = given._replace(segment=torch.zeros_like(given.segment))
        assert torch.equal(tiny.encode(text, given), tiny.encode(text, whole)) == same


CONFIGURATION = """
class_path: interlingua.models.fused_presets.vilbert
init_args:
  text:
    class_path: interlingua.models.presets.bert
    init_args: {vocabulary: {size: 110}, size: {width: 32, layers: 3, heads: 4}, max_tokens: 40}
  features: 24
  plan: text, 2 x (cross, own)
  width: 24
  heads: 3
  inner: 40
  cross: {width: 20, heads: 5}
  pool: {how: sum, width: 16}
"""


def test_a_configuration_names_them():
    import yaml

    from interlingua.checking import build, check_class
    from interlingua.configuration import ConfigurationError
    from interlingua.models.encoder import Encoder

    node = yaml.safe_load(CONFIGURATION)
    check_class("model.encoder", node)
    encoder = build(Encoder, node)
    assert encoder.widths == {"text": 32, "translation": 32, "regions": 24, "joint": 16}
    assert encoder.pooler.how == "sum"
    assert encoder.cross[0]["text"].attention.heads == 5
    node["init_args"]["pool"]["activate"] = "relu"
    with pytest.raises(ConfigurationError, match="activate"):
        check_class("model.encoder", node)
