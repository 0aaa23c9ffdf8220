"""The bars of zero-shot transfer as a picture, for a README or a slide."""

from pathlib import Path

from .language_names import language_name
from .transfer import Estimate, Transfer
from .transfer_page import describe_selection, make_axis

LONGEST = 30
"""Languages of a column."""
OTHER, TRAINED, INK, SOFT = "#0b7a75", "#d98324", "#16202c", "#566374"


def write_chart(path: str | Path, transfer: Transfer, data: str, figure: str) -> None:
    """Draw a bar a language with its interval and a dot a seed, the language of training first, then the best.

    Args:
        path: A PNG (or any format matplotlib knows by its ending).
        transfer: What was measured by one way to choose a checkpoint.
        data: What was tested on.
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
    axis = make_axis(list(transfer.languages.values()))
    below = f"{figure.replace('_', ' ')} in per cent" + (", with 95 % intervals" if several else ", of one seed")
    for axes, first in zip(drawing.subplots(1, columns, squeeze=False)[0], range(0, len(codes), height), strict=True):
        _draw(axes, {code: transfer.languages[code] for code in codes[first : first + height]}, transfer.source, height)
        axes.set_xlim(0, 100 * axis.end)
        axes.set_xlabel(below, fontsize=8)
        if transfer.others:
            axes.axvline(100 * mean.value, color=SOFT, linestyle="--", linewidth=1)
    title = f"Zero-shot transfer, {data}: {describe_selection(transfer.selection, source)}"
    drawing.suptitle(title, x=0.01, ha="left", fontweight="bold", color=INK)
    drawing.legend(handles=keys, loc="outside lower center", ncols=4 if columns > 1 else 2, frameon=False, fontsize=9)
    drawing.savefig(path, dpi=130)


def _draw(axes, found: dict[str, Estimate], source: str, height: int) -> None:
    """One column of languages; each keeps the height of a bar where there are fewer."""
    places, estimates = range(len(found)), list(found.values())
    values = [100 * one.value for one in estimates]
    colors = [TRAINED if code == source else OTHER for code in found]
    axes.barh(places, values, 0.62, color=colors)
    if len(estimates[0].seeds) > 1:
        reach = [[100 * max(0.0, one.value - one.low) for one in estimates]]
        reach += [[100 * max(0.0, one.high - one.value) for one in estimates]]
        axes.errorbar(values, places, xerr=reach, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
        dots = [(100 * seed, place) for place, one in zip(places, estimates, strict=True) for seed in one.seeds]
        axes.scatter(*zip(*dots, strict=True), s=12, color="white", edgecolors=INK, linewidths=0.7, zorder=3)
    axes.set_yticks(places, [language_name(code) for code in found], fontsize=8)
    axes.set_ylim(height - 0.5, -0.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.xaxis.grid(color="#dde3ea")
    axes.set_axisbelow(True)
