"""Answers in words: of the rows of a question the best, compared as SQuAD and MLQA do, summed over questions that have one."""

from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

from interlingua.modalities.batch import Batch
from interlingua.tasks.answer_tally import tally_answers
from interlingua.tasks.objectives.span_answering import Found


class Asked(NamedTuple):
    """A question, as far as it is looked at."""

    language: str
    words: str
    answers: tuple[tuple[str, int], ...]


class Words:
    """A layout in which a token is a word, and every row holds all of them."""

    def answer(self, record, spans, scores, tokenizer, max_tokens):
        assert (tokenizer, max_tokens) == ("tokenizer", 32)
        first, last = spans[scores.argmax()].tolist()
        return " ".join(record.words.split()[first : last + 1]) if first >= 0 else ""


def tally(records, sample, spans, scores):
    numbers = torch.tensor(sample)
    batch = Batch("qa", numbers, numbers, torch.zeros_like(numbers))
    data = SimpleNamespace(layout=Words(), tokenizer="tokenizer", max_tokens=32)
    found = tally_answers(Found(torch.tensor(spans), torch.tensor(scores)), batch, data, records)
    return {name: tuple(sums.tolist()) for name, sums in found.items()}


def test_the_best_row_of_a_question_answers_and_questions_without_answers_do_not_count():
    records = [
        Asked("de", "x y z", ()),
        Asked("de", "es war der Hund im Garten", (("Hund", 11), ("im Garten", 16))),
        Asked("de", "gestern in Rom", (("Rom", 11),)),
    ]
    sample = [1, 1, 2, 0]
    spans = [[0, 1], [2, 3], [1, 2], [0, 0]]
    found = tally(records, sample, spans, [0.5, 3.0, 1.0, 9.0])
    # "der Hund" is "Hund" for MLQA, which knows German articles; "in Rom" shares one of its two words with "Rom"
    assert found["mlqa_exact_match"] == (1.0, 2.0)
    assert found["mlqa_f1"] == pytest.approx((1 + 2 / 3, 2.0))
    assert found["squad_exact_match"] == (0.0, 2.0)
    assert found["squad_f1"] == pytest.approx((2 / 3 + 2 / 3, 2.0))
    other = tally(records, sample, spans, [4.0, 3.0, 1.0, 9.0])
    assert other["mlqa_f1"] == pytest.approx((2 / 3, 2.0))


def test_nothing_to_answer_is_nothing_to_score():
    found = tally([Asked("de", "x", ())], [0], [[-1, -1]], [-torch.inf])
    assert set(found.values()) == {(0.0, 0.0)}
    assert tally([Asked("de", "x", (("x", 0),))], [0], [[-1, -1]], [-torch.inf])["squad_f1"] == (0.0, 1.0)
