"""Files of fairseq and of XLM's own code, built from tiny models of Hugging Face by the names of that code, independent of our
tables: read as what they are."""

import argparse
import re

import pytest
import torch
from foreign_models import apart, convert_as, expected, ours, outputs, reference, text

from interlingua.models.foreign_weights import checksum, read_foreign

pytest.importorskip("transformers")

FAIRSEQ = [
    (r"^lm_head\.decoder\.weight$", "lm_head.weight"),
    (r"^roberta\.embeddings\.word_embeddings\.", "sentence_encoder.embed_tokens."),
    (r"^roberta\.embeddings\.position_embeddings\.", "sentence_encoder.embed_positions."),
    (r"^roberta\.embeddings\.LayerNorm\.", "sentence_encoder.layernorm_embedding."),
    (r"^roberta\.encoder\.LayerNorm\.", "sentence_encoder.layer_norm."),
    (r"^roberta\.encoder\.layer\.", "sentence_encoder.layers."),
    (r"attention\.self\.query\.", "self_attn.q_proj."),
    (r"attention\.self\.key\.", "self_attn.k_proj."),
    (r"attention\.self\.value\.", "self_attn.v_proj."),
    (r"attention\.output\.dense\.", "self_attn.out_proj."),
    (r"attention\.output\.LayerNorm\.", "self_attn_layer_norm."),
    (r"attention\.self_attn_layer_norm\.", "self_attn_layer_norm."),
    (r"intermediate\.dense\.", "fc1."),
    (r"output\.dense\.", "fc2."),
    (r"(layers\.\d+\.)(output\.)?LayerNorm\.", r"\1final_layer_norm."),
]


def to_fairseq(model, stack: str, old: bool) -> dict:
    """Its names, a version, the table again in the head, no segment vectors; in the old form query, key and value are one."""
    weights = {f"{stack}.sentence_encoder.version": torch.tensor([3.0])}
    for name, weight in model.state_dict().items():
        for theirs, its in FAIRSEQ:
            name = re.sub(theirs, its, name)
        if "token_type" not in name and name != "lm_head.decoder.bias":
            weights[f"{stack}.{name}"] = weight
    if old:
        weights = {name.replace("layernorm_embedding", "emb_layer_norm"): weight for name, weight in weights.items()}
        for number in range(3):
            for end in ("weight", "bias"):
                start = f"{stack}.sentence_encoder.layers.{number}.self_attn."
                weights[f"{start}in_proj_{end}"] = torch.cat([weights.pop(f"{start}{one}_proj.{end}") for one in "qkv"])
    return weights


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
@pytest.mark.parametrize("name", ["xlm-roberta", "xlm-roberta-xl"])
def test_fairseq(name, stack, old, tmp_path):
    model = reference(name)
    model.base_model.embeddings.token_type_embeddings.weight.data.zero_()
    args = argparse.Namespace(encoder_attention_heads=4, encoder_layers=3, arch="roberta_base", activation_fn="gelu")
    stored = {"model": to_fairseq(model, stack, old), "args": args, "extra_state": {"epoch": 1}}
    torch.save(stored, tmp_path / "model.pt")
    converted = convert_as(name, read_foreign(tmp_path / "model.pt"))
    assert converted.translation.unexpected == []
    assert converted.notes[0] == "segment vector: fairseq has none, zeros are written"
    assert converted.notes[1].startswith("control ids assumed, as published: pad 1, unknown 3, start 0, end 2, mask 109")
    line, (tower, head) = text(name), ours(name, model)
    assert apart(outputs(converted, name), head(tower.encode(line)[0][line.present])) < 1e-6


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
