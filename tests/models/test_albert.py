"""Factorised embeddings and shared layers against Hugging Face's ALBERT, whose published form has a GELU in its tanh form."""

import pytest
import tiny
import torch
from foreign_models import apart

from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.presets import Size, bert

transformers = pytest.importorskip("transformers")
VOCABULARY = Vocabulary(110)
LAYER = "albert.encoder.albert_layer_groups.{}.albert_layers.0."
NAMES = {
    "embeddings.tokens": "albert.embeddings.word_embeddings",
    "embeddings.positions": "albert.embeddings.position_embeddings",
    "embeddings.segments": "albert.embeddings.token_type_embeddings",
    "embeddings.norm": "albert.embeddings.LayerNorm",
    "embeddings.outward": "albert.encoder.embedding_hidden_mapping_in",
}
BLOCK = {
    "attention.outward": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.inward": "ffn",
    "feed_forward.outward": "ffn_output",
    "feed_forward_norm": "full_layer_layer_norm",
}
HEAD = {"dense": "predictions.dense", "norm": "predictions.LayerNorm"}


def reference(groups: int):
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        vocab_size=110,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=4,
        num_hidden_groups=groups,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        hidden_act="gelu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = transformers.AlbertForMaskedLM(config).train()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def place(named: dict, groups: int) -> dict:
    """Their weights, or gradients, under our names."""
    found = {}
    for ours, theirs in NAMES.items():
        found |= {f"{ours}.{end}": named[f"{theirs}.{end}"] for end in ("weight", "bias") if f"{theirs}.{end}" in named}
    for number in range(groups):
        layer = LAYER.format(number)
        for end in ("weight", "bias"):
            three = [named[f"{layer}attention.{one}.{end}"] for one in ("query", "key", "value")]
            found[f"transformer.blocks.{number}.attention.inward.{end}"] = torch.cat(three)
            found |= {f"transformer.blocks.{number}.{ours}.{end}": named[f"{layer}{one}.{end}"] for ours, one in BLOCK.items()}
    return found


def place_head(named: dict) -> dict:
    found = {f"{ours}.{end}": named[f"{one}.{end}"] for ours, one in HEAD.items() for end in ("weight", "bias")}
    return found | {"bias": named["predictions.bias"]}


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_states_scores_and_gradients(groups, dtype, tolerance):
    model = reference(groups).to(dtype)
    tower = bert(VOCABULARY, Size(32, 4, 4, 64), 40, dropout=0.0, attention_dropout=0.0, factor=16, distinct=groups).to(dtype)
    head = tower.token_head("text").to(dtype)
    tower.load_state_dict(place(model.state_dict(), groups))
    head.load_state_dict(place_head(model.state_dict()))
    text = tiny.text([8, 13, 4], 14, vocabulary=VOCABULARY)
    text = text._replace(segment=(text.present & (text.position > 3)).long())
    theirs = model(
        input_ids=text.tokens, attention_mask=text.present.long(), token_type_ids=text.segment, output_hidden_states=True
    )
    states = tower.encode(text)[0][text.present]
    assert apart(states, theirs.hidden_states[-1][text.present]) < tolerance
    scores, targets = theirs.logits[text.present], text.tokens[text.present]
    assert apart(head(states), scores) < tolerance
    torch.nn.functional.cross_entropy(scores, targets, reduction="sum").backward()
    head.cross_entropy(states, targets).backward()
    grads = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    for module, want in ((tower, place(grads, groups)), (head, place_head(grads))):
        got = dict(module.named_parameters())
        assert got.keys() == want.keys()
        for name in got:
            assert (got[name].grad - want[name]).abs().max() < tolerance * max(one.abs().max() for one in want.values()), name
