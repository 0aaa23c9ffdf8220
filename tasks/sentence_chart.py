"""The bars of a sentence retrieval: every language, both directions."""

from collections.abc import Sequence
from pathlib import Path

from .language_names import language_name
from .results import Record
from .sentence_scores import ACCURACY, BY_MARGIN

LONGEST = 30
"""Languages of a column."""
COLORS, INK, SOFT = ("#0b7a75", "#d98324"), "#16202c", "#566374"


def write_chart(
    path: str | Path,
    first: Sequence[Record],
    second: Sequence[Record],
    title: str,
    untrained: Sequence[Sequence[Record]] = (),
) -> None:
    """Draw accuracy by margin, else by cosine, a pair of bars a language with intervals, the best languages first.

    Args:
        path: A PNG (or any format matplotlib knows by its ending).
        first: Records of one direction.
        second: Those of the other.
        title: What was measured.
        untrained: The same of random weights, a mark on each bar; none where empty.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    metric = find_metric(first)
    ways, lows = ([by_language(some, metric) for some in both] for both in ((first, second), untrained))
    means, bare = ([find_mean(some, metric) for some in both] for both in ((first, second), untrained))
    guesses = [record.value for record in (*first, *second) if record.metric == f"chance {ACCURACY}"]
    order = sorted(ways[0], key=lambda code: -sum(way[code].value for way in ways))
    columns = -(-len(order) // LONGEST)
    height = -(-len(order) // columns)
    figure = Figure(figsize=(2 + 5 * columns, 1.8 + 0.3 * height), layout="constrained")
    FigureCanvasAgg(figure)
    limit = min(100, 10 * (1 + int(10 * max(record.high for way in ways for record in way.values()))))
    chance = 100 * sum(guesses) / len(guesses)
    for axes, start in zip(figure.subplots(1, columns, squeeze=False)[0], range(0, len(order), height), strict=True):
        codes = order[start : start + height]
        _draw(axes, [[way[code] for code in codes] for way in ways], height)
        for up, low in zip((-0.2, 0.2), lows, strict=False):
            places = [place + up for place in range(len(codes))]
            values = [100 * low[code].value for code in codes]
            axes.scatter(values, places, s=44, marker="|", color=INK, linewidths=1.6, zorder=3)
        axes.set_xlim(0, limit)
        axes.set_xlabel(f"accuracy@1 {by(metric)} in per cent, with 95 % intervals; sentences in brackets", fontsize=8)
        line = axes.axvline(chance, color=SOFT, linestyle="--", label=f"chance, {chance:.1f} % on average")
    names = [mean.task.removeprefix("sentence_retrieval_").replace("_", " ") for mean in means]
    keys: list = [
        Patch(color=color, label=f"{name}: mean {100 * mean.value:.1f} %")
        for color, name, mean in zip(COLORS, names, means, strict=True)
    ]
    if bare:
        values = " and ".join(f"{100 * mean.value:.1f}" for mean in bare)
        keys.append(Line2D([], [], linestyle="", marker="|", color=INK, label=f"untrained: mean {values} %"))
    figure.suptitle(f"Sentence retrieval, {title}", x=0.01, ha="left", fontweight="bold", color=INK)
    figure.legend(handles=[*keys, line], loc="outside lower center", ncols=4 if columns > 1 else 1, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)


def find_metric(records: Sequence[Record]) -> str:
    """What the tables put first: accuracy by margin, or by cosine where there is no margin."""
    return BY_MARGIN if any(record.metric == BY_MARGIN for record in records) else ACCURACY


def by(metric: str) -> str:
    """How nearest is meant, in words."""
    return "by ratio margin" if metric == BY_MARGIN else "by cosine"


def by_language(records: Sequence[Record], metric: str) -> dict[str, Record]:
    """The record of each language."""
    return {record.language: record for record in records if record.metric == metric}


def find_mean(records: Sequence[Record], metric: str) -> Record:
    """The mean over languages."""
    return next(record for record in records if record.metric == f"mean {metric}")


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
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(color="#dde3ea")
    axes.set_axisbelow(True)
