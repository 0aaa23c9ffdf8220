"""Text towers against Hugging Face's own with the same random weights: states of every layer, scores, the gradient of every
weight, both paddings, both precisions; and every well-known wrong choice is caught."""

from contextlib import contextmanager

import foreign_models
import pytest
import torch
from foreign_models import NAMES, apart, ours, reference, text

from interlingua.models.families import FAMILIES
from interlingua.models.forward_check import make_inputs
from interlingua.models.heads import TokenHead
from interlingua.models.loading import translate_all
from interlingua.models.transformer import FeedForward

pytest.importorskip("transformers")
PRECISIONS = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["32", "64"])
FAMILY = pytest.mark.parametrize("name", NAMES)
PADDING = pytest.mark.parametrize("left", [False, True], ids=["right", "left"])


@contextmanager
def whole_precision(dtype):
    """Hugging Face's XLM turns its attention scores into float32, whatever the model's precision."""
    with pytest.MonkeyPatch.context() as patch:
        if dtype == torch.float64:
            patch.setattr(torch.Tensor, "float", lambda self: self)
        yield


def read(name, model, text):
    with whole_precision(model.dtype):
        return model(**make_inputs(FAMILIES[name], text), output_hidden_states=True)


@FAMILY
@PADDING
@PRECISIONS
def test_states_of_every_layer_and_scores(name, left, dtype, tolerance):
    model, line = reference(name).to(dtype), text(name, left)
    tower, head = ours(name, model)
    with torch.no_grad():
        want, (states, layers) = read(name, model, line), tower.encode(line, keep=range(4))
        last = read(name, model.base_model, line).last_hidden_state
    for number in range(3):
        assert apart(layers[number][line.present], want.hidden_states[number][line.present]) < tolerance, number
    assert apart(states[line.present], last[line.present]) < tolerance
    assert apart(head(states[line.present]), want.logits[line.present]) < tolerance


@FAMILY
@PADDING
@PRECISIONS
def test_gradients_of_every_weight_in_training_mode(name, left, dtype, tolerance):
    model, line = reference(name).to(dtype).train(), text(name, left)
    tower, head = ours(name, model)
    tower.train(), head.train()
    hidden = line.present & (torch.arange(14)[None] % 3 == 0)
    states = tower.encode(line)[0][hidden]
    mine = head.cross_entropy(states, line.tokens[hidden]) / hidden.sum()
    theirs = torch.nn.functional.cross_entropy(read(name, model, line).logits[hidden], line.tokens[hidden])
    mine.backward()
    theirs.backward()
    assert apart(mine.detach(), theirs.detach()) < tolerance
    named = {key: one.grad for key, one in model.named_parameters() if one.grad is not None}
    want = translate_all(named, FAMILIES[name]).weights
    got = {f"encoder.{key}": one.grad for key, one in tower.named_parameters()}
    got |= {f"head.{key}": one.grad for key, one in head.named_parameters()}
    assert got.keys() == want.keys()
    largest = max(one.abs().max() for one in want.values())
    for key in want:
        assert (got[key] - want[key]).abs().max() < tolerance * largest, key


@FAMILY
def test_a_text_beside_others_is_read_as_alone(name):
    line = text(name)
    tower = foreign_models.tower(name)
    together = tower.encode(line)[0]
    for row in range(3):
        alone = type(line)(*(field[row : row + 1, : line.present[row].sum()] for field in line[:7]))
        assert torch.allclose(tower.encode(alone)[0][0], together[row, line.present[row]], atol=1e-6)


def difference(name, tower, model) -> float:
    line = text(name)
    with torch.no_grad():
        return apart(tower.encode(line)[0][line.present], read(name, model.base_model, line).last_hidden_state[line.present])


@pytest.mark.parametrize("name", ["bert", "xlm-roberta", "xlm"])
def test_tanh_is_another_gelu(name, monkeypatch):
    model = reference(name)
    tower, _ = ours(name, model)
    tanh = lambda self, x: self.outward(torch.nn.functional.gelu(self.inward(x), approximate="tanh"))  # noqa: E731
    monkeypatch.setattr(FeedForward, "forward", tanh)
    assert difference(name, tower, model) > 1e-4


@pytest.mark.parametrize(("name", "wrong"), [("bert", 1e-5), ("xlm-roberta", 1e-12), ("xlm-roberta-xl", 1e-12), ("xlm", 1e-5)])
def test_the_other_epsilon_shows(name, wrong):
    model = reference(name)
    tower, _ = ours(name, model)
    for module in tower.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = wrong
    assert difference(name, tower, model) > 1.5e-5


def test_the_class_defaults_of_xlm_roberta_are_those_of_no_published_model():
    import transformers

    config = transformers.XLMRobertaConfig()
    assert (config.layer_norm_eps, config.type_vocab_size, config.max_position_embeddings) == (1e-12, 2, 512)


@pytest.mark.parametrize("name", ["xlm-roberta", "xlm-roberta-xl"])
def test_positions_from_zero_are_wrong(name):
    model = reference(name)
    tower, _ = ours(name, model)
    tower.embeddings.position_offset = 0
    assert difference(name, tower, model) > 0.1


def test_language_vectors_left_out_are_missed():
    model = reference("xlm")
    tower, _ = ours("xlm", model)
    tower.embeddings.languages = None
    assert difference("xlm", tower, model) > 0.1


def test_positions_that_do_not_restart_are_missed():
    model, line = reference("xlm"), text("xlm")
    tower, _ = ours("xlm", model)
    on = line._replace(position=(torch.cumsum(line.present, 1) - 1).clamp_min(0))
    want = read("xlm", model.base_model, line).last_hidden_state
    assert apart(tower.encode(on)[0][line.present], want[line.present]) > 0.1


def test_segments_of_xlm_are_vectors_of_words():
    """Hugging Face's XLM adds the word vectors 0 and 1 where it is given `token_type_ids`: it must not be."""
    model, line = reference("xlm"), text("xlm")
    tower, _ = ours("xlm", model)
    want = model.base_model(**make_inputs(FAMILIES["xlm"], line), token_type_ids=line.segment).last_hidden_state
    assert apart(tower.encode(line)[0][line.present], want[line.present]) > 0.1


def test_xlm_scores_by_the_table_alone():
    model, line = reference("xlm"), text("xlm")
    tower, head = ours("xlm", model)
    assert head.dense is None
    states, want = tower.encode(line)[0][line.present], read("xlm", model, line).logits[line.present]
    wrong = TokenHead(tower.tokens, tower.widths["text"])
    wrong.load_state_dict(head.state_dict(), strict=False)
    assert apart(head(states), want) < 1e-5
    assert apart(wrong(states), want) > 0.1


@FAMILY
def test_the_pad_row_still_learns_through_the_head(name):
    """Pads are never looked up, but the tied head scores their row, as in Hugging Face's models."""
    tower, line = foreign_models.tower(name), text(name)
    head = tower.token_head("text")
    states = tower.encode(line)[0][line.present]
    head.cross_entropy(states, line.tokens[line.present]).backward()
    assert tower.tokens.weight.grad[line.tokens[~line.present][0]].abs().max() > 0


@FAMILY
def test_dropout_stands_where_it_stands_in_the_family(name):
    """After the embeddings, and after attention and feed-forward before each sum; on attention weights at a rate of its own."""
    tower = foreign_models.tower(name, dropout=0.3, attention_dropout=0.2).train()
    assert [module.p for module in tower.modules() if isinstance(module, torch.nn.Dropout)] == [0.3] * 4
    assert [block.attention.dropout for block in tower.transformer.blocks] == [0.2] * 3
    torch.manual_seed(0)
    line = text(name)
    vectors = tower.embeddings(type(line)(*(field.repeat(20, 1) for field in line[:7])))
    assert abs((vectors == 0).float().mean().item() - 0.3) < 0.01
    block, seen, summed = tower.transformer.blocks[0], [], []
    block.dropout.register_forward_hook(lambda module, inputs, output: seen.append(output))
    for norm in (block.attention_norm, block.feed_forward_norm):
        norm.register_forward_pre_hook(lambda module, inputs: summed.append(inputs[0]))
    states = torch.randn(20, 10, 32)
    out = block(states, None)
    assert len(seen) == 2
    assert all(abs((output == 0).float().mean().item() - 0.3) < 0.02 for output in seen)
    if name == "xlm-roberta-xl":  # norms before the sub-layers: sums are plain
        assert torch.equal(out, states + seen[0] + seen[1])
    else:
        assert torch.equal(summed[0], states + seen[0])
