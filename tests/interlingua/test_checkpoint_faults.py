"""`interlingua checkpoint` given broken files, wrong values and places that cannot be written: one line each, status 2."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from interlingua.__main__ import main
from interlingua.models.forward_check import compare
from interlingua.models.pretrained import read_pretrained, write_pretrained
from interlingua.tasks.restore import Restoration, load_encoder

transformers = pytest.importorskip("transformers")
SIZES = {"vocab_size": 110, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": 26, "layer_norm_eps": 1e-5}
IMPORT = ["import", "hf", "--as", "xlm-roberta", "--output", "tower.safetensors"]
WORDS = "roberta.embeddings.word_embeddings.weight"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with an XLM-R in `hf`."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    transformers.XLMRobertaForMaskedLM(transformers.XLMRobertaConfig(**SIZES, **ROBERTA)).save_pretrained("hf")
    return tmp_path


@pytest.fixture
def tower(folder, capsys):
    """The same, imported as `tower.safetensors`."""
    assert main(["checkpoint", *IMPORT]) == 0
    capsys.readouterr()
    return folder


def refused(capsys, arguments: list[str]) -> str:
    """The one line with which a command refuses."""
    assert main(["checkpoint", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def change_weights(name: str, change) -> None:
    weights = load_file("hf/model.safetensors")
    save_file(weights | {name: change(weights[name])}, "hf/model.safetensors")


def configure(**values) -> None:
    config = json.loads(Path("hf/config.json").read_text())
    Path("hf/config.json").write_text(json.dumps(config | values))


def spoil(weight: torch.Tensor, value: float) -> torch.Tensor:
    weight = weight.clone()
    weight[7, 0] = value
    return weight


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_import_refuses_weights_that_are_not_finite(folder, capsys, value):
    change_weights(WORDS, lambda weight: spoil(weight, value))
    error = refused(capsys, IMPORT)
    assert "embeddings.word_embeddings.weight holds 1 values of 1,760 that are infinite or NaN" in error
    assert not Path("tower.safetensors").exists()


def test_what_is_not_finite_goes_nowhere(tower, capsys):
    """Not out, not into another vocabulary, and not into a training."""
    file = read_pretrained("tower.safetensors")
    name = "encoder.embeddings.tokens.weight"
    file.weights[name] = spoil(file.weights[name], float("inf"))
    write_pretrained(file, "bad.safetensors")
    named = f"{name} holds 1 values of 1,760 that are infinite or NaN"
    assert named in refused(capsys, ["export", "bad.safetensors", "--as", "xlm-roberta", "--output", "out"])
    assert not Path("out").exists()
    assert named in refused(capsys, ["resize", "bad.safetensors", "--add", "1", "--output", "more.safetensors"])
    assert not Path("more.safetensors").exists()
    from interlingua.models.pretrained import make_tower

    encoder = make_tower(read_pretrained("tower.safetensors"))
    with pytest.raises(ValueError, match=r"tokens\.weight holds 1 values"):
        Restoration("bad.safetensors").fill_encoder(encoder)
    state = {f"encoder.{key}": weight for key, weight in encoder.state_dict().items()}
    torch.save({"state_dict": state | {name: file.weights[name]}}, "bad.ckpt")
    before = encoder.tokens.weight.clone()
    with pytest.raises(ValueError, match=r"embeddings\.tokens\.weight holds 1 values"):
        load_encoder(encoder, "bad.ckpt")
    assert torch.equal(encoder.tokens.weight, before)


def test_nan_does_not_agree(tower):
    """The forward check itself, whatever was refused before it."""
    file = read_pretrained("tower.safetensors")
    theirs = transformers.XLMRobertaForMaskedLM.from_pretrained("hf")
    file.weights["head.bias"][3] = float("nan")
    with pytest.raises(ValueError, match="scores by nan"):
        compare(file, theirs)


def test_integers_are_refused(folder, capsys):
    change_weights(WORDS, lambda weight: (100 * weight).to(torch.int8))
    assert "embeddings.word_embeddings.weight is of int8; expected float16, " in refused(capsys, IMPORT)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads is 0; expected 1 or more"),
        ({"num_attention_heads": -2}, "num_attention_heads is -2; expected 1 or more"),
        ({"num_attention_heads": "two"}, "hf/config.json: num_attention_heads is 'two'; expected a whole number"),
        ({"vocab_size": None}, "hf/config.json: vocab_size is None; expected a whole number"),
        ({"layer_norm_eps": "small"}, "hf/config.json: layer_norm_eps is 'small'; expected a number"),
        ({"initializer_range": None, "chunk_size_feed_forward": "x"}, "XLMRobertaForMaskedLM cannot be built of the config"),
    ],
)
def test_configurations_of_wrong_values(folder, capsys, values, named):
    configure(**values)
    assert named in refused(capsys, IMPORT)


def test_configurations_that_are_none(folder, capsys):
    Path("hf/config.json").write_text("[1, 2]")
    assert "hf/config.json: holds a list, expected an object of keys and values" in refused(capsys, IMPORT)
    Path("hf/config.json").write_bytes(b"\xff\xfe{")
    assert "hf/config.json: not JSON" in refused(capsys, IMPORT)


@pytest.mark.parametrize("heads", ["0", "-1"])
def test_heads_below_one(folder, capsys, heads):
    Path("hf/config.json").unlink()
    assert f"--heads is {heads}; expected 1 or more" in refused(capsys, [*IMPORT, "--heads", heads])


@pytest.mark.parametrize("text", ["encoder:\n  class_path: x\n", "", "hello", "}{"])
def test_files_that_are_no_weights(folder, capsys, text):
    Path("some.yaml").write_text(text)
    error = refused(capsys, ["import", "some.yaml", "--as", "bert", "--output", "x.safetensors"])
    assert "some.yaml: no file of weights, or cut short" in error or "some.yaml: holds other objects" in error
