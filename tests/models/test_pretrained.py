"""Files of pretrained towers: written and read whole, back to the layout they came from, resized, and refused where they do
not fit."""

import json

import pytest
import tiny
import torch
from foreign_models import NAMES, SIZE, VOCABULARIES, apart, configuration, ours, reference, text, tower
from safetensors import safe_open
from safetensors.torch import save_file

from interlingua.models.conversion import convert, export, write_folder
from interlingua.models.families import FAMILIES, check_family
from interlingua.models.foreign_weights import Foreign, read_foreign
from interlingua.models.forward_check import build_theirs, compare, load_theirs
from interlingua.models.loading import load_foreign
from interlingua.models.presets import bert
from interlingua.models.pretrained import (
    Pretrained,
    fill_tower,
    find_text_tower,
    from_tower,
    is_pretrained,
    make_head,
    make_tower,
    read_pretrained,
    write_pretrained,
)
from interlingua.models.resizing import resize_vocabulary

pytest.importorskip("transformers")
FAMILY = pytest.mark.parametrize("name", NAMES)
BERT_IDS = {"unknown": 100, "mask": 103}


def pretrained(name, class_name=None, languages=None) -> Pretrained:
    model = reference(name, class_name)
    foreign = Foreign(model.state_dict(), configuration(name).to_dict(), "config.json", {"model.bin": "0" * 64})
    return convert(foreign, FAMILIES[name], ids=BERT_IDS if name == "bert" else None, languages=languages).pretrained


def same(one: Pretrained, other: Pretrained) -> bool:
    names = one.weights.keys() == other.weights.keys()
    return names and all(torch.equal(weight, other.weights[key]) for key, weight in one.weights.items())


@FAMILY
def test_a_file_holds_all_and_ties_nothing_twice(name, tmp_path):
    before = pretrained(name, languages=["ar", "bg", "de"] if name == "xlm" else None)
    write_pretrained(before, tmp_path / "new" / "tower.safetensors")
    assert is_pretrained(tmp_path / "new" / "tower.safetensors")
    after = read_pretrained(tmp_path / "new" / "tower.safetensors")
    assert same(before, after)
    assert (after.family, after.arguments, after.languages) == (before.family, before.arguments, before.languages)
    assert after.sources == {"model.bin": "0" * 64}
    assert sum(weight.shape[0] == 110 and weight.dim() == 2 for weight in after.weights.values()) == 1  # one table
    assert after.configuration["class_path"] == f"interlingua.models.presets.{name.replace('-', '_')}"
    built = make_tower(after)
    head = make_head(after, built)
    assert head.table is built.tokens.weight
    mine, its = ours(name, reference(name))
    line = text(name)
    assert torch.equal(head(built.encode(line)[0][line.present]), its(mine.encode(line)[0][line.present]))


@FAMILY
@pytest.mark.parametrize("base", [False, True], ids=["head", "base"])
def test_there_and_back(name, base, tmp_path):
    """Import, export, and Hugging Face's own class loads it whole, and computes the same; import of that gives the same."""
    model = reference(name, FAMILIES[name].classes[1] if base else None)
    first = pretrained(name, FAMILIES[name].classes[1] if base else None, ["ar", "bg", "de"] if name == "xlm" else None)
    exported = export(first)
    write_folder(exported, tmp_path)
    theirs = load_theirs(exported, tmp_path)
    assert theirs.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(weight, model.state_dict()[key]) for key, weight in theirs.state_dict().items())
    assert compare(first, theirs).states < 1e-6
    second = convert(read_foreign(tmp_path), FAMILIES[name]).pretrained
    assert same(first, second)
    assert (first.arguments, first.languages) == (second.arguments, second.languages)


@FAMILY
def test_no_copy_of_a_tied_weight_is_exported(name, tmp_path):
    write_folder(export(pretrained(name)), tmp_path / "ours")
    reference(name).save_pretrained(tmp_path / "theirs")
    with (
        safe_open(tmp_path / "ours" / "model.safetensors", "pt") as ours_,
        safe_open(tmp_path / "theirs" / "model.safetensors", "pt") as theirs,
    ):
        assert set(ours_.keys()) == set(theirs.keys())


def test_pooler_and_classifier_of_pairs(tmp_path):
    """`BertForPreTraining` has them, `BertForMaskedLM` does not."""
    whole = pretrained("bert", "BertForPreTraining")
    assert {key.partition(".")[0] for key in whole.weights} == {"encoder", "head", "pooler", "next_sentence"}
    exported = export(whole)
    assert (exported.architecture, exported.notes) == ("BertForPreTraining", [])
    write_folder(exported, tmp_path)
    assert torch.equal(load_theirs(exported, tmp_path).cls.seq_relationship.weight, whole.weights["next_sentence.weight"])
    without = {key: weight for key, weight in whole.weights.items() if not key.startswith("next_sentence")}
    exported = export(Pretrained("bert", whole.arguments, without))
    assert exported.architecture == "BertForMaskedLM"
    assert exported.notes == ["left out, since BertForMaskedLM has none: pooler"]
    tower_alone = {key: weight for key, weight in whole.weights.items() if key.startswith("encoder")}
    exported = export(Pretrained("bert", whole.arguments, tower_alone))
    assert exported.notes == ["no pooler is written: load it by BertModel.from_pretrained(DIR, add_pooling_layer=False)"]
    write_folder(exported, tmp_path)
    load_theirs(exported, tmp_path)


@pytest.mark.parametrize("wrong", ["query and key", "norms", "segments"])
def test_the_forward_check_sees_weights_in_wrong_places(wrong):
    good = pretrained("bert")
    weights = dict(good.weights)
    block = "encoder.transformer.blocks.1."
    if wrong == "query and key":
        query, key, value = weights[f"{block}attention.inward.weight"].chunk(3)
        weights[f"{block}attention.inward.weight"] = torch.cat([value, key, query])
    elif wrong == "norms":
        names = [f"{block}{one}_norm.weight" for one in ("attention", "feed_forward")]
        weights[names[0]], weights[names[1]] = weights[names[1]], weights[names[0]]
    else:
        weights["encoder.embeddings.segments.weight"] = weights["encoder.embeddings.segments.weight"].flip(0)
    with pytest.raises(ValueError, match="does not compute what BertForMaskedLM does"):
        compare(Pretrained("bert", good.arguments, weights), build_theirs(export(good)))


def test_half_precision_is_kept_and_checked_in_full():
    half = pretrained("xlm-roberta")
    half = Pretrained("xlm-roberta", half.arguments, {key: weight.bfloat16() for key, weight in half.weights.items()})
    exported = export(half)
    assert {weight.dtype for weight in exported.weights.values()} == {torch.bfloat16}
    assert compare(half, build_theirs(exported)).scores < 1e-6
    assert make_head(half, make_tower(half)).bias.dtype == torch.bfloat16


def test_other_files_are_refused(tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "theirs.safetensors")
    with pytest.raises(ValueError, match=r"theirs\.safetensors is not of ours.*interlingua checkpoint import"):
        read_pretrained(tmp_path / "theirs.safetensors")
    told = json.dumps({"version": 2, "family": "bert"})
    save_file({"a": torch.ones(1)}, tmp_path / "newer.safetensors", {"interlingua": told})
    with pytest.raises(ValueError, match="version 2, family 'bert'; this release reads version 1"):
        read_pretrained(tmp_path / "newer.safetensors")
    (tmp_path / "half.safetensors").write_bytes((tmp_path / "newer.safetensors").read_bytes()[:-2])
    with pytest.raises(ValueError, match=r"half\.safetensors: not safetensors, or cut short"):
        read_pretrained(tmp_path / "half.safetensors")
    torch.save({"a": torch.ones(1)}, tmp_path / "other.ckpt")
    assert not is_pretrained(tmp_path / "other.ckpt")


@FAMILY
def test_a_trained_tower_becomes_a_file(name):
    made = tower(name)
    head = {f"head.{key}": weight for key, weight in made.token_head("text").state_dict().items()}
    file = from_tower(made, FAMILIES[name], head)
    assert compare(file, build_theirs(export(file))).scores < 1e-6
    others = set(NAMES) - {name}
    for other in others:
        with pytest.raises(ValueError, match=f"the tower is not {other}; "):
            from_tower(made, FAMILIES[other], head)


def test_what_a_family_cannot_hold_is_named():
    with pytest.raises(ValueError, match=r"not bert; factor: it has 16, bert has None$"):
        check_family(bert(VOCABULARIES["bert"], SIZE, factor=16), FAMILIES["bert"])
    with pytest.raises(ValueError, match=r"not bert; distinct: it has 1, bert has 3"):
        check_family(bert(VOCABULARIES["bert"], SIZE, distinct=1), FAMILIES["bert"])
    with pytest.raises(ValueError, match=r"not xlm; inner: it has 64, xlm has 4 x width, 128"):
        check_family(tower("xlm", size=SIZE), FAMILIES["xlm"])
    with pytest.raises(ValueError, match=r"languages: it has 1, xlm has none or more than one"):
        check_family(tower("xlm", languages=1), FAMILIES["xlm"])


def test_it_fills_the_tower_that_an_encoder_is_or_contains():
    file, encoder = pretrained("bert"), tower("bert")
    assert fill_tower(encoder, file, "tower.safetensors") == len(file.part("encoder"))
    assert torch.equal(encoder.tokens.weight, file.weights["encoder.embeddings.tokens.weight"])
    encoder.tokens.weight.data.zero_()
    assert file.weights["encoder.embeddings.tokens.weight"].abs().max() > 0  # copied, not shared
    with pytest.raises(ValueError, match="ImageTower has 0 text towers"):
        find_text_tower(tiny.two_towers().image)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_tokens": 20}, "max_tokens: file 40, encoder 20"),
        ({"vocabulary": VOCABULARIES["xlm-roberta"]}, r"vocabulary: file Vocabulary\(size=110, pad=0.*, encoder Vocabulary\("),
        ({"size": type(SIZE)(32, 3, 8, 64)}, "heads: file 4, encoder 8"),
        ({"size": type(SIZE)(32, 2, 4, 64)}, "layers: file 3, encoder 2"),
    ],
)
def test_another_tower_is_refused_and_left_as_it_was(options, named):
    """Heads, control ids and offsets are in no weight: shapes alone would let them pass."""
    encoder = tower("bert", **options)
    before = {key: weight.clone() for key, weight in encoder.state_dict().items()}
    with pytest.raises(ValueError, match=named):
        fill_tower(encoder, pretrained("bert"), "tower.safetensors")
    assert all(torch.equal(weight, before[key]) for key, weight in encoder.state_dict().items())


def test_weights_that_do_not_fit_are_named_and_nothing_is_loaded():
    encoder, weights = tower("bert", max_tokens=20), reference("bert").state_dict()
    before, base = encoder.tokens.weight.clone(), reference("bert", "BertModel").state_dict()
    with pytest.raises(ValueError, match=r"embeddings\.positions\.weight: weights \(40, 32\), text tower as bert \(20, 32\)"):
        load_foreign(encoder, weights, FAMILIES["bert"])
    with pytest.raises(ValueError, match=r"dense\.weight \(32, 32\) is missing"):
        load_foreign(tower("bert"), base, FAMILIES["bert"], encoder.token_head("text"))
    assert torch.equal(encoder.tokens.weight, before)


@FAMILY
def test_a_vocabulary_grows(name, tmp_path):
    """Pitfall C02: table, bias and scores all have 110 + 10, old rows are as they were, and the tie is one tensor."""
    old = pretrained(name)
    write_pretrained(resize_vocabulary(old, add=10), tmp_path / "grown.safetensors")
    new = read_pretrained(tmp_path / "grown.safetensors")
    for key in ("encoder.embeddings.tokens.weight", "head.bias"):
        assert len(new.weights[key]) == 120
        assert torch.equal(new.weights[key][:110], old.weights[key])
        assert torch.allclose(new.weights[key][110:].mean(0), old.weights[key].mean(0), atol=1e-6)
    built = make_tower(new)
    head, line = make_head(new, built), text(name)
    assert head.table is built.tokens.weight
    grown = make_head(old, make_tower(old))(make_tower(old).encode(line)[0][line.present])
    scores = head(built.encode(line)[0][line.present])
    assert scores.shape[1] == 120
    assert apart(scores[:, :110], grown) < 1e-6
    head.cross_entropy(built.encode(line)[0][line.present], line.tokens[line.present]).backward()
    assert built.tokens.weight.grad.shape == (120, 32)
    exported = export(new)
    write_folder(exported, tmp_path)
    assert compare(new, load_theirs(exported, tmp_path)).scores < 1e-6
    assert exported.configuration["vocab_size"] == 120


def test_a_vocabulary_is_trimmed():
    old = pretrained("xlm-roberta")
    keep = [2, 1, 0, 3, 109, *range(10, 60)]
    new = resize_vocabulary(old, keep, add=2)
    assert new.arguments["vocabulary"] == {"size": 57, "pad": 1, "unknown": 3, "start": 2, "end": 0, "mask": 4}
    assert compare(new, build_theirs(export(new))).scores < 1e-6
    for key in ("encoder.embeddings.tokens.weight", "head.bias"):
        assert torch.equal(new.weights[key][:55], old.weights[key][keep])
    with pytest.raises(ValueError, match="control entries must be kept; missing: end 2, mask 109"):
        resize_vocabulary(old, [0, 1, 3])
    with pytest.raises(ValueError, match="the id of pad must stay 1: xlm-roberta counts positions from it"):
        resize_vocabulary(old, [2, 0, 1, 3, 109])
    with pytest.raises(ValueError, match=r"unknown ids \[110\], 1 named twice; the vocabulary has ids 0 to 109"):
        resize_vocabulary(old, [0, 1, 1, 2, 3, 109, 110])
