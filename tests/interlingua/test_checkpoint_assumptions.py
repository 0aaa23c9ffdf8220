"""What weights do not tell (control ids, heads, epsilon): read where it is written, said where it is assumed."""

import json
from pathlib import Path

import pytest
import torch

from interlingua.__main__ import main
from interlingua.models.pretrained import fill_tower, make_tower, read_pretrained

transformers = pytest.importorskip("transformers")
SIZES = {"vocab_size": 110, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(105))]
IMPORT = ["checkpoint", "import", "hf", "--output", "tower.safetensors", "--force", "--as"]


@pytest.fixture
def bert(tmp_path, monkeypatch):
    """A working folder with a BERT in `hf` whose control ids are not the published ones."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    config = transformers.BertConfig(**SIZES, max_position_embeddings=24)
    transformers.BertForMaskedLM(config).save_pretrained("hf")
    return tmp_path


def ids() -> tuple[int, ...]:
    vocabulary = read_pretrained("tower.safetensors").arguments["vocabulary"]
    return tuple(vocabulary[name] for name in ("pad", "unknown", "start", "end", "mask"))


def write_vocabulary(file: str) -> None:
    numbers = {piece: number for number, piece in enumerate(VOCABULARY)}
    if file == "vocab.txt":
        Path("hf/vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    if file == "tokenizer.json":
        Path("hf/tokenizer.json").write_text(json.dumps({"model": {"vocab": numbers}, "added_tokens": []}))
    if file == "added":
        added = [{"id": number, "content": piece} for piece, number in list(numbers.items())[:5]]
        Path("hf/tokenizer.json").write_text(json.dumps({"model": {"vocab": [["w", -1.0]]}, "added_tokens": added}))
    if file == "tokenizer_config.json":
        decoder = {str(number): {"content": f"<{number}>"} for number in range(5)}
        names = {
            "pad_token": "<0>",
            "unk_token": "<1>",
            "cls_token": "<2>",
            "sep_token": {"content": "<3>"},
            "mask_token": "<4>",
        }
        Path("hf/tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder, **names}))


@pytest.mark.parametrize("file", ["vocab.txt", "tokenizer.json", "added", "tokenizer_config.json"])
def test_control_ids_are_read_from_the_tokenizer_beside_the_weights(bert, capsys, file):
    write_vocabulary(file)
    assert main([*IMPORT, "bert"]) == 0
    out = capsys.readouterr().out
    assert ids() == (0, 1, 2, 3, 4)
    assert "control ids of pad, unknown, start, end, mask: as in " in out
    assert "assumed" not in out


def test_assumed_control_ids_are_said(bert, capsys):
    assert main([*IMPORT, "bert"]) == 0
    out = capsys.readouterr().out
    assert "control ids assumed, as published: unknown 100, start 101, end 102, mask 103; no file says them: give --ids" in out
    file = read_pretrained("tower.safetensors")
    assert main([*IMPORT, "bert", "--ids", "0,1,2,3,4"]) == 0
    assert "assumed" not in capsys.readouterr().out
    with pytest.raises(ValueError, match="import it anew with `interlingua checkpoint import --ids`"):
        fill_tower(make_tower(read_pretrained("tower.safetensors")), file, "tower.safetensors")


def test_two_files_that_number_otherwise(bert, capsys):
    write_vocabulary("vocab.txt")
    config = json.loads(Path("hf/config.json").read_text())
    Path("hf/config.json").write_text(json.dumps({**config, "pad_token_id": 7}))
    assert main([*IMPORT, "bert"]) == 2
    assert (
        "the pad id is 0 in the tokenizer's files, but pad_token_id is 7; say which is right: --ids" in capsys.readouterr().err
    )
    assert main([*IMPORT, "bert", "--ids", "7,1,2,3,4"]) == 0
    assert ids() == (7, 1, 2, 3, 4)


def test_without_a_configuration_of_theirs_nothing_agrees(bert, capsys):
    Path("hf/config.json").unlink()
    assert main([*IMPORT, "bert", "--heads", "4"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("forward check"))
    assert "is consistent with the assumed heads, epsilon and ids; not checked against a configuration of theirs; " in line
    assert "agrees" not in line


@pytest.mark.parametrize("kind", ["XLMRoberta", "Roberta"])
def test_configurations_by_default_are_taken_as_they_are(tmp_path, monkeypatch, capsys, kind):
    """Another epsilon and two segment vectors, as the class defaults have it; RoBERTa is the same tower."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES, max_position_embeddings=26)
    theirs = getattr(transformers, f"{kind}ForMaskedLM")(config).eval()
    theirs.save_pretrained("hf")
    assert main([*IMPORT, "xlm-roberta"]) == 0
    out = capsys.readouterr().out
    assert "segment vectors: 2; xlm-roberta's texts have the first, the rest is left out" in out
    assert "forward check: XLMRobertaForMaskedLM agrees" in out
    file = read_pretrained("tower.safetensors")
    assert file.arguments["epsilon"] == 1e-12
    assert make_tower(file).embeddings.norm.eps == 1e-12
    assert main(["checkpoint", "export", "tower.safetensors", "--as", "xlm-roberta", "--output", "out"]) == 0
    assert "agrees" in capsys.readouterr().out
    assert json.loads(Path("out/config.json").read_text())["layer_norm_eps"] == 1e-12
    tokens = torch.tensor([[0, 9, 30, 77, 2]])
    back = transformers.XLMRobertaForMaskedLM.from_pretrained("out")
    assert torch.allclose(back(tokens).logits, theirs(tokens).logits, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "xlm"])
def test_another_epsilon_goes_there_and_back(tmp_path, monkeypatch, family, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = {"vocab_size": 110, "emb_dim": 16, "n_layers": 1, "n_heads": 2, "n_langs": 3, "max_position_embeddings": 24}
    if family == "bert":
        model = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, layer_norm_eps=1e-5))
    else:
        model = transformers.XLMWithLMHeadModel(transformers.XLMConfig(**sizes, layer_norm_eps=1e-5))
    model.save_pretrained("hf")
    assert main([*IMPORT, family]) == 0
    assert main(["checkpoint", "export", "tower.safetensors", "--as", family, "--output", "out"]) == 0
    assert capsys.readouterr().out.count(" agrees; ") == 2
    assert json.loads(Path("out/config.json").read_text())["layer_norm_eps"] == 1e-5
