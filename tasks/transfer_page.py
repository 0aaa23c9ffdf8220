"""The page of zero-shot cross-lingual transfer: one HTML file that needs nothing beside it, neither network nor script."""

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from .curves import Panel, draw_panel
from .language_names import language_name
from .page_parts import fill_page, name_mean, scale, write_axis, write_cell, write_tile
from .results import Record, explain
from .transfer import MAJORITY, ONLY, WORDS, Estimate, Transfer, make_records

DENSE = 20
"""Languages from which on rows are lower."""
PER_CENT = "&#8239;%"
SOURCE, OTHER = "var(--trained)", "var(--other)"
"""Colours of the language of training and of all others."""


class Axis(NamedTuple):
    """Where values stand on a row of bars."""

    start: float
    end: float
    step: float

    def place(self, value: float) -> float:
        """Per cent of the width, from the left; what lies beyond an end stands there."""
        return 100 * (min(max(value, self.start), self.end) - self.start) / (self.end - self.start)


def find_ends(found: Estimate, axis: Axis) -> tuple[str, str]:
    """How an interval ends to either side: `cap`; `arrow`, where it leaves the picture; `bound`, where it is cut because no
    share lies beyond."""
    low, high = found.ends

    def name(beyond: bool, outside: bool) -> str:
        return "arrow" if outside else "bound" if beyond else "cap"

    return (
        name(low < found.low - 1e-9, found.low < axis.start - 1e-9),
        name(high > found.high + 1e-9, found.high > axis.end + 1e-9),
    )


def make_axis(found: Sequence[Estimate]) -> Axis:
    """An axis that holds 0, all bars and dots, and of intervals, to either side, as much again as these need."""
    firm = [value for one in found for value in (one.value, *one.seeds)]
    most, least = max(*firm, 0.0), min(*firm, 0.0)
    room = most - least
    right = min(max(most, *(one.high for one in found)), most + room)
    left = max(min(least, *(one.low for one in found)), least - room)
    _, step = scale([right - left])
    return Axis(max(math.floor(left / step + 1e-9) * step, -1.0), min(max(math.ceil(right / step - 1e-9), 1) * step, 1.0), step)


def write_page(
    path: str | Path,
    transfers: Sequence[Transfer],
    data: str,
    figure: str,
    panels: Sequence[Panel] = (),
    notes: Sequence[str] = (),
) -> None:
    """Write the page.

    Args:
        path: An HTML file.
        transfers: The same runs by several ways to choose a checkpoint; the first is what is reported.
        data: What was tested on: the task.
        figure: Name of the figure, such as `accuracy`.
        panels: Curves of training.
        notes: What else a reader must know, in sentences.
    """
    first, figure_name = transfers[0], figure.replace("_", " ")
    source, others, count = language_name(first.source), first.others, len(first.languages[first.source].seeds)
    records = [record for transfer in transfers for record in make_records(transfer, data, figure)]
    text = fill_page(
        "transfer.html",
        title=escape(f"Zero-shot transfer: {data}, {figure_name}"),
        eyebrow=escape(f"Zero-shot cross-lingual transfer: {data}, {figure_name}"),
        headline=escape(_headline(source, len(others))),
        claim=escape(_claim(first, source, figure_name, count)),
        tiles="".join(_tiles(first, source, figure_name)),
        bars_note=escape(_bars_note(first, source, figure_name, count)),
        bars=_bars(first, figure_name, count),
        selections_note=escape(_selections_note(transfers, source)),
        selections=_selections(transfers, figure_name, count),
        curves=_curves(panels, source, count),
        meaning=_meaning(records),
        tables="".join(_tables(transfers, records, figure)),
        footer=escape(" ".join(notes)),
    )
    Path(path).write_text(text, encoding="utf-8")


def describe_selection(selection: str, source: str) -> str:
    """A way to choose a checkpoint, as a label."""
    return {
        "source dev": f"best on {source} dev",
        "average": "average of all checkpoints' weights",
        "last": "last checkpoint",
        ONLY: "the only checkpoint",
        "oracle": "oracle: each language's best on its own dev (not zero-shot)",
    }[selection]


def _headline(source: str, others: int) -> str:
    return f"Trained in {source}, tested in {others} other language{'s' * (others != 1)}"


def _claim(first: Transfer, source: str, figure: str, count: int) -> str:
    runs = f"{count} runs that differ by their seed alone" if count > 1 else "one run"
    choice = (
        "there was one checkpoint a run, and nothing to choose."
        if first.selection == ONLY
        else f"the checkpoint is the one that is {describe_selection(first.selection, source)}, which needs no labels in any "
        "other language."
    )
    return (
        f"The model was fine-tuned on data labelled in {source} only. Here it solves the same task in languages in which it "
        f"saw no label. Figures are {figure} on test data, of {runs}; {choice}"
    )


def _tiles(first: Transfer, source: str, figure: str) -> list[str]:
    tiles = [write_tile(first.languages[first.source].value, f"{figure} in {source}")]
    if first.others:
        tiles.insert(0, write_tile(first.mean(first.others).value, f"mean {figure} over the other languages"))
        tiles.append(write_tile(first.gap(first.others).value, f"mean gap to {source}", "points"))
        worst = list(first.languages)[-1]
        tiles.append(write_tile(first.languages[worst].value, f"in {language_name(worst)}, the lowest of all"))
    return tiles


def _bars_note(first: Transfer, source: str, figure: str, count: int) -> str:
    spread = (
        "Bars are means over seeds, dots the seeds themselves, and whiskers 95 % t intervals of the mean"
        + (": wide where seeds are few" if count < 5 else "")
        + ". An arrow says that one goes on outside the picture; one without an end stops where a share must, at 0 or 100 %."
        if count > 1
        else "There is one seed, so that nothing can be said of chance: a second run may order the languages differently."
    )
    gap = f" Beside it, in the same order: how many points of {figure} are lost against {source} in the same run."
    guess = (
        " Dashes show what always giving the label that is most frequent in the language's test data would get."
        if first.background.majority
        else ""
    )
    return spread + guess + (gap if first.others else "")


def _bars(first: Transfer, figure: str, count: int) -> str:
    source = language_name(first.source)
    guessed = first.background.majority
    keys = _key(SOURCE, f"{source}, trained in") + _key(OTHER, "never trained in") + _spread_keys(count)
    keys += '<span class="dash">most frequent label</span>' if guessed else ""
    axis = make_axis([*first.languages.values(), *map(_without_spread, guessed.values())])
    rows = [
        _row(language_name(one), found, axis, "trained" if one == first.source else "", one, guessed.get(one))
        for one, found in first.languages.items()
    ]
    charts = _chart(figure.capitalize(), keys, rows, axis)
    if first.others:
        gaps = {one: first.gap([one]) for one in first.others}
        axis = make_axis(list(gaps.values()))
        rows = [_row(language_name(one), found, axis, "", one) for one, found in gaps.items()]
        empty = f'<div class="bar trained"><span>{escape(source)}</span><div class="track empty"></div><b></b></div>'
        keys = _key("var(--ablation)", f"{source} minus the language") + _spread_keys(count)
        charts += _chart(f"Gap to {source}, in points", keys, [empty, *rows], axis, "gaps", "")
    return charts


def _without_spread(value: float) -> Estimate:
    return Estimate(value, value, value, ())


def _key(color: str, text: str) -> str:
    return f'<span style="--key:{color}">{escape(text)}</span>'


def _spread_keys(count: int) -> str:
    return '<span class="seed">a seed</span><span class="reach">95 % interval</span>' if count > 1 else ""


def _chart(title: str, keys: str, rows: Sequence[str], axis: Axis, kind: str = "", unit: str = PER_CENT) -> str:
    dense = " dense" if len(rows) > DENSE else ""
    return (
        f'<figure class="card chart {kind}{dense}"><figcaption><h3>{escape(title)}</h3><div class="legend">{keys}</div>'
        f'</figcaption><div class="bars">{"".join(rows)}{write_axis(*axis, unit)}</div></figure>'
    )


def _row(label: str, found: Estimate, axis: Axis, kind: str = "", code: str = "", guessed: float | None = None) -> str:
    left, right = sorted((axis.place(0.0), axis.place(found.value)))
    minus = " left" if found.value < 0 else ""
    line = f'<div class="zero" style="left:{axis.place(0.0):.2f}%"></div>' if axis.start < 0 else ""
    guess = "" if guessed is None else f'<div class="guess" style="left:{axis.place(guessed):.2f}%"></div>'
    dots = "".join(
        f'<i class="dot" style="left:{axis.place(seed):.2f}%" title="{100 * seed:.1f}"></i>'
        for seed in (found.seeds if len(found.seeds) > 1 else ())
    )
    return (
        f'<div class="bar {kind}"><span title="{escape(code)}">{escape(label)}</span>'
        f'<div class="track" style="--step:{100 * axis.step / (axis.end - axis.start):.4f}%">'
        f'<div class="fill{minus}" style="left:{left:.2f}%;width:{right - left:.2f}%"></div>{line}{guess}'
        f"{_whisker(found, axis)}{dots}</div>"
        f"<b>{100 * found.value:.1f}</b></div>"
    )


def _whisker(found: Estimate, axis: Axis) -> str:
    if len(found.seeds) < 2:
        return ""
    low, high = axis.place(found.low), axis.place(found.high)
    sides = dict(zip(("left", "right"), find_ends(found, axis), strict=True))
    open_sides = "".join(f" open-{side}" for side, end in sides.items() if end != "cap")
    arrows = "".join(f'<i class="arrow {side}"></i>' for side, end in sides.items() if end == "arrow")
    return f'<div class="whisker{open_sides}" style="left:{low:.2f}%;width:{high - low:.2f}%">{arrows}</div>'


def _selections_note(transfers: Sequence[Transfer], source: str) -> str:
    if transfers[0].selection == ONLY:
        return "Each run kept one checkpoint, so there was nothing to choose from, and nothing to average."
    text = (
        f"Fine-tuning keeps several checkpoints, and what is best in {source} need not be best elsewhere. Averaging the "
        "weights of all of them asks for no choice at all."
    )
    if any(transfer.selection == "oracle" for transfer in transfers):
        return text + (
            " The oracle takes for each language the checkpoint that is best on dev data in that language: it needs labels "
            "there, so it is no zero-shot transfer, and shows what the choice costs."
        )
    return text + " There is no dev data in some of the languages, so no oracle to compare with."


def _selections(transfers: Sequence[Transfer], figure: str, count: int) -> str:
    source = language_name(transfers[0].source)
    found = {one.selection: one.mean(one.others or one.languages) for one in transfers}
    first = transfers[0]
    shares = [share for one in first.others or first.languages if (share := first.background.majority.get(one)) is not None]
    guessed = sum(shares) / len(shares) if shares else None
    axis = make_axis([*found.values(), *([] if guessed is None else [_without_spread(guessed)])])
    rows = [
        _row(describe_selection(name, source), mean, axis, "oracle" if name == "oracle" else "", "", guessed)
        for name, mean in found.items()
    ]
    keys = _key(OTHER, "zero-shot") + (_key("var(--ablation)", "oracle") if "oracle" in found else "") + _spread_keys(count)
    keys += '<span class="dash">most frequent label</span>' if shares else ""
    of = "the other languages" if transfers[0].others else source
    chart = _chart(f"{figure.capitalize()}, mean over {of}", keys, rows, axis, "wide")
    head = ["checkpoint", *(f"mean over {of}" for _ in transfers[0].others[:1]), "mean over all", source]
    head += [f"gap to {source}"] if transfers[0].others else []
    lines = "".join(_selection_row(one, source) for one in transfers)
    table = f"<table><thead><tr>{_heads([*head, 'checkpoint of each run'])}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="charts">{chart}</div><div class="scroll">{table}</div>'


def _selection_row(transfer: Transfer, source: str) -> str:
    others = transfer.others
    found = [transfer.mean(others)] if others else []
    found += [transfer.mean(transfer.languages), transfer.languages[transfer.source]]
    found += [transfer.gap(others)] if others else []
    several = len(transfer.languages[transfer.source].seeds) > 1
    cells = "".join(write_cell(Record("", "", "", "share", *one[:3], 1), several) for one in found)
    names = "" if transfer.selection == "average" else "; ".join(_names(chosen) for chosen in transfer.chosen)
    label = escape(describe_selection(transfer.selection, source))
    return f'<tr><th scope="row">{label}</th>{cells}<td class="names">{escape(names)}</td></tr>'


def _names(chosen: Mapping[str, str]) -> str:
    """The checkpoint of one run; how many where languages differ."""
    different = sorted(set(chosen.values()))
    return different[0] if len(different) == 1 else f"{len(different)} by language"


def _heads(names: Sequence[str]) -> str:
    return "".join(f'<th scope="col">{escape(name)}</th>' for name in names)


def _curves(panels: Sequence[Panel], source: str, count: int) -> str:
    drawn = "".join(draw_panel(panel, {SOURCE: f"in {source}", OTHER: "mean of the others"}) for panel in panels)
    if not drawn:
        return ""
    note = f"From the logs of training, by optimiser step{'; a line a seed' if count > 1 else ''}."
    return f'<section><h2>How did training go?</h2><p class="soft">{note}</p><div class="charts">{drawn}</div></section>'


def _meaning(records: Sequence[Record]) -> str:
    shown = [record for record in records if record.metric != "sample size"]
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", escape(explain(shown)))


def _tables(transfers: Sequence[Transfer], records: Sequence[Record], figure: str) -> list[str]:
    """Languages by ways to choose, first their figures, then their gaps."""
    first, source = transfers[0], language_name(transfers[0].source)
    by_table: dict[tuple[str, str], dict[tuple[str, str], Record]] = {}
    for record in records:
        by_table.setdefault(record[:2], {})[record[2:4]] = record
    names = [describe_selection(one.selection, source) for one in transfers]
    tables: list[str] = []
    for title, metric in ((figure.replace("_", " ").capitalize(), figure), (f"Gap to {source}", f"gap to {first.source}")):
        rows = ""
        for kind, languages in (("", list(first.languages)), ("mean ", ["all", f"all but {first.source}"])):
            for language in languages:
                found = [table.get((language, kind + metric)) for table in by_table.values()]
                if any(found):
                    own = next(iter(by_table.values()))
                    aside = [
                        own.get((language, kind + one))
                        for one in (WORDS, MAJORITY)
                        if not tables and getattr(first.background, one)
                    ]
                    rows += _table_row(language, kind, aside, found, first)
        if rows:
            shown = [found for found in (WORDS, MAJORITY) if not tables and getattr(first.background, found)]
            head = _heads(["language", first.background.unit, *shown, *names])
            table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            opened = " open" if not tables else ""
            tables.append(f'<details{opened}><summary>{escape(title)}</summary><div class="scroll">{table}</div></details>')
    return tables


def _table_row(
    language: str, kind: str, aside: Sequence[Record | None], found: Sequence[Record | None], first: Transfer
) -> str:
    label = name_mean(language) if kind else language_name(language)
    style = "summary" if kind else "trained" if language == first.source else ""
    n = next(record.n for record in found if record)
    several = len(first.languages[first.source].seeds) > 1
    cells = "".join(write_cell(record) for record in aside) + "".join(write_cell(record, several) for record in found)
    return f'<tr class="{style}"><th scope="row">{escape(label)}</th><td>{n:,}</td>{cells}</tr>'
