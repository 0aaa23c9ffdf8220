"""Curves of runs of fine-tuning, of their objectives and of one figure, as panels of a page."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .tasks.curves import Line, Panel, Points, mean_curve, read_curves
from .tasks.transfer_page import OTHER, SOURCE

FEWEST_LOSSES, FEWEST_FIGURES = 5, 3
"""Points that a run must have logged for curves to be shown: a line through two tells nothing of the way."""


def gather_panels(
    folders: Sequence[Path], scored: Sequence[dict[str, Any]], figure: str, language: str, notes: list[str]
) -> list[Panel]:
    """Training loss of each objective, and the figure on dev in the language of training and, as a mean, in the others; none
    where no run has logged enough.

    Args:
        folders: Of the runs, with their logs.
        scored: What is known of them (`run_scores.score_run`).
        figure: `OBJECTIVE/FIGURE`.
        language: Language of training.
        notes: Where it is said, in a sentence, of which run no curves can be shown, and why.
    """
    logs = {}
    for folder in folders:
        try:
            logs[str(folder)] = read_curves(folder)
        except (ValueError, OSError) as error:
            notes.append(f"No curves of {folder}: {error}.")
    panels = [
        Panel(
            f"Training loss, {objective}",
            [Line(run, SOURCE, columns.get(f"train/{objective}", [])) for run, columns in logs.items()],
            False,
        )
        for objective in scored[0]["objectives"]
    ]
    lines = []
    for run, columns in logs.items():
        curves = find_languages(columns, scored[0]["data"], figure)
        lines.append(Line(run, SOURCE, curves.pop(language, [])))
        lines.append(Line(run, OTHER, mean_curve(list(curves.values()))))
    name = figure.partition("/")[2].replace("_", " ")
    shown = Panel(f"{name.capitalize()} on dev while training", lines, True)
    panels = [panel for panel in panels if _most(panel) >= FEWEST_LOSSES]
    return [*panels, shown] if _most(shown) >= FEWEST_FIGURES else panels


def _most(panel: Panel) -> int:
    return max((len(line.points) for line in panel.lines), default=0)


def find_languages(columns: dict[str, Points], data: str, figure: str) -> dict[str, Points]:
    """Curves of a figure in validation, by language: `validation/DATA/LANGUAGE/FIGURE`, or `.../OBJECTIVE/FIGURE`."""
    objective, _, name = figure.partition("/")
    pattern = re.compile(rf"validation/{re.escape(data)}/([^/]+)/(?:{re.escape(objective)}/)?{re.escape(name)}")
    return {found[1]: points for column, points in columns.items() if (found := pattern.fullmatch(column))}
