"""Few-shot draws by hand: with the examples figures vary by more than ten points, so draws are fixed, fair and nested."""

from collections import Counter

import pytest

from interlingua.datamodules.labelled.examples import Question, Sentences, Tagged
from interlingua.datamodules.labelled.splits import draw_few

BUCKETS = 400


def tagged(language, count):
    return [Tagged(language, (f"word{number}",), ("O",)) for number in range(count)]


def questions(language, count):
    return [Question(language, f"q{number}", f"question {number}", f"text {number}", ()) for number in range(count)]


def sentences(language, count):
    return [Sentences(language, f"text {number}", None, "abcde"[number % 5]) for number in range(count)]


@pytest.mark.parametrize("make", [tagged, questions, sentences])
def test_over_buckets_every_example_is_drawn_as_often(make):
    """5 of 20 in 400 buckets: 100 times each, give or take 8.7; the first five of the file would be drawn 400 times."""
    records = make("de", 20)
    buckets = [draw_few(records, {"de": 5}, bucket) for bucket in range(BUCKETS)]
    assert {len(few) for few in buckets} == {5}
    found = Counter(record for few in buckets for record in few)
    assert found.keys() == set(records)
    assert max(abs(count - BUCKETS * 5 / 20) for count in found.values()) < 5 * 8.7


@pytest.mark.parametrize("make", [tagged, questions, sentences])
def test_a_bucket_is_the_same_whatever_else_is_trained_on_and_larger_ones_hold_it(make):
    """So that between runs nothing changes but what is meant to: other languages and their limits have no say."""
    german, english, swahili = make("de", 20), make("en", 30), make("sw", 20)
    alone = draw_few(german, {"de": 5}, 3)
    among = draw_few([*english, *swahili[:10], *german, *swahili[10:]], {"de": 5, "sw": 2}, 3)
    assert Counter(record.language for record in among) == {"en": 30, "de": 5, "sw": 2}
    assert [record for record in among if record.language == "de"] == alone
    assert set(alone) < set(draw_few(german, {"de": 10}, 3))
    places = [[german.index(record) for record in alone], [swahili.index(one) for one in draw_few(swahili, {"sw": 5}, 3)]]
    assert places[0] != places[1], "languages are drawn apart"
    assert alone != draw_few(german, {"de": 5}, 4)


def test_each_class_is_drawn_as_often_by_hand():
    """90 a, 9 b and 1 c, ten of them: c has one, and a and b share nine. By chance alone it would be nine a and one b."""
    records = [
        Sentences("de", f"{label} {number}", None, label)
        for label, n in {"a": 90, "b": 9, "c": 1}.items()
        for number in range(n)
    ]
    for bucket in range(20):
        found = Counter(record.label for record in draw_few(records, {"de": 10}, bucket))
        assert found["c"] == 1
        assert sorted((found["a"], found["b"])) == [4, 5]
