"""The page: whole in itself, honest about what it shows, safe with any text."""

import numpy as np
import pytest
import torch
from page_reader import Reader

from interlingua.tasks.page_parts import scale
from interlingua.tasks.results import Record
from interlingua.tasks.retrieval_chart import write_chart
from interlingua.tasks.retrieval_examples import choose_examples
from interlingua.tasks.retrieval_page import gather_series, write_page
from interlingua.tasks.retrieval_scores import Line, Picture, arrange, measure, measure_unlike

QUERIES = {"en": "<b>cat</b> & dog", "ar": "قطة", "zh": "猫", "xx_YY": 'quote " here'}


@pytest.fixture(scope="module")
def collection():
    generator = torch.Generator().manual_seed(0)
    pictures, lines = {}, {}
    for item in range(30):
        vector = torch.randn(8, generator=generator).numpy()
        pictures["small", item] = Picture(item, vector, np.full((3, 6, 6), item * 8, dtype=np.uint8))
        for number, language in enumerate(QUERIES):
            lines["small", item, language, item * 10 + number] = Line(item, item * 10 + number, vector.copy(), (number,))
    return arrange(pictures, lines, ["small"])


def decode(tokens) -> str:
    return list(QUERIES.values())[tokens[0]]


@pytest.fixture
def page(collection, tmp_path) -> str:
    records = measure(collection, "small", ["en"]) + measure_unlike(collection, "small", ["en"])
    examples = choose_examples(collection, decode, ["en"], items=3)
    ablation = [record._replace(value=0.1, low=0.1, high=0.1) for record in records]
    path = tmp_path / "page.html"
    write_page(path, records, "small", ["en"], examples, collection.thumbnails, ablation, "without <it>")
    return path.read_text(encoding="utf-8")


def test_needs_nothing_beside_it(page):
    read = Reader(page)
    assert read.stack == []
    assert "http" not in page
    assert "<script" not in page
    assert "url(" not in page
    assert all(attributes["src"].startswith("data:image/png;base64,") for tag, attributes in read.tags if tag == "img")
    assert not any(tag in ("link", "script", "iframe") for tag, _ in read.tags)


def test_shows_texts_as_they_are(page):
    """Any text is text, in its own direction and language."""
    read = Reader(page)
    assert QUERIES["en"] in read.words
    assert QUERIES["xx_YY"] in read.words
    assert "<b>cat" not in page
    assert "without <it>" in "".join(read.words)
    queries = [attributes for tag, attributes in read.tags if tag == "q"]
    assert {(query["dir"], query["lang"]) for query in queries} == {("auto", name) for name in ("en", "ar", "zh", "xx-YY")}


def test_says_what_its_figures_mean(page):
    """In words of its own tables alone: it shows no column of gallery sizes."""
    read = Reader(page)
    text = "".join(read.words)
    assert "recall@k: queries that find a right answer among their first k." in text
    assert "all but: without the languages trained with pictures" in text
    assert "texts unlike: only texts spelt differently" in text
    assert "gallery size" not in text


def test_right_pictures_are_framed(page):
    """A perfect model: one right picture a search, and all the others wrong."""
    pictures = [attributes for tag, attributes in Reader(page).tags if tag == "img" and "width" in attributes]
    assert len(pictures) == 3 * len(QUERIES) * 5
    framed = [attributes for attributes in pictures if attributes.get("class") == "right"]
    assert len(framed) == 3 * len(QUERIES)
    assert {attributes["alt"] for attributes in framed} == {"right picture"}


def test_examples_do_not_depend_on_the_model(collection):
    """Chosen by a hash of the items, so a better or worse model is shown by the same ones."""
    worse = collection._replace(vectors=torch.nn.functional.normalize(torch.randn_like(collection.vectors), dim=1))
    chosen, again = (choose_examples(one, decode, ["en"], items=5) for one in (collection, worse))
    assert [example.picture for example in chosen] == [example.picture for example in again]
    assert [answer.language for answer in chosen[0].answers] == ["en", "ar", "xx_YY", "zh"]
    assert {answer.rank for example in chosen for answer in example.answers} == {1.0}
    assert max(answer.rank for example in again for answer in example.answers) > 5
    few = choose_examples(collection, decode, ["en"], items=40, languages=2)
    assert len(few) == 30
    assert few[0].answers[0].language == "en"


def test_bars_stand_trained_first_then_by_value():
    def record(language: str, value: float) -> Record:
        return Record("text_to_image_retrieval", "small", language, "recall@10", value, value, value, 9)

    records = [record("de", 0.1), record("en", 0.2), record("fr", 0.3)]
    bars = gather_series(records, "text_to_image_retrieval", "small", ["en"], [record("fr", 0.05)])
    assert [bar.language for bar in bars] == ["en", "fr", "de"]
    assert [bar.before and bar.before.value for bar in bars] == [None, 0.05, None]


@pytest.mark.parametrize(
    ("most", "end", "step"), [(0.0, 0.01, 0.01), (0.06, 0.06, 0.01), (0.26, 0.3, 0.05), (0.762, 0.8, 0.2), (1.0, 1.0, 0.2)]
)
def test_axis_holds_all_bars(most, end, step):
    assert scale([0.0, most]) == pytest.approx((end, step))


def test_works_without_pictured_languages_and_examples(collection, tmp_path):
    records = measure(collection, "small", [])
    write_page(tmp_path / "page.html", records, "small", [])
    Reader((tmp_path / "page.html").read_text(encoding="utf-8"))
    write_chart(tmp_path / "chart.png", records, "small", [])
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
