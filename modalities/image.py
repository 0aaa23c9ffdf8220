"""Pictures: from the bytes that people have to red, green, blue from 0 to 255, upright, and to the batch.

Whatever the file held, the picture comes out in one form:
    - three channels; grey is repeated, CMYK and YCCK are converted without a colour profile, palettes are looked up;
    - what is transparent shows white;
    - 16 bits a channel are scaled to 8 (65535 is white), never cut off. Integers of 32 bits and floats declare no white:
      the smallest of 1 (floats only), 255 and 65535 that no value exceeds is white; beyond these, or with negative
      values, the picture's own range is stretched;
    - rotated and mirrored as its EXIF orientation says, so that it stands as a viewer shows it;
    - of an animation, or of several pages, the first.
"""

import io
import struct
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image as Pillow
from PIL.Image import DecompressionBombError, UnidentifiedImageError
from torch import Tensor

from .batch import Image

# Formats with a signature, read by Pillow itself: no PostScript (it would start an interpreter), nothing guessed.
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "DIB", "TIFF", "PPM", "AVIF", "JPEG2000", "ICO", "QOI")
SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")
ORIENTATION = 0x0112  # the EXIF tag
SHORTEST = 8
"""Pixels of the shorter side of a JPEG that is decoded smaller; below, decoders round to different sizes."""
# Per EXIF orientation that is not upright: the axes (1: rows, 2: columns) to reverse; from 5 on, after rows and columns
# are swapped.
REVERSED = {2: (2,), 3: (1, 2), 4: (1,), 5: (), 6: (2,), 7: (1, 2), 8: (1,)}


class BadImageError(Exception):
    """Bytes that are not a whole picture of a bearable size.

    Args:
        kind: `empty image`, `not an image`, `truncated image`, `damaged image` or `oversized image`.
        detail: What was found.
    """

    def __init__(self, kind: str, detail: str = ""):
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


class JpegHead(NamedTuple):
    """What a JPEG says before its pixels; height and width in pixels, as stored."""

    height: int
    width: int
    orientation: int
    """EXIF orientation; 1 is upright."""

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the upright picture."""
        return (self.width, self.height) if self.orientation in (5, 6, 7, 8) else (self.height, self.width)


def decode_image(data: bytes, max_pixels: int = 2**27, shrink: int = 1) -> UInt8[Tensor, "3 H W"]:
    """Decode a picture to the one form described at the top of this file.

    JPEGs are decoded by simplejpeg where that is installed, else by torchvision, to the same bits; whatever they give up,
    Pillow judges.

    Args:
        data: The file as stored. PNG, JPEG, GIF, WebP, BMP, TIFF, PPM, AVIF, JPEG 2000, ICO or QOI, whatever its name.
        max_pixels: Largest height x width; known from the header, before anything is decoded. Pillow's own limit
            (twice `PIL.Image.MAX_IMAGE_PIXELS`) holds as well for all but JPEG.
        shrink: 2, 4 or 8 decode those JPEGs that `read_jpeg_head` knows to that fraction of their height and width,
            rounded up: less work, and nearly the mean over each square of pixels. Other pictures, and JPEGs with a side
            of less than 8 pixels, come in full size.

    Raises:
        BadImageError: Nothing else, whatever the bytes are. A picture that ends early is never filled with grey.
    """
    if not data:
        raise BadImageError("empty image", "0 bytes")
    head = read_jpeg_head(data)
    if head is not None:
        _check_size(head.height, head.width, max_pixels)
    if head is None or min(head.height, head.width) < SHORTEST:
        shrink = 1
    with warnings.catch_warnings():
        # Pillow warns of large pictures and odd metadata, torchvision that its decoders may go.
        warnings.simplefilter("ignore")
        pixels = _decode_jpeg(data, head, shrink) if head is not None else None
        return _decode_any(data, max_pixels, head, shrink) if pixels is None else pixels


def measure_image(data: bytes) -> tuple[int, int]:
    """Width and height of a picture as it stands upright; of most JPEGs without decoding them.

    Raises:
        BadImageError: The bytes are not a whole picture; of a JPEG, the head alone is looked at.
    """
    head = read_jpeg_head(data)
    height, width = decode_image(data).shape[1:] if head is None else head.shape
    return width, height


def collate_images(pictures: Sequence[UInt8[Tensor, "3 S S"] | None], size: int) -> Image:
    """Pictures of one batch; zeros, and not present, where a sample has none.

    Args:
        pictures: One for each sample, all `size` x `size`.
        size: Height and width S in pixels.
    """
    shape = (len(pictures), 3, size, size)
    pixels = torch.empty(shape, dtype=torch.uint8, memory_format=torch.channels_last)  # as pictures come (see `cut`)
    for row, picture in zip(pixels, pictures, strict=True):
        if picture is None:
            row.zero_()
        elif picture.shape != row.shape:
            raise ValueError(
                f"a picture of {tuple(picture.shape)} in a batch of {tuple(row.shape)}: transform pictures to `size` first"
            )
        else:
            row.copy_(picture)
    return Image(pixels, torch.tensor([picture is not None for picture in pictures], dtype=torch.bool))


def _check_size(height: int, width: int, max_pixels: int) -> None:
    if height * width > max_pixels:
        raise BadImageError("oversized image", f"{width} x {height} pixels, at most {max_pixels} are decoded")


def read_jpeg_head(data: bytes) -> JpegHead | None:
    """The head of a JPEG with 8 bits and one or three channels, the kind that libjpeg decodes alone; else None."""
    if data[:2] != b"\xff\xd8":
        return None
    at, frame, exif = 2, None, b""
    while at + 10 <= len(data) and data[at] == 0xFF and data[at + 1] != 0xDA:  # up to the scan
        marker = data[at + 1]
        length, precision, height, width, channels = struct.unpack_from(">HBHHB", data, at + 2)
        if marker in (0xC0, 0xC1, 0xC2):  # baseline, extended, progressive
            if frame or precision != 8 or channels not in (1, 3) or not height or not width:
                return None
            frame = height, width
        elif marker == 0xE1 and not exif and data[at + 4 : at + 10] == b"Exif\0\0":
            exif = data[at + 4 : at + 2 + length]
        at += 1 if marker == 0xFF else 2 + length  # 0xFF may be repeated before a marker
    return frame and JpegHead(*frame, _exif_orientation(exif) if exif else 1)


def _exif_orientation(exif: bytes) -> int:
    found = Pillow.Exif()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found.load(exif)
            return int(found.get(ORIENTATION, 1))
        except Exception:  # damaged metadata do not damage the picture
            return 1


def _decode_jpeg(data: bytes, head: JpegHead, shrink: int) -> UInt8[Tensor, "3 H W"] | None:
    """libjpeg without Pillow around it; None where it gives up, so that Pillow has the last word on what is wrong."""
    pixels = _decode_by_simplejpeg(data, head, shrink)
    if pixels is None and shrink == 1:
        pixels = _decode_by_torchvision(data)
    return None if pixels is None else _turn_upright(pixels, head.orientation)


@cache
def _simplejpeg() -> Any:
    """The package, where it is installed."""
    try:
        import simplejpeg
    except ImportError:
        return None
    return simplejpeg


def _decode_by_simplejpeg(data: bytes, head: JpegHead, shrink: int) -> UInt8[Tensor, "3 H W"] | None:
    package = _simplejpeg()
    if package is None:
        return None
    height, width = -(-head.height // shrink), -(-head.width // shrink)
    try:
        pixels = package.decode_jpeg(data, min_height=height, min_width=width)
    except ValueError:  # also of what libjpeg only warns of
        return None
    return torch.from_numpy(pixels).permute(2, 0, 1) if pixels.shape == (height, width, 3) else None


def _decode_by_torchvision(data: bytes) -> UInt8[Tensor, "3 H W"] | None:
    try:
        from torchvision.io import ImageReadMode, decode_jpeg  # not above: torchvision takes seconds to import

        return decode_jpeg(torch.frombuffer(data, dtype=torch.uint8), mode=ImageReadMode.RGB)
    except (ImportError, RuntimeError):
        return None


def _decode_any(data: bytes, max_pixels: int, head: JpegHead | None = None, shrink: int = 1) -> UInt8[Tensor, "3 H W"]:
    try:
        with Pillow.open(io.BytesIO(data), formats=_formats()) as image:
            _check_size(image.height, image.width, max_pixels)
            if shrink > 1:
                image.draft("RGB", (image.width // shrink, image.height // shrink))
            image.load()
            pixels = torch.from_numpy(_red_green_blue(image)).permute(2, 0, 1)
            return _turn_upright(pixels, head.orientation if head else _orientation(image))
    except BadImageError:
        raise
    except DecompressionBombError as error:
        raise BadImageError("oversized image", str(error)) from None
    except UnidentifiedImageError:
        kind = "truncated image" if data.startswith(SIGNATURES) else "not an image"
        raise BadImageError(kind, f"{len(data)} bytes that begin with {data[:12]!r}") from None
    except Exception as error:  # Pillow raises a dozen kinds, struct.error and SyntaxError among them
        kind = "truncated image" if _ends_early(data, error) else "damaged image"
        raise BadImageError(kind, f"{type(error).__name__}: {error}") from None


@cache
def _formats() -> tuple[str, ...]:
    Pillow.init()
    return tuple(name for name in FORMATS if name in Pillow.OPEN)  # AVIF is younger than our oldest Pillow


def _ends_early(data: bytes, error: Exception) -> bool:
    if data[:4] == b"RIFF" and len(data) >= 8:  # WebP tells its length, its decoder does not tell what is wrong
        return struct.unpack_from("<I", data, 4)[0] + 8 > len(data)
    return isinstance(error, EOFError) or "truncated" in str(error).lower()


def _red_green_blue(image: Pillow.Image) -> UInt8[np.ndarray, "H W 3"]:
    if image.mode[0] in "IF":  # I;16 and its byte orders, I, F
        grey = _to_bytes(np.asarray(image), image.mode, image.format or "")
        return np.repeat(grey[:, :, None], 3, axis=2)
    if "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
        if image.mode in ("La", "RGBa"):
            image = image.convert(image.mode.replace("a", "A"))
        image = image.convert("RGBA")
        image = Pillow.alpha_composite(Pillow.new("RGBA", image.size, "white"), image)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _to_bytes(grey: np.ndarray, mode: str, form: str) -> UInt8[np.ndarray, "H W"]:
    values = grey.astype(np.float64)
    low, high = float(values.min()), float(values.max())
    if not np.isfinite(high - low):
        raise BadImageError("damaged image", "values that are not finite")
    if mode != "F" and (mode != "I" or form in ("PNG", "PPM")):
        whites: tuple[float, ...] = (65535,)  # declared by the format
    else:
        whites = (1, 255, 65535) if mode == "F" else (255, 65535)
    white = next((white for white in whites if low >= 0 and high <= white), None)
    if white is None:
        values, white = values - low, high - low or 1.0
    return np.rint(values * (255 / white)).astype(np.uint8)


def _orientation(image: Pillow.Image) -> int:
    try:  # after loading: it may stand behind the pixels, and TIFF is turned by then
        return image.getexif().get(ORIENTATION, 1)
    except Exception:  # damaged metadata do not damage the picture
        return 1


def _turn_upright(pixels: UInt8[Tensor, "3 H W"], orientation: int) -> UInt8[Tensor, "3 H2 W2"]:
    if orientation not in REVERSED:
        return pixels
    return (pixels.transpose(1, 2) if orientation >= 5 else pixels).flip(REVERSED[orientation])
