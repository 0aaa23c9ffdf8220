"""Passages of documents in two languages in turn, by the index alone: what may begin one, and what it is made of."""

from itertools import product

import numpy as np
import pytest
from document_rows import table

from interlingua.datamodules.alternating import Alternating
from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.choosing import Chooser, strata


def alternating(texts, sentences=2, text=None, translation=None):
    return Alternating(texts, TextChoice(text), TranslationChoice(translation), sentences)


def places(mask):
    return np.flatnonzero(mask).tolist()


MIXED = table(
    ["en", "de", "en", "de", "fr", "de", "en", "fr"], ["en", "en", "de"], ["de", "en"], ["fr", "fr", "fr", "de", "de", "de"]
)
"""Documents of three sentences in two languages and of two in a third; of unlike numbers; of one; of three again."""


def test_passages_begin_where_both_languages_go_on():
    """All of a document's languages that are as long; the last sentence begins none, and captions of a picture never do."""
    assert places(alternating(MIXED).first) == [0, 1, 2, 3, 13, 14, 16, 17]
    assert places(alternating(MIXED, text=["en"]).first) == [0, 2]
    assert places(alternating(MIXED, translation=["en"]).first) == [1, 3]
    assert places(alternating(MIXED, text=["de"], translation=["de", "fr"]).first) == [16, 17]
    pictures = table(["en", "en", "de", "de"], ["en", "en", "de", "de"], document=[False, True])
    assert places(alternating(pictures).first) == [4, 6]
    assert not alternating(table(["en", "en", "de", "de"], document=False)).first.any()


def test_every_second_sentence_is_the_translations():
    """English at 0, 2, 6; German at 1, 3, 5."""
    for sentences, passage in {2: [0, 3], 3: [0, 3, 6], 7: [0, 3, 6]}.items():
        assert alternating(MIXED, sentences).passage(0, 1) == passage
    assert alternating(MIXED, 3).passage(2, 3) == [2, 5]
    assert alternating(MIXED, 3).passage(3, 2) == [3, 6]
    longer = alternating(table(["en"] * 6 + ["de"] * 6), 4)
    assert [longer.passage(begin, begin + 6) for begin in range(5)] == [
        [0, 7, 2, 9],
        [1, 8, 3, 10],
        [2, 9, 4, 11],
        [3, 10, 5],
        [4, 11],
    ]


def test_sentences_translate_those_of_their_role():
    texts = table(["en title", "de title", "en", "de", "en", "de", "en note", "de note", "de note", "en note"])
    found = alternating(texts, 3)
    assert places(found.first) == [2, 3, 6, 7]
    assert found.passage(2, 3) == [2, 5]
    for same, expected in ((True, {(2, 3), (6, 7)}), (False, {*product((2, 6), (3, 7))})):
        choices = TextChoice(["en"]), TranslationChoice(same_role=same)
        chooser = Chooser(texts, *choices, None, Alternating(texts, *choices, 3))
        pairs = chooser.choose(np.zeros(100, np.int64), np.random.default_rng(0).random((100, 4)))
        assert set(zip(*(side.tolist() for side in pairs), strict=True)) == expected


@pytest.mark.parametrize("sentences", [2, 3, 5])
def test_lengths_are_those_of_the_sentences(sentences):
    found = alternating(MIXED, sentences)
    lengths = np.arange(3, 3 + len(MIXED.language))
    first, second = found.lengths(lengths)
    for text, translation in [(0, 1), (1, 0), (2, 3), (3, 2), (13, 16), (14, 17), (17, 14)]:
        passage = found.passage(text, translation)
        assert first[text] + second[translation] == 1 + sum(lengths[one] - 1 for one in passage)


def random_documents(count=40):
    some = np.random.default_rng(1)
    return [[("en", "de", "fr")[some.integers(3)] for _ in range(some.integers(9))] for _ in range(count)]


def pairs_of(texts):
    """Numbers of first sentences and their translations in a document, by its languages: in words what all else must equal."""
    chains = {code: [place for place, own in enumerate(texts) if own == code] for code in sorted(set(texts))}
    return {
        (one, other): list(zip(chains[one], chains[other], strict=True))[:-1]
        for one, other in product(chains, chains)
        if one != other and len(chains[one]) == len(chains[other]) > 1
    }


def test_documents_are_drawn_as_they_would_be_one_by_one():
    samples = random_documents()
    texts = table(*samples)
    found = alternating(texts)
    chooser = Chooser(texts, TextChoice(), TranslationChoice(), None, found)
    some = np.random.default_rng(2)
    sample = np.repeat(np.arange(len(samples)), 200)
    drawn = chooser.choose(sample, some.random((len(sample), 4)))
    members = strata(texts, TextChoice(), TranslationChoice(), None, found)
    for number, own in enumerate(samples):
        start, expected = int(texts.start[number]), pairs_of(own)
        every = {(start + one, start + other) for pairs in expected.values() for one, other in pairs}
        got = {(int(one), int(other)) for one, other in zip(*(side[sample == number] for side in drawn), strict=True)}
        assert got == (every or {(-1, -1)})
        for pair in product(range(len(texts.languages)), repeat=2):
            there = tuple(texts.languages[code] for code in pair) in expected
            assert (number in members.get(pair, np.zeros(0))) == there
    assert len(members) == 6
    for (one, other), own in members.items():
        languages = [np.full(len(own), code) for code in (one, other)]
        first, second = chooser.choose(own, some.random((len(own), 4)), *languages)
        assert texts.language[first].tolist() == languages[0].tolist()
        assert texts.language[second].tolist() == languages[1].tolist()


def test_every_sentence_but_the_last_begins_as_often():
    texts = table(["en"] * 5 + ["de"] * 5)
    choices = TextChoice(["en"]), TranslationChoice()
    luck = np.random.default_rng(0).random((2000, 4))
    text, translation = Chooser(texts, *choices, None, Alternating(texts, *choices, 3)).choose(np.zeros(2000, np.int64), luck)
    counts = np.bincount(text, minlength=5)
    assert counts[4] == 0
    assert np.abs(counts[:4] - 500).max() < 70
    assert (translation == text + 5).all()
