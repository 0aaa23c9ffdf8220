"""The page of a retrieval evaluation: one HTML file that needs nothing beside it, neither network nor script."""

import base64
import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .language_names import language_name
from .page_parts import fill_page, name_mean, scale, write_axis, write_cell, write_tile
from .results import Record, explain, mean_chance
from .retrieval_examples import Answer, Example

TASKS = {"text_to_image_retrieval": "From a text to its picture", "image_to_text_retrieval": "From a picture to its text"}
METRICS = ("recall@1", "recall@5", "recall@10", "median rank")
HEADLINE = "recall@10"


class Series(NamedTuple):
    """One language's bar."""

    language: str
    record: Record
    before: Record | None
    """The same figure of the run that this one is compared with."""


def write_page(
    path: str | Path,
    records: Sequence[Record],
    data: str,
    pictured: Sequence[str],
    examples: Sequence[Example] = (),
    thumbnails: Sequence[np.ndarray] = (),
    ablation: Sequence[Record] = (),
    ablation_name: str = "without",
) -> None:
    """Write the page.

    Args:
        path: An HTML file.
        records: All records of the evaluation.
        data: The data set that is shown; tables of the others follow.
        pictured: Languages trained with pictures: marked, and told apart from the others.
        examples: Searches to show; their pictures are indices of `thumbnails`.
        thumbnails: Pictures as uint8 [3, H, W].
        ablation: Records of another run, shown as a second bar.
        ablation_name: What that run is.
    """
    languages = sorted({record.language for record in records if record.metric == HEADLINE and record.data == data})
    others = [language for language in languages if language not in pictured]
    trained = " and ".join(map(language_name, pictured)) or "no language"
    text = fill_page(
        "page.html",
        title=escape(f"Zero-shot retrieval: {data}"),
        data=escape(data),
        headline=escape(f"Finding pictures in {len(others)} languages that never saw one"),
        claim=escape(_claim(records, data, trained, len(others))),
        tiles="".join(_tiles(records, data, pictured, ablation, ablation_name)),
        charts="".join(
            _chart(task, gather_series(records, task, data, pictured, ablation), records, data, pictured, ablation_name)
            for task in TASKS
        ),
        chosen=escape(
            f"{len(examples)} of the searched pictures, chosen by a hash and not by eye, so hits and misses are shown as they "
            "fell. Each row is one search: a text, and the five pictures the encoder puts first. The right one is framed; "
            "the rank says where it stands."
        ),
        examples="".join(_example(example, thumbnails, pictured) for example in examples),
        meaning=_meaning(records),
        tables="".join(_tables(records, data, pictured)),
    )
    Path(path).write_text(text, encoding="utf-8")


def gather_series(
    records: Sequence[Record], task: str, data: str, pictured: Sequence[str], ablation: Sequence[Record] = ()
) -> list[Series]:
    """Bars of one task: the languages trained with pictures first, then the others from best to worst."""
    before = {record.key: record for record in ablation}
    found = [record for record in records if (record.task, record.data, record.metric) == (task, data, HEADLINE)]
    found.sort(key=lambda record: (record.language not in pictured, -record.value, record.language))
    return [Series(record.language, record, before.get(record.key)) for record in found]


def find(records: Sequence[Record], task: str, data: str, metric: str, language: str | None = None) -> Record | None:
    """The first record of a kind."""
    fits = (r for r in records if r[:2] == (task, data) and r.metric == metric and language in (None, r.language))
    return next(fits, None)


def find_chance(records: Sequence[Record], task: str, data: str) -> Record | None:
    """What guessing gets, over all languages."""
    found = mean_chance([record for record in records if record[:2] == (task, data) and record.metric == f"chance {HEADLINE}"])
    return found[0] if found else None


def _claim(records: Sequence[Record], data: str, trained: str, others: int) -> str:
    size = find(records, "text_to_image_retrieval", data, "gallery size")
    pictures = f"{size.value:,.0f} pictures" if size else "the pictures"
    return (
        f"The encoder was trained on pictures with texts in {trained} only. Here texts in {others} other languages, none of "
        f"which it ever saw beside a picture, look for the one picture they name among {pictures}. "
        "Recall@10 says how many find it among their first ten."
    )


def _meaning(records: Sequence[Record]) -> str:
    text = explain(record for record in records if record.metric.split(" ", 1)[-1] in METRICS)
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", escape(text))


def _tiles(
    records: Sequence[Record], data: str, pictured: Sequence[str], ablation: Sequence[Record], ablation_name: str
) -> list[str]:
    task, mean = "text_to_image_retrieval", f"mean {HEADLINE}"
    name = f"all but {', '.join(pictured)}" if pictured else "all"
    found = find(records, task, data, mean, name)
    before = find(ablation, task, data, mean, name)
    tiles = [(found, "recall@10, mean over the languages without pictures")]
    tiles += [(find(records, task, data, HEADLINE, one), f"recall@10 in {language_name(one)}") for one in pictured[:1]]
    tiles += [(before, f"the same mean {ablation_name}")]
    tiles += [(find_chance(records, task, data), "by chance")]
    return [write_tile(record.value, text) for record, text in tiles if record]


def _chart(
    task: str, bars: Sequence[Series], records: Sequence[Record], data: str, pictured: Sequence[str], ablation_name: str
) -> str:
    if not bars:
        return ""
    chance = find_chance(records, task, data)
    end, step = scale([bar.record.high for bar in bars])
    paired = any(bar.before for bar in bars)
    legend = [("--other", "never seen with a picture"), ("--trained", "trained with pictures")][: 1 + bool(pictured)]
    keys = "".join(f'<span style="--key:var({color})">{text}</span>' for color, text in legend)
    keys += f'<span style="--key:var(--ablation)">{escape(ablation_name)}</span>' if paired else ""
    keys += f'<span class="dash">chance, {100 * chance.value:.1f} %</span>' if chance else ""
    rows = "".join(write_bar(bar, end, step, chance, bar.language in pictured, paired) for bar in bars)
    return (
        f'<figure class="card chart"><figcaption><h3>{TASKS[task]}</h3><div class="legend">{keys}</div></figcaption>'
        f'<div class="bars">{rows}{write_axis(0.0, end, step)}</div></figure>'
    )


def write_bar(bar: Series, end: float, step: float, chance: Record | None, trained: bool, paired: bool) -> str:
    """One language's row of a chart.

    Args:
        bar: Its figure, and the one it is compared with.
        end: Of the axis.
        step: Distance of its marks.
        chance: What guessing gets, a line; None: no line.
        trained: In the colour of what was trained.
        paired: Some row has two bars.
    """

    def width(value: float) -> str:
        return f"{100 * min(1, max(0.0, value) / end):.2f}%"

    record = bar.record
    kinds = " ".join(["bar", *(["trained"] if trained else []), *(["paired"] if paired else [])])
    before = f'<div class="before" style="width:{width(bar.before.value)}"></div>' if bar.before else ""
    line = f'<div class="chance" style="left:{width(chance.value)}"></div>' if chance else ""
    return (
        f'<div class="{kinds}"><span title="{escape(bar.language)}">{escape(language_name(bar.language))}</span>'
        f'<div class="track" style="--step:{100 * step / end:.4f}%">'
        f'<div class="fill" style="width:{width(record.value)}"></div>{before}{line}'
        f'<div class="whisker" style="left:{width(record.low)};width:calc({width(record.high - record.low)})"></div></div>'
        f"<b>{100 * record.value:.1f}</b></div>"
    )


def _example(example: Example, thumbnails: Sequence[np.ndarray], pictured: Sequence[str]) -> str:
    title = example.answers[0]
    found = sum(any(right for _, right in answer.top) for answer in example.answers)
    note = f"among the first five in {found} of {len(example.answers)} languages"
    rows = "".join(_search(answer, thumbnails, answer.language in pictured) for answer in example.answers)
    return (
        '<article class="card example"><header>'
        f'<img src="{encode_png(thumbnails[example.picture])}" alt="the picture looked for">'
        f'<div><h3 dir="auto" lang="{_tag(title.language)}">{escape(title.query)}</h3><p class="note">{note}</p></div>'
        f"</header>{rows}</article>"
    )


def _search(answer: Answer, thumbnails: Sequence[np.ndarray], trained: bool) -> str:
    pictures = "".join(
        f'<img{" class=right" if right else ""} src="{encode_png(thumbnails[picture])}" width="42" height="42" '
        f'alt="{"right" if right else "wrong"} picture">'
        for picture, right in answer.top
    )
    found = " found" if any(right for _, right in answer.top) else ""
    return (
        f'<div class="query{" trained" if trained else ""}">'
        f'<code title="{escape(language_name(answer.language))}">{escape(answer.language)}</code>'
        f'<q dir="auto" lang="{_tag(answer.language)}">{escape(answer.query)}</q><div class="top">{pictures}</div>'
        f'<span class="rank{found}">rank {_rank(answer.rank)}</span></div>'
    )


def _tables(records: Sequence[Record], data: str, pictured: Sequence[str]) -> list[str]:
    order = list(TASKS)
    names = {(record.data, record.task) for record in records if record.task in TASKS}
    ordered = sorted(names, key=lambda name: (name[0] != data, name[0], order.index(name[1])))
    return [
        f"<details{' open' if name == data else ''}><summary>{escape(TASKS[task])}: {escape(name)}</summary>"
        f'<div class="scroll">{_table([r for r in records if r[:2] == (task, name)], pictured)}</div></details>'
        for name, task in ordered
    ]


def _table(records: Sequence[Record], pictured: Sequence[str]) -> str:
    rows = ""
    given = [record for record in records if not record.metric.startswith("chance ")]
    for kind in ("", "mean ", "chance "):
        wanted = {kind + metric for metric in METRICS}
        found = [record for record in (*given, *mean_chance(records)) if record.metric in wanted]
        for language in dict.fromkeys(record.language for record in found):
            row = {record.metric: record for record in found if record.language == language}
            style = "summary" if kind else "trained" if language in pictured else ""
            label = {"": language_name(language), "mean ": name_mean(language), "chance ": "by chance"}[kind]
            n = "" if kind == "chance " else str(next(iter(row.values())).n)
            cells = "".join(write_cell(row.get(kind + metric)) for metric in METRICS)
            rows += f'<tr class="{style}"><th scope="row">{escape(label)}</th><td>{n}</td>{cells}</tr>'
    size = next((record for record in records if record.metric == "gallery size"), None)
    head = "".join(f'<th scope="col">{metric}</th>' for metric in METRICS)
    among = f" of {size.value:,.0f}" if size else ""
    return (
        f'<table><thead><tr><th scope="col">language</th><th scope="col">queries{among}</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _tag(code: str) -> str:
    """A language code as HTML writes it."""
    return escape(code.replace("_", "-"))


def _rank(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def encode_png(picture: np.ndarray) -> str:
    """A picture, uint8 [3, H, W], as a `data:` address."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0))).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
