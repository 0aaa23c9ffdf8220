"""JPEGs come out alike whichever decoder is installed, and nearly alike when decoded smaller."""

import io
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from interlingua.modalities import image
from interlingua.modalities.augmentation import ImageTransform, draw_luck
from interlingua.modalities.image import BadImageError, collate_images, decode_image, read_jpeg_head


@pytest.fixture
def without_simplejpeg(monkeypatch):
    """From here on as where simplejpeg is not installed."""
    return lambda: monkeypatch.setattr(image, "_simplejpeg", lambda: None)


def jpeg(picture: Image.Image, orientation: int = 1, **options) -> bytes:
    content, exif = io.BytesIO(), Image.Exif()
    if orientation > 1:
        exif[0x0112] = orientation
    picture.save(content, "JPEG", exif=exif, **options)
    return content.getvalue()


def photograph(height: int = 97, width: int = 131, seed: int = 0) -> Image.Image:
    """Light that changes slowly and fast, as in photographs."""
    random = np.random.default_rng(seed)
    pixels = np.zeros((height, width, 3))
    for cells in (2, 5, 12):
        noise = Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        pixels += np.asarray(noise.resize((width, height), Image.Resampling.BICUBIC)) / cells
    return Image.fromarray((pixels * 255 / pixels.max()).astype(np.uint8))


def files() -> list[bytes]:
    ways = [{"quality": 95, "subsampling": kind} for kind in (0, 1, 2)]
    ways += [{"progressive": True}, {"optimize": True}, {"restart_marker_blocks": 3}, {"quality": 30}]
    colour = [jpeg(photograph(97 + 8 * number, seed=number), 1 + number, **way) for number, way in enumerate(ways)]
    return [
        *colour,
        jpeg(photograph().convert("L"), 6),
        jpeg(photograph().convert("CMYK")),
        *(jpeg(photograph(*sides)) for sides in ((1, 1), (7, 30), (9, 15))),
    ]


def outcome(data: bytes) -> torch.Tensor | str:
    try:
        return decode_image(data, max_pixels=10**6)
    except BadImageError as error:
        return error.kind


def alike(first: torch.Tensor | str, second: torch.Tensor | str) -> bool:
    return first.equal(second) if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor) else first == second


def test_all_decoders_give_the_same_bits(without_simplejpeg):
    pytest.importorskip("simplejpeg")
    fast = [decode_image(data) for data in files()]
    without_simplejpeg()
    assert all(one.equal(decode_image(data)) for one, data in zip(fast, files(), strict=True))
    assert all(one.equal(image._decode_any(data, 10**6)) for one, data in zip(fast, files(), strict=True))


def test_damage_is_judged_alike_by_all_decoders(without_simplejpeg):
    """Cut, filled up with zeros, spoilt or shortened in the middle: the same picture, or the same kind of fault."""
    pytest.importorskip("simplejpeg")
    random, damaged = np.random.default_rng(0), []
    for data in files() * 12:
        place, spoilt = int(random.integers(2, len(data))), bytearray(data)
        spoilt[place] = random.integers(0, 256)
        damaged += [data[:place], data[:place] + bytes(len(data) - place), bytes(spoilt), data[:place] + data[place + 3 :]]
    fast = [outcome(data) for data in damaged]
    without_simplejpeg()
    wrong = [number for number, data in enumerate(damaged) if not alike(fast[number], outcome(data))]
    assert wrong == []
    assert {"truncated image", "damaged image"} <= {found for found in fast if isinstance(found, str)}


def test_all_decoders_agree_on_real_photographs(data, without_simplejpeg):
    pytest.importorskip("simplejpeg")
    with tarfile.open(data / "stamps-val.tar") as tar:
        pictures = [tar.extractfile(member).read() for member in tar if member.name.endswith(".webp")][:40]
    stored = [jpeg(Image.open(io.BytesIO(picture)).convert("RGB"), 1 + number % 8) for number, picture in enumerate(pictures)]
    fast = [decode_image(one) for one in stored]
    without_simplejpeg()
    assert all(one.equal(decode_image(two)) for one, two in zip(fast, stored, strict=True))


@pytest.mark.parametrize("installed", [True, False])
def test_orientation_is_found_behind_other_metadata(without_simplejpeg, installed):
    """Editors write XMP before Exif: the picture stands upright all the same."""
    if not installed:
        without_simplejpeg()
    plain = jpeg(photograph(40, 60), orientation=6)
    xmp = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta/>"
    both = plain[:2] + b"\xff\xe1" + (len(xmp) + 2).to_bytes(2, "big") + xmp + plain[2:]
    assert read_jpeg_head(both).shape == (60, 40)
    assert decode_image(both).equal(decode_image(plain))
    assert decode_image(both).shape == (3, 60, 40)


@pytest.mark.parametrize("shrink", [2, 4, 8])
def test_decoding_smaller_gives_the_mean_of_what_is_there(without_simplejpeg, shrink):
    stored = [jpeg(photograph(160, 240, seed=1), kind, quality=95, subsampling=0) for kind in (1, 6)]
    for one in stored:
        small, full = decode_image(one, shrink=shrink), decode_image(one)
        assert small.shape[1:] == tuple(side // shrink for side in full.shape[1:])
        mean = torch.nn.functional.avg_pool2d(full.float(), shrink)
        assert (small - mean).abs().mean() < 1
    found = [decode_image(data, shrink=shrink) for data in files()]
    without_simplejpeg()
    assert all(one.equal(decode_image(data, shrink=shrink)) for one, data in zip(found, files(), strict=True))


def test_decoding_smaller_is_for_jpeg_alone_and_refuses_damage():
    content = io.BytesIO()
    photograph().save(content, "PNG")
    assert decode_image(content.getvalue(), shrink=4).shape == (3, 97, 131)
    whole = jpeg(photograph())
    for share in (0.3, 0.6, 0.9):
        with pytest.raises(BadImageError, match="truncated image"):
            decode_image(whole[: int(len(whole) * share)], shrink=2)


def test_reading_is_decoding_and_cutting():
    transform = ImageTransform(32, area=(0.5, 1.0), mirror=0.5, contrast=0.2)
    for data in files():
        for luck in (None, *draw_luck(torch.arange(2))):
            assert transform.read(data, luck).equal(transform(decode_image(data), luck))


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_scaled_reading_shows_the_same_window(monkeypatch, fit, orientation):
    """Within a hundredth of the levels on average: the window is the same, turned, mirrored and shifted as it may be."""
    shrinks = []

    def watch(data, **options):
        shrinks.append(options["shrink"])
        return decode_image(data, **options)

    monkeypatch.setattr("interlingua.modalities.augmentation.decode_image", watch)
    exact, scaled = (ImageTransform(48, fit, area=(0.3, 1.2), shift=0.1, mirror=0.5, scaled=scaled) for scaled in (False, True))
    stored = jpeg(photograph(301, 403), orientation, quality=95)
    for luck in (None, *draw_luck(torch.arange(12))):
        difference = (exact(decode_image(stored), luck).float() - scaled.read(stored, luck).float()).abs()
        assert difference.mean() < 2.5
    assert 4 in shrinks


def test_scaled_reading_never_shows_less_than_asked_for(monkeypatch):
    """Decoded smaller only where the window keeps `size` pixels; a picture that is small to begin with comes whole."""
    sizes = {}

    def watch(data, **options):
        sizes[len(data)] = options["shrink"]
        return decode_image(data, **options)

    monkeypatch.setattr("interlingua.modalities.augmentation.decode_image", watch)
    for height, width, shrink in [
        (64, 64, 2),
        (63, 64, 1),
        (128, 400, 4),
        (255, 256, 4),
        (256, 256, 8),
        (20, 20, 1),
        (600, 600, 8),
    ]:
        stored = jpeg(photograph(height, width))
        assert ImageTransform(32, scaled=True).read(stored).shape == (3, 32, 32)
        assert sizes[len(stored)] == shrink, (height, width)


def test_pictures_stay_as_decoders_leave_them():
    """Colours side by side from the decoder into the batch: no copy takes them apart."""
    cut = [ImageTransform(16).read(jpeg(photograph(seed=seed))) for seed in range(2)]
    assert all(picture.stride() == (1, 48, 3) for picture in cut)
    pixels = collate_images([cut[0], None, cut[1]], size=16).pixels
    assert pixels.is_contiguous(memory_format=torch.channels_last)
    assert pixels[0].equal(cut[0])
    assert not pixels[1].any()
