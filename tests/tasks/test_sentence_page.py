"""The page of sentences: whole in itself, every figure, random weights beside, mined pairs as they are."""

from page_reader import Reader

from interlingua.tasks.results import Record
from interlingua.tasks.sentence_page import Chart, Story, write_page

STORY = Story("On <b>test</b>", "Translations found", "By vectors.", "With intervals.")


def records(data, value):
    """Two languages, their mean, chance and how many are searched."""
    found = [Record("task", data, code, "margin accuracy@1", value, value - 0.1, value + 0.1, 20) for code in ("de", "sw")]
    found += [Record("task", data, code, "chance accuracy@1", 0.05, 0.05, 0.05, 20) for code in ("de", "sw")]
    found += [Record("task", data, "de", "gallery size", 20.0, 20.0, 20.0, 20)]
    return [*found, Record("task", data, "all", "mean margin accuracy@1", value, value - 0.1, value + 0.1, 40)]


def written(path, **options) -> tuple[str, Reader]:
    bare = options.pop("bare", ())
    write_page(path, STORY, [Chart("to en", "margin accuracy@1", records("test", 0.4), bare)], **options)
    text = path.read_text(encoding="utf-8")
    return text, Reader(text)


def test_needs_nothing_beside_it_and_shows_every_figure(tmp_path):
    text, read = written(tmp_path / "page.html")
    assert read.stack == []
    assert not any(word in text for word in ("http", "<script", "url(", "<b>test</b>"))
    assert [one["title"] for tag, one in read.tags if tag == "span" and one.get("title")] == ["de", "sw"]
    assert len(read.of_class("whisker")) == len(read.of_class("chance")) == 2
    assert "margin accuracy@1, to en, mean over languages" in read.text
    assert "untrained" not in read.text
    assert "What it finds" not in read.text


def test_random_weights_are_a_second_bar_and_a_table(tmp_path):
    _, read = written(tmp_path / "page.html", bare=records("test, untrained", 0.2))
    assert len(read.of_class("before")) == 2
    assert "mean over languages; untrained 20.0 %" in read.text
    assert "Task: test, untrained" in read.text


def test_mined_pairs_are_shown_as_text(tmp_path):
    pairs = {"de": [("1.2", "<i>Ja</i>", "Yes", True), ("1.1", "Nein", "Noon", False)]}
    text, read = written(tmp_path / "page.html", pairs=pairs, pivot="English")
    assert "&lt;i&gt;Ja&lt;/i&gt;" in text
    assert read.stack == []
    assert [tag for tag, one in read.tags if one.get("class") == "right"] == ["td"]
    assert "scoreGermanEnglishin gold" in read.text
