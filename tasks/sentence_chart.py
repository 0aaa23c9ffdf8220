"""The bars of a sentence retrieval: every language, both directions."""

from collections.abc import Sequence
from pathlib import Path

from .language_names import language_name
from .results import Record
from .sentence_scores import ACCURACY

LONGEST = 30
"""Languages of a column."""
COLORS, INK, SOFT = ("#0b7a75", "#d98324"), "#16202c", "#566374"


def write_chart(path: str | Path, first: Sequence[Record], second: Sequence[Record], title: str) -> None:
    """Draw accuracy by cosine, a pair of bars a language with intervals, the best languages first.

    Args:
        path: A PNG (or any format matplotlib knows by its ending).
        first: Records of one direction.
        second: Those of the other.
        title: What was measured.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    ways = [{record.language: record for record in some if record.metric == ACCURACY} for some in (first, second)]
    means = [next(record for record in some if record.metric == f"mean {ACCURACY}") for some in (first, second)]
    guesses = [record.value for record in (*first, *second) if record.metric == f"chance {ACCURACY}"]
    order = sorted(ways[0], key=lambda code: -sum(way[code].value for way in ways))
    columns = -(-len(order) // LONGEST)
    height = -(-len(order) // columns)
    figure = Figure(figsize=(2 + 5 * columns, 1.8 + 0.3 * height), layout="constrained")
    FigureCanvasAgg(figure)
    limit = min(100, 10 * (1 + int(10 * max(record.high for way in ways for record in way.values()))))
    chance = 100 * sum(guesses) / len(guesses)
    for axes, start in zip(figure.subplots(1, columns, squeeze=False)[0], range(0, len(order), height), strict=True):
        _draw(axes, [[way[code] for code in order[start : start + height]] for way in ways], height)
        axes.set_xlim(0, limit)
        line = axes.axvline(chance, color=SOFT, linestyle="--", label=f"chance, {chance:.1f} % on average")
    names = [mean.task.removeprefix("sentence_retrieval_").replace("_", " ") for mean in means]
    keys = [
        Patch(color=color, label=f"{name}: mean {100 * mean.value:.1f} %")
        for color, name, mean in zip(COLORS, names, means, strict=True)
    ]
    figure.suptitle(f"Sentence retrieval, {title}", x=0.01, ha="left", fontweight="bold", color=INK)
    figure.legend(handles=[*keys, line], loc="outside lower center", ncols=3 if columns > 1 else 1, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)


def _draw(axes, ways: list[list[Record]], height: int) -> None:
    """One column of languages; each keeps the height of a bar where there are fewer."""
    for number, (records, color) in enumerate(zip(ways, COLORS, strict=True)):
        places = [place + (-0.2 if number == 0 else 0.2) for place in range(len(records))]
        values = [100 * record.value for record in records]
        reach = [[100 * max(0.0, record.value - record.low) for record in records]]
        reach += [[100 * max(0.0, record.high - record.value) for record in records]]
        axes.barh(places, values, 0.38, color=color, xerr=reach, error_kw={"ecolor": INK, "elinewidth": 0.8, "capsize": 1.5})
    names = [f"{language_name(record.language)} ({record.n})" for record in ways[0]]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(height - 0.5, -0.5)
    axes.set_xlabel("accuracy@1 in per cent, with 95 % intervals; sentences in brackets", fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(color="#dde3ea")
    axes.set_axisbelow(True)
