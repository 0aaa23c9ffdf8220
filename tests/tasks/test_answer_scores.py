"""Answers compared by SQuAD's rule and by MLQA's, language by language."""

from collections import Counter
from functools import partial

import pytest
import torch
from torchmetrics.functional.text import squad

from interlingua.tasks.answer_scores import normalize_mlqa, normalize_squad, overlap, score_answers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Old, old Bridge!", "old old bridge"),
        ("A. An apple-tree", "appletree"),
        ("theatre", "theatre"),
        ("the", ""),
        ("$5.20", "520"),
        ("«Der Hund»", "«der hund»"),  # other punctuation and other articles stay
        ("桥，河", "桥，河"),
    ],
)
def test_squad(text, expected):
    assert normalize_squad(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "“The Bridge” – an old one", "bridge old one"),
        ("de", "«Der Hund» des Nachbarn", "hund nachbarn"),
        ("de", "the Derwisch", "the derwisch"),
        ("es", "¿Los puentes de la ciudad?", "puentes de ciudad"),
        ("vi", "những cái cầu của làng", "cầu làng"),
        ("hi", "पुल।", "पुल"),
        ("hi", "the पुल", "the पुल"),
        ("ar", "الجسر القديم", "جسر قديم"),
        ("ar", "رجال، ثلاثة", "رج ثلاثة"),  # inside of words, too
        ("zh", "旧桥，建于1907年 IBM Corp", "旧 桥 建 于 1907 年 ibm corp"),
        ("zh-Hant", "舊橋", "舊 橋"),
        ("zh", "かな橋", "かな 橋"),  # ideographs alone, as published
        ("ja", "かな橋 ABC", "か な 橋 abc"),
        ("th", "สะพาน", "ส ะ พ า น"),
        ("ru", "«Старый» мост", "старый мост"),
        ("fr", "le pont", "le pont"),
    ],
)
def test_mlqa(language, text, expected):
    assert normalize_mlqa(text, language) == expected


def test_overlap():
    assert overlap(["a", "b", "b"], ["b", "b", "c", "c"]) == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert overlap(["b"], ["b"]) == 1
    assert overlap(["a"], ["b"]) == 0
    assert overlap([], []) == 0
    assert overlap([], ["a"]) == 0


def test_the_best_answer_counts():
    """Exact match and F1 may be best over other answers."""
    scores = score_answers(["the old bridge"], [["bridge", "An old bridge", "old bridge over the river"]])
    assert scores.tolist() == [[1, 1]]
    scores = score_answers(["old bridge", "", "tower"], [["bridge", "old stone bridge"], ["bridge"], ["bridge", "river"]])
    assert scores.tolist() == [[0, pytest.approx(0.8)], [0, 0], [0, 0]]
    assert scores.dtype == torch.float64


def test_nothing_left_of_both():
    """SQuAD 1.1: equal but without a word is an exact match with an F1 of 0."""
    assert score_answers(["the"], [["a"]]).tolist() == [[1, 0]]


def test_normalisation_decides():
    """The same prediction: SQuAD's rule has half of it, MLQA's all."""
    predicted, expected = ["der Brücke”"], [["„Brücke“"]]
    assert score_answers(predicted, expected).tolist() == [[0, 0]]
    assert score_answers(predicted, expected, partial(normalize_mlqa, language="de")).tolist() == [[1, 1]]
    chinese = ["旧桥"], [["新桥"]]
    assert score_answers(*chinese).tolist() == [[0, 0]]
    assert score_answers(*chinese, partial(normalize_mlqa, language="zh")).tolist() == [[0, 0.5]]


def test_against_precision_and_recall():
    words = ["the", "river", "runs", "under", "the", "old", "bridge", "of", "stone"]
    questions = [
        (" ".join(words[a:b]), " ".join(words[c:d])) for a, b, c, d in [(0, 4, 2, 6), (1, 8, 4, 9), (3, 5, 6, 9), (0, 9, 0, 9)]
    ]
    for guess, answer in questions:
        one, two = ([word for word in text.split() if word not in ("the", "a", "an")] for text in (guess, answer))
        same = sum((Counter(one) & Counter(two)).values())
        precision, recall = same / len(one), same / len(two)
        expected = 2 * precision * recall / (precision + recall) if same else 0
        assert score_answers([guess], [[answer]])[0, 1].item() == pytest.approx(expected)


def test_against_torchmetrics():
    """Another reading of SQuAD's rule, the same but for answers without a word, whose F1 is 1 there, as in SQuAD 2.0."""
    predicted = ["The old bridge.", "an old bridge", "1907", "мост, старый", "旧桥", "Bridge bridge river", ""]
    expected = [
        ["old bridge", "bridge"],
        ["the bridge"],
        ["in 1907", "1907"],
        ["старый мост"],
        ["旧桥"],
        ["bridge"],
        ["b"],
    ]
    guesses = [{"id": str(number), "prediction_text": text} for number, text in enumerate(predicted)]
    truth = [
        {"id": str(number), "answers": {"text": texts, "answer_start": [0] * len(texts)}}
        for number, texts in enumerate(expected)
    ]
    reference = squad(guesses, truth)
    own = 100 * score_answers(predicted, expected).mean(0)
    assert own.tolist() == pytest.approx([reference["exact_match"].item(), reference["f1"].item()], rel=1e-6)


def test_rows_of_parts_are_rows_of_the_whole():
    predicted, expected = ["old bridge", "river", "stone"], [["bridge"], ["the river"], ["a stone", "wood"]]
    whole = score_answers(predicted, expected)
    assert torch.equal(
        torch.cat([score_answers(predicted[:1], expected[:1]), score_answers(predicted[1:], expected[1:])]), whole
    )
    assert whole.mean(0).tolist() == pytest.approx([2 / 3, (2 / 3 + 1 + 1) / 3])
    assert score_answers([], []).shape == (0, 2)


def test_faults():
    with pytest.raises(ValueError, match="question 1 has no right answer"):
        score_answers(["a", "b"], [["a"], []])
    with pytest.raises(ValueError, match="answers to 1 questions, expected 2"):
        score_answers(["a"], [["a"], ["b"]])
