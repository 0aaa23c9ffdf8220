"""Whatever people have becomes red, green and blue, upright, or a named fault."""

import contextlib
import io
import struct
import tarfile
import warnings
import zlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile

from interlingua.modalities.image import BadImageError, collate_images, decode_image

RED, WHITE = [255, 0, 0], [255, 255, 255]


def encode(image: Image.Image, form: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def picture(height: int = 48, width: int = 64) -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (height // 8, width // 8, 3))
    return Image.fromarray(np.kron(noise, np.ones((8, 8, 1))).astype(np.uint8))


def pixel(data: bytes, row: int = 0, column: int = 0) -> list[int]:
    return decode_image(data)[:, row, column].tolist()


def oriented(orientation: int, form: str = "JPEG") -> bytes:
    """4 wide, 2 high as stored, red in the stored upper left corner, blue elsewhere."""
    pixels = np.full((2, 4, 3), (0, 0, 255), np.uint8)
    pixels[0, 0] = RED
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"quality": 100, "subsampling": 0} if form == "JPEG" else {"lossless": True} if form == "WEBP" else {}
    return encode(Image.fromarray(pixels), form, exif=exif, **options)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bit_grey_is_scaled_not_clamped(form):
    """Pitfall I01: 51559 is 201, 32768 is 128, 65535 is 255, with at least 250 levels in three equal channels."""
    ramp = np.linspace(0, 65535, 256).round().astype(np.uint16)
    ramp[:3] = 51559, 32768, 65535
    pixels = decode_image(encode(Image.fromarray(ramp[None]), form))
    assert pixels.shape == (3, 1, 256)
    assert pixels[0, 0, :3].tolist() == [201, 128, 255]
    assert pixels[0].unique().numel() >= 250
    assert pixels[0].equal(pixels[1])
    assert pixels[0].equal(pixels[2])


def test_sixteen_bit_portable_greymap():
    data = b"P5 4 1 65535\n" + np.array([0, 32768, 51559, 65535], ">u2").tobytes()
    assert decode_image(data)[0, 0].tolist() == [0, 128, 201, 255]


def test_sixteen_bit_colour_keeps_its_high_byte():
    row = b"\0" + struct.pack(">6H", 65535, 32768, 0, 51559, 0, 65535)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)), (b"IDAT", zlib.compress(row)), (b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in chunks:
        data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    assert pixel(data) == [255, 128, 0]
    assert pixel(data, column=1) == [201, 0, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([0.0, 128.0, 255.0], [0, 128, 255]),
        ([0.0, 32768.0, 65535.0], [0, 128, 255]),
        ([-10.0, 0.0, 10.0], [0, 128, 255]),
        ([3.5e5, 3.5e5, 3.5e5], [0, 0, 0]),
    ],
)
def test_floats_find_their_white(values, expected):
    image = Image.fromarray(np.array([values], np.float32))
    assert decode_image(encode(image, "TIFF"))[1, 0].tolist() == expected


def test_thirty_two_bit_integers_find_their_white():
    for values, expected in [([0, 17, 240], [0, 17, 240]), ([0, 257, 65535], [0, 1, 255]), ([-1, 0, 1], [0, 128, 255])]:
        assert decode_image(encode(Image.fromarray(np.array([values], np.int32)), "TIFF"))[2, 0].tolist() == expected


def test_values_that_are_not_finite_are_damage():
    with pytest.raises(BadImageError, match="damaged image: values that are not finite"):
        decode_image(encode(Image.fromarray(np.array([[0.0, np.nan]], np.float32)), "TIFF"))


def test_transparency_shows_white():
    clear_red = Image.new("RGBA", (2, 1), (255, 0, 0, 0))
    clear_red.putpixel((1, 0), (255, 0, 0, 255))
    for form in ("PNG", "WEBP", "TIFF"):
        data = encode(clear_red, form, **({"lossless": True} if form == "WEBP" else {}))
        assert (pixel(data), pixel(data, column=1)) == (WHITE, RED), form
    half = Image.new("LA", (1, 1), (0, 128))
    assert pixel(encode(half)) == [127, 127, 127]


def test_palettes_with_and_without_transparency():
    image = Image.new("P", (2, 1), 1)
    image.putpalette([0, 255, 0, 255, 0, 0])
    image.putpixel((0, 0), 0)
    assert pixel(encode(image, "PNG")) == pixel(encode(image, "GIF")) == [0, 255, 0]
    for data in (encode(image, "PNG", transparency=0), encode(image, "GIF", transparency=0)):
        assert (pixel(data), pixel(data, column=1)) == (WHITE, RED)
    partly = encode(image, "PNG", transparency=bytes([255, 0]))
    assert (pixel(partly), pixel(partly, column=1)) == ([0, 255, 0], WHITE)


def test_a_transparent_colour_of_grey_and_of_colour_shows_white():
    assert pixel(encode(Image.new("L", (1, 1), 7), transparency=7)) == WHITE
    assert pixel(encode(Image.new("RGB", (1, 1), (1, 2, 3)), transparency=(1, 2, 3))) == WHITE


def test_one_bit_one_pixel_and_other_formats():
    assert pixel(encode(Image.new("1", (1, 1), 1))) == WHITE
    for form in ("PNG", "BMP", "TIFF", "PPM", "GIF"):
        assert pixel(encode(Image.new("RGB", (1, 1), "red"), form)) == RED, form
    assert decode_image(encode(Image.new("L", (1, 1), 100), "JPEG")).tolist() == [[[100]]] * 3


def test_cmyk_of_adobe_is_inverted_as_stored():
    assert decode_image(encode(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100))[:, 4, 4].tolist() == RED
    black = decode_image(encode(Image.new("CMYK", (8, 8), (0, 0, 0, 255)), "JPEG", quality=100))
    assert black.max() == 0


def test_ycck_becomes_red():
    """A CMYK file of luma and chroma planes becomes YCCK by one byte of its Adobe marker (the transform)."""
    cyan = Image.new("RGB", (8, 8), (0, 255, 255)).convert("YCbCr").getpixel((0, 0))  # red as Adobe stores it
    data = encode(Image.new("CMYK", (8, 8), tuple(255 - value for value in (*cyan, 255))), "JPEG", quality=100)
    at = data.index(b"Adobe") + 11
    red = decode_image(data[:at] + b"\2" + data[at + 1 :])[:, 4, 4]
    assert (red - torch.tensor(RED)).abs().max() <= 2


def test_orientation_six_stands_upright():
    """Pitfall I03: stored 4 x 2 with orientation 6 becomes 4 high and 2 wide, the corner where a viewer shows it."""
    pixels = decode_image(oriented(6))
    assert pixels.shape == (3, 4, 2)
    assert pixels[0, 0, 1] > 200  # a quarter turn clockwise: the stored upper left is shown at the upper right
    assert pixels[0].flatten().topk(2).values[1] < 60


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_all_eight_orientations_in_every_format(form):
    corners = {1: (0, 0), 2: (0, 3), 3: (1, 3), 4: (1, 0), 5: (0, 0), 6: (0, 1), 7: (3, 1), 8: (3, 0)}
    for orientation, corner in corners.items():
        red = decode_image(oriented(orientation, form))[0]
        assert red.shape == ((2, 4) if orientation < 5 else (4, 2)), orientation
        assert divmod(int(red.argmax()), red.shape[1]) == corner, orientation


def test_damaged_metadata_do_not_damage_the_picture():
    for exif in (
        b"Exif\0\0junk",
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x63\0\0",
    ):  # no TIFF; orientation 99
        for form in ("JPEG", "PNG", "WEBP"):
            assert decode_image(encode(picture(), form, exif=exif)).shape == (3, 48, 64)


def test_the_fast_path_equals_pillow():
    for options in ({}, {"progressive": True}, {"subsampling": 0}, {"optimize": True}):
        data = encode(picture(), "JPEG", **options)
        expected = torch.from_numpy(np.array(Image.open(io.BytesIO(data)))).permute(2, 0, 1)
        assert decode_image(data).equal(expected)


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_an_animation_the_first_frame(form):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    data = encode(frames[0], form, save_all=True, append_images=frames[1:], **({"lossless": True} if form == "WEBP" else {}))
    assert pixel(data) == RED


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
def test_truncated_pictures_are_refused(form, share):
    """Pitfall I05: no half picture, at any cut."""
    data = encode(picture(480, 640), form)
    with pytest.raises(BadImageError, match="truncated image"):
        decode_image(data[: int(len(data) * share)])


def test_a_jpeg_without_its_end_or_filled_up_with_zeros_is_refused():
    for options in ({}, {"progressive": True}):
        data = encode(picture(240, 320), "JPEG", **options)
        cut = data[: len(data) * 6 // 10]
        for damaged in (data[:-2], cut + bytes(len(data) - len(cut))):
            with pytest.raises(BadImageError) as caught:
                decode_image(damaged)
            assert caught.value.kind == "truncated image"


def test_what_is_no_picture_has_a_kind():
    """Pitfall I05: a bomb, an empty file, text and damage are refused by kind."""
    bomb = encode(Image.new("1", (20000, 20000)), compress_level=1)
    vector = b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'></svg>"
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"
    damaged = encode(picture())[:200] + bytes(212)
    cases = [(b"", "empty image"), (b"this is text", "not an image"), (vector, "not an image"), (script, "not an image")]
    cases += [(bomb, "oversized image"), (damaged, "damaged image"), (b"\xff\xd8\xff\xe0\0\x10JFIF", "truncated image")]
    for data, kind in cases:
        with pytest.raises(BadImageError) as caught:
            decode_image(data)
        assert caught.value.kind == kind, data[:20]


def test_size_is_refused_before_decoding_in_every_path():
    for form in ("JPEG", "PNG"):
        data = encode(picture(48, 64), form)
        assert decode_image(data, max_pixels=48 * 64).shape == (3, 48, 64)
        with pytest.raises(BadImageError, match="oversized image: 64 x 48 pixels, at most 3071"):
            decode_image(data, max_pixels=48 * 64 - 1)
    cut = encode(picture(48, 64), "JPEG")[:-100]
    with pytest.raises(BadImageError, match="oversized image"):  # judged by its header alone
        decode_image(cut, max_pixels=1)


def test_noise_never_raises_anything_else_and_no_warning_leaks():
    random = np.random.default_rng(1)
    files = [encode(picture(), form) for form in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "ICO")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for data in files:
            for _ in range(20):
                spoilt = bytearray(data)
                for at in random.integers(0, len(data), 6):
                    spoilt[at] = random.integers(0, 256)
                with contextlib.suppress(BadImageError):
                    assert decode_image(bytes(spoilt), max_pixels=10**6).shape[0] == 3


def test_pillow_is_left_as_it_was():
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters)
    decode_image(encode(picture()))
    with pytest.raises(BadImageError):
        decode_image(encode(picture())[:200])
    assert (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters)) == before


def test_collate_leaves_zeros_where_there_is_no_picture():
    one = torch.full((3, 2, 2), 9, dtype=torch.uint8)
    image = collate_images([one, None, one], size=2)
    assert image.present.tolist() == [True, False, True]
    assert image.pixels.sum(dim=(1, 2, 3)).tolist() == [108, 0, 108]
    assert image.hidden is None
    with pytest.raises(ValueError, match="transform pictures to"):
        collate_images([one], size=3)


@pytest.mark.parametrize(("name", "count"), [("emoji-noto-train", 3124), ("stamps-train", 701)])
def test_all_real_pictures_decode(data, name, count):
    decoded, spread = 0, 0
    with tarfile.open(data / f"{name}.tar") as tar:
        for member in tar:
            if member.name.endswith(".webp"):
                pixels = decode_image(tar.extractfile(member).read())
                decoded, spread = decoded + 1, spread + int(pixels.amax() > pixels.amin())
    assert decoded == count
    assert spread >= count - 1  # hardly a picture is of one colour
