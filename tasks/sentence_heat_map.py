"""The heat map of a sentence retrieval by several views: layers down, poolings across, and which view was chosen."""

from collections.abc import Sequence
from pathlib import Path

from .results import Record
from .sentence_chart import COLORS, INK, SOFT
from .sentence_scores import ACCURACY
from .sentence_views import View

PAPER = "#eef2f5"


def write_heat_map(
    path: str | Path,
    records: Sequence[Record],
    views: Sequence[View],
    chosen: View | None,
    source: str,
    chosen_on: str | None,
    note: str = "",
) -> None:
    """Draw the mean accuracy of every view by cosine: where it was chosen, both ways together; then each way.

    All panels share one scale of colours; the best of each is bold, and all that read the same.

    Args:
        path: A PNG (or any format matplotlib knows by its ending).
        records: Of the whole evaluation, means of all views among them.
        views: What was looked at; layers are drawn in ascending order, what the encoder gives last after them.
        chosen: The view that is reported: it is framed. None: none was chosen.
        source: What is reported.
        chosen_on: Source that the view was chosen on.
        note: What stands behind the names of views in the records.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    panels = list_panels(records, views, source, chosen_on, note)
    poolings = list(dict.fromkeys(view.pooling for view in views if view.pooling is not None)) or [""]
    rows = sorted({_order(view): _name_row(view) for view in views}.items())
    places = {view: [order for order, _ in rows].index(_order(view)) for view in views}
    values = [value for _, table in panels for value in table.values()]
    width = max(2.3, 0.95 * len(poolings))
    figure = Figure(figsize=(1.3 + width * len(panels), 1.75 + 0.34 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, table) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.set_title(title, fontsize=9, color=INK)
        for view, value in table.items():
            across = (0, len(poolings)) if view.pooling is None else (poolings.index(view.pooling), 1)
            share = (value - min(values)) / (max(values) - min(values) or 1)
            _fill(axes, places[view], *across, value, share, shown(value) == shown(max(table.values())), view == chosen)
        axes.set_xlim(0, len(poolings))
        axes.set_ylim(len(rows), 0)
        axes.set_xticks([place + 0.5 for place in range(len(poolings))], poolings, fontsize=9)
        axes.set_yticks([])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    figure.axes[0].set_yticks([row + 0.5 for row in range(len(rows))], [name for _, name in rows], fontsize=9)
    if chosen is None:
        frame = Patch(fill=False, linewidth=0, label="none was chosen on other sentences: the best of these flatters")
    else:
        frame = Patch(fill=False, edgecolor=COLORS[1], linewidth=2, label=f"chosen on {chosen_on}: {chosen.name}")
    figure.suptitle(f"Layers and poolings, {source}", x=0.01, ha="left", fontweight="bold", color=INK)
    told = f"mean {ACCURACY} by cosine over languages, in per cent; bold: the best"
    legend = figure.legend(handles=[frame], loc="outside lower center", frameon=False, fontsize=9, title=told, title_fontsize=8)
    legend.get_title().set_color(SOFT)
    figure.savefig(path, dpi=130)


def list_panels(
    records: Sequence[Record], views: Sequence[View], source: str, chosen_on: str | None, note: str = ""
) -> list[tuple[str, dict[View, float]]]:
    """Title, and mean accuracy in per cent by view, of each panel: where the view was chosen, then each way of the source."""
    means: dict[str, dict[str, float]] = {}
    for record in records:
        if record.metric == f"mean {ACCURACY}":
            means.setdefault(record.data, {})[record.task] = 100 * record.value
    tasks = list(means[f"{source}, {views[0].name}{note}"])
    panels = []
    if chosen_on is not None:
        both = {view: means[f"{chosen_on}, {view.name}{note}"] for view in views}
        panels.append((f"{chosen_on}\nmean of both ways", {view: sum(own.values()) / len(own) for view, own in both.items()}))
    for task in tasks if chosen_on != source else ():
        way = task.removeprefix("sentence_retrieval_").replace("_", " ")
        panels.append((f"{source}\n{way}", {view: means[f"{source}, {view.name}{note}"][task] for view in views}))
    return panels


def shown(value: float) -> str:
    """A value as it is written in its cell."""
    return f"{value:.1f}"


def _order(view: View) -> tuple[bool, int]:
    """Row of a view among others: what the encoder gives last comes last."""
    return view.layer is None, view.layer or 0


def _name_row(view: View) -> str:
    return view.name if view.pooling is None else view.name.rpartition(", ")[0]


def _fill(axes, row: int, start: int, span: int, value: float, share: float, best: bool, framed: bool) -> None:
    """One cell: darker the higher its share of the scale."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    low, high = to_rgb(PAPER), to_rgb(COLORS[0])
    color = [(1 - share) * pale + share * deep for pale, deep in zip(low, high, strict=True)]
    axes.add_patch(Rectangle((start + 0.02, row + 0.02), span - 0.04, 0.96, facecolor=color, linewidth=0))
    if framed:
        frame = Rectangle(
            (start + 0.04, row + 0.06), span - 0.08, 0.88, fill=False, edgecolor=COLORS[1], linewidth=2.2, zorder=3
        )
        axes.add_patch(frame)
    ink = "white" if share > 0.7 else INK
    weight = "bold" if best else "normal"
    axes.text(start + span / 2, row + 0.5, shown(value), ha="center", va="center", color=ink, fontsize=9, fontweight=weight)
