"""The bars of a retrieval evaluation as a picture, for a README or a slide."""

from collections.abc import Sequence
from pathlib import Path

from .language_names import language_name
from .page_parts import scale
from .results import Record
from .retrieval_page import find_chance, gather_series

OTHER, TRAINED, ABLATION, INK, SOFT = "#0b7a75", "#d98324", "#9aa7b5", "#16202c", "#566374"


def write_chart(
    path: str | Path,
    records: Sequence[Record],
    data: str,
    pictured: Sequence[str],
    ablation: Sequence[Record] = (),
    ablation_name: str = "without",
) -> None:
    """Draw recall@10 from texts to pictures, a bar a language, with intervals and chance.

    Args:
        path: A PNG (or any format matplotlib knows by its ending).
        records: All records of the evaluation.
        data: The data set that is drawn.
        pictured: Languages trained with pictures, in another colour.
        ablation: Records of another run, drawn as a second bar.
        ablation_name: What that run is.
    """
    from matplotlib.artist import Artist
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    bars = gather_series(records, "text_to_image_retrieval", data, pictured, ablation)
    paired = any(bar.before for bar in bars)
    figure = Figure(figsize=(8, 1.6 + 0.34 * len(bars)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = range(len(bars))
    colors = [TRAINED if bar.language in pictured else OTHER for bar in bars]
    values = [100 * bar.record.value for bar in bars]
    reach = [[100 * max(0.0, bar.record.value - bar.record.low) for bar in bars]]
    reach += [[100 * max(0.0, bar.record.high - bar.record.value) for bar in bars]]
    up = -0.14 if paired else 0.0
    axes.barh(
        [place + up for place in places], values, 0.5 if paired else 0.6, color=colors, xerr=reach, ecolor=INK, capsize=2.5
    )
    keys: list[Artist] = [Patch(color=OTHER, label="never seen with a picture")]
    keys += [Patch(color=TRAINED, label="trained with pictures")] if pictured else []
    if paired:
        before = [100 * bar.before.value if bar.before else 0.0 for bar in bars]
        axes.barh([place + 0.26 for place in places], before, 0.24, color=ABLATION)
        keys.append(Patch(color=ABLATION, label=ablation_name))
    chance = find_chance(records, "text_to_image_retrieval", data)
    if chance:
        keys.append(axes.axvline(100 * chance.value, color=SOFT, linestyle="--", label=f"chance, {100 * chance.value:.1f} %"))
    axes.set_yticks(list(places), [language_name(bar.language) for bar in bars])
    axes.invert_yaxis()
    axes.set_xlim(0, 100 * scale([bar.record.high for bar in bars])[0])
    axes.set_xlabel("recall@10 in per cent, with 95 % intervals")
    axes.set_title(f"Text to picture, {data}", loc="left", fontweight="bold", color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.grid(color="#dde3ea")
    axes.set_axisbelow(True)
    figure.legend(handles=keys, loc="outside lower center", ncols=2 if len(keys) > 3 else 3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
