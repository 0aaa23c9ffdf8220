"""Next sentence prediction against Hugging Face's BERT with the same random weights: pooler, logits, loss, gradients."""

import pytest
import tiny
import torch
from costs import score
from halves import connected, halves, mark

from interlingua.models.presets import Size, bert
from interlingua.tasks.objectives.halves import joined
from interlingua.tasks.objectives.next_sentence import NextSentence

transformers = pytest.importorskip("transformers")
SIZES = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
PLACES = {
    "attention.outward": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.inward": "intermediate.dense",
    "feed_forward.outward": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}


def reference(dtype):
    torch.manual_seed(0)
    model = transformers.BertForPreTraining(transformers.BertConfig(**SIZES, **DROPOUT, max_position_embeddings=64))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.to(dtype).train()


def ours(model, dtype):
    """Our tower and objective with the reference's weights."""
    encoder = bert(tiny.VOCABULARY, Size(32, 2, 4, 64), max_tokens=64, dropout=0.0, attention_dropout=0.0)
    encoder, nsp = connected(NextSentence(), encoder)
    pairs = [
        (encoder.embeddings.tokens, model.bert.embeddings.word_embeddings),
        (encoder.embeddings.positions, model.bert.embeddings.position_embeddings),
        (encoder.embeddings.segments, model.bert.embeddings.token_type_embeddings),
        (encoder.embeddings.norm, model.bert.embeddings.LayerNorm),
        (nsp.pair_head.pooler, model.bert.pooler.dense),
        (nsp.pair_head.head, model.cls.seq_relationship),
    ]
    for block, layer in zip(encoder.transformer.blocks, model.bert.encoder.layer, strict=True):
        pairs += [(block.get_submodule(one), layer.get_submodule(other)) for one, other in PLACES.items()]
        parts = [getattr(layer.attention.self, name).state_dict() for name in ("query", "key", "value")]
        block.attention.inward.load_state_dict({name: torch.cat([part[name] for part in parts]) for name in parts[0]})
    for mine, theirs in pairs:
        mine.load_state_dict(theirs.state_dict())
    return encoder.to(dtype), nsp.to(dtype)


def read(model, marked):
    text = marked.text
    fields = {"input_ids": text.tokens, "token_type_ids": text.segment, "attention_mask": text.present.long()}
    return model(**fields, next_sentence_label=(~marked.matched).long(), labels=torch.full_like(text.tokens, -100))


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_pooler_logits_loss_and_gradients(left, dtype, tolerance):
    model = reference(dtype)
    encoder, nsp = ours(model, dtype)
    marked = mark(nsp, halves([5 + row for row in range(12)], [9 - row % 5 for row in range(12)], left=left, padded=20))
    assert 0 < marked.matched.sum() < 12
    assert joined(marked).all()
    theirs, states = read(model, marked), nsp.read(encoder, marked)
    scores = nsp.pair_head(states.text, marked.text.present)
    assert (scores - theirs.seq_relationship_logits).abs().max() < tolerance
    loss = nsp.loss(states, marked)
    want = torch.nn.functional.cross_entropy(theirs.seq_relationship_logits, (~marked.matched).long())
    assert abs(loss.total.item() / 12 - want.item()) < 1e-6
    (loss.total / 12).backward()
    want.backward()
    for mine, other in (
        (nsp.pair_head.pooler, model.bert.pooler.dense),
        (nsp.pair_head.head, model.cls.seq_relationship),
        (encoder.embeddings.segments, model.bert.embeddings.token_type_embeddings),
    ):
        assert (mine.weight.grad - other.weight.grad).abs().max() < 1e-5 * other.weight.grad.abs().max()


@pytest.mark.parametrize("wrong", ["no tanh", "last token", "one segment", "other class"])
def test_the_well_known_wrong_choices_fail(wrong, monkeypatch):
    model = reference(torch.float64)
    encoder, nsp = ours(model, torch.float64)
    marked = mark(nsp, halves())
    theirs = read(model, marked).seq_relationship_logits
    want = torch.nn.functional.cross_entropy(theirs, (~marked.matched).long(), reduction="sum")
    if wrong == "no tanh":
        monkeypatch.setattr(torch, "tanh", lambda values: values)
    elif wrong == "last token":
        present = marked.text.present
        last = present & (present.flip(1).cumsum(1).flip(1) == 1)
        forward = type(nsp.pair_head).forward
        monkeypatch.setattr(type(nsp.pair_head), "forward", lambda head, states, _: forward(head, states, last))
    elif wrong == "one segment":
        encoder.embeddings.segments.weight.data[1] = encoder.embeddings.segments.weight.data[0]
    else:
        marked = marked._replace(matched=~marked.matched)
    assert (score(encoder, nsp, marked).total - want).abs() > 1e-3
