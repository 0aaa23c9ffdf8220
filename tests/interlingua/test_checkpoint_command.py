"""`interlingua checkpoint`: import, show, resize and export, from folders, files and trained checkpoints."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from interlingua.__main__ import main
from interlingua.models import forward_check
from interlingua.models.pretrained import read_pretrained

transformers = pytest.importorskip("transformers")
IDS = "0,1,2,3,4"


def test_import_show_export(roberta, capsys):
    assert main(["checkpoint", "import", "hf", "--as", "xlm-roberta", "--output", "made/tower.safetensors"]) == 0
    out = capsys.readouterr().out
    assert "42 of 42 weights matched, 0 missing, 0 unexpected\nnot in the file: pooler\n" in out
    assert "vocabulary 110: pad 1, unknown 3, start 0, end 2, mask 109" in out
    assert "forward check: XLMRobertaForMaskedLM agrees; largest difference of states " in out
    assert out.endswith("written: made/tower.safetensors\n")
    assert main(["checkpoint", "show", "made/tower.safetensors"]) == 0
    shown = capsys.readouterr().out
    assert "2 layers, width 16, 2 heads, inner 32, max_tokens 24" in shown
    assert "made of: model.safetensors sha256 " in shown
    node = yaml.safe_load(shown[shown.index("encoder:") :])["encoder"]
    assert node == read_pretrained("made/tower.safetensors").configuration
    assert main(["checkpoint", "export", "made/tower.safetensors", "--as", "xlm-roberta", "--output", "back"]) == 0
    assert "for XLMRobertaForMaskedLM\nforward check: XLMRobertaForMaskedLM agrees" in capsys.readouterr().out
    first, second = load_file("hf/model.safetensors"), load_file("back/model.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())


def test_what_is_left_aside_is_named(roberta, capsys):
    weights = load_file("hf/model.safetensors") | {"classifier.dense.weight": torch.ones(2, 2)}
    weights["roberta.embeddings.position_ids"] = torch.arange(26)
    save_file(weights, "hf/model.safetensors")
    assert main(["checkpoint", "import", "hf", "--as", "xlm-roberta", "--output", "tower.safetensors"]) == 0
    out = capsys.readouterr().out
    assert "42 of 44 weights matched, 0 missing, 1 unexpected (1 buffers or copies set aside)" in out
    assert "unexpected, left aside: classifier.dense.weight" in out


def test_without_transformers_it_is_said(roberta, capsys, monkeypatch):
    monkeypatch.setattr(forward_check, "find_spec", lambda name: None)
    assert main(["checkpoint", "import", "hf", "--as", "xlm-roberta", "--output", "tower.safetensors"]) == 0
    assert "forward check: left out, since transformers is not installed" in capsys.readouterr().out


def test_a_configuration_that_others_compute_otherwise_is_caught(roberta, capsys, monkeypatch):
    """What a check of names cannot see: their class, built as their file says, gives other outputs."""
    monkeypatch.setattr("interlingua.models.foreign_configuration.NEEDED", {})
    config = json.loads(Path("hf/config.json").read_text())
    Path("hf/config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    assert main(["checkpoint", "import", "hf", "--as", "xlm-roberta", "--output", "tower.safetensors"]) == 2
    assert "does not compute what XLMRobertaForMaskedLM does" in capsys.readouterr().err
    assert not Path("tower.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["import", "none", "--as", "bert", "--output", "x"], "import: none does not exist"),
        (["import", "hf", "--as", "bert", "--output", "x"], "model_type is 'xlm-roberta', but it is to be read as bert"),
        (
            ["import", "hf", "--as", "xlm-roberta", "--heads", "4", "--output", "x"],
            "--heads is 4, but num_attention_heads is 2",
        ),
        (["import", "hf", "--as", "xlm-roberta", "--languages", "en", "--output", "x"], "names 1, but there are 0 language"),
        (
            ["import", "hf", "--as", "xlm-roberta", "--output", "hf/config.json"],
            "hf/config.json would be overwritten; choose",
        ),
        (["export", "none", "--as", "bert", "--output", "x"], "export: none does not exist"),
        (["export", "hf/model.safetensors", "--as", "bert", "--output", "x"], "is not of ours"),
        (["show", "hf/config.json"], "not safetensors"),
    ],
)
def test_mistakes_are_answered_in_a_line(roberta, capsys, arguments, named):
    assert main(["checkpoint", *arguments]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


def test_wrong_use_is_answered_in_a_line(roberta, capsys):
    with pytest.raises(SystemExit):
        main(["checkpoint", "import", "hf", "--as", "xlm-roberta", "--ids", "1,2", "--output", "x"])
    assert "expected 5 numbers (pad, unknown, start, end, mask), found 2" in capsys.readouterr().err


def test_languages_by_hand(roberta, capsys):
    sizes = {"vocab_size": 110, "emb_dim": 16, "n_layers": 1, "n_heads": 2, "n_langs": 3, "max_position_embeddings": 24}
    transformers.XLMWithLMHeadModel(transformers.XLMConfig(**sizes)).save_pretrained("xlm")
    assert main(["checkpoint", "import", "xlm", "--as", "xlm", "--output", "nameless.safetensors"]) == 0
    assert "languages: the files do not name them; give --languages" in capsys.readouterr().out
    named = ["--languages", "ar,bg,de"]
    assert main(["checkpoint", "import", "xlm", "--as", "xlm", "--output", "tower.safetensors", *named]) == 0
    assert "languages: ar 0, bg 1, de 2" in capsys.readouterr().out
    assert main(["checkpoint", "export", "tower.safetensors", "--as", "xlm", "--output", "back"]) == 0
    assert json.loads(Path("back/config.json").read_text())["lang2id"] == {"ar": 0, "bg": 1, "de": 2}
    assert main(["checkpoint", "export", "nameless.safetensors", "--as", "xlm", "--output", "named", *named]) == 0
    assert json.loads(Path("named/config.json").read_text())["id2lang"] == {"0": "ar", "1": "bg", "2": "de"}
    capsys.readouterr()
    assert main(["checkpoint", "export", "nameless.safetensors", "--as", "bert", "--output", "other"]) == 2
    assert "nameless.safetensors is xlm, but --as is bert" in capsys.readouterr().err


def test_resize(roberta, capsys):
    assert main(["checkpoint", "import", "hf", "--as", "xlm-roberta", "--output", "tower.safetensors"]) == 0
    Path("keep.txt").write_text("\n".join(map(str, [*range(50), 109])))
    command = ["checkpoint", "resize", "tower.safetensors", "--keep", "keep.txt", "--add", "9", "--output", "small.safetensors"]
    assert main(command) == 0
    assert "vocabulary: 110 entries, now 60, the last 9 new" in capsys.readouterr().out
    assert read_pretrained("small.safetensors").arguments["vocabulary"]["mask"] == 50
    assert main(["checkpoint", "export", "small.safetensors", "--as", "xlm-roberta", "--output", "small"]) == 0
    Path("keep.txt").write_text("0 1 two")
    assert main([*command[:-1], "other.safetensors"]) == 2
    assert "keep.txt: 'two' is no id" in capsys.readouterr().err


MLM = "interlingua.tasks.objectives.masked_language.MaskedLanguage"
NSP = "interlingua.tasks.objectives.next_sentence.NextSentence"


def train(path: str, encoder: dict, objectives: dict) -> None:
    """A checkpoint as `interlingua fit` leaves one, before the first step."""
    from interlingua.checking import build
    from interlingua.tasks.pretraining import Pretraining

    optimization = {"learning_rate": 0.001}
    arguments = {"encoder": encoder, "objectives": objectives, "passes": {"texts": [[name] for name in objectives]}}
    node = {"class_path": "interlingua.tasks.pretraining.Pretraining", "init_args": {**arguments, "optimization": optimization}}
    module = build(Pretraining, node)
    state = {name: torch.randn_like(weight) for name, weight in module.state_dict().items()}
    torch.save({"state_dict": state, "configuration": {"model": node}}, path)


def encoder(**vocabulary) -> dict:
    arguments = {"vocabulary": {"size": 110, **vocabulary}, "size": {"width": 16, "layers": 2, "heads": 2}, "max_tokens": 24}
    return {"class_path": "interlingua.models.presets.bert", "init_args": arguments}


def test_export_of_a_trained_checkpoint(roberta, capsys):
    objectives = {"mlm": {"class_path": MLM}, "more": {"class_path": MLM}, "nsp": {"class_path": NSP}}
    two = {"class_path": "interlingua.models.two_towers.TwoTowers", "init_args": {"text": encoder(), "vector_width": 8}}
    train("last.ckpt", two, objectives)
    command = ["checkpoint", "export", "last.ckpt", "--as", "bert", "--output", "out"]
    assert main(command) == 2
    assert "several objectives have token heads of their own: mlm, more; give one as --objective" in capsys.readouterr().err
    assert main([*command, "--objective", "nsp"]) == 2
    assert "objective 'nsp' has no token head; those with one: mlm, more" in capsys.readouterr().err
    assert main([*command, "--objective", "more"]) == 0
    assert "for BertForPreTraining\nforward check: BertForPreTraining agrees" in capsys.readouterr().out
    state = torch.load("last.ckpt", weights_only=True)["state_dict"]
    theirs = transformers.BertForPreTraining.from_pretrained("out")
    assert torch.equal(theirs.bert.embeddings.word_embeddings.weight, state["encoder.text.embeddings.tokens.weight"])
    assert torch.equal(theirs.cls.predictions.bias, state["objectives.more.head.bias"])
    assert torch.equal(theirs.cls.seq_relationship.weight, state["objectives.nsp.pair_head.head.weight"])
    assert main(["checkpoint", "import", "out", "--as", "bert", "--output", "tower.safetensors"]) == 0
    assert read_pretrained("tower.safetensors").arguments["vocabulary"]["mask"] == 4  # ours, kept in config.json
    assert main(["checkpoint", "export", "last.ckpt", "--as", "xlm-roberta", "--output", "other"]) == 2
    assert "the tower is not xlm-roberta; position_offset: it has 0, xlm-roberta has 1; seg" in capsys.readouterr().err


def test_a_head_that_objectives_share_is_one(roberta, capsys):
    objectives = {"mlm": {"class_path": MLM}, "more": {"class_path": MLM}}
    train("last.ckpt", encoder(), objectives)
    checkpoint = torch.load("last.ckpt", weights_only=True)
    state = checkpoint["state_dict"]
    state |= {name.replace(".mlm.", ".more."): weight for name, weight in state.items() if ".mlm." in name}
    torch.save(checkpoint, "last.ckpt")
    assert main(["checkpoint", "export", "last.ckpt", "--as", "bert", "--output", "out"]) == 0
    assert "for BertForMaskedLM" in capsys.readouterr().out


def test_export_of_a_tower_without_a_token_head(roberta, capsys):
    train("last.ckpt", encoder(), {"nsp": {"class_path": NSP}})
    assert main(["checkpoint", "export", "last.ckpt", "--as", "bert", "--output", "out"]) == 0
    out = capsys.readouterr().out
    assert "no objective has a token head: the tower is written without one" in out
    assert "left out, since BertModel has none: next_sentence" in out
    torch.save({"state_dict": {}}, "other.ckpt")
    assert main(["checkpoint", "export", "other.ckpt", "--as", "bert", "--output", "other"]) == 2
    assert "holds no configuration of an encoder" in capsys.readouterr().err
