"""Texts from the tokenizer through towers: length, language, padding and absent rows."""

import pytest
import tiny
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from trained import small_tokenizer

from interlingua.modalities.batch import Image, Text, take
from interlingua.modalities.text import collate_text
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.towers import TextTower
from interlingua.models.two_towers import TwoTowers
from interlingua.tasks.objectives.masked_language import MaskedLanguage

SIXTY = " ".join(["a dog and a cat in the house with six"] * 6)


@pytest.fixture(scope="module")
def tokenizer(data):
    return small_tokenizer(data)


def of_length(tokenizer, tokens: int) -> str:
    """A text of a given number of tokens, start and end token included."""
    text = " ".join(["face"] * (tokens - 2))
    assert tokenizer.encode([text]).counts[0] + 2 == tokens
    return text


def collate(tokenizer, texts, languages=None, max_tokens=64) -> Text:
    return collate_text(texts, languages or ["en"] * len(texts), tokenizer, max_tokens)


def stretch(text: Text, padded: int, left: bool = False) -> Text:
    """The same rows, padded to a width."""
    more = (padded - text.tokens.shape[1], 0) if left else (0, padded - text.tokens.shape[1])
    pad = torch.nn.functional.pad
    return Text(*(pad(field, more) for field in text[:7]))._replace(word=pad(text.word, more, value=-1))


@pytest.mark.parametrize("encoder", [tiny.text_tower, tiny.two_towers, tiny.single_stream, tiny.region_stream])
def test_every_tower_reads_the_end_token_of_a_caption_that_was_cut(tokenizer, encoder):
    """Pitfall T01: a caption of 60 words at 16 tokens, beside a picture of 4 patches or regions; of 16 and 17 tokens."""
    encoder, vocabulary = encoder(), tokenizer.vocabulary
    texts = [SIXTY, of_length(tokenizer, 16), of_length(tokenizer, 17)]
    assert len(SIXTY.split()) == 60
    text = collate(tokenizer, texts, max_tokens=16)
    assert {tuple(field.shape) for field in text[:7]} == {(3, 16)}
    assert text.present.all()
    assert text.tokens[:, 0].tolist() == [vocabulary.start] * 3
    assert text.tokens[:, 15].tolist() == [vocabulary.end] * 3
    assert (text.tokens == vocabulary.end).sum() == 3
    assert text.tokens[1].equal(text.tokens[2])
    shown = text._replace(tokens=text.tokens % 100)  # the towers of `tiny` know 100 entries
    given = {"image": tiny.image(3), "regions": tiny.regions([4] * 3)}
    given = {name: one for name, one in given.items() if name in encoder.widths}
    batch = tiny.batch([16] * 3, **given)
    objective = MaskedLanguage(rate=1.0)
    objective.connect(encoder)
    marked = objective.mark(batch._replace(text=shown))
    assert marked.text.hidden.sum(1).tolist() == [14] * 3
    assert not marked.text.hidden[:, [0, 15]].any()
    assert marked.text.shown[:, 15].tolist() == [vocabulary.end] * 3
    states = encoder(marked)
    assert states.text.shape == (3, 16, tiny.WIDTH)
    assert all(getattr(states, name).shape[:2] == (3, 4) for name in given)
    changed = encoder(marked._replace(text=marked.text._replace(shown=marked.text.shown.index_fill(1, torch.tensor([15]), 9))))
    assert not torch.allclose(states.text[:, 15], changed.text[:, 15], atol=1e-3)


@pytest.mark.parametrize(("pad", "limit"), [(1, 512), (3, 510)])
def test_a_table_of_514_rows_reads_512_tokens_and_with_pad_3_it_reads_510(tokenizer, pad, limit):
    """Pitfall T02: positions start at pad id + 1, so a table of 514 rows reads 514 - pad - 1 tokens."""
    vocabulary = Vocabulary(1500, pad=pad, unknown=0, start=4, end=2, mask=1499)
    options = {"max_tokens": 514 - pad - 1, "position_offset": pad + 1, "vocabulary": vocabulary}
    tower = TextTower(tiny.embeddings(**options), tiny.transformer(layers=1))
    assert tower.embeddings.positions.num_embeddings == 514
    long, short = of_length(tokenizer, 600), "a dog"
    text = collate(tokenizer, [long, short], max_tokens=limit)
    assert text.present.sum(1)[0] == limit
    assert text.tokens[0, limit - 1] == tokenizer.vocabulary.end
    states = tiny.encode(tower, text)
    assert states.isfinite().all()
    assert torch.allclose(states[1, : text.present[1].sum()], tiny.encode(tower, collate(tokenizer, [short]))[0], atol=1e-5)
    assert tiny.encode(tower, stretch(text, limit + 9)).isfinite().all()  # padding takes no rows of the table
    assert tiny.encode(tower, stretch(text, limit + 9, left=True)).isfinite().all()
    message = rf"text of {limit + 1} tokens, .* max_tokens = {limit} \(position table of 514 rows less {pad + 1}\)"
    with pytest.raises(ValueError, match=message):
        tiny.encode(tower, collate(tokenizer, [long, short], max_tokens=limit + 1))


@pytest.mark.parametrize("code", ["xx", ""])
def test_a_language_that_is_unknown_or_missing_is_an_error_wherever_it_stands(tokenizer, code):
    """Pitfall T09 a and b: never a silent 0."""
    for languages in ([code, "de", "en"], ["en", code, "en"], ["en", "de", code]):
        with pytest.raises(ValueError, match=f"unknown language '{code}'.*knows ar, de, en"):
            collate(tokenizer, ["a dog", "ein Hund", "a dog"], languages)


def test_swapping_one_language_changes_that_row_alone(tokenizer):
    """Pitfall T09 c: a batch of en, de, en."""
    tower = TextTower(tiny.embeddings(vocabulary=tokenizer.vocabulary, languages=12), tiny.transformer())
    texts = ["a dog", "ein Hund", "a dog"]
    before, after = (collate(tokenizer, texts, codes) for codes in (["en", "de", "en"], ["en", "de", "fr"]))
    assert before.language[:, 0].tolist() == [2, 1, 2]
    assert after.language[:, 0].tolist() == [2, 1, 4]
    assert all((row == row[0]).all() for row in before.language)
    states, changed = tiny.encode(tower, before), tiny.encode(tower, after)
    assert torch.equal(states[0], states[2])
    assert torch.equal(states[:2], changed[:2])
    assert not torch.allclose(states[2, :3], changed[2, :3], atol=1e-4)
    expected = tower.embeddings.languages.weight[4] - tower.embeddings.languages.weight[2]
    bare = TextTower(tiny.embeddings(vocabulary=tokenizer.vocabulary, languages=12, norm=False), tiny.transformer())
    bare.load_state_dict(tower.state_dict(), strict=False)
    torch.testing.assert_close((bare.embeddings(after) - bare.embeddings(before))[-1], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_captions_vector_does_not_depend_on_its_neighbours_or_padding(pooling):
    """Pitfall M10: alone, beside a text of 60 tokens, padded to the longest that is read, padded on the left."""
    torch.manual_seed(0)
    tower = tiny.text_tower()
    encoder = TwoTowers(tower, vector_width=24, pooling=pooling).eval()

    def vectors(text):
        return encoder(tiny.batch([3] * len(text.tokens))._replace(text=text)).vectors.text

    alone = vectors(tiny.text([5]))
    beside = tiny.text([5, 60, 0])
    for text in (beside, tiny.text([5], 64), tiny.text([5], 64, left=True), tiny.text([5, 60, 0], 64, left=True)):
        torch.testing.assert_close(vectors(text)[:1], alone, atol=1e-5, rtol=0)
    assert vectors(beside)[2].eq(0).all()  # nothing is there: finite, and like no text
    assert not torch.allclose(vectors(beside)[1], alone[0], atol=1e-3)


def absent(batch):
    """Without the second row's text and the third row's picture."""
    text = tiny.text([7, 0, 9, 4], 12)
    return batch._replace(text=text, image=Image(batch.image.pixels, torch.tensor([True, True, False, True])))


@pytest.mark.parametrize("autocast", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("encoder", [tiny.two_towers, tiny.single_stream])
def test_absent_rows_are_finite_and_leave_the_others_alone(encoder, autocast):
    """Pitfall O10: a text of padding alone and a picture that is not there, in every precision and by every path."""
    torch.manual_seed(0)
    encoder = encoder()
    whole = tiny.batch([7, 5, 9, 4], image=tiny.image(4))._replace(text=tiny.text([7, 5, 9, 4], 12))
    holed = absent(whole)

    def read(batch, *paths):
        with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None), sdpa_kernel(list(paths)):
            states = encoder(batch)
        found = {"text": states.text, "image": states.image, "joint": states.joint}
        found |= {f"vector of {name}": value for name, value in states.vectors._asdict().items()}
        return {name: value for name, value in found.items() if value is not None}

    fast = (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH)
    states, same, plain = read(holed, *fast), read(whole, *fast), read(holed, SDPBackend.MATH)
    assert len(states) > 2
    tolerance = 1e-6 if autocast is None else 2e-2
    for name, value in states.items():
        assert value.isfinite().all(), name
        assert torch.allclose(value.float(), plain[name].float(), atol=tolerance), name
        rest = torch.tensor([0, 3])
        assert torch.allclose(value[rest].float(), same[name][rest].float(), atol=tolerance), name
    for row in range(4):
        alone = read(take(holed, torch.tensor([row])), *fast)
        for name, value in alone.items():
            assert torch.allclose(value[0].float(), states[name][row].float(), atol=tolerance), (name, row)
    sum(value.float().square().sum() for value in states.values()).backward()
    gradients = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)
