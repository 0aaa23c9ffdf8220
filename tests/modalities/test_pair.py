"""Two texts in one row: every form token by token, what is cut, what is absent, and padding."""

import pytest
import tiny
import torch

from interlingua.modalities.batch import Text, number_positions, take
from interlingua.modalities.pair import PAIR_FORMS, PairForm, join_texts, pair_form, swap_texts
from interlingua.modalities.vocabulary import Vocabulary

BERT = Vocabulary(119547, pad=0, unknown=100, start=101, end=102, mask=103)
XLM_R = Vocabulary(250002, pad=1, unknown=3, start=0, end=2, mask=250001)
XLM = Vocabulary(95000, pad=2, unknown=3, start=1, end=1, mask=5)
HELLO, BONJOUR, CHINESE = [35378, 8999, 38], [84602, 95, 11146], [6, 124084, 4, 3221]
"""Pieces of "Hello world!", "Bonjour le monde" and "你好，世界" as the released XLM-R tokenizer cuts them."""


def texts(rows, vocabulary, language=0, left=False, padded=None, words=None) -> Text:
    """Texts of given pieces, each a word of its own unless `words` says otherwise; `None` is absent."""
    full = [[] if row is None else [vocabulary.start, *row, vocabulary.end] for row in rows]
    width = padded or max(1, *map(len, full))
    tokens, present, word = [], [], []
    for number, row in enumerate(full):
        blank = width - len(row)
        numbers = (words[number] if words else range(len(row) - 2)) if row else []
        for out, values, fill in (
            (tokens, row, vocabulary.pad),
            (present, [True] * len(row), False),
            (word, [-1, *numbers, -1] if row else [], -1),
        ):
            out.append([fill] * blank + values if left else values + [fill] * blank)
    tokens, present = torch.tensor(tokens), torch.tensor(present)
    zeros = torch.zeros_like(tokens)
    return Text(tokens, present, zeros + language, torch.tensor(word), zeros, zeros, number_positions(present))


def join(first, second, name, vocabulary, max_tokens=64, **options) -> Text:
    """The pair of one sample."""
    first, second = texts([first], vocabulary, 3), texts([second], vocabulary, 7)
    return join_texts(first, second, PAIR_FORMS[name], vocabulary, max_tokens, **options)


def row(text: Text, number: int, field: str) -> list[int]:
    """What is present of a row."""
    return getattr(text, field)[number][text.present[number]].tolist()


GOLDEN = {
    "bert": (BERT, [101, 11, 12, 102, 21, 22, 23, 102], 4, range(8)),
    "xlm-roberta": (XLM_R, [0, 11, 12, 2, 2, 21, 22, 23, 2], 4, range(9)),
    "infoxlm": (XLM_R, [0, 11, 12, 2, 21, 22, 23, 2], 4, range(8)),
    "xlm": (XLM, [1, 11, 12, 1, 1, 21, 22, 23, 1], 4, [0, 1, 2, 3, 0, 1, 2, 3, 4]),
    "xlm-classification": (XLM, [1, 11, 12, 1, 21, 22, 23, 1], 4, range(8)),
    "ernie-m": (XLM_R, [0, 11, 12, 2, 2, 21, 22, 23, 2], 4, range(9)),
    "uc2": (XLM_R, [0, 11, 12, 2, 0, 21, 22, 23, 2], 4, [0, 1, 2, 3, 0, 1, 2, 3, 4]),
}
"""Ids, where the second half begins, positions."""


@pytest.mark.parametrize("name", PAIR_FORMS)
def test_every_form_token_by_token(name):
    vocabulary, ids, switch, positions = GOLDEN[name]
    text = join([11, 12], [21, 22, 23], name, vocabulary)
    later = len(ids) - switch
    assert row(text, 0, "tokens") == ids
    assert row(text, 0, "position") == list(positions)
    assert row(text, 0, "segment") == [0] * switch + [1] * later
    assert row(text, 0, "language") == [3] * switch + [7] * later
    assert row(text, 0, "word") == [-1, 0, 1, -1, *[-1] * (later - 4), 2, 3, 4, -1]
    assert row(text, 0, "document") == [0] * len(ids)
    assert text.shown is None
    assert text.hidden is None


@pytest.mark.parametrize(
    ("name", "first", "second", "ids"),
    [
        ("xlm-roberta", HELLO, BONJOUR, [0, 35378, 8999, 38, 2, 2, 84602, 95, 11146, 2]),
        ("infoxlm", HELLO, BONJOUR, [0, 35378, 8999, 38, 2, 84602, 95, 11146, 2]),
        ("xlm-roberta", CHINESE, HELLO, [0, 6, 124084, 4, 3221, 2, 2, 35378, 8999, 38, 2]),
    ],
)
def test_the_published_sequences_of_xlm_r(name, first, second, ids):
    assert row(join(first, second, name, XLM_R), 0, "tokens") == ids


def test_words_of_the_second_half_are_numbered_on():
    first = texts([[11, 12, 13]], XLM_R, words=[[0, 0, 1]])
    second = texts([[21, 22, 23]], XLM_R, words=[[0, 1, 1]])
    text = join_texts(first, second, PAIR_FORMS["infoxlm"], XLM_R, 64)
    assert row(text, 0, "word") == [-1, 0, 0, 1, -1, 2, 3, 3, -1]


@pytest.mark.parametrize("name", PAIR_FORMS)
@pytest.mark.parametrize(("one", "other"), [(40, 10), (10, 40), (40, 40), (40, 1), (1, 40), (29, 29)])
def test_the_longer_half_loses_pieces_first_and_no_end_token_is_lost(name, one, other):
    """Pitfalls T01 and O11: 40 + 10 pieces at 32 tokens."""
    vocabulary, controls = GOLDEN[name][0], PAIR_FORMS[name].controls
    text = join(list(range(1000, 1000 + one)), list(range(2000, 2000 + other)), name, vocabulary, 32)
    ids = row(text, 0, "tokens")
    first, second = [i for i in ids if 1000 <= i < 2000], [i for i in ids if i >= 2000]
    room = 32 - controls
    expected = [one, other]
    while sum(expected) > room:  # the rule of BERT's released code, piece by piece
        expected[0 if expected[0] > expected[1] else 1] -= 1
    assert len(ids) == 32
    assert [len(first), len(second)] == expected
    assert min(expected) >= 1
    assert first == list(range(1000, 1000 + expected[0]))
    assert second == list(range(2000, 2000 + expected[1]))
    assert ids[0] == vocabulary.start
    assert ids[-1] == ids[1 + expected[0]] == vocabulary.end
    assert ids.count(vocabulary.end) == controls - (vocabulary.start != vocabulary.end) - PAIR_FORMS[name].again


@pytest.mark.parametrize("name", PAIR_FORMS)
def test_at_the_limit_and_one_beyond_every_row_ends_in_the_end_token(name):
    """Pitfall T01: 16 and 17 tokens at 16, and the smallest row there can be."""
    vocabulary, controls = GOLDEN[name][0], PAIR_FORMS[name].controls
    for pieces in (16 - controls, 17 - controls):
        text = join([11] * (pieces - 3), [21] * 3, name, vocabulary, 16)
        assert text.present.sum() == 16
        assert row(text, 0, "tokens")[-1] == vocabulary.end
    least = join([11] * 9, [21] * 9, name, vocabulary, controls + 2)
    assert [row(least, 0, "tokens").count(piece) for piece in (11, 21)] == [1, 1]


def test_a_half_is_bounded_where_positions_restart_in_a_table():
    """A position table of 8 rows reads pairs of up to 16 tokens, each half within it."""
    text = join([11] * 12, [21] * 2, "xlm", XLM, 16, max_half=8)
    assert row(text, 0, "tokens") == [1, *[11] * 6, 1, 1, 21, 21, 1]
    text = join([11] * 12, [21] * 12, "xlm", XLM, 16, max_half=8)
    assert row(text, 0, "tokens") == [1, *[11] * 6, 1, 1, *[21] * 6, 1]
    assert text.position.max() == 7
    assert row(join([11] * 12, None, "xlm", XLM, 16, max_half=8), 0, "tokens") == [1, *[11] * 6, 1]


@pytest.mark.parametrize("name", PAIR_FORMS)
def test_a_text_without_its_other_half_is_a_single_text(name):
    """Pitfall O11: an empty side, absent or with control tokens alone."""
    vocabulary = GOLDEN[name][0]
    first = texts([[11, 12], None, None, [11, 12], []], vocabulary, 3)
    second = texts([None, [21, 22], None, [], [21, 22]], vocabulary, 7)
    text = join_texts(first, second, PAIR_FORMS[name], vocabulary, 64)
    start, end = vocabulary.start, vocabulary.end
    for number, pieces, language in ((0, [11, 12], 3), (1, [21, 22], 7), (3, [11, 12], 3), (4, [21, 22], 7)):
        assert row(text, number, "tokens") == [start, *pieces, end]
        assert row(text, number, "position") == [0, 1, 2, 3]
        assert row(text, number, "language") == [language] * 4
        assert row(text, number, "word") == [-1, 0, 1, -1]
        assert row(text, number, "segment") == [0] * 4
    assert not text.present[2].any()
    assert (text.tokens[2] == vocabulary.pad).all()


def test_a_single_text_is_cut_to_the_row():
    text = join(None, [21] * 40, "xlm-roberta", XLM_R, 16)
    assert row(text, 0, "tokens") == [0, *[21] * 14, 2]


@pytest.mark.parametrize("name", PAIR_FORMS)
def test_neither_padding_nor_batch_mates_change_a_row(name):
    vocabulary = GOLDEN[name][0]
    rows, others = [[11, 12], [13] * 30, None, [14], []], [[21] * 9, [22] * 30, [23] * 4, None, None]

    def joined(left, padded):
        first = texts(rows, vocabulary, 3, left, padded)
        return join_texts(first, texts(others, vocabulary, 7, left, padded), PAIR_FORMS[name], vocabulary, 24)

    plain = joined(False, None)
    assert plain.tokens.shape == (5, 24)
    assert (plain.tokens[~plain.present] == vocabulary.pad).all()
    assert (plain.word[~plain.present] == -1).all()
    assert (plain.present[:, 1:] <= plain.present[:, :-1]).all()  # padded on the right
    for left, padded in ((True, None), (False, 50), (True, 50)):
        for one, other in zip(plain[:7], joined(left, padded)[:7], strict=True):
            assert (one == other).all()
    for number in range(5):
        index = torch.tensor([number])
        halves = (take(texts(half, vocabulary, code), index) for half, code in ((rows, 3), (others, 7)))
        alone = join_texts(*halves, PAIR_FORMS[name], vocabulary, 24)
        for field in Text._fields[:7]:
            assert row(alone, 0, field) == row(plain, number, field)


def test_texts_swap_row_by_row():
    first, second = texts([[11], [12, 13]], XLM_R, 3), texts([[21, 22, 23], [24]], XLM_R, 7, left=True)
    one, other = swap_texts(first, second, torch.tensor([False, True]))
    assert [row(one, 0, "tokens"), row(one, 1, "tokens")] == [[0, 11, 2], [0, 24, 2]]
    assert [row(other, 0, "tokens"), row(other, 1, "tokens")] == [[0, 21, 22, 23, 2], [0, 12, 13, 2]]
    assert [row(one, 1, "language"), row(other, 1, "language")] == [[7] * 3, [3] * 4]
    back = swap_texts(one, other, torch.tensor([False, True]))
    text, again = (join_texts(*pair, PAIR_FORMS["xlm"], XLM_R, 64) for pair in ((first, second), back))
    for field in ("tokens", "language", "word", "position", "segment"):
        assert (getattr(text, field) == getattr(again, field)).all()


def test_refuses_marked_packed_and_joined_texts():
    plain, form = tiny.text([5, 4]), PAIR_FORMS["xlm-roberta"]
    for marked in (plain._replace(hidden=plain.present), plain._replace(shown=plain.tokens)):
        with pytest.raises(ValueError, match="join first"):
            join_texts(plain, marked, form, tiny.VOCABULARY, 64)
    packed = plain._replace(document=(number_positions(plain.present) > 2).long())
    for other in (packed, join_texts(plain, plain, form, tiny.VOCABULARY, 64)):
        with pytest.raises(ValueError, match="several documents"):
            join_texts(other, plain, form, tiny.VOCABULARY, 64)


def test_refuses_rows_without_room_and_unknown_forms():
    plain = tiny.text([5, 4])
    with pytest.raises(ValueError, match="max_tokens is 5; at least 6"):
        join_texts(plain, plain, PairForm(2, "continue"), tiny.VOCABULARY, 5)
    with pytest.raises(ValueError, match="max_half is 2; at least 3"):
        join_texts(plain, plain, PairForm(2, "restart"), tiny.VOCABULARY, 64, max_half=2)
    with pytest.raises(ValueError, match="pair is 'roberta', expected one of bert, xlm-roberta, infoxlm"):
        pair_form("roberta", "translation language")
    assert pair_form("xlm", "") is PAIR_FORMS["xlm"]
