"""Files of others, in every form that they come in: read whole, with an account of each name, or refused with a reason."""

import argparse
import json
from pathlib import PurePosixPath

import pytest
import torch
from foreign_models import LANGUAGES, NAMES, apart, configuration, ours, reference, text
from safetensors.torch import save_file

from interlingua.models import layouts
from interlingua.models.conversion import convert
from interlingua.models.families import FAMILIES
from interlingua.models.foreign_weights import Foreign, checksum, read_foreign
from interlingua.models.layouts import give_back
from interlingua.models.loading import translate_all
from interlingua.models.pretrained import make_head, make_tower

pytest.importorskip("transformers")
FAMILY = pytest.mark.parametrize("name", NAMES)


def foreign(name, weights=None, **facts) -> Foreign:
    """A family's tiny model as if it had been read, other weights or facts in their place."""
    weights = reference(name).state_dict() if weights is None else weights
    return Foreign(weights, {**configuration(name).to_dict(), **facts}, "config.json", {})


def outputs(converted, name):
    tower = make_tower(converted.pretrained)
    head, line = make_head(converted.pretrained, tower), text(name)
    with torch.no_grad():
        states = tower.encode(line)[0][line.present]
        return states if head is None else head(states)


def expected(name):
    line, (tower, head) = text(name), ours(name, reference(name))
    with torch.no_grad():
        return head(tower.encode(line)[0][line.present])


def convert_as(name, source, **options):
    return convert(source, FAMILIES[name], ids={"unknown": 100, "mask": 103} if name == "bert" else None, **options)


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


def to_fairseq(name: str, layout, stack: str) -> dict:
    """The tiny model as fairseq has it: other names, a version, the table again in the head, no segment vectors."""
    mine = convert_as(name, foreign(name)).pretrained.weights
    weights = {key: one for key, one in mine.items() if not key.endswith("segments.weight")}
    given = {key.removeprefix(layout.bodies[0]): one for key, one in give_back(weights, layout).items()}
    given = {f"{stack}.{'' if key.startswith('lm_head') else 'sentence_encoder.'}{key}": one for key, one in given.items()}
    return given | {
        f"{stack}.sentence_encoder.version": torch.tensor([3.0]),
        f"{stack}.lm_head.weight": mine["encoder.embeddings.tokens.weight"],
    }


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
@pytest.mark.parametrize("name", ["xlm-roberta", "xlm-roberta-xl"])
def test_fairseq(name, stack, old, tmp_path):
    layout = FAMILIES[name].fairseq
    weights = to_fairseq(name, layout, stack)
    if old:
        weights = {key.replace("layernorm_embedding", "emb_layer_norm"): one for key, one in weights.items()}
        for number in range(3):
            for end in ("weight", "bias"):
                start = f"{stack}.sentence_encoder.layers.{number}.self_attn."
                three = [weights.pop(f"{start}{one}_proj.{end}") for one in "qkv"]
                weights[f"{start}in_proj_{end}"] = torch.cat(three)
    args = argparse.Namespace(encoder_attention_heads=4, encoder_layers=3, arch="roberta_base", activation_fn="gelu")
    torch.save({"model": weights, "args": args, "extra_state": {"epoch": 1}}, tmp_path / "model.pt")
    converted = convert_as(name, read_foreign(tmp_path / "model.pt"))
    assert converted.notes == ["segment vector: fairseq has none, zeros are written"]
    model = reference(name)
    model.base_model.embeddings.token_type_embeddings.weight.data.zero_()
    line, (tower, head) = text(name), ours(name, model)
    assert apart(outputs(converted, name), head(tower.encode(line)[0][line.present])) < 1e-6


def test_fairseq_names_are_those_of_its_code():
    names = dict(layouts.FAIRSEQ_XLM_ROBERTA.expand(1))
    assert names["encoder.transformer.blocks.0.attention.inward.weight"] == tuple(
        f"layers.0.self_attn.{one}_proj.weight" for one in "qkv"
    )
    assert names["encoder.transformer.blocks.0.feed_forward_norm.bias"] == ("layers.0.final_layer_norm.bias",)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_original_xlm(prefix, tmp_path):
    weights = {prefix + key.removeprefix("transformer."): one for key, one in reference("xlm").state_dict().items()}
    params = {"n_heads": 4, "n_layers": 3, "emb_dim": 32, "n_words": 110, "n_langs": 3, "gelu_activation": True}
    params |= {"id2lang": {0: "ar", 1: "bg", 2: "de"}, "lang2id": {"de": 2, "ar": 0, "bg": 1}}
    params |= {"pad_index": 2, "eos_index": 1, "unk_index": 3, "mask_index": 5, "dropout": 0.1, "attention_dropout": 0.05}
    stored = {"model": weights, "params": params, "dico_id2word": {0: "<s>"}, "dico_word2id": {"<s>": 0}, "dico_counts": {}}
    torch.save(stored, tmp_path / "mlm.pth")
    converted = convert_as("xlm", read_foreign(tmp_path / "mlm.pth"))
    assert torch.equal(outputs(converted, "xlm"), expected("xlm"))
    assert converted.pretrained.languages == ["ar", "bg", "de"]
    assert converted.pretrained.arguments["attention_dropout"] == 0.05
    assert converted.pretrained.sources == {"mlm.pth": checksum(tmp_path / "mlm.pth")}
    with pytest.raises(ValueError, match="--languages is en,de,fr, but the files say ar,bg,de"):
        convert_as("xlm", read_foreign(tmp_path / "mlm.pth"), languages=["en", "de", "fr"])


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
        ("xlm-roberta", {"layer_norm_eps": 1e-12}, "layer_norm_eps is 1e-12, but xlm-roberta has 1e-05"),
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
