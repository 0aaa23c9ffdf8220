"""Texts of sentences in several languages: what stands where, and what is left at the end of a row."""

import numpy as np
import pytest
import torch
from trained import small_tokenizer

from interlingua.modalities.text import collate_sentences, collate_text

ROWS = [
    [("a dog and a cat", "en"), ("ein Hund im Haus", "de"), ("the house", "en")],
    [("un chien", "fr")],
    [("  ", "de"), ("a cat", "en"), ("\u200b", "xx"), ("eine Katze", "de"), ("", "en")],
    [(None, "en")],
]


@pytest.fixture(scope="module")
def tokenizer(data):
    return small_tokenizer(data)


def collate(tokenizer, rows=ROWS, max_tokens=64):
    numbers = [number for number, row in enumerate(rows) for _ in row]
    texts, languages = zip(*(sentence for row in rows for sentence in row), strict=True)
    return collate_sentences(texts, languages, numbers, tokenizer, max_tokens)


def by_hand(tokenizer, row, max_tokens=64):
    """Tokens, languages and words of a row, one sentence after the other, and then cut."""
    found, words = [], 0
    for text, code in row:
        pieces = tokenizer.encode([text or ""], [code])
        if len(pieces.ids):
            language = tokenizer.language_id(code)
            found += [] if found else [(tokenizer.vocabulary.start, language, -1)]
            found += [(int(one), language, words + int(word)) for one, word in zip(pieces.ids, pieces.words, strict=True)]
            found.append((tokenizer.vocabulary.end, language, -1))
            words += int(pieces.words.max()) + 1
    if len(found) > max_tokens:
        found = found[: max_tokens - 1]
        if found[-1][2] >= 0:
            found.append((tokenizer.vocabulary.end, found[-1][1], -1))
    return found


def columns(text, row):
    """Token, language and word of each place."""
    return list(zip(*(field[row].tolist() for field in (text.tokens, text.language, text.word)), strict=True))


def test_sentences_follow_each_other_in_one_text(tokenizer):
    text = collate(tokenizer)
    for number, row in enumerate(ROWS):
        here, expected = text.present[number], by_hand(tokenizer, row)
        assert here.tolist() == [True] * len(expected) + [False] * (len(here) - len(expected))
        assert (
            list(zip(*(field[number][here].tolist() for field in (text.tokens, text.language, text.word)), strict=True))
            == expected
        )
        assert text.position[number][here].tolist() == [*range(len(expected))]
    assert text.tokens[~text.present].eq(tokenizer.vocabulary.pad).all()
    assert text.word[~text.present].eq(-1).all()
    assert not text.segment.any()
    assert not text.document.any()
    assert {field.dtype for field in text[:7]} == {torch.int64, torch.bool}
    assert text.word[0].max() == 5 + 4 + 2 - 1


def test_a_row_that_is_too_long_ends_in_an_end_token_wherever_it_is_cut(tokenizer):
    whole = len(by_hand(tokenizer, ROWS[0]))
    for limit in range(3, whole + 2):
        text = collate(tokenizer, ROWS[:1], limit)
        expected = by_hand(tokenizer, ROWS[0], limit)
        assert columns(text, 0) == expected
        assert min(limit, whole) - 1 <= len(expected) <= limit
        assert text.tokens[0, -1] == tokenizer.vocabulary.end
        assert text.word[0, -2] >= 0  # no two control tokens at the end


def test_one_sentence_a_row_is_an_ordinary_text(tokenizer):
    texts, languages = ["a dog and a cat in the house", None, "ein Hund"], ["en", "en", "de"]
    for limit in (5, 64):
        sentences = collate_sentences(texts, languages, [0, 1, 2], tokenizer, limit)
        assert all(map(torch.equal, sentences[:7], collate_text(texts, languages, tokenizer, limit)[:7]))


def test_rows_may_come_in_any_order(tokenizer):
    order = np.array([6, 3, 0, 4, 9, 1, 5, 2, 7, 8])  # sentences of a row keep theirs
    flat = [(sentence, number) for number, row in enumerate(ROWS) for sentence in row]
    mixed = [flat[number] for number in order]
    texts, languages = zip(*(sentence for sentence, _ in mixed), strict=True)
    text = collate_sentences(texts, languages, np.array([row for _, row in mixed]), tokenizer, 64)
    again = [ROWS[0], ROWS[1], [ROWS[2][place] for place in (2, 0, 1, 3, 4)], ROWS[3]]
    assert all(map(torch.equal, text[:7], collate(tokenizer, again)[:7]))


def test_impossible_requests_are_errors(tokenizer):
    assert collate_sentences([], [], [], tokenizer, 8).tokens.shape == (0, 1)
    with pytest.raises(ValueError, match="max_tokens is 2"):
        collate(tokenizer, max_tokens=2)
    with pytest.raises(ValueError, match="2 texts, but 1 languages and 2 rows"):
        collate_sentences(["a", "b"], ["en"], [0, 0], tokenizer, 8)
    with pytest.raises(ValueError, match="unknown language 'xx'"):
        collate(tokenizer, [[("a dog", "en"), ("a cat", "xx")]])
    with pytest.raises(ValueError, match="row 0 of 2 has no text"):
        collate_sentences(["a"], ["en"], [1], tokenizer, 8)
