"""Curves of runs by step: read from their logs, drawn as SVG that needs nothing beside it."""

import csv
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

Points = list[tuple[int, float]]
"""Step and value, ascending by step."""

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 440, 220, 46, 24, 8


class Line(NamedTuple):
    """One run's curve."""

    run: str
    color: str
    """As CSS writes it."""
    points: Points


class Panel(NamedTuple):
    """Curves over one pair of axes."""

    title: str
    lines: Sequence[Line]
    share: bool
    """Whether values are shares, shown in per cent."""


def read_curves(folder: Path) -> dict[str, Points]:
    """What a run logged, by column of its `logs/version_N/metrics.csv`; a resumed run goes on in a version of its own.

    Args:
        folder: Of the run.

    Raises:
        ValueError: A log is damaged; names file and line.
    """
    numbers = {file: file.parent.name.partition("_")[2] for file in folder.glob("logs/version_*/metrics.csv")}
    columns: dict[str, dict[int, float]] = {}
    for file in sorted((file for file, number in numbers.items() if number.isdecimal()), key=lambda file: int(numbers[file])):
        with open(file, encoding="utf-8", newline="") as rows:
            table = csv.DictReader(rows)
            try:
                for row in table:
                    for name, value in row.items():
                        if name not in ("step", "epoch") and value:
                            columns.setdefault(name, {})[int(row["step"])] = float(value)
            except (ValueError, KeyError, TypeError, csv.Error):
                raise ValueError(
                    f"{file}, line {table.line_num}: damaged; expected a step and numbers between commas"
                ) from None
    return {name: sorted(points.items()) for name, points in columns.items()}


def mean_curve(curves: Sequence[Points]) -> Points:
    """Mean of several curves at the steps that all have."""
    columns = [dict(points) for points in curves]
    shared = set(columns[0]).intersection(*columns[1:]) if columns else set()
    return [(step, math.fsum(column[step] for column in columns) / len(columns)) for step in sorted(shared)]


def draw_panel(panel: Panel, names: Mapping[str, str]) -> str:
    """A figure of a page; empty where no line has a point.

    Args:
        panel: What is drawn.
        names: What colours mean.
    """
    lines = [line._replace(points=[point for point in line.points if math.isfinite(point[1])]) for line in panel.lines]
    points = [point for line in lines for point in line.points]
    if not points:
        return ""
    last = max(max(step for step, _ in points), 1)
    low, high, step = _spread([value for _, value in points])
    factor = 100 if panel.share else 1

    def place(point: tuple[int, float]) -> tuple[float, float]:
        right = LEFT + (WIDTH - LEFT - 10) * point[0] / last
        return right, TOP + (HEIGHT - TOP - BOTTOM) * (high - point[1]) / (high - low)

    grid = ""
    for mark in range(round((high - low) / step) + 1):
        value = low + mark * step
        y, text = place((0, value))[1], f"{factor * value:.6g}" + (" %" if panel.share else "")
        grid += f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        grid += f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="left">{text}</text>'
    for mark in _steps(last):
        grid += f'<text x="{place((mark, low))[0]:.1f}" y="{HEIGHT - 6}" class="below">{mark:,}</text>'
    drawn = "".join(_draw(line, [place(point) for point in line.points], factor) for line in lines)
    used = {line.color for line in lines}
    keys = "".join(f'<span style="--key:{color}">{escape(name)}</span>' for color, name in names.items() if color in used)
    return (
        f'<figure class="card chart"><figcaption><h3>{escape(panel.title)}</h3><div class="legend">{keys}</div></figcaption>'
        f'<svg class="curves" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(panel.title)}">{grid}{drawn}</svg>'
        "</figure>"
    )


def _draw(line: Line, places: Sequence[tuple[float, float]], factor: int) -> str:
    if not places:
        return ""
    last = line.points[-1]
    title = f"<title>{escape(line.run)}: {factor * last[1]:.4g} at step {last[0]:,}</title>"
    if len(places) == 1:
        return f'<circle cx="{places[0][0]:.1f}" cy="{places[0][1]:.1f}" r="3" fill="{line.color}">{title}</circle>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{path}" stroke="{line.color}">{title}</polyline>'


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Ends of an axis that holds all values, and the distance of its marks: 1, 2 or 5 times a power of ten."""
    low, high = min(values), max(values)
    wide = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(wide / 5))
    step = next(power * times for times in (1, 2, 5, 10) if wide / (power * times) <= 5 + 1e-9)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return first * step, max(last, first + 1) * step, step


def _steps(last: int) -> list[int]:
    """Marks of the axis of steps: 0, about four whole numbers, none beyond the last."""
    power = 10 ** max(0, math.floor(math.log10(last / 4)))
    distance = next(power * times for times in (1, 2, 5, 10) if last / (power * times) <= 5)
    return list(range(0, last + 1, distance))
