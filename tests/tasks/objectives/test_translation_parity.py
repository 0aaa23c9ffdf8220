"""A joined pair through our towers and through Hugging Face's, with the same random weights: logits, loss and gradients."""

from unittest import mock

import pytest
import tiny
import torch
from torch import nn

from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.presets import Size, xlm, xlm_roberta
from interlingua.tasks.objectives.translation_language import TranslationLanguage

transformers = pytest.importorskip("transformers")
XLM = Vocabulary(100, pad=2, unknown=3, start=1, end=1, mask=5)
XLM_R = Vocabulary(100, pad=1, unknown=3, start=0, end=2, mask=99)
SIZE, POSITIONS, LANGUAGES = Size(32, 2, 4), 24, 5
PLAIN = {"dropout": 0.0, "attention_dropout": 0.0}


def theirs(pair: str) -> nn.Module:
    torch.manual_seed(0)
    if pair == "xlm":
        options = {"n_layers": 2, "n_heads": 4, "n_langs": LANGUAGES, "max_position_embeddings": POSITIONS, "pad_index": 2}
        ids = {"bos_index": 0, "eos_index": 1, "unk_index": 3, "mask_index": 5, "bos_token_id": 0, "pad_token_id": 2}
        config = transformers.XLMConfig(vocab_size=100, emb_dim=32, **options, **ids, **PLAIN)
        model = transformers.XLMWithLMHeadModel(config)
    else:
        options = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "layer_norm_eps": 1e-5}
        rows = {"pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": POSITIONS + 2}
        dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = transformers.XLMRobertaConfig(vocab_size=100, hidden_size=32, **options, **rows, **dropout)
        model = transformers.XLMRobertaForMaskedLM(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.double()


def ours(pair: str, model: nn.Module) -> tuple[nn.Module, TranslationLanguage]:
    """Tower and objective with the reference's weights, copied by hand."""
    options = {"size": SIZE, "max_tokens": POSITIONS, **PLAIN}
    tower = xlm(XLM, LANGUAGES, **options) if pair == "xlm" else xlm_roberta(XLM_R, **options)
    objective = TranslationLanguage(pair, rate=0.4)
    objective.connect(tower)
    tower, objective = tower.double(), objective.double()
    table, body = tower.embeddings, model.transformer if pair == "xlm" else model.roberta
    copies = []
    if pair == "xlm":
        copies += [(table.tokens, body.embeddings), (table.positions, body.position_embeddings)]
        copies += [(table.languages, body.lang_embeddings), (table.norm, body.layer_norm_emb)]
        parts = [[part[layer] for part in (body.attentions, body.layer_norm1, body.ffns, body.layer_norm2)] for layer in (0, 1)]
        blocks = [
            ((a.q_lin, a.k_lin, a.v_lin), a.out_lin, first, forward.lin1, forward.lin2, second)
            for a, first, forward, second in parts
        ]
        objective.head.bias.data.copy_(model.pred_layer.proj.bias)
    else:
        embeddings = body.embeddings
        copies += [(table.tokens, embeddings.word_embeddings), (table.positions, embeddings.position_embeddings)]
        copies += [(table.segments, embeddings.token_type_embeddings), (table.norm, embeddings.LayerNorm)]
        copies += [(objective.head.dense, model.lm_head.dense), (objective.head.norm, model.lm_head.layer_norm)]
        blocks = [
            (
                (b.attention.self.query, b.attention.self.key, b.attention.self.value),
                *(b.attention.output.dense, b.attention.output.LayerNorm),
                *(b.intermediate.dense, b.output.dense, b.output.LayerNorm),
            )
            for b in body.encoder.layer
        ]
        objective.head.bias.data.copy_(model.lm_head.bias)
    for block, (inward, outward, first, up, down, second) in zip(tower.transformer.blocks, blocks, strict=True):
        for name in ("weight", "bias"):
            getattr(block.attention.inward, name).data.copy_(torch.cat([getattr(part, name) for part in inward]))
        copies += [(block.attention.outward, outward), (block.attention_norm, first)]
        copies += [(block.feed_forward.inward, up), (block.feed_forward.outward, down), (block.feed_forward_norm, second)]
    for mine, other in copies:
        mine.load_state_dict(other.state_dict())
    return tower, objective


def marked(pair: str, objective: TranslationLanguage, left: bool):
    vocabulary = XLM if pair == "xlm" else XLM_R
    text = tiny.text([9, 14, 5, 6], left=left, seed=1, vocabulary=vocabulary)
    translation = tiny.text([7, 9, 20, 0], left=left, seed=2, vocabulary=vocabulary, language=3)
    batch = tiny.batch([9] * 4)._replace(text=text, translation=translation)
    return objective.mark(objective.view(batch))


def read_theirs(pair: str, model: nn.Module, text, **changed):
    inputs = {"input_ids": text.read, "attention_mask": text.present.long()}
    if pair == "xlm":
        inputs |= {"langs": text.language, "position_ids": text.position}
    own = torch.Tensor.float
    # Hugging Face's XLM takes its softmax in 32 bits whatever the model has; with 64 it is left where it is.
    kept = lambda tensor: tensor if tensor.dtype is torch.float64 else own(tensor)  # noqa: E731
    with mock.patch.object(torch.Tensor, "float", kept):
        return model(**{**inputs, **changed}, labels=torch.where(text.hidden, text.tokens, -100))


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("pair", ["xlm", "xlm-roberta", "infoxlm"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_logits_loss_and_gradient_of_a_pair(pair, left, dtype, tolerance):
    model = theirs(pair).train()
    tower, objective = ours(pair, model)
    model, tower, objective = (module.to(dtype) for module in (model, tower, objective))
    batch = marked(pair, objective, left)
    longest = batch.text.present.sum(1).max()
    assert longest > POSITIONS if pair == "xlm" else longest == POSITIONS
    wanted = read_theirs(pair, model, batch.text)
    states = objective.read(tower, batch)
    logits = objective.head(states.text[batch.text.hidden])
    assert (wanted.logits[batch.text.hidden] - logits).abs().max() < tolerance
    loss = objective.loss(states, batch)
    assert loss.count > 10
    mean = loss.total / loss.count
    assert abs(mean - wanted.loss) < tolerance
    mean.backward()
    wanted.loss.backward()
    body = model.transformer if pair == "xlm" else model.roberta
    table = body.embeddings if pair == "xlm" else body.embeddings.word_embeddings
    inner = body.ffns[0].lin1 if pair == "xlm" else body.encoder.layer[0].intermediate.dense
    for mine, other in ((tower.transformer.blocks[0].feed_forward.inward, inner), (tower.tokens, table)):
        assert (mine.weight.grad - other.weight.grad).abs().max() < 10 * tolerance * other.weight.grad.abs().max()


def test_the_well_known_wrong_choices_fail():
    """Languages left out or one for the row, positions that run on: each is another reading."""
    model = theirs("xlm").eval()
    tower, objective = ours("xlm", model)
    batch = marked("xlm", objective, False)
    text, hidden = batch.text, batch.text.hidden
    wanted = objective.head(tower.eval()(batch).text[hidden])
    short = text.present.cumsum(1).clamp_max(POSITIONS) - 1
    for changed in ({"langs": None}, {"langs": 0 * text.language}, {"position_ids": short.clamp_min(0)}):
        assert (read_theirs("xlm", model, text, **changed).logits[hidden] - wanted).abs().max() > 1e-2
    assert (read_theirs("xlm", model, text).logits[hidden] - wanted).abs().max() < 1e-12
