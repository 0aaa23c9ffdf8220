"""What is said of runs that can be reported, and must be known with their figures."""

from pathlib import Path

from interlingua.run_plans import Plan, check_language, compare_lengths
from interlingua.run_scores import leave_out


def make_plan(steps, configuration):
    return Plan(Path("a"), steps, configuration, "", {}, None, "intents", {}, set(), [])


def test_what_else_was_trained_in_is_noted():
    def plan(train):
        return make_plan({}, {"data": {"init_args": {"train": train}}})

    assert check_language(plan({"en": "x"}), "en") == []
    assert check_language(plan({"en": "x", "de": "y"}), "en") == [
        "a was trained in de, too: there it is no zero-shot transfer."
    ]
    assert "its data.train names no language" in check_language(plan("x"), "en")[0]


def test_runs_of_the_same_steps_are_alike():
    one = make_plan({Path("x"): 1, Path("y"): 2}, {})
    assert compare_lengths([one, one]) == []


def test_a_language_in_which_nothing_can_be_right_or_wrong_is_left_out_and_told():
    def scores(**of):
        return {"test": {language: {"x/accuracy": (0, count, 5)} for language, count in of.items()}}

    run = {"checkpoints": [{"scores": scores(en=5, fr=0, de=0)}], "average": {"scores": scores(en=5, fr=0, de=1)}}
    assert leave_out([run], "x/accuracy") == [
        "Left out of test, as nothing there can be right or wrong by accuracy (no labels?): fr."
    ]
    assert sorted(run["average"]["scores"]["test"]) == ["de", "en"]
    assert sorted(run["checkpoints"][0]["scores"]["test"]) == ["de", "en"]
