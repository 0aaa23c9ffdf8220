"""The text tower against Hugging Face's BERT and XLM-R with the same random weights: outputs, gradients, both paddings."""

import pytest
import tiny
import torch

from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.embeddings import TextEmbeddings
from interlingua.models.pretrained import load_bert
from interlingua.models.towers import TextTower
from interlingua.models.transformer import FeedForward, Transformer

transformers = pytest.importorskip("transformers")
SIZES = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def reference(kind: str, epsilon: float):
    torch.manual_seed(0)
    if kind == "bert":
        config = transformers.BertConfig(**SIZES, **DROPOUT, layer_norm_eps=epsilon, max_position_embeddings=40)
        model = transformers.BertModel(config, add_pooling_layer=False)
    else:
        options = {"pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": 42, "layer_norm_eps": epsilon}
        model = transformers.XLMRobertaModel(
            transformers.XLMRobertaConfig(**SIZES, **DROPOUT, **options), add_pooling_layer=False
        )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def ours(kind: str, model, epsilon: float) -> TextTower:
    """Our tower with the reference's weights."""
    vocabulary = Vocabulary(100) if kind == "bert" else Vocabulary(100, pad=1, unknown=3, start=0, end=2, mask=99)
    offset = 0 if kind == "bert" else 2
    segments = 2 if kind == "bert" else 1
    embeddings = TextEmbeddings(vocabulary, 32, 40, segments=segments, position_offset=offset, dropout=0.0, epsilon=epsilon)
    tower = TextTower(embeddings, Transformer(32, 3, 4, 64, dropout=0.0, epsilon=epsilon))
    load_bert(tower, model.state_dict())
    return tower


def texts(kind: str, left: bool):
    vocabulary = Vocabulary(100) if kind == "bert" else Vocabulary(100, pad=1, unknown=3, start=0, end=2, mask=99)
    return tiny.text([7, 12, 3], 14, left=left, vocabulary=vocabulary)


def read_reference(kind, model, text):
    positions = {"position_ids": text.position} if kind == "bert" else {}
    return model(input_ids=text.tokens, attention_mask=text.present.long(), **positions).last_hidden_state


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize(("kind", "epsilon"), [("bert", 1e-12), ("xlm-roberta", 1e-5)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_outputs_and_gradients_in_training_mode(kind, epsilon, left, dtype, tolerance):
    model = reference(kind, epsilon).to(dtype).train()
    tower = ours(kind, model, epsilon).to(dtype).train()
    text = texts(kind, left)
    want, got = read_reference(kind, model, text)[text.present], tiny.encode(tower, text)[text.present]
    assert (want - got).abs().max() < tolerance
    weights = torch.randn(want.shape, dtype=dtype, generator=torch.Generator().manual_seed(3))
    (want * weights).sum().backward()
    (got * weights).sum().backward()
    theirs = model.encoder.layer[0].attention.self.query.weight.grad
    mine = tower.transformer.blocks[0].attention.inward.weight.grad[:32]
    assert (theirs - mine).abs().max() < 10 * tolerance * theirs.abs().max()
    used = text.tokens[text.present].unique()
    theirs, mine = model.embeddings.word_embeddings.weight.grad[used], tower.tokens.weight.grad[used]
    assert (theirs - mine).abs().max() < 10 * tolerance * theirs.abs().max()


@pytest.mark.parametrize("wrong", ["tanh", "epsilon", "positions"])
def test_the_well_known_wrong_choices_fail(wrong, monkeypatch):
    kind, epsilon = "xlm-roberta", 1e-5
    model = reference(kind, epsilon).eval()
    tower = ours(kind, model, 1e-12 if wrong == "epsilon" else epsilon).eval()
    text = texts(kind, False)
    if wrong == "tanh":
        tanh = lambda self, x: self.outward(torch.nn.functional.gelu(self.inward(x), approximate="tanh"))  # noqa: E731
        monkeypatch.setattr(FeedForward, "forward", tanh)
    if wrong == "positions":
        tower.embeddings.position_offset = 0
    difference = (read_reference(kind, model, text)[text.present] - tiny.encode(tower, text)[text.present]).abs().max()
    assert difference > 1e-5


def test_dropout_stands_after_embeddings_attention_and_feed_forward_at_the_stated_rate():
    tower = TextTower(tiny.embeddings(dropout=0.3), tiny.transformer(dropout=0.3))
    rates = [module.p for module in tower.modules() if isinstance(module, torch.nn.Dropout)]
    assert rates == [0.3] * 3  # embeddings, and one in each of two blocks, used twice
    torch.manual_seed(0)
    states = tower.embeddings(tiny.text([60] * 20))
    assert abs((states == 0).float().mean().item() - 0.3) < 0.01
    seen = []
    block = tower.transformer.blocks[0]
    block.dropout.register_forward_hook(lambda module, inputs, output: seen.append(output))
    block(torch.randn(4, 10, tiny.WIDTH), None)
    assert len(seen) == 2
    assert all(abs((output == 0).float().mean().item() - 0.3) < 0.05 for output in seen)
