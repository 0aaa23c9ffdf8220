"""Packed rows: what stands where, and that encoders and losses cannot tell them from rows of one text."""

import numpy as np
import pytest
import tiny
import torch
from trained import names, small_tokenizer

from interlingua.datamodules.fit import fit_rows
from interlingua.modalities.batch import Batch, Text, number_positions
from interlingua.modalities.text import collate_packed, collate_text
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.hard_image_text_matching import HardImageTextMatching
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.rows import refuse_packed
from interlingua.tasks.passes import Pass
from interlingua.tasks.reading import mark_pass

ROOM = 48
FIELDS = 7
"""Fields of a text that no objective has marked."""


@pytest.fixture(scope="module")
def tokenizer(data):
    return small_tokenizer(data)


@pytest.fixture(scope="module")
def both(data, tokenizer) -> tuple[Text, Text]:
    """The same real texts in twelve languages, one a row and packed, in one order of tokens."""
    codes, texts = zip(*names(data)[::97], strict=True)
    rows = fit_rows(tokenizer.count_tokens(texts), ROOM)
    order = np.argsort(rows, kind="stable")
    texts, codes = [texts[place] for place in order], [codes[place] for place in order]
    packed = collate_packed(texts, codes, rows[order], tokenizer, ROOM)
    return collate_text(texts, codes, tokenizer, ROOM), packed


def batch(text: Text) -> Batch:
    number = torch.arange(len(text.tokens))
    return Batch("texts", number, number, torch.zeros_like(number), text=text)


def build_tower(tokenizer):
    torch.manual_seed(0)
    return tiny.text_tower(vocabulary=tokenizer.vocabulary, max_tokens=ROOM, languages=12)


def test_texts_stand_one_after_the_other(tokenizer):
    texts = ["a dog", "ein Hund", "a cat", None, "a dog and a cat", "  "]
    packed = collate_packed(texts, ["en", "de", "en", "en", "en", "xx"], [1, 0, 1, 1, 1, 0], tokenizer, 32)
    alone = collate_text(texts, ["en", "de", "en", "en", "en", "xx"], tokenizer, 32)
    lengths = alone.present.sum(1).tolist()
    assert packed.present.sum(1).tolist() == [lengths[1], lengths[0] + lengths[2] + lengths[4]]
    start = 0
    for document, number in enumerate((0, 2, 4)):
        end = start + lengths[number]
        for name in ("tokens", "present", "language", "word", "segment", "position"):
            assert getattr(packed, name)[1, start:end].equal(getattr(alone, name)[number, : lengths[number]]), name
        assert (packed.document[1, start:end] == document).all()
        start = end
    assert packed.language[0].unique().tolist() == [1]
    assert not packed.document[0].any()
    assert {field.dtype for field in packed[:FIELDS]} == {torch.int64, torch.bool}
    assert packed.tokens[0, lengths[1] :].eq(tokenizer.vocabulary.pad).all()


def test_a_row_each_is_the_unpacked_batch(data, tokenizer):
    codes, texts = zip(*names(data)[:40], strict=True)
    one = collate_packed(texts, codes, np.arange(40), tokenizer, 8)
    assert all(map(torch.equal, one[:FIELDS], collate_text(texts, codes, tokenizer, 8)[:FIELDS]))


def test_rows_that_are_too_long_or_left_out_are_errors(tokenizer):
    need = int(tokenizer.count_tokens(["a dog"])[0])
    pair = ["a dog", "a dog"], ["en", "en"]
    assert collate_packed(*pair, [0, 0], tokenizer, 2 * need).present.all()
    with pytest.raises(ValueError, match=f"the 2 texts of row 0 have {2 * need} tokens, but max_tokens is {2 * need - 1}"):
        collate_packed(*pair, [0, 0], tokenizer, 2 * need - 1)
    with pytest.raises(ValueError, match="row 1 of 3 has no text"):
        collate_packed(*pair, [0, 2], tokenizer, 32)
    with pytest.raises(ValueError, match="2 texts, but 2 languages and 1 rows"):
        collate_packed(*pair, [0], tokenizer, 32)
    cut = collate_packed(["a dog and a cat in the house"], ["en"], [0], tokenizer, 5)  # one text alone is cut, as ever
    assert cut.tokens.shape == (1, 5)
    assert cut.tokens[0, -1] == tokenizer.vocabulary.end


def test_states_are_those_of_unpacked_texts(tokenizer, both):
    alone, packed = both
    assert len(packed.tokens) < len(alone.tokens) / 2
    assert packed.present.float().mean() > 0.9 > alone.present.float().mean()
    tower = build_tower(tokenizer).eval()
    with torch.no_grad():
        wanted, found = tiny.encode(tower, alone)[alone.present], tiny.encode(tower, packed)[packed.present]
        assert torch.allclose(found, wanted, rtol=0, atol=1e-5)
        run_on = packed._replace(position=number_positions(packed.present))
        assert not torch.allclose(tiny.encode(tower, run_on)[packed.present], wanted, rtol=0, atol=1e-2)
        across = tower.encode(packed, lambda slots: slots.sample[:, :, None] == slots.sample[:, None, :])[0]
        assert not torch.allclose(across[packed.present], wanted, rtol=0, atol=1e-2)


def read_loss(tower, objective, text: Text) -> torch.Tensor:
    """Summed MLM loss; the gradient is left in the tower and the head."""
    for module in (tower, objective):
        module.zero_grad()
    marked = batch(text)
    loss = objective.loss(objective.read(tower, marked), marked)
    loss.total.backward()
    return loss.total.detach()


def test_loss_and_gradient_are_those_of_unpacked_texts(tokenizer, both):
    """The same tokens hidden: the whole gradient agrees, and with positions that run on it does not."""
    alone, packed = both
    tower, objective = build_tower(tokenizer), MaskedLanguage(rate=0.3)
    objective.connect(tower)
    alone = objective.mark(batch(alone)).text
    packed = packed._replace(
        shown=packed.tokens.masked_scatter(packed.present, alone.shown[alone.present]),
        hidden=torch.zeros_like(packed.present).masked_scatter(packed.present, alone.hidden[alone.present]),
    )
    parameters = dict(tower.named_parameters()) | dict(objective.named_parameters())

    def gradient_of(text: Text):
        total = read_loss(tower, objective, text)
        return total, {name: parameter.grad.clone() for name, parameter in parameters.items()}

    (wanted, wanted_gradient), (found, found_gradient) = gradient_of(alone), gradient_of(packed)
    assert alone.hidden.sum() > 30
    assert torch.allclose(found, wanted, rtol=1e-5, atol=0)
    scale = max(gradient.abs().max() for gradient in wanted_gradient.values())
    for name, gradient in found_gradient.items():
        assert torch.allclose(gradient, wanted_gradient[name], rtol=0, atol=1e-5 * float(scale)), name
    wrong, _ = gradient_of(packed._replace(position=number_positions(packed.present)))
    assert not torch.allclose(wrong, wanted, rtol=1e-3, atol=0)


@pytest.mark.parametrize("objective", [Contrast("text", "translation"), ImageTextMatching(), HardImageTextMatching()])
def test_objectives_of_one_item_a_row_refuse_packed_rows(both, objective):
    alone, packed = both
    with pytest.raises(ValueError, match="own scores one item a row, but rows of source 'texts' are packed"):
        mark_pass(Pass("texts", ("own",)), [batch(packed)], {"own": objective}, share=False)
    refuse_packed(batch(alone), "own")  # rows of one text are welcome
