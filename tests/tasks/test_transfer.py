"""Zero-shot transfer: which checkpoint is reported, and figures over seeds with values known in closed form."""

import json
import math

import pytest
import torch

from interlingua.tasks.results import Record, write_results, write_summaries, write_table
from interlingua.tasks.transfer import (
    ONLY,
    SELECTIONS,
    Background,
    Run,
    Score,
    Scored,
    average_weights,
    choose,
    estimate,
    make_records,
    measure,
    measure_all,
    student_quantile,
)


def scored(name, dev, test, n=100) -> Scored:
    """A checkpoint by its shares of right answers, of `n` a language."""
    return Scored(name, *({code: Score(share * n, n, n) for code, share in split.items()} for split in (dev, test)))


def run(name="run", average=0.5, checkpoints=None) -> Run:
    """On English dev the second is best, on German dev and by test others are."""
    checkpoints = checkpoints or [
        scored("step=1", {"en": 0.5, "de": 0.9}, {"en": 0.95, "de": 0.7}),
        scored("step=2", {"en": 0.8, "de": 0.3}, {"en": 0.6, "de": 0.4}),
        scored("step=3", {"en": 0.8, "de": 0.2}, {"en": 0.7, "de": 0.3}),
    ]
    languages = checkpoints[0].test
    return Run(name, checkpoints, scored("average", dict.fromkeys(languages, average), dict.fromkeys(languages, average)))


def plain(**shares) -> Run:
    """A run of one checkpoint, with the same shares on dev and test."""
    return Run(str(shares), [scored("step=1", shares, shares)], scored("average", shares, shares))


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (9, 2.26216), (30, 2.04227), (1000, 1.96234)],
)
def test_quantiles_of_student_are_those_of_printed_tables(degrees, expected):
    assert student_quantile(degrees) == pytest.approx(expected, rel=3e-6)


def test_interval_over_seeds_in_closed_form():
    """Mean 0.7, deviation 0.1 with n - 1, three seeds: t of two degrees. With the normal quantile it would be half as wide."""
    found = estimate([0.6, 0.7, 0.8])
    reach = 4.302653 * 0.1 / math.sqrt(3)
    assert found[:3] == pytest.approx((0.7, 0.7 - reach, 0.7 + reach), abs=1e-6)
    assert found.high - found.value > 2 * 1.96 * 0.1 / math.sqrt(3)
    assert found.seeds == (0.6, 0.7, 0.8)


def test_one_seed_has_no_interval():
    assert estimate([0.7]) == (0.7, 0.7, 0.7, (0.7,))


def test_intervals_stay_within_what_a_share_can_be():
    """Of two seeds the interval reaches far: 12.7 deviations over root two."""
    assert estimate([0.1, 0.9])[1:3] == (0.0, 1.0)
    assert estimate([-0.5, 0.5], least=-1.0)[1:3] == (-1.0, 1.0)


def test_by_source_dev_the_earliest_of_the_best_is_taken_for_all_languages():
    """Not the later of equals, nor what is best on test, nor what is best in the other language."""
    chosen = choose(run(), "source dev", "en")
    assert {one.name for one in chosen.values()} == {"step=2"}
    assert measure([run()], "source dev", "en").languages["de"].value == pytest.approx(0.4)


def test_the_oracle_takes_for_each_language_what_its_own_dev_says():
    """By dev, not by test: in English the second is best on dev, the first on test."""
    found = measure([run()], "oracle", "en")
    assert found.chosen == [{"en": "step=2", "de": "step=1"}]
    assert [found.languages[code].value for code in ("en", "de")] == pytest.approx([0.6, 0.7])


def test_last_and_average_need_no_dev():
    bare = run()._replace(average=scored("average", {}, {"en": 0.9, "de": 0.8}))
    assert choose(bare, "last", "en")["de"].name == "step=3"
    assert choose(bare, "average", "en")["de"].test["de"].value == pytest.approx(0.8)
    with pytest.raises(ValueError, match="no dev data in en to choose a checkpoint on; dev is there in no language"):
        choose(bare, "source dev", "en")


def test_no_oracle_where_a_language_has_no_dev():
    some = [scored(f"step={step}", {"en": 0.5}, {"en": 0.5, "sw": 0.2}) for step in (1, 2)]
    one = Run("run", some, some[0]._replace(name="average"))
    assert [found.selection for found in measure_all([one], "en")] == ["source dev", "average", "last"]
    assert [found.selection for found in measure_all([run()], "en")] == list(SELECTIONS)


def test_macro_averages_count_languages_alike_with_and_without_the_source():
    """Not rows: German has ten times as many."""
    score = {"en": Score(9, 10, 10), "de": Score(50, 100, 100), "ru": Score(1, 10, 10)}
    one = Scored("step=1", score, score)
    found = measure([Run("run", [one], one)], "last", "en")
    assert list(found.languages) == ["en", "de", "ru"]  # the source, then the best
    assert found.mean(found.languages).value == pytest.approx((0.9 + 0.5 + 0.1) / 3)
    assert found.mean(found.others).value == pytest.approx(0.3)
    assert found.gap(found.others).value == pytest.approx(0.6)


def test_gaps_are_those_within_each_seed():
    """Both seeds lose 0.2, though they differ by 0.3: the interval is a point. That of unpaired seeds would span everything."""
    found = measure([plain(en=0.6, de=0.4), plain(en=0.9, de=0.7)], "last", "en")
    assert found.gap(["de"])[:3] == pytest.approx((0.2, 0.2, 0.2))
    assert (found.languages["de"].low, found.languages["de"].high) == (0.0, 1.0)


def test_the_interval_of_a_mean_is_that_of_the_seeds_means():
    """Languages that go up and down together and against each other are told apart."""
    against = measure([plain(en=0.5, de=0.2, ru=0.4), plain(en=0.5, de=0.4, ru=0.2)], "last", "en")
    assert against.mean(against.others)[:3] == pytest.approx((0.3, 0.3, 0.3))


def test_f1_is_a_ratio_of_sums_and_0_of_nothing():
    assert Score(2 * 3, 4 + 8, 5).value == 0.5
    assert Score(0, 0, 5).value == 0.0


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([], "no run to measure"),
        ([run(), Run("empty", [], run().average)], "empty: no checkpoint"),
        ([plain(en=0.5), plain(en=0.5, de=0.5)], "test has de 100, en 100 rows, but that of .* has en 100; seeds"),
        ([plain(de=0.5)], "no test data in en, the language of training; found de: give --language CODE"),
    ],
)
def test_runs_that_cannot_be_averaged_are_refused(runs, words):
    with pytest.raises(ValueError, match=words):
        measure(runs, "last", "en")


def test_unknown_selection():
    with pytest.raises(ValueError, match="selection is 'best'; expected one of source dev, average, last, oracle"):
        measure([run()], "best", "en")


def test_weights_are_averaged_by_name_in_their_own_type():
    first = {"w": torch.tensor([1.0, 2.0]), "half": torch.tensor([1.0], dtype=torch.bfloat16), "steps": torch.tensor(3)}
    second = {"w": torch.tensor([3.0, 6.0]), "half": torch.tensor([2.0], dtype=torch.bfloat16), "steps": torch.tensor(9)}
    kept = {name: weight.clone() for name, weight in first.items()}
    found = average_weights([first, second])
    assert found["w"].tolist() == [2.0, 4.0]
    assert found["half"].tolist() == [1.5]
    assert found["half"].dtype == torch.bfloat16
    assert found["steps"].item() == 9
    assert all(torch.equal(weight, kept[name]) for name, weight in first.items())
    alone = average_weights([first])
    assert all(torch.equal(weight, first[name]) for name, weight in alone.items())


def test_many_small_weights_are_summed_in_double_precision():
    """The mean of thousands of equal weights is that weight; a running sum in their own type is not."""
    weight = torch.tensor([0.1], dtype=torch.bfloat16)
    assert average_weights([{"w": weight}] * 1000)["w"].equal(weight)
    running = sum((weight for _ in range(1000)), torch.zeros(1, dtype=torch.bfloat16)) / 1000
    assert not running.equal(weight)


def test_weights_of_different_models_are_refused():
    with pytest.raises(ValueError, match="they differ in b, w"):
        average_weights([{"w": torch.ones(2), "b": torch.ones(1)}, {"w": torch.ones(3)}])


def test_records_stand_in_one_table_a_selection(tmp_path):
    runs = [run("a"), run("b", average=0.6)]
    records = [record for found in measure_all(runs, "en") for record in make_records(found, "intents", "accuracy")]
    write_results(records, tmp_path)
    rows = {tuple(row.values())[:4]: row for row in json.loads((tmp_path / "results.json").read_text())}
    chosen = "intents from en, checkpoint chosen on en dev"
    assert rows["zero_shot_transfer", chosen, "de", "accuracy"]["value"] == pytest.approx(0.4)
    assert rows["zero_shot_transfer", chosen, "de", "gap to en"]["value"] == pytest.approx(0.2)
    assert rows["zero_shot_transfer", chosen, "all", "mean accuracy"]["n"] == 200
    assert rows["zero_shot_transfer", chosen, "en", "sample size"]["value"] == 2
    tables = (tmp_path / "results.md").read_text().split("\n## ")
    assert [table.splitlines()[0] for table in tables[1:]] == [
        f"Zero shot transfer: {chosen}",
        "Zero shot transfer: intents from en, average of all checkpoints",
        "Zero shot transfer: intents from en, last checkpoint",
        "Transfer: intents from en, each language's checkpoint chosen on its own dev (oracle, not zero-shot)",
    ]
    assert "*oracle*: needs labels in each language" in tables[0]
    assert "| Zero shot transfer: intents from en, last checkpoint | 30.0 (30.0–30.0) | 70.0 (70.0–70.0) |" in tables[0]
    assert "| *mean over all but en* | 100 | 40.0 (40.0–40.0) | 20.0 (20.0–20.0) |" in tables[1]
    assert "sample size: 2" in tables[1]


def test_gaps_may_be_below_0_and_shares_may_not(tmp_path):
    below = make_records(measure([plain(en=0.4, de=0.6)], "last", "en"), "intents", "accuracy")
    assert next(one for one in below if one.metric == "gap to en").value == pytest.approx(-0.2)
    write_results(below, tmp_path)
    with pytest.raises(ValueError, match="shares as fractions from 0 to 1"):
        write_results([Record("zero_shot_transfer", "d", "de", "accuracy", -0.2, -0.2, -0.2, 1)], tmp_path)


def test_nothing_but_the_source():
    """A run that is tested in its own language alone has no gap and no mean over others."""
    found = measure([plain(en=0.5)], "last", "en")
    assert [(one.language, one.metric) for one in make_records(found, "d", "accuracy")] == [
        ("en", "accuracy"),
        ("en", "sample size"),
        ("all", "mean accuracy"),
    ]


def test_where_there_is_one_checkpoint_nothing_is_chosen_and_it_is_reported_once():
    """Not four times the same; and no dev is needed."""
    bare = [scored("last", {}, {"en": share, "de": share / 2}) for share in (0.6, 0.8)]
    found = measure_all([Run(str(one), [one], one._replace(name="average")) for one in bare], "en")
    assert [(one.selection, one.languages["de"].value) for one in found] == [(ONLY, pytest.approx(0.35))]
    assert found[0].chosen[0] == {"en": "last", "de": "last"}
    assert make_records(found[0], "qa", "squad_f1")[0].data == "qa from en, the only checkpoint"


def test_seeds_that_agree_have_an_interval_of_no_width_and_one_seed_has_none():
    agreeing = measure(
        [plain(en=0.7, de=0.4), plain(en=0.7, de=0.4)], "last", "en", Background(majority={"en": 0.3, "de": 0.3})
    )
    table = write_table(make_records(agreeing, "d", "accuracy"))
    assert "| de | 100 | 40.0 (40.0–40.0) | 30.0 | 30.0 (30.0–30.0) |" in table
    [summary] = write_summaries([make_records(agreeing, "d", "accuracy")])
    assert "| 40.0 (40.0–40.0) | 70.0 (70.0–70.0) |" in summary
    alone = write_table(make_records(measure([plain(en=0.7, de=0.4)], "last", "en"), "d", "accuracy"))
    assert "| de | 100 | 40.0 | 30.0 |" in alone


def test_an_interval_knows_where_it_would_go_on():
    found = estimate([0.1, 0.9])
    reach = 12.7062 * 0.4 * math.sqrt(2) / math.sqrt(2)
    assert found.ends == pytest.approx((0.5 - reach, 0.5 + reach), rel=1e-4)
    assert estimate([0.7]).ends == (0.7, 0.7)


def test_what_figures_are_seen_against_stands_beside_them():
    """In each language, and as means; of languages that were left out nothing is told."""
    background = Background("sentences", {"en": 900, "de": 800, "xx": 5}, {"en": 0.2, "de": 0.4, "xx": 0.9})
    records = make_records(measure([plain(en=0.7, de=0.5)], "last", "en", background), "pos", "accuracy")
    found = {(one.language, one.metric): (one.value, one.n) for one in records}
    assert found["de", "majority"] == (0.4, 100)
    assert found["en", "words"] == (900, 100)
    assert found["all", "mean majority"] == (pytest.approx(0.3), 200)
    assert found["all but en", "mean majority"] == (0.4, 100)
    assert not any(language == "xx" for language, _ in found)
    assert records[-1].metric == "mean accuracy"  # what the summary shows
    assert "| de | 100 | 50.0 | 40.0 | 800 | 20.0 |" in write_table(records)
