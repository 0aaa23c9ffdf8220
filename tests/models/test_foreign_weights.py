"""Files of others, in every form that they come in: read whole, with an account of each name, or refused with a reason."""

import json
from pathlib import PurePosixPath

import pytest
import torch
from foreign_models import LANGUAGES, NAMES, convert_as, expected, foreign, outputs, reference
from safetensors.torch import save_file

from interlingua.models.families import FAMILIES
from interlingua.models.foreign_weights import read_foreign
from interlingua.models.loading import translate_all

pytest.importorskip("transformers")
FAMILY = pytest.mark.parametrize("name", NAMES)


def save_safetensors(model, folder):
    model.save_pretrained(folder)


def save_sharded(model, folder):
    model.save_pretrained(folder, max_shard_size="20KB")
    assert (folder / "model.safetensors.index.json").is_file()


def save_bin(model, folder):
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def save_sharded_bin(model, folder):
    model.config.save_pretrained(folder)
    weights = model.state_dict()
    names = list(weights)
    parts = {"pytorch_model-00001-of-00002.bin": names[::2], "pytorch_model-00002-of-00002.bin": names[1::2]}
    for file, part in parts.items():
        torch.save({key: weights[key].clone() for key in part}, folder / file)
    index = {"metadata": {}, "weight_map": {key: file for file, part in parts.items() for key in part}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("save", [save_safetensors, save_sharded, save_bin, save_sharded_bin])
@pytest.mark.parametrize("name", ["bert", "xlm"])
def test_folders_of_every_kind(name, save, tmp_path):
    save(reference(name), tmp_path)
    read = read_foreign(tmp_path)
    assert torch.equal(outputs(convert_as(name, read), name), expected(name))
    assert "config.json" in read.sources
    assert all(len(digest) == 64 for digest in read.sources.values())


def test_a_lost_shard_and_a_folder_without_weights_are_named(tmp_path):
    save_sharded_bin(reference("bert"), tmp_path)
    (tmp_path / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"index\.json names pytorch_model-00002-of-00002\.bin"):
        read_foreign(tmp_path)
    (tmp_path / "pytorch_model.bin.index.json").unlink()
    with pytest.raises(ValueError, match=r"holds no weights; expected model\.safetensors.*found config\.json"):
        read_foreign(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_foreign(tmp_path / "none")


def test_files_cut_short_and_other_objects_are_refused(tmp_path):
    (tmp_path / "half.safetensors").write_bytes(b"\xff\x00\x00\x00\x00\x00\x00\x00{" + b" " * 9)
    with pytest.raises(ValueError, match=r"half\.safetensors: not safetensors, or cut short \(18 bytes\)"):
        read_foreign(tmp_path / "half.safetensors")
    torch.save({"model": {"a": torch.ones(1)}}, tmp_path / "half.pt")
    (tmp_path / "half.pt").write_bytes((tmp_path / "half.pt").read_bytes()[:300])
    with pytest.raises(ValueError, match=r"half\.pt: no file of weights, or cut short"):
        read_foreign(tmp_path / "half.pt")
    torch.save({"model": {}, "cfg": PurePosixPath("x")}, tmp_path / "code.pt")
    with pytest.raises(ValueError, match=r"code\.pt: holds other objects than tensors.*pathlib"):
        read_foreign(tmp_path / "code.pt")


@FAMILY
def test_prefixes(name):
    """Pitfall C01: every weight has its place under any of them."""
    body, weights = FAMILIES[name].layout.bodies[0], reference(name).state_dict()
    converted = convert_as(name, foreign(name, {f"module.model.{key}": one for key, one in weights.items()}))
    assert torch.equal(outputs(converted, name), expected(name))
    assert converted.translation.missing == converted.translation.unexpected == []
    for prefix in ("", "module.", "model.", "module.model.", "model.module."):
        for start in ("", body):
            named = {prefix + (key if start else key.removeprefix(body)): one for key, one in weights.items()}
            found = translate_all(named, FAMILIES[name])
            assert found.missing == found.unexpected == []
            assert found.weights.keys() == converted.pretrained.weights.keys()
            assert all(torch.equal(one, converted.pretrained.weights[key]) for key, one in found.weights.items())


@FAMILY
def test_an_unrelated_net_is_refused(name):
    net = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.LayerNorm(32))
    with pytest.raises(ValueError, match=r"0 of 4 weights matched; found 0\.weight, 0\.bias, 1\.weight and 1 more"):
        convert_as(name, foreign(name, net.state_dict()))


def test_another_family_is_refused():
    with pytest.raises(ValueError, match="model_type is 'bert', but it is to be read as xlm-roberta; give --as bert"):
        convert_as("xlm-roberta", foreign("bert"))
    with pytest.raises(ValueError, match="not a whole xlm-roberta-xl"):
        convert_as("xlm-roberta-xl", foreign("xlm-roberta", model_type="xlm-roberta-xl"))
    with pytest.raises(ValueError, match="0 of 60 weights matched"):
        convert_as("xlm", foreign("bert", model_type="xlm"))


def test_two_models_in_one_file_are_refused():
    weights = reference("bert").state_dict()
    twice = weights | {f"model.{key}": one for key, one in weights.items()}
    with pytest.raises(ValueError, match=r"bert\.embeddings\.word_embeddings\.weight and model\.bert\.embeddings"):
        convert_as("bert", foreign("bert", twice))


def test_old_names_and_buffers():
    """gamma and beta, numbers of positions kept as weights, no bias of the decoder."""
    weights = {}
    for key, one in reference("bert").state_dict().items():
        if "decoder" not in key:
            weights[key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = one
    weights["bert.embeddings.position_ids"] = torch.arange(40)[None]
    converted = convert_as("bert", foreign("bert", weights))
    assert torch.equal(outputs(converted, "bert"), expected("bert"))
    assert converted.translation.unexpected == []


def test_a_decoder_bias_alone_is_the_bias():
    weights = reference("bert").state_dict()
    del weights["cls.predictions.bias"]
    assert torch.equal(outputs(convert_as("bert", foreign("bert", weights)), "bert"), expected("bert"))


@FAMILY
def test_a_head_of_its_own_is_refused(name):
    """Pitfall C02, untied: a table that the head does not share cannot be taken over in silence."""
    weights = dict(reference(name).state_dict())
    copy = next(key for key, source in FAMILIES[name].layout.tied.items() if source.endswith("embeddings.weight"))
    weights[copy] = weights[copy] + 1
    with pytest.raises(ValueError, match=r"is not .*embeddings\.weight \(110, 32\) again, but our heads share it"):
        convert_as(name, foreign(name, weights))


@FAMILY
def test_a_base_model_has_no_head(name):
    model = reference(name, FAMILIES[name].classes[1])
    converted = convert_as(name, foreign(name, model.state_dict()))
    parts = {key.partition(".")[0] for key in converted.pretrained.weights}
    assert parts == ({"encoder"} if name == "xlm" else {"encoder", "pooler"})
    assert "head" in converted.translation.absent
    states = model.eval().state_dict()
    assert torch.equal(outputs(converted, name), outputs(convert_as(name, foreign(name, states)), name))


def test_half_a_head_and_half_a_tower_are_refused():
    weights = reference("xlm-roberta").state_dict()
    without = {key: one for key, one in weights.items() if key != "lm_head.layer_norm.weight"}
    with pytest.raises(ValueError, match=r"missing: lm_head\.layer_norm\.weight, without"):
        convert_as("xlm-roberta", foreign("xlm-roberta", without))
    more = weights | {"roberta.encoder.layer.1.crossattention.self.query.weight": torch.ones(1)}
    with pytest.raises(ValueError, match=r"without a place in the tower: encoder\.layer\.1\.crossattention"):
        convert_as("xlm-roberta", foreign("xlm-roberta", more))


def test_classifiers_are_left_aside_and_named():
    model = reference("bert", "BertForSequenceClassification")
    assert convert_as("bert", foreign("bert", model.state_dict())).translation.unexpected == [
        "classifier.weight",
        "classifier.bias",
    ]


def test_a_file_alone_needs_the_number_of_heads(tmp_path):
    save_file(
        {key: one.clone() for key, one in reference("xlm-roberta").state_dict().items()}, tmp_path / "weights.safetensors"
    )
    read = read_foreign(tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match="no num_attention_heads is said; give --heads"):
        convert_as("xlm-roberta", read)
    assert torch.equal(outputs(convert_as("xlm-roberta", read, heads=4), "xlm-roberta"), expected("xlm-roberta"))
    with pytest.raises(ValueError, match="--heads is 8, but num_attention_heads is 4"):
        convert_as("xlm-roberta", foreign("xlm-roberta"), heads=8)


@pytest.mark.parametrize(
    ("name", "facts", "named"),
    [
        ("bert", {"hidden_act": "gelu_new"}, "hidden_act is 'gelu_new', but our bert computes 'gelu'"),
        ("xlm-roberta", {"type_vocab_size": 3}, "type_vocab_size is 3, but the weights have 1"),
        ("bert", {"num_hidden_layers": 12}, "num_hidden_layers is 12, but the weights have 3"),
        ("bert", {"vocab_size": 119547}, "vocab_size is 119547, but the weights have 110"),
        ("xlm-roberta", {"max_position_embeddings": 512}, "max_position_embeddings is 512, but the weights have 42"),
        ("xlm", {"gelu_activation": False}, "gelu_activation is False"),
        ("xlm", {"n_langs": 15}, "n_langs 15 with use_lang_emb True asks for 15 language vectors, but the weights have 3"),
    ],
)
def test_what_is_said_and_what_is_there_must_agree(name, facts, named):
    with pytest.raises(ValueError, match=named):
        convert_as(name, foreign(name, **facts))


def test_missing_language_vectors_are_refused_and_those_of_xlm_100_are_not_missed():
    weights = {key: one for key, one in reference("xlm").state_dict().items() if "lang_embeddings" not in key}
    with pytest.raises(ValueError, match=f"asks for {LANGUAGES} language vectors, but the weights have 0"):
        convert_as("xlm", foreign("xlm", weights))
    assert convert_as("xlm", foreign("xlm", weights, use_lang_emb=False)).pretrained.arguments["languages"] == 0


def test_weights_of_two_sizes_are_named_with_both():
    weights = reference("bert").state_dict() | {"bert.encoder.layer.2.output.LayerNorm.bias": torch.zeros(16)}
    with pytest.raises(ValueError, match=r"blocks\.2\.feed_forward_norm\.bias: weights \(16,\), bert tower \(32,\)"):
        convert_as("bert", foreign("bert", weights))
