"""What all pages of results are made of: one style, axes of bars, names of means, figures in tables."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from .language_names import language_name
from .results import Record, show

HERE = Path(__file__).parent


def fill_page(template: str, **parts: str) -> str:
    """A page: a template of this folder, in the style of all pages.

    Args:
        template: Name of the HTML file.
        parts: What stands at its `$NAME`, escaped.
    """
    style = (HERE / "style.html").read_text(encoding="utf-8")
    return Template((HERE / template).read_text(encoding="utf-8")).substitute(parts, style=style)


def scale(values: Sequence[float]) -> tuple[float, float]:
    """End of an axis from 0 that holds all values, and the distance of its marks."""
    most = max((*values, 0.01))
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2) if most / step <= 6 + 1e-9 or step == 0.2)
    return min(1.0, step * math.ceil(most / step - 1e-9)), step


def write_axis(start: float, end: float, step: float, unit: str = "&#8239;%") -> str:
    """The marks below bars, in hundredths, as the last row of them.

    Args:
        start: Left end, a multiple of `step`.
        end: Right end.
        step: Distance of marks.
        unit: What stands behind the numbers.
    """
    first, last = round(start / step), int(end / step + 1e-9)
    marks = "".join(
        f'<i style="left:{100 * (mark * step - start) / (end - start):.2f}%">{100 * mark * step:.0f}{unit}</i>'
        for mark in range(first, last + 1)
    )
    return f'<div class="bar" aria-hidden="true"><span></span><div class="axis">{marks}</div></div>'


def name_mean(languages: str) -> str:
    """A mean's languages (`all`, `all but en`), in words."""
    rest = languages.removeprefix("all but ")
    return "mean of all" if rest == languages else f"mean of all but {' and '.join(map(language_name, rest.split(', ')))}"


def write_cell(record: Record | None, several: bool = False) -> str:
    """A figure and its interval in a table; empty where there is none.

    Args:
        record: The figure.
        several: It is a mean over several runs (see `show`).
    """
    if record is None:
        return "<td></td>"
    value, _, rest = show(record, several).partition(" ")
    return f"<td>{value}{f'<small>{rest}</small>' if rest else ''}</td>"


def write_tile(share: float, text: str, unit: str = "%") -> str:
    """A figure that stands above a page, in hundredths."""
    return f'<div class="tile"><b>{100 * share:.1f} {unit}</b><span>{escape(text)}</span></div>'
