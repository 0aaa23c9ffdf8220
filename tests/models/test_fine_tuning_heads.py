"""The heads of fine-tuning against Hugging Face's with the same random weights: scores, cost, gradients."""

import foreign_models
import pytest
import tiny
import torch
from halves import halves
from torch.nn.functional import cross_entropy

from interlingua.modalities.batch import Batch, Target
from interlingua.modalities.pair import PAIR_FORMS, join_texts
from interlingua.models.families import FAMILIES
from interlingua.models.forward_check import make_inputs
from interlingua.models.loading import load_foreign
from interlingua.tasks.objectives.span_answering import SpanAnswering, context
from interlingua.tasks.objectives.tagging import Tagging

pytest.importorskip("transformers")
PRECISIONS = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["32", "64"])
FAMILY = pytest.mark.parametrize(("family", "prefix"), [("xlm-roberta", "XLMRoberta"), ("bert", "Bert")])
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def both(objective, family, class_name, dtype, head, **options):
    """Hugging Face's model, and our tower and objective with its weights."""
    model = foreign_models.reference(family, class_name, **options).to(dtype)
    encoder = foreign_models.tower(family).to(dtype)
    load_foreign(encoder, model.state_dict(), FAMILIES[family])
    objective.connect(encoder)
    objective.to(dtype).head.load_state_dict(getattr(model, head).state_dict())
    return model, encoder


def check_gradients(model, encoder, objective, head, mine, theirs, tolerance):
    mine.backward()
    theirs.backward()
    words = model.base_model.embeddings.word_embeddings.weight.grad
    pairs = [(objective.head.weight.grad, getattr(model, head).weight.grad), (encoder.embeddings.tokens.weight.grad, words)]
    for one, other in pairs:
        assert (one - other).abs().max() < tolerance * other.abs().max()


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@PRECISIONS
@FAMILY
def test_tagging(family, prefix, left, dtype, tolerance):
    objective = Tagging(TAGS, dropout=0.0)
    model, encoder = both(objective, family, f"{prefix}ForTokenClassification", dtype, "classifier", num_labels=len(TAGS))
    text = foreign_models.text(family, left)
    tags = torch.where(text.word >= 0, text.word % len(TAGS), -1)
    batch = tiny.batch([8, 13, 4])._replace(text=text, target=Target(tags=tags))
    states = objective.read(encoder, batch)
    labels = tags.masked_fill(tags < 0, -100)
    theirs = model(**make_inputs(FAMILIES[family], text), labels=labels)
    assert (objective.head(states.text) - theirs.logits)[text.present].abs().max() < tolerance * theirs.logits.abs().max()
    loss = objective.loss(states, batch)
    cost = loss.total / loss.count
    assert cost.item() == pytest.approx(theirs.loss.item(), rel=1e-5)
    check_gradients(model, encoder, objective, "classifier", cost, theirs.loss, 1e-5)


def asked(family) -> Batch:
    """Four questions and texts; the third has no answer."""
    questions, texts = [5, 4, 7, 6], [9, 12, 6, 8]
    vocabulary, form = foreign_models.VOCABULARIES[family], PAIR_FORMS[family]
    batch = halves(questions, texts, vocabulary=vocabulary)
    text = join_texts(batch.text, batch.translation, form, vocabulary, foreign_models.TOKENS)
    offset = torch.tensor(questions)[:, None] + form.ends - 1
    span = torch.tensor([[1, 2], [0, 0], [-1, -1], [3, 5]])
    return batch._replace(text=text, translation=None, target=Target(span=torch.where(span < 0, span, span + offset)))


@PRECISIONS
@FAMILY
def test_span_answering(family, prefix, dtype, tolerance):
    objective = SpanAnswering()
    model, encoder = both(objective, family, f"{prefix}ForQuestionAnswering", dtype, "qa_outputs")
    batch = asked(family)
    states = objective.read(encoder, batch)
    theirs = model(**make_inputs(FAMILIES[family], batch.text))
    logits = torch.stack([theirs.start_logits, theirs.end_logits], 2)
    assert (objective.head(states.text) - logits)[batch.text.present].abs().max() < tolerance * logits.abs().max()
    cost = objective.loss(states, batch).total / 4
    scores = logits.masked_fill(~compared(batch)[..., None], -torch.inf)
    start, end = batch.target.span.clamp_min(0).unbind(1)
    want = (cross_entropy(scores[..., 0], start) + cross_entropy(scores[..., 1], end)) / 2
    assert cost.item() == pytest.approx(want.item(), rel=1e-5)
    check_gradients(model, encoder, objective, "qa_outputs", cost, want, 1e-5)


def compared(batch):
    """Tokens of the text, and the first of the row."""
    return context(batch) | (torch.arange(batch.text.tokens.shape[1]) == 0)


def test_hugging_faces_own_cost_compares_question_and_padding_too():
    """Where their scores are far below, it is ours."""
    objective = SpanAnswering()
    model, encoder = both(objective, "xlm-roberta", "XLMRobertaForQuestionAnswering", torch.float32, "qa_outputs")
    batch = asked("xlm-roberta")
    start, end = batch.target.span.clamp_min(0).unbind(1)
    inputs = {**make_inputs(FAMILIES["xlm-roberta"], batch.text), "start_positions": start, "end_positions": end}
    with torch.no_grad():
        mine = objective.loss(objective.read(encoder, batch), batch).total.item() / 4
        plain = model(**inputs).loss.item()
        model.qa_outputs.register_forward_hook(
            lambda module, given, scores: scores.masked_fill(~compared(batch)[..., None], -1e4)
        )
        assert model(**inputs).loss.item() == pytest.approx(mine, rel=1e-5)
    assert abs(plain - mine) > 1e-2
