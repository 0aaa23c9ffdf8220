"""Precision, recall and F1 of sentence mining at every threshold, and the threshold that was taken."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64

from .language_names import language_name
from .mining_scores import Candidates

COLUMNS = 3
SHOWN = 2000
"""Points of a curve at most: more are not seen."""
CURVES = {"precision": "#d98324", "recall": "#0b7a75", "F1": "#16202c"}
SOFT = "#566374"


def write_chart(
    path: str | Path,
    mined: Mapping[str, tuple[Candidates, Bool[np.ndarray, "C"], int]],
    thresholds: Mapping[str, float],
    title: str,
    margin: int | None,
) -> None:
    """Draw a panel a language: what a threshold anywhere would have given, and the one that was tuned elsewhere.

    Args:
        path: A PNG (or any format matplotlib knows by its ending).
        mined: By language, candidates, which of them are translations, and how many translations there are.
        thresholds: By language.
        title: What was mined.
        margin: Neighbours of the ratio margin; None: scores are cosines.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(mined))
    rows = -(-len(mined) // columns)
    figure = Figure(figsize=(1 + 3.4 * max(2, columns), 1.4 + 2.5 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(mined) :]:
        axes.set_visible(False)
    for axes, (code, one) in zip(panels, mined.items(), strict=False):
        scores, shares = trace(*one)
        for (name, color), values in zip(CURVES.items(), shares, strict=True):
            axes.plot(scores, 100 * values, color=color, linewidth=1.4, drawstyle="steps-post", label=name)
        taken = int((one[0].score >= thresholds[code]).sum())
        axes.axvline(thresholds[code], color=SOFT, linestyle="--", label="threshold that was taken")
        axes.set_title(f"{language_name(code)}: {thresholds[code]:.5f}, {taken:,} pairs", fontsize=9, color=CURVES["F1"])
        axes.set_ylim(0, 102)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.ticklabel_format(axis="x", useOffset=False)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(color="#dde3ea")
        axes.set_axisbelow(True)
    for axes in panels[::columns]:
        axes.set_ylabel("per cent", fontsize=8)
    figure.suptitle(f"Sentence mining, {title}", x=0.01, ha="left", fontweight="bold", color=CURVES["F1"])
    handles, labels = panels[0].get_legend_handles_labels()
    told = f"by threshold of the {'cosine' if margin is None else 'ratio margin'}"
    options = {"frameon": False, "fontsize": 9, "title": told, "title_fontsize": 8}
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), **options)
    figure.savefig(path, dpi=130)


def trace(
    candidates: Candidates, right: Bool[np.ndarray, "C"], gold: int
) -> tuple[Float64[np.ndarray, "T"], Float64[np.ndarray, "3 T"]]:
    """Every threshold that takes other pairs than the next, falling, and precision, recall and F1 of each.

    Args:
        candidates: At least one.
        right: Which of them are translations.
        gold: How many translations there are.
    """
    score = candidates.score
    last = np.flatnonzero(np.append(score[:-1] != score[1:], True))  # pairs of one score are taken together
    if len(last) > SHOWN:
        last = last[np.linspace(0, len(last) - 1, SHOWN).astype(int)]
    found, true = last + 1, np.cumsum(right)[last]
    return score[last], np.stack([true / found, true / gold, 2 * true / (found + gold)])
