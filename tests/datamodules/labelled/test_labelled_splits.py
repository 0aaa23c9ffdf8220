"""Few examples of many, and texts held out."""

from collections import Counter

import pytest
from labelled_texts import LABELS, build
from small_shards import as_rank

from interlingua.datamodules.labelled.examples import Sentences, Tagged
from interlingua.datamodules.labelled.splits import draw_few, hold_out


def test_few_examples_are_balanced_nested_and_of_fixed_buckets(data, files, tmp_path):
    skewed = [
        Sentences("de", f"{label} {n}", None, label)
        for label, count in (("a", 50), ("b", 7), ("c", 2), ("", 9))
        for n in range(count)
    ]
    few = draw_few(skewed, {"de": 9}, 0)
    assert Counter(record.label for record in few) == {"a": 4, "b": 3, "c": 2} or Counter(record.label for record in few) == {
        "a": 3,
        "b": 4,
        "c": 2,
    }
    assert few == [record for record in skewed if record in few]  # in their order
    assert set(draw_few(skewed, {"de": 6}, 0)) < set(few) < set(draw_few(skewed, {"de": 20}, 0))
    assert len({tuple(draw_few(skewed, {"de": 9}, bucket)) for bucket in range(5)}) == 5
    assert len(draw_few(skewed, {"de": 1000}, 0)) == 59  # unlabelled ones never
    assert draw_few(skewed, {"fr": 1}, 0) == skewed

    made = [as_rank(build(data, train={"en": files["en"], "de": files["de"]}, limit={"de": 3}, seed=seed)) for seed in (0, 1)]
    for module in made:
        module.setup("fit")
    records = [module.readers["train"].records for module in made]
    assert records[0] == records[1]  # the order's seed has no part in it
    assert Counter(record.language for record in records[0]) == {"en": 20, "de": 3}
    assert {record.label for record in records[0] if record.language == "de"} == set(LABELS)
    with pytest.raises(ValueError, match=r"data.limit.fr: no example in this language is trained on, only in de, en"):
        as_rank(build(data, train={"en": files["en"], "de": files["de"]}, limit={"fr": 3})).setup("fit")


def test_what_is_held_out_is_decided_by_the_text_alone():
    records = [Sentences(language, f"text {n % 300}", None, str(n)) for language in ("en", "de") for n in range(400)]
    kept, held = (hold_out(records, 0.2, side) for side in (False, True))
    assert sorted(kept + held) == sorted(records)
    assert not {record.first for record in kept} & {record.first for record in held}
    assert 0.12 < len(held) / len(records) < 0.28
    assert hold_out(records[::-1][:50], 0.2, True) == [record for record in records[::-1][:50] if record in held]
    by_place = records[::7], [record for place, record in enumerate(records) if place % 7]
    assert {record.first for record in by_place[0]} & {record.first for record in by_place[1]}  # the usual way leaks
    questions = [Tagged("en", ("a", "word", str(n % 3)), ("O",) * 3) for n in range(9)]
    assert len({hold_out(questions, 0.5, True).count(one) for one in questions}) <= 2
