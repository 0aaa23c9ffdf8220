"""`interlingua checkpoint` given broken files, wrong values and places that cannot be written: one line each, status 2."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from interlingua.__main__ import main
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.forward_check import compare
from interlingua.models.presets import Size, bert
from interlingua.models.pretrained import make_tower, read_pretrained, write_pretrained
from interlingua.tasks.restore import Restoration, load_encoder

transformers = pytest.importorskip("transformers")
IMPORT = ["import", "hf", "--as", "xlm-roberta", "--output", "tower.safetensors"]
WORDS = "roberta.embeddings.word_embeddings.weight"


@pytest.fixture
def tower(roberta, capsys):
    """The same, imported as `tower.safetensors`."""
    assert main(["checkpoint", *IMPORT]) == 0
    capsys.readouterr()
    return roberta


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
def test_import_refuses_weights_that_are_not_finite(roberta, capsys, value):
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


def test_integers_are_refused(roberta, capsys):
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
def test_configurations_of_wrong_values(roberta, capsys, values, named):
    configure(**values)
    assert named in refused(capsys, IMPORT)


def test_configurations_that_are_none(roberta, capsys):
    Path("hf/config.json").write_text("[1, 2]")
    assert "hf/config.json: holds a list, expected an object of keys and values" in refused(capsys, IMPORT)
    Path("hf/config.json").write_bytes(b"\xff\xfe{")
    assert "hf/config.json: not JSON" in refused(capsys, IMPORT)


@pytest.mark.parametrize("heads", ["0", "-1"])
def test_heads_below_one(roberta, capsys, heads):
    Path("hf/config.json").unlink()
    assert f"--heads is {heads}; expected 1 or more" in refused(capsys, [*IMPORT, "--heads", heads])


@pytest.mark.parametrize("text", ["encoder:\n  class_path: x\n", "", "hello", "}{"])
def test_files_that_are_no_weights(roberta, capsys, text):
    Path("some.yaml").write_text(text)
    error = refused(capsys, ["import", "some.yaml", "--as", "bert", "--output", "x.safetensors"])
    assert "some.yaml: no file of weights, or cut short" in error or "some.yaml: holds other objects" in error


def test_outputs_that_cannot_be_written(tower, capsys, monkeypatch):
    """Known before the work: the files to be read are not even there."""
    for start in (["import", "none", "--as", "bert"], ["resize", "none", "--add", "1"]):
        assert "--output is /proc/o, but no file can be made in /proc (" in refused(capsys, [*start, "--output", "/proc/o"])
        assert "--output is hf, but hf is a folder" in refused(capsys, [*start, "--output", "hf", "--force"])
        under = refused(capsys, [*start, "--output", "tower.safetensors/x"])
        assert "no file can be made in" in under
        assert "tower.safetensors (Not a directory)" in under
    give = ["export", "none", "--as", "bert", "--output"]
    assert "--output is /proc/out, but no file can be made in /proc (" in refused(capsys, [*give, "/proc/out"])
    assert "tower.safetensors, which is a file; expected a folder" in refused(capsys, [*give, "tower.safetensors", "--force"])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (
            ["--add", "100000000000"],
            "110 entries and 100,000,000,000 new ones are 100,000,000,110; a vocabulary may",
        ),
        (["--add", "-3"], "add is -3; expected 0 or more"),
        ([], "nothing to change; give --keep IDS.txt, --add N, --layers N, --segments N"),
        (["--layers", "2,1"], "cannot keep layers 2, 1 and add 0: there are 1 to 2; expected some of them, in order"),
        (["--layers", "1,3"], "cannot keep layers 1, 3 and add 0: there are 1 to 2"),
        (["--segments", "-1"], "cannot have -1 segment vectors in xlm-roberta; expected 1 or more"),
        (["--keep", "none.txt"], "--keep none.txt cannot be read: No such file or directory"),
        (["--keep", "tower.safetensors"], "--keep tower.safetensors is no text; expected one number a line"),
        (["--keep", "wrong.txt"], "wrong.txt: '2²' is no id"),
    ],
)
def test_resize_by_what_is_no_number(tower, capsys, arguments, named):
    Path("wrong.txt").write_text("0 1 2²", encoding="utf-8")
    assert named in refused(capsys, ["resize", "tower.safetensors", *arguments, "--output", "new.safetensors"])
    assert not Path("new.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--ids", "a,b,c,d,e"], "--ids: expected 5 numbers (pad, unknown, start, end, mask), found 'a,b,c,d,e'"),
        (["--heads", "x"], "--heads: expected a whole number, found 'x'"),
    ],
)
def test_options_that_are_no_numbers(roberta, capsys, arguments, named):
    with pytest.raises(SystemExit):
        main(["checkpoint", *IMPORT, *arguments])
    assert named in capsys.readouterr().err


def test_a_training_checkpoint_and_a_folder_are_told_from_a_file_of_import(roberta, capsys):
    torch.save({"state_dict": {"encoder.table": torch.ones(3)}}, "last.ckpt")
    for command in (["show", "last.ckpt"], ["resize", "last.ckpt", "--add", "1", "--output", "x"]):
        error = refused(capsys, command)
        assert "last.ckpt is a training checkpoint" in error
        assert "`interlingua checkpoint export last.ckpt --as FAMILY --output DIR`" in error
    hint = "hf is a folder, expected a file; where it is a checkpoint of Hugging Face's, make a file of it: `interlingua"
    for command in (["show", "hf"], ["export", "hf", "--as", "bert", "--output", "x"]):
        assert hint in refused(capsys, command)
    with pytest.raises(ValueError, match=hint):
        Restoration("hf")
    with pytest.raises(ValueError, match=hint):
        load_encoder(bert(Vocabulary(9), Size(4, 1, 2)), "hf")


def test_another_encoder_is_not_said_to_match(roberta):
    state = bert(Vocabulary(11), Size(4, 1, 2)).state_dict()
    torch.save({"state_dict": {f"encoder.{name}": weight for name, weight in state.items()}}, "last.ckpt")
    said: list[str] = []
    with pytest.raises(ValueError, match=r"tokens\.weight: checkpoint \(11, 4\), encoder \(9, 4\)"):
        load_encoder(bert(Vocabulary(9), Size(4, 1, 2)), "last.ckpt", said.append)
    assert said == []


@pytest.mark.parametrize("told", ["[]", "not json", '{"version": 1}', '{"version": 1, "family": "bert", "encoder": 3}'])
def test_files_of_ours_whose_description_is_damaged(roberta, capsys, told):
    save_file({"encoder.x": torch.ones(1)}, "bad.safetensors", {"interlingua": told})
    assert "bad.safetensors: " in refused(capsys, ["show", "bad.safetensors"])


@pytest.mark.parametrize("text", ["encoder:\n  class_path: x\n", "", "hello"])
def test_files_that_are_no_checkpoint(roberta, capsys, text):
    Path("some.yaml").write_text(text)
    named = "some.yaml: neither a file of `interlingua checkpoint import`, nor a .ckpt"
    assert named in refused(capsys, ["export", "some.yaml", "--as", "bert", "--output", "out"])
    with pytest.raises(ValueError, match=r"some\.yaml: no checkpoint, cut short, or with other objects"):
        load_encoder(bert(Vocabulary(9), Size(4, 1, 2)), "some.yaml")
