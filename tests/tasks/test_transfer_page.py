"""The page and picture of zero-shot transfer: whole in themselves, of few languages and of many, of one seed and of several."""

import pytest
from page_reader import Reader

from interlingua.tasks.curves import Line, Panel, draw_panel, mean_curve, read_curves
from interlingua.tasks.transfer import Background, Run, Score, Scored, estimate, measure_all
from interlingua.tasks.transfer_chart import write_chart
from interlingua.tasks.transfer_page import OTHER, SOURCE, Axis, find_ends, make_axis, write_page

MANY = [first + second for first in "abcdefgh" for second in "qrstuvwx"][:59]


def transfers(others, seeds, kept_checkpoints=3, background=Background()):  # noqa: B008
    """Runs in which later checkpoints are better, and later languages worse."""
    codes = ["en", *others]
    runs = []
    for seed in range(seeds):
        kept = [
            {code: Score(90 - 60 * place // len(codes) + 2 * step + seed % 3, 100, 100) for place, code in enumerate(codes)}
            for step in range(kept_checkpoints)
        ]
        checkpoints = [Scored(f"step={step}<b>", one, one) for step, one in enumerate(kept)]
        runs.append(Run(f"run{seed}", checkpoints, checkpoints[-1]._replace(name="average")))
    return measure_all(runs, "en", background)


def written(path, *arguments, **options) -> tuple[str, Reader]:
    write_page(path, *arguments, **options)
    text = path.read_text(encoding="utf-8")
    return text, Reader(text)


@pytest.mark.parametrize(("others", "seeds"), [(["de", "ru", "sw", "zh"], 3), (MANY, 2), (["de"], 1), ([], 3)])
def test_needs_nothing_beside_it_and_shows_every_language(others, seeds, tmp_path):
    text, read = written(tmp_path / "page.html", transfers(others, seeds), "in<tents", "accuracy")
    assert read.stack == []
    assert not any(word in text for word in ("http", "<script", "url(", "<b>step", "in<tents"))
    shown = [attributes["title"] for tag, attributes in read.tags if tag == "span" and attributes.get("title")]
    assert shown.count("en") == 1
    assert all(shown.count(code) == 2 for code in others)  # its figure, and its gap
    assert bool(read.of_class("dense")) == (len(others) > 20)


def test_the_language_of_training_is_marked_and_first(tmp_path):
    _, read = written(tmp_path / "page.html", transfers(["de", "ru"], 3), "intents", "accuracy")
    bars = [attributes for attributes in read.of_class("bar") if "trained" in attributes["class"]]
    assert len(bars) == 2  # of figures, and, empty, of gaps
    words = [word for word in read.words if word in ("English", "German", "Russian")]
    assert words[0] == "English"
    assert "Trained in English, tested in 2 other languages" in read.text


def test_says_that_the_oracle_is_no_zero_shot_transfer(tmp_path):
    _, read = written(tmp_path / "page.html", transfers(["de"], 2), "intents", "accuracy")
    assert "oracle: each language's best on its own dev (not zero-shot)" in read.text
    assert "it needs labels there, so it is no zero-shot transfer" in read.text


def test_one_seed_has_neither_dots_nor_whiskers_and_the_page_says_so(tmp_path):
    _, read = written(tmp_path / "page.html", transfers(["de"], 1), "intents", "accuracy")
    assert not read.of_class("dot")
    assert not read.of_class("whisker")
    assert "There is one seed, so that nothing can be said of chance" in read.text
    _, read = written(tmp_path / "page.html", transfers(["de"], 3), "intents", "accuracy")
    assert len(read.of_class("dot")) == 3 * (2 + 1 + 4)  # figures, a gap, and four ways to choose
    assert len(read.of_class("whisker")) == 2 + 1 + 4


@pytest.mark.parametrize(
    ("seeds", "start", "end"),
    [
        ([[0.62], [0.31]], 0.0, 0.8),
        ([[0.1, 0.2]], 0.0, 0.4),
        ([[-0.05], [0.21]], -0.05, 0.25),
        ([[-0.1, 0.1]], -0.3, 0.3),
        ([[0.0]], 0.0, 0.01),
        ([[1.0]], 0.0, 1.0),
    ],
)
def test_axis_holds_0_bars_and_seeds_and_as_much_again_of_intervals(seeds, start, end):
    found = [estimate(one, least=-1.0 if min(one) < 0 else 0.0) for one in seeds]
    axis = make_axis(found)
    assert (axis.start, axis.end) == pytest.approx((start, end))
    assert axis.place(0.0) == pytest.approx(100 * -start / (end - start))
    assert axis.place(2.0) == 100  # an interval that leaves the picture


def test_curves_are_read_over_resumptions_and_shown_a_line_a_seed(tmp_path):
    """Version 10 comes after version 2, and what a resumed run did again replaces what was done before."""
    for version, rows in {2: "0,,3.0\n10,0.5,2.0\n", 10: "10,0.75,1.5\n20,,1.0\n"}.items():
        folder = tmp_path / "logs" / f"version_{version}"
        folder.mkdir(parents=True)
        (folder / "metrics.csv").write_text(f"step,validation/labelled/en/accuracy,train/intent\n{rows}")
    columns = read_curves(tmp_path)
    assert columns["train/intent"] == [(0, 3.0), (10, 1.5), (20, 1.0)]
    assert columns["validation/labelled/en/accuracy"] == [(10, 0.75)]
    lines = [Line("a", SOURCE, columns["train/intent"]), Line("b", SOURCE, [(0, 2.0), (20, float("nan")), (30, 1.0)])]
    read = Reader(draw_panel(Panel("Loss <of> it", lines, False), {SOURCE: "in English", OTHER: "others"}))
    drawn = [attributes["points"].split() for tag, attributes in read.tags if tag == "polyline"]
    assert [len(points) for points in drawn] == [3, 2]
    assert "in English" in read.text
    assert "others" not in read.text
    assert draw_panel(Panel("Nothing", [Line("a", SOURCE, [])], False), {}) == ""


def test_mean_of_curves_at_the_steps_that_all_have():
    assert mean_curve([[(0, 1.0), (10, 3.0)], [(10, 5.0), (20, 7.0)]]) == [(10, 4.0)]
    assert mean_curve([]) == []


@pytest.mark.parametrize(("others", "seeds"), [(MANY, 3), (["de"], 1), ([], 1)])
def test_picture(others, seeds, tmp_path):
    write_chart(tmp_path / "chart.png", transfers(others, seeds)[0], "intents", "span_f1")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("seeds", "axis", "ends"),
    [
        ([0.5, 0.51], Axis(0.0, 0.8, 0.2), ("cap", "cap")),
        ([0.35, 0.45], Axis(0.0, 0.8, 0.2), ("bound", "arrow")),
        ([0.1, 0.9], Axis(0.0, 1.0, 0.2), ("bound", "bound")),
        ([0.7, 0.7], Axis(0.0, 0.8, 0.2), ("cap", "cap")),
    ],
)
def test_an_interval_has_a_cap_only_where_it_ends(seeds, axis, ends):
    assert find_ends(estimate(seeds), axis) == ends


def test_whiskers_that_leave_the_picture_are_drawn_open_with_an_arrow(tmp_path):
    kept = [Score(right, 100, 100) for right in (20, 40)]
    checkpoints = [Scored("step=1", {"en": one}, {"en": one}) for one in kept]
    runs = [Run(str(number), [one], one) for number, one in enumerate(checkpoints)]
    _, read = written(tmp_path / "page.html", measure_all(runs, "en"), "d", "accuracy")
    whiskers = read.of_class("whisker")
    assert whiskers
    assert all("open-left" in one["class"] and "open-right" in one["class"] for one in whiskers)  # 0, and beyond 60 %
    assert [one["class"] for one in read.of_class("arrow")] == ["arrow right"] * len(whiskers)
    assert "An arrow says that one goes on outside the picture" in read.text
    assert "They end where a share does, at 0 or 100 %" in read.text


def test_the_task_and_the_figure_are_named(tmp_path):
    text, read = written(tmp_path / "page.html", transfers(["de"], 2), "intent", "span_f1")
    assert "<title>Zero-shot transfer: intent, span f1</title>" in text
    assert "Zero-shot cross-lingual transfer: intent, span f1" in read.text


def test_one_checkpoint_is_said_and_drawn_once(tmp_path):
    found = transfers(["de"], 2, kept_checkpoints=1)
    _, read = written(tmp_path / "page.html", found, "qa", "squad_f1")
    assert "Each run kept one checkpoint, so there was nothing to choose from, and nothing to average." in read.text
    assert "several checkpoints" not in read.text
    assert len(read.of_class("whisker")) == 2 + 1 + 1  # figures, a gap, and one way to choose


def test_gaps_are_in_points_and_figures_in_per_cent(tmp_path):
    text, _ = written(tmp_path / "page.html", transfers(["de"], 2), "intent", "accuracy")
    bars, gaps = text.split("Gap to English, in points")[:2]
    assert "&#8239;%</i>" in bars or "\u202f%</i>" in bars
    own = gaps.split("</figure>")[0]
    assert "%</i>" not in own
    assert ">0</i>" in own


def test_what_always_the_most_frequent_label_gets_and_what_is_counted_are_shown(tmp_path):
    background = Background("sentences", {"en": 900, "de": 800}, {"en": 0.25, "de": 0.35})
    text, read = written(tmp_path / "page.html", transfers(["de"], 2, background=background), "pos", "accuracy")
    assert len(read.of_class("guess")) == 2 + 4  # languages, and ways to choose
    assert "Dashes show what always giving the label that is most frequent" in read.text
    head = text.split("All figures")[1].split("</thead>")[0]
    assert [word for word in ("sentences", "words", "majority", "examples") if f">{word}</th>" in head] == [
        "sentences",
        "words",
        "majority",
    ]
    assert "<td>35.0</td>" in text
    _, read = written(tmp_path / "page.html", transfers(["de"], 2), "intent", "accuracy")
    assert not read.of_class("guess")
    write_chart(tmp_path / "chart.png", transfers(["de"], 2, background=background)[0], "pos", "accuracy")
    assert (tmp_path / "chart.png").stat().st_size > 10_000


def test_agreeing_seeds_have_an_interval_in_tables(tmp_path):
    one = Scored("step=1", {"en": Score(70, 100, 100)}, {"en": Score(70, 100, 100)})
    text, _ = written(tmp_path / "page.html", measure_all([Run("a", [one], one), Run("b", [one], one)], "en"), "d", "accuracy")
    assert "<td>70.0<small>(70.0–70.0)</small></td>" in text
