"""F1 of entities by each rule, and the trap of parts of speech: F1 of runs that is called accuracy."""

import random
import re
from itertools import groupby

import pytest
import torch

from interlingua.tasks.span_scores import (
    POS_SEQEVAL_F1,
    count_spans,
    count_words,
    find_runs,
    find_spans,
    find_strict_spans,
    score,
)


def spans(found):
    return [(span.kind, span.start, span.stop) for span in found]


@pytest.mark.parametrize(
    ("tags", "lenient", "strict"),
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)], [("PER", 0, 2), ("LOC", 3, 4)]),
        ("B-PER B-PER I-PER", [("PER", 0, 1), ("PER", 1, 3)], [("PER", 0, 1), ("PER", 1, 3)]),
        ("O I-PER I-PER O", [("PER", 1, 3)], []),
        ("B-PER I-LOC I-LOC", [("PER", 0, 1), ("LOC", 1, 3)], [("PER", 0, 1)]),
        ("I-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)], [("PER", 1, 2)]),
        ("B-PER I-LOC I-PER", [("PER", 0, 1), ("LOC", 1, 2), ("PER", 2, 3)], [("PER", 0, 1)]),
        ("B-PER-X I-PER-X", [("PER-X", 0, 2)], [("PER-X", 0, 2)]),
        ("O O", [], []),
        ("", [], []),
    ],
)
def test_entities(tags, lenient, strict):
    """A stray I- begins an entity for conlleval and is nothing in strict IOB2."""
    assert spans(find_spans(tags.split())) == lenient
    assert spans(find_strict_spans(tags.split())) == strict


def test_the_rules_give_other_figures():
    expected = [["B-PER", "I-PER", "O", "B-LOC"]]
    predicted = [["I-PER", "I-PER", "O", "B-LOC"]]
    assert count_spans(expected, predicted).tolist() == [[2, 2, 2]]
    assert count_spans(expected, predicted, find_strict_spans).tolist() == [[1, 1, 2]]
    assert score(count_spans(expected, predicted)[0]).f1 == 1
    precision, recall, f1 = (value.item() for value in score(count_spans(expected, predicted, find_strict_spans)[0]))
    assert (precision, recall, f1) == pytest.approx((1, 1 / 2, 2 / 3))
    assert count_words(expected, predicted).tolist() == [[3, 4]]


def test_type_and_both_ends_must_be_right():
    expected = [["B-PER", "I-PER", "O", "O"]]
    for predicted in ("B-LOC I-LOC O O", "B-PER I-PER I-PER O", "B-PER O O O"):
        assert count_spans(expected, [predicted.split()]).tolist() == [[0, 1, 1]]


def test_parts_of_speech_are_no_words():
    """Three of four words right are an accuracy of 0.75, but runs of equal tags give XTREME's F1 of 0.40."""
    expected, predicted = [["NOUN", "NOUN", "NOUN", "VERB"]], [["NOUN", "NOUN", "ADJ", "VERB"]]
    right, words = count_words(expected, predicted)[0].tolist()
    assert right / words == 0.75
    assert count_spans(expected, predicted, find_runs).tolist() == [[1, 3, 2]]
    assert score(count_spans(expected, predicted, find_runs)[0]).f1 == pytest.approx(0.40)
    assert POS_SEQEVAL_F1 == "pos_seqeval_f1@0.0.12"


def test_conjunctions_stay_two():
    """Later versions of seqeval cut the first letter off, so that CCONJ for SCONJ would be right; 0.0.12 has 0.5 here."""
    expected, predicted = [["NOUN", "SCONJ", "VERB", "PUNCT"]], [["NOUN", "CCONJ", "NOUN", "PUNCT"]]
    assert count_spans(expected, predicted, find_runs).tolist() == [[2, 4, 4]]
    assert score(count_spans(expected, predicted, find_runs)[0]).f1 == 0.5
    assert count_words(expected, predicted).tolist() == [[2, 4]]


def test_s_stands_alone():
    """seqeval reads the S of SYM and SCONJ as that of a single word."""
    assert spans(find_runs(["SYM", "SYM", "NOUN", "NOUN"])) == [("SYM", 0, 1), ("SYM", 1, 2), ("NOUN", 2, 4)]


def reference(tags):
    """Chunks by a table of neighbours: where one ends and one starts, as conlleval is described."""
    found, start = set(), None
    padded = [("O", ""), *[(tag[0], tag[2:]) for tag in tags], ("O", "")]
    for place in range(1, len(padded)):
        (before, kind), (now, own) = padded[place - 1], padded[place]
        if start is not None and (now in "BO" or kind != own):
            found.add((kind, start - 1, place - 1))
            start = None
        if now == "B" or (now == "I" and (before == "O" or kind != own)):
            start = place
    return found


def test_against_another_way_to_find_them():
    draw = random.Random(0)
    tags = ["O", "B-A", "I-A", "B-B", "I-B"]
    for _ in range(500):
        sentence = draw.choices(tags, k=draw.randrange(9))
        assert set(spans(find_spans(sentence))) == reference(sentence)
        letters = "".join("OaAbB"[tags.index(tag)] for tag in sentence)  # a, b begin; A, B go on
        sound = [(found[0][0].upper(), *found.span()) for found in re.finditer("aA*|bB*", letters)]
        assert spans(find_strict_spans(sentence)) == sound


def test_runs_are_groups_of_equal_neighbours():
    draw = random.Random(1)
    for _ in range(100):
        sentence = draw.choices(["NOUN", "VERB", "ADP"], k=10)
        assert [span.stop - span.start for span in find_runs(sentence)] == [len([*group]) for _, group in groupby(sentence)]


def test_sums_are_those_of_all_sentences():
    """Counts of parts add up to those of the whole; means of F1 do not."""
    expected = [["B-A", "O"], ["B-A", "I-A", "B-B"], ["O"]]
    predicted = [["B-A", "B-B"], ["B-A", "O", "B-B"], ["O"]]
    whole = count_spans(expected, predicted)
    assert whole.tolist() == [[1, 2, 1], [1, 2, 2], [0, 0, 0]]
    parts = count_spans(expected[:1], predicted[:1]).sum(0) + count_spans(expected[1:], predicted[1:]).sum(0)
    assert torch.equal(parts, whole.sum(0))
    assert score(parts).f1.item() == pytest.approx(4 / 7)
    assert score(whole).f1.tolist() == pytest.approx([2 / 3, 1 / 2, 0])  # nothing found, nothing there: 0, as seqeval has it
    assert count_spans([], []).shape == (0, 3)
    assert count_words([], []).shape == (0, 2)


def test_faults():
    with pytest.raises(ValueError, match=r"sentence 1: found 1 predicted tags, expected 2"):
        count_spans([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match=r"predictions of 0 sentences, expected 1"):
        count_words([["O"]], [])
    with pytest.raises(ValueError, match=r"word 1: found the tag 'NOUN', expected O, B-TYPE"):
        find_spans(["O", "NOUN"])
    for tag in ("B-", "", "E-PER", "b-PER"):
        with pytest.raises(ValueError, match=r"word 0"):
            find_spans([tag])
    with pytest.raises(ValueError, match=r"word 0: found the tag 'B-PER', expected a universal part of speech"):
        find_runs(["B-PER"])
