"""Pitfalls T01 (truncation keeps the end token), T07 (empty texts), T09 (language ids); identity of texts."""

import pickle

import pytest
import torch
from trained import small_tokenizer

from interlingua.modalities.batch import Text
from interlingua.modalities.text import collate_text, text_identity

LONG = " ".join(["a dog and a cat in the house"] * 10)


@pytest.fixture(scope="module")
def tokenizer(data):
    return small_tokenizer(data)


def collate(tokenizer, texts, languages=None, max_tokens=32) -> Text:
    return collate_text(texts, languages or ["en"] * len(texts), tokenizer, max_tokens)


def test_long_caption_keeps_its_end_token(tokenizer):
    """Pitfall T01: 80 words at 16 tokens."""
    text = collate(tokenizer, [LONG], max_tokens=16)
    assert all(field.shape == (1, 16) for field in text[:7])
    assert (text.tokens[0, 0], text.tokens[0, 15]) == (2, 3)
    assert text.present.all()
    assert text.word[0, 0] == text.word[0, 15] == -1
    assert (text.word[0, 1:15] >= 0).all()
    assert text.position[0].tolist() == list(range(16))


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_rows_at_the_border_end_in_the_end_token(tokenizer, extra):
    """Pitfall T01: one below, at and above the limit."""
    need = int(tokenizer.encode([LONG]).counts[0]) + 2
    text = collate(tokenizer, [LONG], max_tokens=need + extra)
    assert text.tokens.shape == (1, min(need, need + extra))
    assert text.tokens[0, -1] == 3
    assert (text.tokens == 3).sum() == 1


def test_row_is_start_pieces_end_padding(tokenizer):
    text = collate(tokenizer, ["a dog", "ein Hund läuft im Garten"], ["en", "de"])
    pieces = tokenizer.encode(["a dog"])
    count = int(pieces.counts[0])
    width = text.tokens.shape[1]
    assert width == int(tokenizer.encode(["ein Hund läuft im Garten"]).counts[0]) + 2
    assert text.tokens[0].tolist() == [2, *pieces.ids.tolist(), 3] + [0] * (width - count - 2)
    assert text.word[0].tolist() == [-1, *pieces.words.tolist()] + [-1] * (width - count - 1)
    assert text.present[0].tolist() == [True] * (count + 2) + [False] * (width - count - 2)
    assert text.language.unique(dim=1).tolist() == [[2], [1]]
    assert not text.segment.any()
    assert not text.document.any()
    assert text.shown is text.hidden is None
    assert {field.dtype for field in text[:7]} == {torch.int64, torch.bool}


def test_empty_texts_are_rows_with_nothing_present(tokenizer):
    """Pitfall T07."""
    text = collate(tokenizer, ["", "   ", "\u200b", None, "a dog"])
    assert text.present.any(1).tolist() == [False] * 4 + [True]
    assert not text.tokens[:4].any()
    assert (text.word[:4] == -1).all()
    assert not text.position[:4].any()
    alone = collate(tokenizer, ["a dog"])
    assert all(torch.equal(mine[4:], own) for mine, own in zip(text[:7], alone[:7], strict=True))


def test_nothing_at_all_still_has_a_width(tokenizer):
    assert collate(tokenizer, [None, ""]).tokens.shape == (2, 1)
    assert collate(tokenizer, []).tokens.shape == (0, 1)


def test_every_row_has_its_own_language(tokenizer):
    """Pitfall T09 c."""
    before = collate(tokenizer, ["a dog", "ein Hund", "a dog"], ["en", "de", "en"])
    after = collate(tokenizer, ["a dog", "ein Hund", "a dog"], ["en", "fr", "en"])
    assert before.language[:, 0].tolist() == [2, 1, 2]
    assert (before.language != after.language).any(1).tolist() == [False, True, False]


@pytest.mark.parametrize("code", ["xx", ""])
def test_unknown_or_missing_language_is_an_error(tokenizer, code):
    """Pitfall T09 a and b."""
    with pytest.raises(ValueError, match="unknown language"):
        collate(tokenizer, ["a dog", "a cat"], ["en", code])
    assert collate(tokenizer, ["a dog", None], ["en", code]).language[1].eq(0).all()


def test_impossible_requests_are_errors(tokenizer):
    with pytest.raises(ValueError, match="max_tokens is 2"):
        collate(tokenizer, ["a dog"], max_tokens=2)
    with pytest.raises(ValueError, match="2 texts, but 1 languages"):
        collate_text(["a", "b"], ["en"], tokenizer, 8)


def test_literal_control_tokens_do_not_end_or_hide_anything(tokenizer):
    text = collate(tokenizer, ["a </s> b <mask> <s> <pad> <unk>"], max_tokens=64)
    assert text.tokens[0, 0] == 2
    assert text.tokens[0, -1] == 3
    assert (text.tokens[0, 1:-1] > 4).all()


def test_text_pickles_with_its_tokenizer(tokenizer):
    text = collate(pickle.loads(pickle.dumps(tokenizer)), ["a dog"])
    assert all(torch.equal(one, two) for one, two in zip(text[:7], collate(tokenizer, ["a dog"])[:7], strict=True))


def shift_right(text: Text) -> Text:
    """The same rows padded on the left by five more positions."""
    return text._replace(
        tokens=torch.nn.functional.pad(text.tokens, (5, 0)), present=torch.nn.functional.pad(text.present, (5, 0))
    )


def test_identity_is_that_of_the_present_tokens(tokenizer):
    texts = ["a dog", "dog a", "a cat", "a dog", "a", "a dog a dog"]
    identity = text_identity(collate(tokenizer, texts))
    assert identity.shape == (6,)
    assert len(set(identity.tolist())) == 5
    assert identity[0] == identity[3]
    assert torch.equal(identity, text_identity(shift_right(collate(tokenizer, texts))))
    assert torch.equal(identity, text_identity(collate(tokenizer, [*texts, LONG], max_tokens=64))[:6])
    assert identity[0] == text_identity(collate(tokenizer, ["a dog"], ["de"]))[0]


def test_identity_reads_the_truth_not_what_padding_or_marks_say(tokenizer):
    text = collate(tokenizer, ["a dog", "a dog and a cat", None])
    spoilt = text._replace(tokens=torch.where(text.present, text.tokens, 7), shown=torch.full_like(text.tokens, 4))
    assert torch.equal(text_identity(text), text_identity(spoilt))
    assert len(set(text_identity(text).tolist())) == 3


def test_identities_of_many_texts_never_collide(data, tokenizer):
    from trained import names

    texts = sorted({tokenizer.normalize(text) for _, text in names(data)})
    text = collate(tokenizer, texts, max_tokens=64)
    rows = {tuple(row[here].tolist()) for row, here in zip(text.tokens, text.present, strict=True)}
    assert len(texts) > 3000
    assert len(set(text_identity(text).tolist())) == len(rows)
