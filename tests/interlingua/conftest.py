"""Checkpoints of others that several commands are given."""

import pytest
import torch


@pytest.fixture
def roberta(tmp_path, monkeypatch):
    """A working folder with an XLM-R in `hf`, of two layers of width 16."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    config = transformers.XLMRobertaConfig(
        vocab_size=110,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=26,
        type_vocab_size=1,
        pad_token_id=1,
        layer_norm_eps=1e-5,
    )
    transformers.XLMRobertaForMaskedLM(config).save_pretrained("hf")
    return tmp_path
