"""`interlingua checkpoint` of fused encoders: import, show and export; a start of training from a file; and what is refused."""

import json
from pathlib import Path

import pytest
import tiny
import torch
import yaml

from interlingua.__main__ import main
from interlingua.checking import build, check_class
from interlingua.modalities.batch import Regions
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models import fused_presets, presets
from interlingua.models.encoder import Encoder
from interlingua.models.fused_layouts import LXMERT_PART
from interlingua.models.fused_pretrained import make_fused
from interlingua.models.layouts import give_back
from interlingua.models.presets import Size
from interlingua.models.pretrained import read_pretrained
from interlingua.models.volta_layout import volta
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.restore import Restoration

transformers = pytest.importorskip("transformers")
IDS = "0,1,2,3,4"
CLASSES = {"visualbert": "VisualBert", "lxmert": "Lxmert"}
SIZES = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 26}
SINGLE = {f"{gate}_attn_sublayers": [0, 2] for gate in ("tt", "tv", "vt", "vv")}
SINGLE |= {"t_ff_sublayers": [1, 3], "v_ff_sublayers": [1, 3], "shared_sublayers": [0, 1, 2, 3], "single_ln_sublayers": []}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a VisualBERT in `visualbert`, an LXMERT in `lxmert` and a BERT in `bert`."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    config = transformers.VisualBertConfig(**SIZES, num_hidden_layers=2, visual_embedding_dim=6)
    transformers.VisualBertForPreTraining(config).save_pretrained("visualbert")
    config = transformers.LxmertConfig(**SIZES, l_layers=1, r_layers=1, x_layers=2, visual_feat_dim=6)
    transformers.LxmertForPreTraining(config).save_pretrained("lxmert")
    config = transformers.BertConfig(**SIZES, num_hidden_layers=2)
    transformers.BertForPreTraining(config).save_pretrained("bert")
    return tmp_path


def take(*arguments):
    return main(["checkpoint", "import", *arguments])


def refused(capsys, *arguments) -> str:
    """The one line with which a command refuses."""
    assert main(["checkpoint", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("name", ["visualbert", "lxmert"])
def test_import_show_export(folder, capsys, name):
    assert take(name, "--as", name, "--ids", IDS, "--output", "ours.safetensors") == 0
    out = capsys.readouterr().out
    assert "weights matched, 0 missing, " in out
    assert ("unexpected, left aside: answer_head.logit_fc.0.weight" in out) == (name == "lxmert")
    agrees = f"forward check: {CLASSES[name]}ForPreTraining agrees; largest differences: text "
    assert agrees in out
    assert ", matching " in out.partition(agrees)[2]
    assert main(["checkpoint", "show", "ours.safetensors"]) == 0
    shown = capsys.readouterr().out
    plan = "2 joint" if name == "visualbert" else f"1 text, 1 picture, 2 x {LXMERT_PART}"
    assert f"plan: {plan}; regions of 6 numbers" in shown
    node = yaml.safe_load(shown[shown.index("encoder:") :])["encoder"]
    check_class("model.encoder", node)
    assert node["class_path"] == f"interlingua.models.fused_presets.{name}"
    made, again = make_fused(read_pretrained("ours.safetensors")), build(Encoder, node)
    assert made.state_dict().keys() == again.state_dict().keys()
    assert main(["checkpoint", "export", "ours.safetensors", "--as", name, "--output", "back"]) == 0
    out = capsys.readouterr().out
    assert "written: back/config.json and back/model.safetensors, for " in out
    assert "ForPreTraining agrees; largest differences:" in out
    before = getattr(transformers, f"{CLASSES[name]}Model")
    one, other = before.from_pretrained(name).state_dict(), before.from_pretrained("back").state_dict()
    assert all(torch.equal(weight, other[key]) for key, weight in one.items())


def write_volta(**changes):
    facts = {**SIZES, **SINGLE, "type_vocab_size": 2, "image_embeddings": "visualbert", "v_feature_size": 6}
    facts |= {"fusion_method": "text", "pooler_size": 16, "add_global_imgfeat": "first", "v_hidden_size": 16, "num_locs": 5}
    Path("volta.json").write_text(json.dumps({**facts, **changes}))
    text = presets.bert(Vocabulary(50), Size(16, 2, 2, 32), 26)
    encoder = fused_presets.visualbert(text, 6, "2 joint", "first", fused_presets.Pool("text", 16, "relu"))
    weights = {f"encoder.{name}": weight for name, weight in encoder.state_dict().items()}
    layout = volta(encoder)
    bare = give_back(weights, layout)
    bare |= {copy: bare[name] for copy, name in layout.tied.items() if name in bare and not copy.startswith("cls.")}
    torch.save({f"module.bert.{name}": weight for name, weight in bare.items()}, "volta.bin")
    return encoder


def test_a_bin_of_voltas_with_its_configuration(folder, capsys):
    encoder = write_volta()
    assert take("volta.bin", "--as", "volta", "--config", "volta.json", "--ids", IDS, "--output", "ours.safetensors") == 0
    out = capsys.readouterr().out
    assert ", 0 missing, 0 unexpected (" in out  # and the copies set aside
    assert "not in the file: head\nnot in the file: matching\n" in out
    assert "plan: 2 joint; regions of 6 numbers" in out
    file = read_pretrained("ours.safetensors")
    assert sorted(file.sources) == ["volta.bin", "volta.json"]
    assert all(torch.equal(file.part("encoder")[name], weight) for name, weight in encoder.state_dict().items())
    error = refused(capsys, "export", "ours.safetensors", "--as", "visualbert", "--output", "back")
    assert "no visualbert of Hugging Face's; whole: it has first, theirs None; activation: it has relu, theirs tanh" in error


def test_a_start_from_a_file_fills_encoder_and_heads(folder, capsys):
    assert take("lxmert", "--as", "lxmert", "--ids", IDS, "--output", "ours.safetensors") == 0
    file = read_pretrained("ours.safetensors")
    encoder = build(Encoder, file.configuration)
    said, objectives = [], {"mlm": MaskedLanguage(), "itm": ImageTextMatching()}
    start = Restoration("ours.safetensors", said.append)
    start.fill_encoder(encoder)
    for objective in objectives.values():
        objective.connect(encoder)
    start.fill_heads(encoder, objectives)
    count = len(encoder.state_dict())
    assert said == [f"ours.safetensors: lxmert encoder, {count} weights matched, 0 missing, 0 unexpected; heads of mlm, itm"]
    assert all(torch.equal(one, file.part("encoder")[name]) for name, one in encoder.state_dict().items())
    assert torch.equal(objectives["itm"].head.weight, file.part("matching")["weight"])
    other = fused_presets.lxmert(encoder.text, 6, encoder.plan, pool=fused_presets.Pool(activation="relu"))
    message = r"\(lxmert\) is not of this encoder; activation: file tanh, encoder relu; set `model.encoder`"
    with pytest.raises(ValueError, match=message):
        Restoration("ours.safetensors").fill_encoder(other)
    with pytest.raises(ValueError, match=r"holds a fused encoder \(lxmert\), but this one is a TextTower"):
        Restoration("ours.safetensors").fill_encoder(encoder.text)


def test_a_checkpoint_of_training_becomes_theirs(folder, capsys):
    """With the token head and the head of matching that were trained on it."""
    assert take("visualbert", "--as", "visualbert", "--ids", IDS, "--output", "ours.safetensors") == 0
    file, objectives = read_pretrained("ours.safetensors"), {}
    state = {f"encoder.{name}": weight for name, weight in file.part("encoder").items()}
    for name, objective, part in (("mlm", MaskedLanguage, "head"), ("itm", ImageTextMatching, "matching")):
        objectives[name] = {"class_path": f"interlingua.{objective.__module__.partition('.')[2]}.{objective.__name__}"}
        state |= {f"objectives.{name}.head.{key}": weight for key, weight in file.part(part).items()}
    node = {"init_args": {"encoder": file.configuration, "objectives": objectives}}
    torch.save({"state_dict": state, "configuration": {"model": node}}, "last.ckpt")
    capsys.readouterr()
    assert main(["checkpoint", "export", "last.ckpt", "--as", "visualbert", "--output", "back"]) == 0
    assert "for VisualBertForPreTraining\nforward check: VisualBertForPreTraining agrees" in capsys.readouterr().out
    one, other = (transformers.VisualBertForPreTraining.from_pretrained(name).state_dict() for name in ("visualbert", "back"))
    assert all(torch.equal(weight, other[key]) for key, weight in one.items())
    assert main(["checkpoint", "export", "last.ckpt", "--as", "bert", "--output", "text"]) == 0  # its text tower alone
    error = refused(capsys, "export", "last.ckpt", "--as", "lxmert", "--output", "back", "--force")
    assert "regions are embedded by JoinedRegions, theirs by AveragedRegions" in error


def test_control_ids_are_those_of_the_tokenizer_beside(folder, capsys):
    Path("visualbert/vocab.txt").write_text("\n".join(["[PAD]", "a", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    assert take("visualbert", "--as", "visualbert", "--output", "ours.safetensors") == 0
    out = capsys.readouterr().out
    assert "control ids of pad, unknown, start, end, mask: as in vocab.txt\n" in out
    assert "vocabulary 50: pad 0, unknown 2, start 3, end 4, mask 5\n" in out


def test_a_text_stream_starts_from_bert_with_layers_of_its_own_number(folder, capsys):
    assert take("bert", "--as", "bert", "--ids", IDS, "--output", "bert.safetensors") == 0
    plan = "text, picture, 2 x (shared cross attention, own attention, own feed-forward)"
    text = presets.bert(Vocabulary(50), Size(16, 3, 2, 32), 26, segments=3)
    encoder = fused_presets.lxmert(text, 6, plan)
    message = "layers: file 2, encoder 3; .*; or make the file fit: `interlingua checkpoint resize bert.safetensors --layers N"
    with pytest.raises(ValueError, match=message):
        Restoration("bert.safetensors").fill_encoder(encoder)
    capsys.readouterr()
    arguments = ["resize", "bert.safetensors", "--layers", "3", "--segments", "3", "--output", "longer.safetensors"]
    assert main(["checkpoint", *arguments]) == 0
    assert capsys.readouterr().out.startswith("layers: 2, now 3, the last 1 new, at random\nsegment vectors: now 3; ")
    start = Restoration("longer.safetensors")
    start.fill_encoder(encoder)
    assert start.said.startswith("longer.safetensors: bert tower, ")
    assert "weights of Fused start fresh" in start.said
    file = read_pretrained("bert.safetensors").part("encoder")
    for name, weight in file.items():
        found = encoder.text.state_dict()[name]
        assert torch.equal(found[:2] if "segments" in name else found, weight), name
    block = encoder.text.transformer.blocks[2]
    assert 0.01 < block.attention.inward.weight.std() < 0.03
    assert not block.attention.inward.bias.any()
    assert (block.attention_norm.weight == 1).all()
    assert main(["checkpoint", "resize", "longer.safetensors", "--layers", "1,3", "--output", "some.safetensors"]) == 0
    some = read_pretrained("some.safetensors")
    assert some.arguments["size"]["layers"] == 2
    assert torch.equal(some.weights["encoder.transformer.blocks.1.attention.inward.weight"], block.attention.inward.weight)


def test_training_from_a_file_reads_regions(folder):
    assert take("visualbert", "--as", "visualbert", "--ids", IDS, "--output", "ours.safetensors") == 0
    encoder = make_fused(read_pretrained("ours.safetensors"))
    present = torch.ones(2, 3, dtype=torch.bool)
    given = tiny.batch([5, 4], text=tiny.text([5, 4], vocabulary=Vocabulary(50)))
    given = given._replace(regions=Regions(torch.randn(2, 3, 6), torch.tensor([0.0, 0, 1, 1]).expand(2, 3, 4), present))
    states = encoder(given)
    assert states.joint.shape == (2, 16)
    assert states.regions.shape == (2, 3, 16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["volta.bin", "--as", "volta"],
            "the weights do not tell what volta they are of; give their own configuration by --config",
        ),
        (["volta.bin", "--as", "volta", "--config", "none.json"], "--config none.json does not exist"),
        (["bert", "--as", "bert", "--config", "volta.json"], "--config is for visualbert, lxmert, uniter, vilbert, volta"),
        (["lxmert", "--as", "lxmert", "--heads", "2"], "--heads is not for lxmert, whose configuration says it"),
        (["visualbert", "--as", "lxmert", "--config", "volta.json"], "volta.json does not say l_layers"),
        (["lxmert", "--as", "visualbert"], "model_type is 'lxmert', but it is to be read as visualbert; give --as lxmert"),
        (["volta.bin", "--as", "uniter", "--config", "volta.json"], "does not say num_hidden_layers"),
    ],
)
def test_what_cannot_be_imported(folder, capsys, arguments, message):
    write_volta()
    capsys.readouterr()
    assert message in refused(capsys, "import", *arguments, "--ids", IDS, "--output", "ours.safetensors")
    assert not Path("ours.safetensors").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tt_attn_sublayers": []}, "volta.json: its sub-layers are none that our encoders compute: plan '2 shared text from"),
        ({"v_ff_sublayers": [1]}, "sub-layer 3 is shared, but only text passes it"),
        ({"hidden_act": "relu"}, "volta.json: hidden_act is 'relu', but our encoders compute 'gelu'"),
        (
            {"image_embeddings": "m3p"},
            "image_embeddings is 'm3p'; expected one of vilbert, lxmert, uniter, uc2, visualbert, vl-bert",
        ),
        ({"fusion_method": "vl-bert_vqa"}, "fusion_method is 'vl-bert_vqa'; expected mul, sum, text or none"),
        ({"hidden_size": 32, "v_hidden_size": 32}, "the weights do not fit the visualbert encoder"),
        ({"v_hidden_size": 8}, "v_hidden_size is 8 and hidden_size 16; these embeddings have one width"),
        ({"num_attention_heads": "12"}, "num_attention_heads is '12', expected int"),
        ({"image_embeddings": "lxmert"}, "the weights are not a whole volta: "),
    ],
)
def test_configurations_of_voltas_that_do_not_fit(folder, capsys, changes, message):
    write_volta(**changes)
    capsys.readouterr()
    arguments = ["volta.bin", "--as", "volta", "--config", "volta.json", "--ids", IDS, "--output", "ours.safetensors"]
    assert message in refused(capsys, "import", *arguments)


def test_files_of_fused_encoders_where_text_towers_are_wanted(folder, capsys):
    assert take("visualbert", "--as", "visualbert", "--ids", IDS, "--output", "ours.safetensors") == 0
    capsys.readouterr()
    error = refused(capsys, "export", "ours.safetensors", "--as", "bert", "--output", "back")
    assert "ours.safetensors is visualbert, but --as is bert" in error
    error = refused(capsys, "resize", "ours.safetensors", "--add", "3", "--output", "more.safetensors")
    assert "holds a fused encoder (visualbert); only text towers are resized" in error
    assert take("bert", "--as", "bert", "--ids", IDS, "--output", "bert.safetensors") == 0
    capsys.readouterr()
    error = refused(capsys, "export", "bert.safetensors", "--as", "lxmert", "--output", "back")
    assert "bert.safetensors holds a text tower (bert); give --as bert" in error


def test_other_objects_are_not_unpickled(folder, capsys):
    write_volta()
    torch.save({"model": {"bert.embeddings.word_embeddings.weight": torch.zeros(1)}, "args": Path("x")}, "evil.bin")
    arguments = ["evil.bin", "--as", "volta", "--config", "volta.json", "--output", "ours.safetensors"]
    assert "only tensors and plain values are read" in refused(capsys, "import", *arguments)
