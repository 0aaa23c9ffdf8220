"""The heat map of layers and poolings: every mean in its cell, the chosen view framed, the best bold."""

import matplotlib.figure
import pytest

from interlingua.tasks.results import Record
from interlingua.tasks.sentence_chart import COLORS
from interlingua.tasks.sentence_heat_map import list_panels, write_heat_map
from interlingua.tasks.sentence_views import View

VIEWS = [View(None, None), View(2, "mean"), View(2, "first"), View(0, "mean"), View(0, "first")]


def means(source, values):
    """Into English as given, out of it half as high, and a figure of one language that must not be drawn."""
    records = []
    for view, value in zip(VIEWS, values, strict=True):
        for task, factor in (("sentence_retrieval_to_en", 1.0), ("sentence_retrieval_from_en", 0.5)):
            figure = (value * factor, value * factor, value * factor, 10)
            records.append(Record(task, f"{source}, {view.name}", "all", "mean accuracy@1", *figure))
            records.append(Record(task, f"{source}, {view.name}", "de", "accuracy@1", 1.0, 1.0, 1.0, 10))
    return records


RECORDS = [*means("val", [0.3, 0.8, 0.1, 0.2, 0.4]), *means("test", [0.2, 0.4, 0.6, 0.1, 0.3])]


def test_panels():
    """Where the view was chosen, both ways as one; then each way of what is reported."""
    chosen, to, back = list_panels(RECORDS, VIEWS, "test", "val")
    assert [title for title, _ in (chosen, to, back)] == ["val\nmean of both ways", "test\nto en", "test\nfrom en"]
    assert list(chosen[1].values()) == pytest.approx([22.5, 60, 7.5, 15, 30])
    assert list(to[1].values()) == pytest.approx([20, 40, 60, 10, 30])
    assert list(back[1].values()) == pytest.approx([10, 20, 30, 5, 15])
    assert list(to[1]) == VIEWS
    assert [title for title, _ in list_panels(RECORDS, VIEWS, "test", None)] == ["test\nto en", "test\nfrom en"]
    assert [title for title, _ in list_panels(RECORDS, VIEWS, "val", "val")] == ["val\nmean of both ways"]


def drawn(tmp_path, monkeypatch, **options):
    """The figure that is written, as matplotlib has it."""
    kept, save = [], matplotlib.figure.Figure.savefig
    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", lambda own, *a, **k: (kept.append(own), save(own, *a, **k)))
    options = {"chosen": VIEWS[1], "source": "test", "chosen_on": "val", **options}
    write_heat_map(tmp_path / "a.png", RECORDS, VIEWS, **options)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    return kept[0]


def test_cells(tmp_path, monkeypatch):
    figure = drawn(tmp_path, monkeypatch)
    panel = figure.axes[1]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["layer 0", "layer 2", "projected vectors"]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["mean", "first"]
    cells = {text.get_text(): (text.get_position(), text.get_fontweight()) for text in panel.texts}
    assert cells == {
        "10.0": ((0.5, 0.5), "normal"),
        "30.0": ((1.5, 0.5), "normal"),
        "40.0": ((0.5, 1.5), "normal"),
        "60.0": ((1.5, 1.5), "bold"),
        "20.0": ((1, 2.5), "normal"),
    }
    for axes in figure.axes:
        frames = [patch for patch in axes.patches if not patch.get_fill()]
        assert len(frames) == 1
        assert frames[0].get_x() + frames[0].get_width() / 2 == pytest.approx(0.5), "layer 2, mean"
        assert frames[0].get_y() + frames[0].get_height() / 2 == pytest.approx(1.5)
        assert matplotlib.colors.to_hex(frames[0].get_edgecolor()) == COLORS[1]
    assert figure.legends[0].get_texts()[0].get_text() == "chosen on val: layer 2, mean"


def test_where_none_was_chosen_none_is_framed(tmp_path, monkeypatch):
    figure = drawn(tmp_path, monkeypatch, chosen=None, chosen_on=None)
    told = figure.legends[0].get_texts()[0].get_text()
    assert told == "none was chosen on other sentences: the best of these flatters"
    assert len(figure.axes) == 2
    assert all(patch.get_fill() for axes in figure.axes for patch in axes.patches)


def test_all_that_read_the_same_as_the_best_are_bold(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "RECORDS", [*means("val", [0.3] * 5), *means("test", [0.6001, 0.4, 0.6, 0.1, 0.3])])
    bold = [text.get_text() for text in drawn(tmp_path, monkeypatch).axes[1].texts if text.get_fontweight() == "bold"]
    assert bold == ["60.0", "60.0"]


def test_figures_that_are_all_the_same(tmp_path):
    """A collapsed encoder: no scale to divide by."""
    write_heat_map(tmp_path / "a.png", means("test", [0.1] * 5), VIEWS, None, "test", None)
    assert (tmp_path / "a.png").exists()
