"""Words looked up by their pieces, and code switching by a dictionary."""

import math

import numpy as np
import pytest
import tiny
import torch
from code_switched import connected, draw_text, marked_by, words_of
from learning import reach_half
from torch import nn

from interlingua.modalities.batch import take
from interlingua.modalities.dictionary import Dictionary, write_dictionary
from interlingua.tasks.objectives.code_switching import CodeSwitching
from interlingua.tasks.objectives.dictionary_search import ANY, DictionarySearch, hash_runs

COMMA = 99
ALL = {"source": 0.0, "target": 0.0, "rate": 0.0}


def dictionary(words, pairs, size=100, tokenizer="a" * 64):
    """Of (language, pieces, number of the word of each piece), and pairs of their numbers."""
    lengths = [len(pieces) for _, pieces, _ in words]
    return Dictionary(
        tokenizer,
        np.array([language for language, _, _ in words], np.int64),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([piece for _, pieces, _ in words for piece in pieces], np.int64),
        np.array([number for _, _, numbers in words for number in numbers], np.int64),
        np.array(pairs, np.int64).reshape(-1, 2),
        np.arange(size) == COMMA,
    )


WORDS = [
    (0, [10], [0]),  # 0 a word of one piece
    (1, [20, 21], [0, 0]),  # 1, 2 its German, two ways
    (1, [22], [0]),
    (2, [30], [0]),  # 3 its French
    (0, [10, 11], [0, 1]),  # 4 a phrase of two words that starts with it
    (1, [23, 24, 25], [0, 1, 2]),  # 5 its German, three words
    (1, [10], [0]),  # 6 the same pieces in German, another word
    (0, [12], [0]),  # 7 its English
]
PAIRS = [(0, 1), (0, 2), (0, 3), (4, 5), (5, 4), (6, 7)]


def sentence(pieces, sizes, language=0, left=False):
    text = draw_text([sizes], language, 1, left, len(pieces) + 4)
    tokens = text.tokens.clone()
    tokens[0, (text.word[0] >= 0)] = torch.tensor(pieces)
    return text._replace(tokens=tokens)


def found_by(search, text, wanted=ANY, seed=0):
    words = search.find_words(text)
    phrases = search.search(text, words, torch.tensor([wanted]), torch.tensor([seed]))
    return {
        (start, size + 1): tuple(search.pool.tokens[phrases.begin[0, start, size] : phrases.stop[0, start, size]].tolist())
        for _, start, size in phrases.valid.nonzero().tolist()
    }


@pytest.mark.parametrize("left", [False, True])
def test_words_and_phrases_are_found_by_their_pieces_and_language(left):
    search = DictionarySearch(dictionary(WORDS, PAIRS), 4)
    text = sentence([50, 10, 11, 51, 10, 52], [1, 1, 1, 1, 1, 1], left=left)
    drawn = [found_by(search, text, seed=seed) for seed in range(30)]
    assert {tuple(one) for one in drawn} == {((1, 1), (1, 2), (4, 1))}
    assert {one[1, 1] for one in drawn} == {one[4, 1] for one in drawn} == {(20, 21), (22,), (30,)}
    assert {one[1, 2] for one in drawn} == {(23, 24, 25)}
    assert {found_by(search, text, 2, seed)[1, 1] for seed in range(30)} == {(30,)}
    assert {found_by(search, text, 1, seed)[1, 1] for seed in range(30)} == {(20, 21), (22,)}
    assert (1, 2) not in found_by(search, text, 2)
    assert found_by(search, sentence([10, 50], [1, 1], language=1)) == {(0, 1): (12,)}
    assert not found_by(search, sentence([10, 50], [1, 1], language=2))


def test_pieces_of_a_word_alone_are_not_the_word():
    """The wrong choice, looking up runs of pieces, would find the word inside others."""
    search = DictionarySearch(dictionary(WORDS, PAIRS), 4)
    assert not found_by(search, sentence([10, 50, 51, 10], [2, 2]))
    assert found_by(search, sentence([10, 11], [2])) == {(0, 1): (23, 24, 25)}  # the same pieces, however many words


def test_punctuation_behind_a_word_stays():
    found = dictionary(WORDS, PAIRS)
    search = DictionarySearch(found, 4)
    text = sentence([50, 10, COMMA, COMMA, 10, 11, COMMA, 51, COMMA], [1, 3, 1, 2, 1, 1])
    assert set(found_by(search, text)) == {(1, 1), (2, 1), (2, 2)}  # not (1, 2): a comma stands between
    assert not found_by(search, sentence([COMMA, COMMA], [1, 1]))


def test_punctuation_is_of_the_word_that_is_put_in_before_it(tmp_path):
    write_dictionary(dictionary(WORDS, [(4, 5)]), tmp_path / "some.npz")
    _, objective = connected(alignments="dictionary", dictionary=str(tmp_path / "some.npz"), share=1.0, **ALL)
    text = sentence([50, 10, 11, COMMA, COMMA, 51, COMMA], [1, 1, 3, 2])
    view = objective.view(tiny.batch((9,))._replace(text=text)).text
    assert view.tokens[0, 1:-1].tolist() == [50, 23, 24, 25, COMMA, COMMA, 51, COMMA]
    assert view.word[0].tolist() == [-1, 0, 1, 2, 3, 3, 3, 4, 4, -1]
    assert view.language[0, 1:-1].tolist() == [0, 1, 1, 1, 0, 0, 0, 0]


def test_a_translation_longer_than_the_longest_phrase_is_left_out():
    text = sentence([10, 11], [1, 1])
    assert (0, 2) in found_by(DictionarySearch(dictionary(WORDS, PAIRS), 3), text)
    assert (0, 2) not in found_by(DictionarySearch(dictionary(WORDS, PAIRS), 2), text)
    assert not found_by(DictionarySearch(dictionary(WORDS, []), 2), text)
    assert not found_by(DictionarySearch(dictionary(WORDS, [(4, 5)]), 2), text)


def test_hashes_of_runs_are_the_same_wherever_they_stand_and_differ_otherwise():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 3, (4, 200), generator=generator)
    begin = torch.randint(0, 190, (4, 500), generator=generator)
    end = begin + torch.randint(1, 10, (4, 500), generator=generator)
    codes, by_run, by_code = hash_runs(tokens, begin, end), {}, {}
    for row in range(4):
        for first, last, code in zip(begin[row].tolist(), end[row].tolist(), codes[row].tolist(), strict=True):
            run = tuple(tokens[row, first:last].tolist())
            assert by_run.setdefault(run, code) == code
            assert by_code.setdefault(code, run) == run
    assert len(by_run) > 500


@pytest.fixture
def built(tmp_path):
    """An objective of a dictionary of two hundred words, and its batch: English sentences alone."""
    words = [(0, [piece], [0]) for piece in range(5, 60)]
    words += [(1, [piece, piece + 20], [0, 0]) for piece in range(5, 60)] + [(2, [piece + 30], [0]) for piece in range(5, 60)]
    pairs = [(number, number + 55 * side) for number in range(55) for side in (1, 2)]
    write_dictionary(dictionary(words, pairs), tmp_path / "some.npz")
    lengths = (30, 40, 25, 2, 0, 33)
    text = draw_text([[1] * max(0, n - 2) for n in lengths], 0, 1)
    absent = torch.tensor(lengths) == 0
    text = text._replace(present=text.present & ~absent[:, None])
    return str(tmp_path / "some.npz"), tiny.batch(lengths, source="monolingual")._replace(text=text)


def test_sentences_of_one_language_are_switched_into_any(built):
    path, batch = built
    encoder, objective = connected(alignments="dictionary", dictionary=path, share=0.5, languages=3, **ALL)
    view, counts = objective.view(batch).text, torch.zeros(3)
    for row in range(batch.size):
        before, after = words_of(batch.text, row), words_of(view, row)
        assert len(before) == len(after)
        changed = 0
        for own, new in zip(before, after, strict=True):
            piece, language = own[0][0], new[0][1]
            counts[language] += 1
            wanted = {0: own, 1: [(piece, 1), (piece + 20, 1)], 2: [(piece + 30, 2)]}[language]
            assert new == wanted
            changed += language > 0
        assert changed <= 0.5 * len(before)
    assert (counts > 15).all()
    objective.loss(objective.read(encoder, objective.mark(objective.view(batch))), batch)


def test_of_a_pair_the_other_side_tells_the_language(built):
    path, batch = built
    _, objective = connected(alignments="dictionary", dictionary=path, share=0.5, **ALL)
    french = draw_text([[1] * 9] * 6, 2, 5)
    text = objective.view(batch._replace(translation=french)).text
    target = objective._kinds(batch).target
    for row in range(6):
        languages = {language for word in words_of(text, row) for _, language in word}
        english = bool((batch.text.present[row] & (batch.text.word[row] >= 0)).any()) and not target[row]
        assert languages == ({0, 2} if english else {2})


def test_rows_never_outgrow_the_encoder(built):
    path, batch = built
    _, objective = connected(alignments="dictionary", dictionary=path, share=1.0, max_tokens=41, **ALL)
    for epoch in range(5):
        view = objective.view(batch._replace(epoch=torch.full_like(batch.epoch, epoch))).text
        lengths = view.present.sum(1)
        assert (lengths <= 41).all()
        assert lengths[1] > 39
        assert (lengths[[0, 2]] > torch.tensor([30, 25])).any()


def test_its_cost_count_and_learning(built):
    path, batch = built
    encoder, objective = connected(alignments="dictionary", dictionary=path, share=0.5)
    marked = marked_by(objective, batch)
    alone = [marked_by(objective, take(batch, torch.tensor([row]))) for row in range(6)]
    assert objective.count(marked) == sum(objective.count(one) for one in alone) == marked.text.hidden.sum() > 5
    nn.init.zeros_(encoder.tokens.weight)
    loss = objective.loss(objective.read(encoder, marked), marked)
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(100), rel=1e-5)
    encoder, objective = connected(alignments="dictionary", dictionary=path, share=0.5)
    reach_half(lambda: objective.loss(objective.read(encoder, marked), marked).total, encoder, objective)


def test_a_dictionary_of_another_vocabulary_is_refused(tmp_path):
    write_dictionary(dictionary(WORDS, PAIRS, size=120), tmp_path / "other.npz")
    with pytest.raises(ValueError, match=r"other.npz is of a vocabulary of 120 entries, but the encoder's has 100"):
        connected(alignments="dictionary", dictionary=str(tmp_path / "other.npz"))


def test_its_tables_are_not_in_the_checkpoint(built):
    objective = CodeSwitching("dictionary", built[0])
    assert not objective.state_dict()


def test_a_dictionary_of_longer_phrases_alone_or_of_other_words_is_said(tmp_path, caplog):
    path = str(tmp_path / "some.npz")
    write_dictionary(dictionary(WORDS, [(4, 5)]), path)
    with pytest.raises(ValueError, match=r"no translation in .*some.npz has 2 words or fewer, as `phrase` allows"):
        CodeSwitching("dictionary", path, phrase=2)
    _, objective = connected(alignments="dictionary", dictionary=path, share=1.0, **ALL)
    for _ in range(70):
        objective.view(tiny.batch((7,))._replace(text=sentence([50, 51, 52], [1, 1, 1])))
    (said,) = caplog.messages
    assert f"no phrase of its first 64 sentences that could be replaced is in {path}, so that all of them stay" in said
