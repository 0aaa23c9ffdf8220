"""Fused checkpoints of others: VisualBERT and LXMERT of Hugging Face's both ways; VOLTA's against its formulas over the very
tensors that were imported."""

import pytest
import torch
import volta_by_hand as published
from foreign_fused import FEATURES, IDS, agree, batch, foreign, reference, states_of, theirs
from foreign_models import apart
from volta_by_hand import CONFIGURATIONS, Reading, draw_weights

from interlingua.modalities.batch import Regions
from interlingua.models.conversion import write_folder
from interlingua.models.fused_conversion import convert_fused, export_fused
from interlingua.models.fused_facts import Told, read_fused
from interlingua.models.fused_families import sketch_fused
from interlingua.models.fused_pretrained import make_fused, make_heads


def compare(encoder, head, matching, name, model):
    given = batch(counts=(5, 3, 6))
    with torch.no_grad():
        text, picture, joint = states_of(name, model, given)
        scores, states = theirs(name, model, given), encoder(given)
    there = given.text.present
    pairs = scores.seq_relationship_logits if name == "visualbert" else scores.cross_relationship_score
    if name == "visualbert":
        pairs = pairs.flip(1)  # their class 0 means that they match, our class 1
    return max(
        apart(states.text[there], text),
        apart(states.regions[given.regions.present], picture),
        apart(states.joint, joint),
        apart(head(states.text[there]), scores.prediction_logits[:, : there.shape[1]][there]),
        apart(matching(states.joint), pairs),
    )


@pytest.mark.parametrize("name", ["visualbert", "lxmert"])
def test_hugging_face_both_ways(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = reference(name)
    converted = convert_fused(foreign(model.state_dict(), model.config.to_dict()), name, IDS["bert"])
    pretrained, told = converted.pretrained, converted.translation
    others = {"visualbert": set(), "lxmert": {"obj_predict_head", "answer_head"}}[name]
    assert {one.partition(".")[0] for one in told.unexpected} == others
    assert not told.missing
    assert not told.absent
    encoder = make_fused(pretrained)
    head, matching = make_heads(pretrained, encoder)
    assert compare(encoder, head, matching, name, model) < 1e-5
    exported = export_fused(encoder, pretrained.weights, name)
    write_folder(exported, tmp_path)
    again, said = getattr(transformers, exported.architecture).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(said[fault] for fault in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert type(again) is type(model)
    assert compare(encoder, head, matching, name, again.eval()) < 1e-5
    bare = export_fused(encoder, {key: one for key, one in pretrained.weights.items() if key.startswith("encoder.")}, name)
    write_folder(bare, tmp_path)
    again, said = getattr(transformers, bare.architecture).from_pretrained(tmp_path, output_loading_info=True)
    assert type(again) is type(model.base_model)
    assert not any(said[fault] for fault in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for key, one in model.base_model.state_dict().items():
        assert torch.equal(again.state_dict()[key], one), key


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_volta(name):
    configuration = CONFIGURATIONS[name]
    weights = draw_weights(configuration)
    family = "roberta" if configuration.get("model") == "roberta" else "bert"
    converted = convert_fused(foreign(weights, {}), "volta", IDS[family], (configuration, "c.json"))
    assert {one.partition(".decoder")[0] for one in converted.translation.unexpected} == {"cls.imagePredictions"}
    assert not converted.translation.missing
    words = {"family": "xlm-roberta" if family == "roberta" else "bert", "segments": family == "bert"}
    given = batch(**words)
    if configuration["v_feature_size"] != FEATURES:
        features = torch.randn(3, 6, configuration["v_feature_size"], generator=torch.Generator().manual_seed(1))
        given = given._replace(regions=Regions(features, given.regions.boxes, given.regions.present))
    reading = Reading(weights, configuration)
    difference, pooled, states = agree(converted.pretrained, reading, given)
    assert difference < 2e-5
    encoder = make_fused(converted.pretrained)
    head, matching = make_heads(converted.pretrained, encoder)
    there = given.text.present
    inner = reading.norm(
        "cls.predictions.transform.LayerNorm",
        torch.nn.functional.gelu(reading.linear("cls.predictions.transform.dense", states.text[there])),
    )
    scores = inner @ weights["bert.embeddings.word_embeddings.weight"].t() + weights["cls.predictions.bias"]
    assert apart(head(states.text[there]), scores) < 1e-5
    if pooled:
        pairs = reading.linear("cls.bi_seq_relationship", torch.stack(pooled)).flip(1)
        assert apart(matching(states.joint), pairs) < 2e-5
    else:
        assert matching is None


FULL = {"num_locs": 5, "add_global_imgfeat": "first", "fusion_method": "mul", "pooler_size": 1024}
PUBLISHED = {
    "vilbert_base": ("vilbert", {"image_embeddings": "vilbert", **FULL, **published.VILBERT, **published.WIDE}),
    "lxmert": ("lxmert", {"image_embeddings": "lxmert", "num_locs": 4, "fusion_method": "text", **published.LXMERT}),
    "ctrl_muniter_base": ("uniter", {"image_embeddings": "uniter", **FULL, **published.SINGLE, "vocab_size": 119_547}),
    "uc2_base": (
        "uniter",
        {"image_embeddings": "uc2", "model": "roberta", "num_locs": 7, "fusion_method": "text", "layer_norm_eps": 1e-5}
        | {**published.SINGLE, "vocab_size": 250_002, "max_position_embeddings": 514},
    ),
    "vl-bert_base": (
        "vl_bert",
        {
            "image_embeddings": "vl-bert",
            "num_locs": 4,
            "add_global_imgfeat": "last",
            "fusion_method": "none",
            "type_vocab_size": 3,
        }
        | {"v_coordinate_embeddings_dim": 256, "visual_target_weights": {"6": 1.0}, "type_vocab_size": 3, **published.SINGLE},
    ),
}
NUMBERS = {"vilbert_base": 235_705_856, "lxmert": 207_936_768, "ctrl_muniter_base": 180_420_608, "uc2_base": 279_628_800}
NUMBERS |= {"vl-bert_base": 112_046_336}
"""Of the published files; those of `test_fused_presets`, but for UC2's vector of what is masked, which VOLTA leaves out."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configurations_of_voltas(name):
    preset, facts = PUBLISHED[name]
    facts = {**published.BASE, **published.SIZES, **facts}
    rows = {"tokens": facts["vocab_size"], "positions": facts["max_position_embeddings"], "segments": facts["type_vocab_size"]}
    found, arguments = read_fused(Told(facts, "c.json", rows, {}, None), "volta")
    assert found == preset
    encoder = sketch_fused(found, arguments)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == NUMBERS[name]
    assert arguments["pool"]["activation"] == "relu"  # VOLTA's, whatever the originals have
    if name == "vilbert_base":
        assert arguments["cross"] == {"width": 1024, "heads": 8}
        assert arguments["plan"] == "6 text, 6 x (cross, own)"
