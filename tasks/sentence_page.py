"""The page of a comparison of sentences, by retrieval or mining: one HTML file that needs nothing beside it."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from .language_names import language_name
from .page_parts import fill_page, name_mean, scale, write_axis, write_cell, write_tile
from .results import Record, explain, is_number, mean_chance
from .retrieval_page import Series, write_bar

Pair = tuple[str, str, str, bool]
"""Score and both texts of a mined pair, and whether it is in the gold pairs."""


_RIGHT = '<td class="right">yes</td>'


class Story(NamedTuple):
    """What a page says in words."""

    eyebrow: str
    headline: str
    claim: str
    note: str


class Chart(NamedTuple):
    """Bars of one figure."""

    title: str
    metric: str
    records: Sequence[Record]
    """Of one task and data."""
    untrained: Sequence[Record] = ()
    """The same of random weights."""


def write_page(
    path: str | Path,
    story: Story,
    charts: Sequence[Chart],
    pairs: Mapping[str, Sequence[Pair]] | None = None,
    pivot: str = "",
) -> None:
    """Write the page.

    Args:
        path: An HTML file.
        story: Its words.
        charts: At least one; the tables are of their records.
        pairs: Mined ones to show, by language.
        pivot: Name of the language of their other side.
    """
    every = [record for chart in charts for record in (*chart.records, *chart.untrained)]
    tables = {record[:2]: [other for other in every if other[:2] == record[:2]] for record in every}
    text = fill_page(
        "sentence_page.html",
        title=escape(story.eyebrow),
        eyebrow=escape(story.eyebrow),
        headline=escape(story.headline),
        claim=escape(story.claim),
        tiles="".join(tile for chart in charts for tile in _tiles(chart)),
        note=escape(story.note),
        charts="".join(map(_chart, charts)),
        examples=_pairs(pairs or {}, pivot),
        meaning=re.sub(r"\*(.+?)\*", r"<em>\1</em>", escape(explain(every))),
        tables="".join(_table(table, number == 0) for number, table in enumerate(tables.values())),
    )
    Path(path).write_text(text, encoding="utf-8")


def _mean(records: Sequence[Record], metric: str) -> Record | None:
    return next((record for record in records if record.metric == f"mean {metric}"), None)


def _chance(records: Sequence[Record], metric: str) -> Record | None:
    """What guessing gets by any metric of the kind: it knows no margin."""
    return next((one for one in mean_chance(records) if metric.endswith(one.metric.removeprefix("chance "))), None)


def _tiles(chart: Chart) -> list[str]:
    mean, bare = _mean(chart.records, chart.metric), _mean(chart.untrained, chart.metric)
    words = f"{', '.join(dict.fromkeys((chart.metric, chart.title)))}, mean over languages"
    beside = f"; untrained {100 * bare.value:.1f} %" if bare else ""
    return [] if mean is None else [write_tile(mean.value, words + beside)]


def _chart(chart: Chart) -> str:
    before = {record.language: record for record in chart.untrained if record.metric == chart.metric}
    own = [record for record in chart.records if record.metric == chart.metric]
    bars = [Series(one.language, one, before.get(one.language)) for one in sorted(own, key=lambda one: -one.value)]
    chance = _chance(chart.records, chart.metric)
    end, step = scale([record.high for record in (*own, *before.values())])
    keys = f'<span style="--key:var(--other)">{escape(chart.metric)}</span>'
    keys += '<span style="--key:var(--ablation)">untrained</span>' if before else ""
    keys += f'<span class="dash">chance, {100 * chance.value:.1f} %</span>' if chance else ""
    rows = "".join(write_bar(bar, end, step, chance, False, bool(before)) for bar in bars)
    title = escape(chart.title[:1].upper() + chart.title[1:])
    return (
        f'<figure class="card chart"><figcaption><h3>{title}</h3><div class="legend">{keys}</div></figcaption>'
        f'<div class="bars">{rows}{write_axis(0.0, end, step)}</div></figure>'
    )


def _pairs(pairs: Mapping[str, Sequence[Pair]], pivot: str) -> str:
    """Pairs of each language in a table, the highest score first."""
    parts = []
    for number, (code, own) in enumerate(pairs.items()):
        rows = "".join(
            f'<tr><th scope="row">{score}</th><td class="text" dir="auto" lang="{escape(code)}">{escape(text)}</td>'
            f'<td class="text" dir="auto">{escape(other)}</td>{_RIGHT if gold else "<td>no</td>"}</tr>'
            for score, text, other, gold in own
        )
        texts = "".join(f'<th scope="col" class="text">{escape(name)}</th>' for name in (language_name(code), pivot))
        heads = f'<th scope="col">score</th>{texts}<th scope="col">in gold</th>'
        parts.append(
            f"<details{' open' if number == 0 else ''}><summary>{escape(language_name(code))}</summary>"
            f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>'
        )
    told = '<section><h2>What it finds</h2><p class="soft">The pairs with the highest scores; all are in the tables beside.</p>'
    return f"{told}{''.join(parts)}</section>" if parts else ""


def _table(records: Sequence[Record], opened: bool) -> str:
    """Languages by metrics, then their means, then chance."""
    metrics = list(dict.fromkeys(r.metric for r in records if r.metric.split(" ")[0] not in ("mean", "chance")))
    rows = ""
    for kind, given in (("", records), ("mean ", records), ("chance ", mean_chance(records))):
        wanted = {kind + metric for metric in metrics}
        found = [record for record in given if record.metric in wanted]
        for language in dict.fromkeys(record.language for record in found):
            row = {record.metric: record for record in found if record.language == language}
            label = {"": language_name(language), "mean ": name_mean(language), "chance ": "by chance"}[kind]
            n = "" if kind == "chance " else f"{next(iter(row.values())).n:,}"
            cells = "".join(write_cell(row.get(kind + metric)) for metric in metrics)
            style = ' class="summary"' if kind else ""
            rows += f'<tr{style}><th scope="row">{escape(label)}</th><td>{n}</td>{cells}</tr>'
    heads = "".join(f'<th scope="col">{escape(metric)}{"" if is_number(metric) else ", %"}</th>' for metric in metrics)
    title = escape(f"{records[0].task.replace('_', ' ').capitalize()}: {records[0].data}")
    return (
        f'<details{" open" if opened else ""}><summary>{title}</summary><div class="scroll"><table><thead><tr>'
        f'<th scope="col">language</th><th scope="col">n</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>'
    )
