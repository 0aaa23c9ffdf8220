"""The published recipes of vision and language: each is parsed, checked and built without memory, and as large as its model."""

from pathlib import Path

import pytest
import torch
from lightning.pytorch import LightningModule

from interlingua import configs
from interlingua.checking import build
from interlingua.configuration import read_arguments
from interlingua.trainer import check

USERS = ("initial", "tokenizer", "dictionary", "alignments")
"""Arguments that name a file of the user's, or need one."""


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


def tokens(vocabulary, width=768):
    """The head of MLM: its table is the encoder's."""
    return transform(width) + vocabulary


def transform(width, inner=None):
    return linear(width, inner or width) + 2 * (inner or width)


def regions(outputs, width=768):
    return transform(width) + linear(width, outputs)


POOL, BOTH, MATCH = linear(768, 768), 2 * linear(768, 1024), linear(768, 2)
BERT, CASED, MBERT, XLMR = 30_522, 28_996, 119_547, 250_002
CROSS = attention(768, 1024) + feed(768, 3072) + attention(1024) + feed(1024, 1024)
SWIN = 86_743_224  # timm's swin_base_patch4_window7_224 without its classifier
PUBLISHED = {
    "vilbert": words(BERT)
    + layers(12)
    + layers(6, 1024, 1024)
    + 6 * CROSS
    + linear(2048, 1024)
    + linear(5, 1024)
    + 2 * 1024
    + linear(768, 1024)
    + linear(1024, 1024)
    + linear(1024, 2)
    + tokens(BERT)
    + regions(1601, 1024),
    "lxmert": 207_936_768 + MATCH + tokens(BERT) + regions(1600) + regions(400) + regions(2048),
    "uniter": words(CASED)
    + layers(12)
    + typed(7)
    + 2048
    + POOL
    + MATCH
    + tokens(CASED)
    + (transform(768) + 2048)  # features by the transposed layer that led them inward
    + regions(1601),
    "visualbert": words(BERT) + layers(12) + linear(2048, 768) + (512 + 2) * 768 + POOL + MATCH + tokens(BERT),
    "vlbert": words(BERT, 512, 3)
    + layers(12)
    + linear(2048 + 2048, 768)
    + 2 * 768
    + 2048
    + 768
    + 4 * 768
    + tokens(BERT)
    + regions(1601),
    "muniter": words(MBERT) + layers(12) + typed(5) + BOTH + linear(1024, 2) + tokens(MBERT) + regions(1601),
    "xuniter": words(XLMR, 514, 1) + layers(12) + typed(5) + 768 + BOTH + linear(1024, 2) + tokens(XLMR) + regions(1601),
    "uc2": words(XLMR, 514, 2) + layers(12) + typed(7) + 2048 + POOL + MATCH + tokens(XLMR) + regions(1601),
    "m3p": words(XLMR, 514, 1)
    + layers(12)
    + linear(2048, 768)
    + linear(5, 768)
    + 2 * 768
    + POOL
    + MATCH
    + tokens(XLMR)
    + regions(1601)
    + regions(2048),
    "vilt": 111_595_008 - 3 * 768 + MATCH + tokens(BERT),  # Hugging Face's ViltModel has a class vector and one type more
    "albef": words(BERT)
    + layers(12)
    + 6 * attention(768)
    + layers(12)
    + 2 * 768
    + linear(3 * 16 * 16, 768)
    + 256 * 768
    + 768
    + POOL
    + 2 * 256 * 768
    + 1
    + MATCH
    + tokens(BERT),
    "cclm": words(XLMR, 514, 1, 1024)
    + layers(12, 1024, 4096)
    + 6 * attention(1024)
    + SWIN
    + 3 * 1024  # a type vector, and a norm over the picture's vectors
    + linear(1024, 1024)
    + 2 * 256 * 1024
    + 2
    + linear(1024, 2)
    + tokens(XLMR, 1024),
}
"""Parameters that are trained: those of the published model, and of the heads of its objectives."""

STEPS = {"uniter": [1, 1, 1, 1, 1, 1], "uc2": [1] * 11, "muniter": [1, 1], "xuniter": [1, 1], "m3p": [1, 1]}
"""Sources of which a step reads one, each as often."""


def configuration(name) -> dict:
    return read_arguments(["--config", f"configs/pretrain/{name}.yaml"]).configuration


def without_files(node):
    if isinstance(node, dict):
        return {key: without_files(value) for key, value in node.items() if key not in USERS}
    return node


def meta(found):
    with torch.device("meta"):
        return build(LightningModule, without_files(found["model"]))


def parameters(model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_recipe_builds_the_published_model(name):
    found = configuration(name)
    check("fit", found, ["seed_everything", "trainer", "model", "data"])
    model, data = meta(found), found["data"]["init_args"]
    assert parameters(model) == PUBLISHED[name]
    assert set(data["sources"]) == set(found["model"]["init_args"]["passes"])
    assert data["max_tokens"] <= model.encoder.max_tokens
    optimization = found["model"]["init_args"]["optimization"]
    assert 0 < optimization["warmup_steps"] <= 0.1 * found["trainer"]["max_steps"]
    mixtures = list(data.get("mixtures", {}).values())
    assert [mixture["exponent"] for mixture in mixtures] == [0] * (name in STEPS)
    assert [len(mixture["sources"]) for mixture in mixtures] == ([len(STEPS[name])] if name in STEPS else [])
    model.optimization.stop_gradients(model)  # names what is not there


def test_pictures_beside_captions_are_mirrored_in_no_recipe_but_albefs():
    """Pitfall I08: what a caption says of left and right would be false. ALBEF's mirrors, as published, and says so."""
    folder = Path(configs.__file__).parent
    mirrored = {path.name for path in folder.rglob("*.yaml") if "mirror:" in path.read_text(encoding="utf-8")}
    assert mirrored == {"albef.yaml"}
    assert "left and right is false" in (folder / "pretrain" / "albef.yaml").read_text(encoding="utf-8")


def test_as_many_parameters_as_hugging_face_has():
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        config = transformers.VisualBertConfig(visual_embedding_dim=2048)
        assert parameters(transformers.VisualBertForPreTraining(config)) == PUBLISHED["visualbert"]
        theirs = transformers.LxmertForPreTraining(transformers.LxmertConfig(task_qa=False))
    # all three kinds of regions' scores come of one dense layer there, and of one each here
    assert parameters(theirs) == PUBLISHED["lxmert"] - 2 * transform(768)
