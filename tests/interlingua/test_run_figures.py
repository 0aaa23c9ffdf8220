"""What runs can be reported by, known before anything is read, and what is reported where nothing is asked for."""

from types import SimpleNamespace

import pytest

from interlingua.configuration import ConfigurationError, read_arguments
from interlingua.run_curves import gather_panels
from interlingua.run_figures import expect_figures, find_figure, name_task, tell_figure
from interlingua.run_scores import count_majority, take_background, tell_majority
from interlingua.tasks.transfer import Background

ANSWERS = ["exact_span", "mlqa_exact_match", "mlqa_f1", "squad_exact_match", "squad_f1"]


@pytest.mark.parametrize(
    ("recipe", "figures", "usual"),
    [
        ("intents", ["intent/accuracy"], "accuracy"),
        ("xnli", ["inference/accuracy"], "accuracy"),
        ("udpos", ["pos/accuracy", "pos/pos_seqeval_f1@0.0.12"], "pos_seqeval_f1@0.0.12"),
        ("panx", ["names/accuracy", "names/span_f1"], "span_f1"),
        ("xquad", [f"answers/{name}" for name in ANSWERS], "squad_f1"),
    ],
)
def test_a_recipe_is_reported_by_what_its_task_is(recipe, figures, usual):
    found = read_arguments(["--config", f"configs/transfer/{recipe}.yaml"]).configuration
    there = sorted(expect_figures(found["model"], found["data"]))
    assert there == figures
    assert find_figure(there, None).partition("/")[2] == usual
    with pytest.raises(ConfigurationError, match="--figure bleu: there is"):
        find_figure(there, "bleu")


def test_objectives_that_are_not_ours_are_asked_later():
    model = {"init_args": {"objectives": {"x": {"class_path": "collections.Counter"}}, "passes": {"labelled": [["x"]]}}}
    assert expect_figures(model, {}) == set()
    assert expect_figures(model, {"init_args": {"name": "other"}}) == set()


def test_figures_are_found_by_their_own_name_or_with_their_objective():
    scored = ["ner/accuracy", "ner/span_f1", "pos/accuracy"]
    assert find_figure(scored, "span_f1") == "ner/span_f1"
    assert find_figure(scored, "pos/accuracy") == "pos/accuracy"
    with pytest.raises(ConfigurationError, match="several objectives have it: ner/accuracy, pos/accuracy"):
        find_figure(scored, "accuracy")
    with pytest.raises(ConfigurationError, match="--figure: none is the usual one; give one of ner/accuracy, ner/span_f1, pos"):
        find_figure(scored, None)


def test_what_is_reported_unasked_is_told():
    assert tell_figure("pos/span_f1", {"pos/span_f1", "pos/accuracy"}) == "Reported is span_f1; for accuracy give --figure."
    assert tell_figure("x/accuracy", {"x/accuracy"}) == "Reported is accuracy."


def test_data_without_a_name_are_told_by_their_objective():
    assert [name_task("labelled", "pos/accuracy"), name_task("xnli", "inference/accuracy")] == ["pos", "xnli"]


class Words:
    classifies = True

    def names(self, record):
        return record[1:]


class Row(tuple):
    @property
    def language(self):
        return self[0]


@pytest.mark.parametrize(("classifies", "expected"), [(True, {"en": [3, 4], "de": [1, 1]}), (False, {})])
def test_the_most_frequent_label_of_a_languages_test_data(classifies, expected, monkeypatch):
    monkeypatch.setattr(Words, "classifies", classifies)
    rows = [Row(one) for one in (("en", "A", "B", "A"), ("en", "A", ""), ("de", "B"), ("fr", ""))]
    examples = {"labelled/validation": [Row(("en", "B", "B", "B", "B"))], "labelled/test": rows}
    assert count_majority(SimpleNamespace(name="labelled", layout=Words(), examples=examples)) == expected


def test_accuracy_is_seen_against_a_majority_and_f1_is_not():
    scores = {"test": {"en": {"pos/accuracy": [7, 10, 3], "pos/span_f1": [4, 9, 3]}}}
    scored = {"unit": "sentences", "majority": {"en": [4, 10]}, "average": {"scores": scores}}
    assert take_background(scored, "pos/accuracy") == Background("sentences", {"en": 10}, {"en": 0.4})
    assert take_background(scored, "pos/span_f1") == Background("sentences")
    assert tell_majority(scored, "pos/accuracy") == []
    [told] = tell_majority(scored, "pos/span_f1")
    assert "right for 40.0 %" in told
    assert tell_majority({**scored, "majority": {}}, "qa/squad_f1") == []


@pytest.mark.parametrize(
    ("losses", "figures", "shown"), [(2, 2, []), (4, 3, ["dev"]), (5, 1, ["loss"]), (6, 4, ["loss", "dev"])]
)
def test_curves_of_few_points_are_not_drawn(losses, figures, shown, tmp_path):
    folder = tmp_path / "logs" / "version_0"
    folder.mkdir(parents=True)
    rows = [f"{step},{step},\n" for step in range(losses)] + [f"{step},,0.5\n" for step in range(figures)]
    (folder / "metrics.csv").write_text("step,train/intent,validation/labelled/en/accuracy\n" + "".join(rows))
    panels = gather_panels([tmp_path], [{"objectives": ["intent"], "data": "labelled"}], "intent/accuracy", "en", [])
    assert ["loss" if "loss" in panel.title else "dev" for panel in panels] == shown
