"""Pictures of what the words of a caption attend to, over the picture that it belongs to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

COLUMNS, MOST = 5, 24
"""Panels side by side, and words of a caption that are drawn."""


def draw_attention(
    file: Path,
    title: str,
    words: Sequence[str],
    weights: Any,
    pixels: Any,
    boxes: Any,
) -> None:
    """Write a PNG: the picture, then for each word the picture with what it attends to.

    Args:
        file: Where it goes.
        title: Stands above.
        words: Of the caption, in its order.
        weights: `[words, places]`, shares of each word's attention.
        pixels: `[3, H, W]` bytes; None: there is no picture to be seen, and boxes stand on white.
        boxes: `[places, 4]`, x0, y0, x1, y1 as fractions of the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

    from .datamodules.shards.show import choose_font

    shown = list(words[:MOST])
    panels = len(shown) + 1
    rows = -(-panels // COLUMNS)
    figure = Figure(figsize=(2.2 * min(COLUMNS, panels), 2.5 * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)

    def letter(text: str, size: int) -> FontProperties:
        path = choose_font(frozenset(text))
        return FontProperties(size=size) if path is None else FontProperties(fname=path, size=size)

    figure.suptitle(title, fontproperties=letter(title, 10))
    every = figure.subplots(rows, min(COLUMNS, panels), squeeze=False).flatten()
    excess = (weights / weights.mean(1, keepdim=True).clamp_min(1e-12) - 1).clamp_min(0)  # over attention to all places alike
    most = max(1.0, float(excess[: len(shown)].max()))
    for number, axes in enumerate(every):
        axes.set_axis_off()
        if number >= panels:
            continue
        _draw_picture(axes, pixels)
        if number:
            word, own = shown[number - 1], weights[number - 1]
            axes.set_title(f"{word}  {100 * float(own.sum()):.0f} %", fontproperties=letter(word, 9))
            _draw_weights(axes, excess[number - 1] / most, boxes)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def _draw_picture(axes: Any, pixels: Any) -> None:
    if pixels is not None:
        axes.imshow(pixels.permute(1, 2, 0).numpy(), extent=(0, 1, 1, 0), aspect=pixels.shape[1] / pixels.shape[2])
    else:
        axes.set_aspect(1)
    axes.set_xlim(0, 1)
    axes.set_ylim(1, 0)


def _draw_weights(axes: Any, shares: Any, boxes: Any) -> None:
    """Boxes as dark as their share of the darkest, the largest ones below; the heaviest with a frame."""
    from matplotlib.patches import Rectangle

    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    heaviest = int(shares.argmax())
    for place in area.argsort(descending=True).tolist():
        x0, y0, x1, y1 = boxes[place].tolist()
        axes.add_patch(
            Rectangle((x0, y0), x1 - x0, y1 - y0, facecolor="#c2410c", alpha=0.75 * float(shares[place]), linewidth=0)
        )
    x0, y0, x1, y1 = boxes[heaviest].tolist()
    if float(shares[heaviest]) > 0:
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor="#7c2d12", linewidth=1.4))
