"""Plots of what `stats.py` measured."""

from typing import Any

import numpy as np

from .stats import Stats

COLOR, MARK, INK, SOFT, LINE = "#0b7a75", "#b45f06", "#16202c", "#566374", "#dde3ea"
MOST_LANGUAGES, MOST_COUNTS = 40, 60
WIDTH = 11.0
"""Of each plot, in inches."""


def _figure(height: float, columns: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes: Any = figure.subplots(1, columns, squeeze=False)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(SOFT)
        ax.tick_params(colors=SOFT, labelcolor=INK, labelsize=9)
        ax.grid(axis="both", color=LINE, linewidth=0.7)
        ax.set_axisbelow(True)
    return figure, list(axes)


def _title(ax: Any, title: str, below: str, left: str = "") -> None:
    ax.set_title(title, loc="left", fontsize=11, color=INK, fontweight="bold")
    ax.set_xlabel(below, fontsize=9, color=SOFT)
    ax.set_ylabel(left, fontsize=9, color=SOFT)


def _write(ax: Any, text: str, place: tuple[float, float], coordinates: Any, **options: Any) -> None:
    options = {"color": MARK, "fontsize": 9, "rotation_mode": "anchor"} | options
    ax.annotate(text, place, (4, 0), xycoords=coordinates, textcoords="offset points", **options)


def _plain(axis: Any, most: int = 9) -> None:
    """Numbers as people write them, on logarithmic axes too."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        marks = (1.0, 2.0, 3.0, 5.0, 7.0) if high / low < 20 else (1.0, 2.0, 5.0) if high / low < 200 else (1.0,)
        axis.set_major_locator(LogLocator(subs=marks))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(integer=True, nbins=most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def draw_languages(stats: Stats) -> Any:
    """Texts and their lengths by language."""
    if not stats.languages:
        return None
    from matplotlib.font_manager import FontProperties

    from .show import choose_font

    codes = list(stats.languages)[:MOST_LANGUAGES]
    lengths, unit = (stats.tokens, "tokens") if stats.tokens else (stats.bytes, "bytes")
    figure, (left, right) = _figure(1.2 + 0.24 * len(codes), 2)
    places = np.arange(len(codes))
    left.barh(places, [stats.languages[code] for code in codes], color=COLOR, height=0.7)
    _title(left, "Texts", "number of texts")
    spans = np.array([[lengths[code][name] for name in ("5 %", "median", "95 %")] for code in codes])
    right.hlines(places, spans[:, 0], spans[:, 2], color=COLOR, linewidth=2.5, alpha=0.45)
    right.plot(spans[:, 1], places, "o", color=COLOR, markersize=5)
    right.set_xscale("log")
    _title(right, f"Length of a text in {unit}", f"{unit}, logarithmic")
    for ax in (left, right):
        ax.set_yticks(places, codes)
        ax.set_ylim(len(codes) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        for label, code in zip(ax.get_yticklabels(), codes, strict=True):
            label.set_parse_math(False)
            if font := choose_font(frozenset(code)):
                label.set_fontproperties(FontProperties(fname=font, size=9))
        _plain(ax.xaxis)
    return figure


def draw_lengths(stats: Stats) -> Any:
    """Histograms of bytes and tokens a text."""
    found = [("bytes", stats.lengths)] + ([("tokens", stats.token_lengths)] if stats.token_lengths is not None else [])
    if not stats.texts:
        return None
    figure, axes = _figure(3.4, len(found))
    for ax, (unit, lengths) in zip(axes, found, strict=True):
        low, high = max(1, int(lengths.min())), max(2, int(lengths.max()))
        edges = np.unique(np.geomspace(low, high + 1, 50).astype(np.int64))
        counts, *_ = ax.hist(lengths, edges, color=COLOR)
        ax.set_ylim(0, 1.4 * counts.max())  # room for what is written above
        ax.set_xscale("log")
        for name in ("median", "95 %"):
            value = (stats.bytes if unit == "bytes" else stats.tokens)[""][name]
            ax.axvline(value, color=MARK, linestyle="--", linewidth=1.2)
            _write(ax, f"{name}: {value:,}", (float(value), 0.97), ("data", "axes fraction"), rotation=90, va="top", ha="right")
        _title(ax, f"{unit.capitalize()} a text", f"{unit}, logarithmic", "texts")
        _plain(ax.xaxis)
        _plain(ax.yaxis)
    return figure


def draw_samples(stats: Stats) -> Any:
    """Texts and languages a sample."""
    figure, axes = _figure(3.0, 2)
    for ax, (what, counts) in zip(
        axes, (("Texts", stats.texts_per_sample), ("Languages", stats.languages_per_sample)), strict=True
    ):
        numbers = sorted(counts)
        if numbers[-1] - numbers[0] < MOST_COUNTS:
            ax.bar(numbers, [counts[number] for number in numbers], color=COLOR, width=0.8)
        else:
            ax.hist(numbers, np.linspace(numbers[0], numbers[-1] + 1, 40), weights=[counts[n] for n in numbers], color=COLOR)
        _plain(ax.xaxis, 15)
        ax.grid(axis="x", visible=False)
        _title(ax, f"{what} a sample", what.lower(), "samples")
        _plain(ax.yaxis)
    return figure


def draw_pictures(stats: Stats) -> Any:
    """Width against height, and the shorter side; nothing where all are of one size."""
    sizes, counts = np.unique(stats.sizes, axis=0, return_counts=True)
    if len(sizes) < 2:
        return None
    figure, (left, right) = _figure(4.2, 2)
    area = 12 + 240 * counts / counts.max()
    left.scatter(sizes[:, 0], sizes[:, 1], area, color=COLOR, alpha=0.45, linewidths=0)
    low, high = sizes.min() / 1.3, sizes.max() * 1.3
    left.plot([low, high], [low, high], "--", color=SOFT, linewidth=1)
    left.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    _title(left, "Sizes (larger dot: more pictures; dashed: squares)", "width in pixels", "height in pixels")
    shorter = stats.sizes.min(1)
    right.hist(shorter, 40 if shorter.max() > shorter.min() else [shorter[0] - 0.5, shorter[0] + 0.5], color=COLOR)
    _title(right, "Shorter side", "pixels", "pictures")
    for axis in (left.xaxis, left.yaxis, right.xaxis, right.yaxis):
        _plain(axis)
    return figure


PLOTS = {"languages": draw_languages, "lengths": draw_lengths, "samples": draw_samples, "pictures": draw_pictures}
ALTERNATIVES = {
    "languages": "Number and lengths of texts by language",
    "lengths": "Histograms of the lengths of texts",
    "samples": "Samples by their number of texts and of languages",
    "pictures": "Width and height of pictures, and their shorter sides",
}
