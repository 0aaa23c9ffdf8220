"""Sentence classification: the published head and nothing else, over the labelled rows and no others."""

import math

import pytest
import tiny
import torch
from learning import reach_half

from interlingua.modalities.batch import Target, take
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.families import FAMILIES
from interlingua.models.loading import load_foreign
from interlingua.models.presets import Size, xlm_roberta
from interlingua.tasks.objectives.rows import join_rows
from interlingua.tasks.objectives.sentence_classification import SentenceClassification
from interlingua.tasks.passes import Pass
from interlingua.tasks.reading import mark_pass

LENGTHS = (7, 5, 9, 4, 12, 3)


def labelled(labels=(0, 4, -1, 2, 1, 3), left=False, padded=None, vocabulary=tiny.VOCABULARY):
    text = tiny.text(LENGTHS, padded, left=left, vocabulary=vocabulary)
    return tiny.batch(LENGTHS, text=text, source="labelled", target=Target(label=torch.tensor(labels)))


def connected(encoder=None, **options):
    torch.manual_seed(0)
    encoder = encoder or tiny.text_tower()
    objective = SentenceClassification(5, **options)
    objective.connect(encoder)
    return encoder, objective


def test_ignorance_costs_the_logarithm_of_the_classes_of_every_labelled_row():
    encoder, objective = connected()
    for parameter in objective.head.parameters():
        torch.nn.init.zeros_(parameter)
    batch = labelled()
    loss = objective.loss(objective.read(encoder, batch), batch)
    assert loss.total.item() == pytest.approx(5 * math.log(5), rel=1e-6)
    assert loss.count == objective.count(batch) == 5


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_it_is_the_cross_entropy_of_plain_layers_and_its_gradients(pooling):
    encoder, objective = (part.double() for part in connected(pooling=pooling, dropout=0.0))
    batch = labelled()
    states = objective.read(encoder, batch)
    text = states.text.detach().clone().requires_grad_()
    loss = objective.loss(states._replace(text=text), batch)
    (gradient,) = torch.autograd.grad(loss.total, text)

    other, cost = text.detach().clone().requires_grad_(), 0.0
    for row, label in enumerate(batch.target.label.tolist()):
        if label < 0:
            continue
        vector = other[row, 0] if pooling == "first" else other[row, : LENGTHS[row]].mean(0)
        hidden = torch.tanh(objective.dense.weight @ vector + objective.dense.bias)
        scores = objective.head.weight @ hidden + objective.head.bias
        cost = cost + torch.logsumexp(scores, 0) - scores[label]
    assert abs(loss.total - cost) < 1e-10
    (expected,) = torch.autograd.grad(cost, other)
    assert (gradient - expected).abs().max() < 1e-10


def theirs(dtype):
    """Hugging Face's classifier, and our tower and head with its weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    table = {"pad_token_id": 0, "type_vocab_size": 1, "max_position_embeddings": 41, "layer_norm_eps": 1e-5}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.3}
    configuration = transformers.XLMRobertaConfig(**sizes, **table, **dropout, num_labels=5)
    model = transformers.XLMRobertaForSequenceClassification(configuration).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.2)
        if "norm" in name.lower() and name.endswith("weight"):
            parameter.data.add_(1)
    made = xlm_roberta(Vocabulary(100), Size(32, 2, 4, 64), max_tokens=40, dropout=0.0, attention_dropout=0.0)
    encoder, objective = connected(made, dropout=0.3)
    model, encoder, objective = model.to(dtype), encoder.to(dtype), objective.to(dtype).eval()
    weights = {name: weight for name, weight in model.state_dict().items() if not name.startswith("classifier")}
    load_foreign(encoder, weights, FAMILIES["xlm-roberta"])
    objective.dense.load_state_dict(model.classifier.dense.state_dict())
    objective.head.load_state_dict(model.classifier.out_proj.state_dict())
    return model, encoder, objective


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_scores_loss_and_gradients_are_those_of_hugging_faces_classifier(left, dtype, tolerance):
    model, encoder, objective = theirs(dtype)
    batch = labelled((0, 4, 1, 2, 1, 3), left, 14, encoder.vocabulary)
    if left:  # theirs takes the first column, whatever stands there
        text = labelled((0, 4, 1, 2, 1, 3), False, 14, encoder.vocabulary).text
        found = model(text.tokens, attention_mask=text.present.long(), labels=batch.target.label)
    else:
        found = model(batch.text.tokens, attention_mask=batch.text.present.long(), labels=batch.target.label)
    states = objective.read(encoder, batch)
    assert (objective.scores(states, batch) - found.logits).abs().max() < tolerance
    loss = objective.loss(states, batch)
    assert abs(loss.total / 6 - found.loss) < tolerance
    (loss.total / 6).backward()
    found.loss.backward()
    pairs = [
        (objective.dense.weight, model.classifier.dense.weight),
        (objective.head.bias, model.classifier.out_proj.bias),
        (encoder.embeddings.norm.weight, model.roberta.embeddings.LayerNorm.weight),
    ]
    for mine, other in pairs:
        assert (mine.grad - other.grad).abs().max() < tolerance * max(1, other.grad.abs().max())


def test_the_head_drops_what_the_published_one_drops_and_other_heads_differ():
    model, encoder, objective = theirs(torch.float64)
    batch = labelled(vocabulary=encoder.vocabulary)
    states = objective.read(encoder, batch)
    model.train(), objective.train()
    drawn = []
    for score in (lambda: objective.scores(states, batch), lambda: model.classifier(states.text)):
        torch.manual_seed(1)
        drawn.append(score())
    assert torch.equal(*drawn)
    objective.eval(), model.eval()
    right = model.classifier(states.text)
    objective.pooling = "mean"
    assert (objective.scores(states, batch) - right).abs().max() > 0.01  # a mean in the place of the first token
    linear = objective.head(states.text[:, 0])
    assert (linear - right).abs().max() > 0.01  # and no dense layer at all


def test_nothing_labelled_costs_nothing_and_keeps_a_gradient():
    encoder, objective = connected()
    batch = labelled((-1,) * 6)
    loss = objective.loss(objective.read(encoder, batch), batch)
    assert loss.total == 0
    assert loss.count == objective.count(batch) == 0
    loss.total.backward()
    assert all(not parameter.grad.any() for parameter in objective.parameters())


def test_labels_of_rows_that_are_not_scored_and_their_texts_change_nothing():
    encoder, objective = connected(dropout=0.0)
    batch = labelled()
    scored = take(batch, batch.target.label >= 0)
    whole, part = (objective.loss(objective.read(encoder, one), one) for one in (batch, scored))
    assert whole.total.item() == pytest.approx(part.total.item(), rel=1e-5)


def test_a_row_is_scored_alone_as_in_a_batch_padded_left_as_right():
    for pooling in ("first", "mean"):
        encoder, objective = connected(dropout=0.0, pooling=pooling)
        encoder.eval()
        right, left = labelled(), labelled(left=True, padded=20)
        scores = objective.scores(objective.read(encoder, right), right)
        assert torch.allclose(scores, objective.scores(objective.read(encoder, left), left), atol=1e-5)
        for row in range(6):
            alone = take(right, torch.tensor([row]))
            assert torch.allclose(scores[row], objective.scores(objective.read(encoder, alone), alone)[0], atol=1e-5)


def test_the_tally_counts_right_rows_of_the_labelled_ones():
    encoder, objective = connected(dropout=0.0)
    batch = labelled()
    states = objective.read(encoder, batch)
    said = objective.scores(states, batch).argmax(1)
    assert objective.tally(states, batch)["accuracy"].tolist() == [int((said == batch.target.label).sum()), 5]
    right = batch._replace(target=Target(label=said.where(batch.target.label >= 0, -1)))
    assert objective.tally(states, right)["accuracy"].tolist() == [5, 5]
    assert objective.tally(states, labelled((-1,) * 6))["accuracy"].tolist() == [0, 0]


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ValueError, match=r"classes is 1; give 2 or more"):
        SentenceClassification(1)
    with pytest.raises(ValueError, match=r"dropout is 1.0"):
        SentenceClassification(2, dropout=1.0)
    with pytest.raises(ValueError, match=r"needs an encoder that reads text; ImageTower reads image"):
        SentenceClassification(2).connect(tiny.two_towers().image)
    _, objective = connected()
    for lacking in (tiny.batch(), tiny.batch()._replace(target=Target()), labelled()._replace(text=None)):
        with pytest.raises(ValueError, match=r"source '(captions|labelled)' has no labelled text"):
            objective.count(lacking)
    batch = labelled()
    packed = batch._replace(text=batch.text._replace(document=batch.text.present.long().cumsum(1) // 3))
    with pytest.raises(ValueError, match=r"one item a row, but rows of source 'labelled' are packed"):
        mark_pass(Pass("labelled", ("classes",)), [packed], {"classes": objective})


def test_targets_are_joined_and_taken_with_their_rows():
    batch = labelled()
    parts = [take(batch, torch.arange(2)), take(batch, torch.arange(2, 6))]
    assert torch.equal(join_rows(parts).target.label, batch.target.label)
    bare = parts[0]._replace(target=None)
    assert join_rows([bare, parts[1]]).target.label.tolist() == [-1, -1, -1, 2, 1, 3]


def test_the_cost_halves():
    encoder, objective = connected()
    batch = labelled()
    reach_half(lambda: objective.loss(objective.read(encoder, batch), batch).total, encoder, objective)
