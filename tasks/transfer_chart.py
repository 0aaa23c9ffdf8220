"""The bars of zero-shot transfer as a picture, for a README or a slide."""

from pathlib import Path

from .language_names import language_name
from .transfer import Estimate, Transfer
from .transfer_page import Axis, describe_selection, find_ends, make_axis

LONGEST = 30
"""Languages of a column."""
OTHER, TRAINED, INK, SOFT = "#0b7a75", "#d98324", "#16202c", "#566374"


def write_chart(path: str | Path, transfer: Transfer, data: str, figure: str) -> None:
    """Draw a bar a language with its interval and a dot a seed, the language of training first, then the best.

    Args:
        path: A PNG (or any format matplotlib knows by its ending).
        transfer: What was measured by one way to choose a checkpoint.
        data: What was tested on: the task.
        figure: Name of the figure, such as `accuracy`.
    """
    from matplotlib.artist import Artist
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    source, several = language_name(transfer.source), len(transfer.languages[transfer.source].seeds) > 1
    codes = list(transfer.languages)
    columns = -(-len(codes) // LONGEST)
    height = -(-len(codes) // columns)
    drawing = Figure(figsize=(2 + 5.5 * columns, 2.1 + 0.3 * height), layout="constrained")
    FigureCanvasAgg(drawing)
    keys: list[Artist] = [Patch(color=TRAINED, label=f"{source}, trained in"), Patch(color=OTHER, label="never trained in")]
    if several:
        keys.append(Line2D([], [], marker="o", color="none", markerfacecolor="white", markeredgecolor=INK, label="a seed"))
    if transfer.others:
        mean = transfer.mean(transfer.others)
        line = Line2D([], [], color=SOFT, linestyle="--", label=f"mean of all but {source}, {100 * mean.value:.1f} %")
        keys.append(line)
    guessed = transfer.background.majority
    if guessed:
        keys.append(Line2D([], [], color="none", marker="|", markersize=10, markeredgecolor=SOFT, label="most frequent label"))
    axis = make_axis([*transfer.languages.values(), *(Estimate(one, one, one, ()) for one in guessed.values())])
    below = f"{figure.replace('_', ' ')} in per cent" + (", with 95 % intervals" if several else ", of one seed")
    for axes, first in zip(drawing.subplots(1, columns, squeeze=False)[0], range(0, len(codes), height), strict=True):
        found = {code: transfer.languages[code] for code in codes[first : first + height]}
        _draw(axes, found, transfer.source, height, axis)
        marks = [(100 * guessed[code], place) for place, code in enumerate(found) if code in guessed]
        if marks:
            for color, width in (("white", 3.2), (SOFT, 1.4)):
                axes.scatter(*zip(*marks, strict=True), s=90, marker="|", color=color, linewidths=width, zorder=2.5)
        axes.set_xlim(0, 100 * axis.end)
        axes.set_xlabel(below, fontsize=8)
        if transfer.others:
            axes.axvline(100 * mean.value, color=SOFT, linestyle="--", linewidth=1)
    title = f"Zero-shot transfer: {data}\nCheckpoint: {describe_selection(transfer.selection, source)}"
    drawing.suptitle(title, x=0.01, ha="left", fontweight="bold", color=INK)
    drawing.legend(handles=keys, loc="outside lower center", ncols=4 if columns > 1 else 2, frameon=False, fontsize=9)
    drawing.savefig(path, dpi=130)


def _draw(axes, found: dict[str, Estimate], source: str, height: int, axis: Axis) -> None:
    """One column of languages; each keeps the height of a bar where there are fewer."""
    places, estimates = range(len(found)), list(found.values())
    values = [100 * one.value for one in estimates]
    colors = [TRAINED if code == source else OTHER for code in found]
    axes.barh(places, values, 0.62, color=colors)
    if len(estimates[0].seeds) > 1:
        for place, one in zip(places, estimates, strict=True):
            _draw_interval(axes, place, one, axis)
        dots = [(100 * seed, place) for place, one in zip(places, estimates, strict=True) for seed in one.seeds]
        axes.scatter(*zip(*dots, strict=True), s=12, color="white", edgecolors=INK, linewidths=0.7, zorder=3, clip_on=False)
    axes.set_yticks(places, [language_name(code) for code in found], fontsize=8)
    axes.set_ylim(height - 0.5, -0.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.xaxis.grid(color="#dde3ea")
    axes.set_axisbelow(True)


def _draw_interval(axes, place: int, found: Estimate, axis: Axis) -> None:
    """A line, with a cap where it ends, and an arrow where it leaves the picture."""
    low, high = (100 * min(max(one, axis.start), axis.end) for one in (found.low, found.high))
    axes.hlines(place, low, high, color=INK, linewidth=0.9, zorder=2.6)
    for value, end, arrow in zip((low, high), find_ends(found, axis), "<>", strict=True):
        if end != "bound":
            marker = arrow if end == "arrow" else "|"
            axes.plot([value], [place], marker=marker, color=INK, markersize=5, linestyle="none", zorder=2.7, clip_on=False)
