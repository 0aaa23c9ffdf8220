"""Shards with pictures and the regions in them."""

import io
from pathlib import Path

import torch
from found import find
from PIL import Image as Pillow
from small_shards import name_of
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.region_choice import RegionChoice
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import ShardSet
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.source import Source
from interlingua.modalities.region import FoundRegions, pack_regions

SIZE = (100, 50)
COUNTS = (5, 0, 36, 3, 1, 2)
"""Regions of the first samples; of the others as well, again and again."""


def picture(size: tuple[int, int] = SIZE, orientation: int = 1) -> bytes:
    """A white picture, red in its left tenth."""
    drawn, content, exif = Pillow.new("RGB", size, "white"), io.BytesIO(), Pillow.Exif()
    drawn.paste((255, 0, 0), (0, 0, size[0] // 10, size[1]))
    exif[0x0112] = orientation
    drawn.save(content, "JPEG", exif=exif, quality=95)
    return content.getvalue()


def found_in(number: int, **options) -> FoundRegions:
    """The regions of a sample."""
    return find(number, **{"count": COUNTS[number % len(COUNTS)], "size": SIZE, "classes": 6, **options})


def write(folder: Path, data: Path, found: list[FoundRegions | bytes | None], image: bool = True) -> str:
    """Samples with a text each, and, where they are given, regions: checked, or as bytes of anything."""
    with ShardWriter(folder) as writer:
        for number, one in enumerate(found):
            members = {} if not isinstance(one, FoundRegions) else {"regions.npz": pack_regions(one)}
            caption = Caption("en", name_of(data, "en", number))
            writer.write(f"{number:04d}", [caption], item=number, image=picture() if image else None, members=members)
    return str(folder)


def open_reader(paths: str | list[str], data: Path, regions: RegionChoice | None = RegionChoice(), **options) -> Reader:  # noqa: B008
    """An opened source of texts and regions, eight rows a step."""
    options = {"text": TextChoice(), "batch_size": 8, **options}
    shards = ShardSet(paths, options.get("fields"))
    return Reader("regions", Source(paths, regions=regions, **options), shards, small_tokenizer(data), 64)


def read(reader: Reader, *samples: int):
    """What came of reading some samples in their first epoch."""
    rows = torch.tensor(samples)
    return reader.read(reader.rows(rows, rows * 0))
