"""Checkpoints of others, and runs, that several commands are given."""

import pytest
import torch
from small_transfer import train_runs


@pytest.fixture(scope="session")
def transfer_runs(data, tmp_path_factory):
    """A folder with two runs of fine-tuning; see `small_transfer`. Change copies."""
    folder = tmp_path_factory.mktemp("runs")
    train_runs(folder, data)
    return folder


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
