"""From a decoded picture to the fixed size of a batch: the same for evaluation, randomly shifted and zoomed for training.

What a caption says must stay true. So a training crop keeps most of the picture, there is no change of hue, and mirroring,
which makes "left" and "right" false and letters unreadable, is off unless asked for. Random resized crops are those of
Inception (arXiv:1409.4842, section 6), with a much larger least area.

A crop is a `Window`: a rectangle of the source picture, perhaps reaching beyond it (what lies there is filled), so that
boxes can follow the pixels. Every draw is a pure function of the sample's key (see `chance`).
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from .chance import salt, uniform
from .image import decode_image, read_jpeg_head

PURPOSE = salt("image augmentation")


class Window(NamedTuple):
    """What is cut from a picture and shown as the whole output; in pixels of the picture, which it may leave."""

    left: int
    top: int
    width: int
    height: int
    mirrored: bool = False


class Shown(NamedTuple):
    """A picture as it is shown, and what of it that is."""

    pixels: UInt8[Tensor, "3 S S"]
    window: Window
    height: int
    """Of the whole upright picture, in pixels, as stored."""
    width: int


class ImageTransform:
    """Cut, resize (bicubic, antialiased, in bytes) and perhaps vary a picture. Picklable, without state."""

    def __init__(
        self,
        size: int,
        fit: Literal["stretch", "crop", "pad"] = "stretch",
        area: tuple[float, float] = (0.8, 1.0),
        ratio: float = 4 / 3,
        shift: float = 0.0,
        brightness: float = 0.0,
        contrast: float = 0.0,
        mirror: float = 0.0,
        fill: int = 255,
        scaled: bool = False,
    ):
        """
        Args:
            size: Height and width of the output in pixels.
            fit: What becomes of a picture that is not square. `stretch` shows all of it, distorted: a caption is about
                all of it; `crop` cuts the ends of the longer side; `pad` fills beside the shorter side.
            area: Training: least and greatest area of the random window, as a share of the window of evaluation.
                Above 1 the picture is shown smaller, with a margin.
            ratio: Training: greatest distortion (width against height, either way) of the window; 1 is none.
            shift: Training: how far the window may leave the picture, as a share of the window's side. Tiny drawings
                that fill their picture gain more from shifting than from cropping.
            brightness: Training: greatest change of brightness, as a share of white.
            contrast: Training: greatest change of contrast around the mean grey, as a share. Either may falsify a
                caption that names a colour; keep them small.
            mirror: Training: probability of a mirror image. It falsifies every caption with left, right or letters in
                it: only for data without such captions. Boxes must follow (`move_boxes`).
            fill: Grey level outside of the picture; white, as behind transparent pictures.
            scaled: Whether `read` decodes a JPEG at 1/2, 1/4 or 1/8 of its size where that leaves at least `size` pixels:
                faster, and not the same. Between 1/2 and `size` the mean difference is 3 grey levels of 255 (noise like
                photographs, 640 x 480 to 224; largest 55) to 4 (small sharp drawings and photographs; worst picture 13).
        """
        if size < 1:
            raise ValueError(f"size: found {size}, expected a number of pixels of 1 or more")
        if not 0 < area[0] <= area[1]:
            raise ValueError(f"area: found {area}, expected 0 < least <= greatest, such as (0.8, 1.0)")
        if ratio < 1:
            raise ValueError(f"ratio: found {ratio}, expected 1 or more (it counts both ways)")
        if fit not in ("stretch", "crop", "pad"):
            raise ValueError(f"fit: found {fit!r}, expected stretch, crop or pad")
        self.size, self.fit, self.area, self.ratio, self.shift = size, fit, area, ratio, shift
        self.brightness, self.contrast, self.mirror, self.fill = brightness, contrast, mirror, fill
        self.scaled = scaled

    def __call__(self, pixels: UInt8[Tensor, "3 H W"], luck: Sequence[float] | None = None) -> UInt8[Tensor, "3 S S"]:
        """
        Args:
            pixels: A decoded picture.
            luck: Training: the picture's row of `draw_luck`. None: evaluation.
        """
        return self._show(pixels, self.window(*pixels.shape[1:], luck), luck)

    def read(self, data: bytes, luck: Sequence[float] | None = None) -> UInt8[Tensor, "3 S S"]:
        """Decode a picture and cut it (see `show`)."""
        return self.show(data, luck).pixels

    def show(self, data: bytes, luck: Sequence[float] | None = None) -> Shown:
        """Decode a picture and cut it, and say where, so that boxes can follow.

        Args:
            data: The file as stored (see `decode_image`).
            luck: As above.

        Raises:
            BadImageError: The bytes are not a whole picture.
        """
        head = read_jpeg_head(data) if self.scaled else None
        if head is None:
            pixels = decode_image(data)
            height, width = pixels.shape[1:]
            window = self.window(height, width, luck)
            return Shown(self._show(pixels, window, luck), window, height, width)
        height, width = head.shape
        window = self.window(height, width, luck)
        shrink = next((by for by in (8, 4, 2) if min(window.width, window.height) >= by * self.size), 1)
        return Shown(self._show(decode_image(data, shrink=shrink), window, luck, head.shape), window, height, width)

    def _show(
        self,
        pixels: UInt8[Tensor, "3 H W"],
        window: Window,
        luck: Sequence[float] | None,
        stored: tuple[int, int] | None = None,
    ) -> UInt8[Tensor, "3 S S"]:
        output = cut(pixels, window, self.size, self.fill, stored)
        return output if luck is None else self._vary_light(output, luck)

    def window(self, height: int, width: int, luck: Sequence[float] | None = None) -> Window:
        """The window that a picture of this height and width is cut to under this luck."""
        base = _base(height, width, self.fit)
        if luck is None:
            return base
        zoom, distort, across, down, mirror, _, _ = luck
        side = math.sqrt(self.area[0] + (self.area[1] - self.area[0]) * zoom)
        longest = max(1.0, math.sqrt(self.area[1]))
        stretch = self.ratio ** (distort - 0.5)  # squared, it is the change of width against height
        stretch = min(max(stretch, side / longest), longest / side)
        window_width, window_height = max(1, round(base.width * side * stretch)), max(1, round(base.height * side / stretch))
        return Window(
            base.left + _place(base.width, window_width, self.shift, across),
            base.top + _place(base.height, window_height, self.shift, down),
            window_width,
            window_height,
            mirror < self.mirror,
        )

    def _vary_light(self, pixels: UInt8[Tensor, "3 S S"], luck: Sequence[float]) -> UInt8[Tensor, "3 S S"]:
        if not (self.brightness or self.contrast):
            return pixels
        light, spread = (2 * draw - 1 for draw in luck[5:])
        values = pixels.float()
        grey = values.mean()
        values = grey + (values - grey) * (1 + self.contrast * spread) + 255 * self.brightness * light
        return values.round_().clamp_(0, 255).byte()


def draw_luck(keys: Int64[Tensor, "N"]) -> list[list[float]]:
    """Seven numbers in [0, 1) for each picture, which decide all that is random about it.

    They are drawn for a whole batch at once: a tensor operation costs as much for one picture as for all.

    Args:
        keys: Hashes of all that may change the draw (seed, epoch, sample).
    """
    return uniform(keys[:, None], PURPOSE, torch.arange(7)).tolist()


def cut(
    pixels: UInt8[Tensor, "3 H W"], window: Window, size: int, fill: int = 255, stored: tuple[int, int] | None = None
) -> UInt8[Tensor, "3 S S"]:
    """Show a window of a picture at `size` x `size`.

    Args:
        pixels: The picture.
        window: What is shown of it.
        size: Height and width of the output in pixels.
        fill: Grey level outside of the picture.
        stored: Height and width of the picture that the window is told in, where it was decoded smaller.

    Only what lies inside of the picture is resized, then laid onto the filled output: margins stay clean, and a very
    long picture costs no more than its own pixels. Colours stay side by side in memory (channels last) all the way into
    the batch: decoders leave them so, they resize nearly twice as fast, and taking them apart costs as much as reading.
    """
    height, width = stored or pixels.shape[1:]
    rows, shown_rows = _overlap(window.top, window.height, height, size)
    columns, shown_columns = _overlap(window.left, window.width, width, size)
    if stored is not None:
        rows, columns = _shrink(rows, pixels.shape[1] / height), _shrink(columns, pixels.shape[2] / width)
    shape = (shown_rows.stop - shown_rows.start, shown_columns.stop - shown_columns.start)
    part = pixels[None, :, rows, columns]
    if part.shape[2:] != shape:
        part = part.contiguous(memory_format=torch.channels_last)
        part = F.interpolate(part, shape, mode="bicubic", antialias=True)
    if shape != (size, size):
        part, inside = pixels.new_full((1, 3, size, size), fill), part
        part[:, :, shown_rows, shown_columns] = inside
    return (part.flip(3) if window.mirrored else part.contiguous(memory_format=torch.channels_last))[0]


def move_boxes(
    boxes: Float[Tensor, "R 4"], window: Window, height: int, width: int, least: float = 0.5
) -> tuple[Float[Tensor, "R 4"], Bool[Tensor, "R"]]:
    """Boxes of a picture in the frame of its window, and which of them can still be seen.

    Args:
        boxes: x0, y0, x1, y1 as fractions of the picture.
        window: The picture's window.
        height, width: Of the picture, in pixels.
        least: Share of a box's area that must lie inside of the window for it to count as seen.

    Returns:
        The boxes as fractions of the output, cut at its edges, and a mask.
    """
    size = boxes.new_tensor([window.width, window.height] * 2)
    moved = (boxes * boxes.new_tensor([width, height] * 2) - boxes.new_tensor([window.left, window.top] * 2)) / size
    clipped = moved.clamp(0, 1)
    seen = _areas(clipped) >= least * _areas(moved)
    return (flip_boxes(clipped) if window.mirrored else clipped), seen & (_areas(clipped) > 0)


def flip_boxes(boxes: Float[Tensor, "R 4"], width: float | int = 1) -> Float[Tensor, "R 4"]:
    """Boxes (x0, y0, x1, y1) of the mirror image of a picture; `width` in the boxes' own unit."""
    left, top, right, bottom = boxes.unbind(1)
    return torch.stack([width - right, top, width - left, bottom], dim=1)


def _areas(boxes: Float[Tensor, "R 4"]) -> Float[Tensor, "R"]:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _base(height: int, width: int, fit: str) -> Window:
    """The window of evaluation."""
    if fit == "stretch":
        return Window(0, 0, width, height)
    side = min(height, width) if fit == "crop" else max(height, width)
    return Window((width - side) // 2, (height - side) // 2, side, side)


def _place(base: int, side: int, shift: float, draw: float) -> int:
    """Offset of a window against the base: inside of it (or around it, where it is longer), plus or minus the shift."""
    low, high = min(0, base - side) - shift * side, max(0, base - side) + shift * side
    return round(low + (high - low) * draw)


def _shrink(part: slice, share: float) -> slice:
    """The same part along the axis of a picture that was decoded smaller, to the nearest pixels; never nothing."""
    start = round(part.start * share)
    return slice(start, max(start + 1, round(part.stop * share)))


def _overlap(start: int, length: int, whole: int, size: int) -> tuple[slice, slice]:
    """Along one axis: what of the picture lies in the window, and where in the output it is shown; never nothing."""
    first = min(max(start, 0), whole - 1)
    last = max(min(start + length, whole), first + 1)
    shown = min(round((first - start) * size / length), size - 1)
    shown = max(shown, 0)
    end = min(max(round((last - start) * size / length), shown + 1), size)
    return slice(first, last), slice(shown, end)
