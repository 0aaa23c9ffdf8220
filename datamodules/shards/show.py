"""Look at samples: as text, and as a contact sheet of pictures with their captions in every script."""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...modalities.batch import Fault
from ..align.words import split_words
from ..sample import Alignment, BadSampleError, Caption, Sample
from .fields import REGIONS
from .reader import ShardSet

TILE, LINE, MARGIN, LINES = 224, 22, 12, 5
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What would not be seen on a terminal but command it: colours, the cursor, the direction of what follows."""
INK, QUIET, PAPER, FRAME = (28, 28, 32), (130, 130, 140), (255, 255, 255), (235, 235, 240)
COLOURS = ((214, 39, 40), (31, 119, 180), (44, 160, 44), (255, 127, 14), (148, 103, 189), (227, 119, 194), (23, 190, 207))


def choose(shards: ShardSet, count: int, languages: Sequence[str] | None = None, image: bool | None = None) -> list[int]:
    """Numbers of `count` samples, evenly spread over those that have a text in one of the languages.

    Raises:
        ValueError: No sample has.
    """
    numbers = shards.select(languages, texts=1 if languages else 0, image=image)
    if not len(numbers):
        wanted = f"a text in {', '.join(languages)}" if languages else "anything to show"
        picture = " and a picture" if image else ""
        raise ValueError(f"no sample has {wanted}{picture}; these shards have {', '.join(shards.languages) or 'no texts'}")
    return numbers[np.linspace(0, len(numbers) - 1, min(count, len(numbers))).round().astype(int)].tolist()


def format_sample(sample: Sample, languages: Sequence[str] | None = None) -> str:
    """One sample for people: where it is, what it holds, its texts."""
    parts, members = [f"{sample.shard} {sample.key}  item {sample.item}"], sample.members.items()
    if sample.image is not None:
        parts.append(f"  picture, {len(sample.image):,} bytes{_describe(sample.image)}")
    parts += [f"  {extension}, {len(content):,} bytes{_describe_member(extension, content)}" for extension, content in members]
    texts = [text for text in sample.texts if languages is None or text.language in languages]
    parts += [f"  {text.language:<6}{text.role:<9} {text.text}" for text in texts]
    parts += [_format_alignment(sample, alignment) for alignment in sample.alignments]
    return "\n".join(_COMMANDS.sub(lambda found: ascii(found[0])[1:-1], part) for part in parts)


def _format_alignment(sample: Sample, alignment: Alignment) -> str:
    """Which words translate each other: `en-de  dog=Hund house=Haus`."""
    left, right = sample.texts[alignment.text], sample.texts[alignment.translation]
    words, others = split_words([left.text, right.text])
    pairs = " ".join(
        f"{words[one]}={others[other]}" for one, other in alignment.words if one < len(words) and other < len(others)
    )
    return f"  {left.language}-{right.language}  {pairs}"


def draw_sheet(samples: Sequence[Sample], file: Path, languages: Sequence[str] | None = None) -> list[str]:
    """Write a PNG of pictures, each with some of its texts below.

    Args:
        samples: In reading order.
        file: Where the PNG goes.
        languages: Texts to show; None for all. Five lines fit under a picture: the first text of each language goes
            before further ones.

    Returns:
        Languages of texts with characters that no font of this machine has; they are drawn as a note.
    """
    from PIL import Image, ImageDraw

    columns = min(4, max(1, len(samples)))
    height = TILE + LINES * LINE + 2 * MARGIN
    width = TILE + 2 * MARGIN
    rows = -(-len(samples) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height), PAPER)
    canvas = ImageDraw.Draw(sheet)
    missing: set[str] = set()
    for number, sample in enumerate(samples):
        left, top = number % columns * width + MARGIN, number // columns * height + MARGIN
        _draw_picture(sheet, canvas, sample, left, top)
        for line, text in enumerate(_first_of_each(sample, languages)):
            place = (left, top + TILE + 6 + line * LINE)
            canvas.text(place, text.language, fill=QUIET, font=_font(_fonts()[0][0]) if _fonts() else None)
            if not _draw_text(canvas, text.text, (left + 34, place[1])):
                missing.add(text.language)
    file.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(file, "PNG")
    return sorted(missing)


def _first_of_each(sample: Sample, languages: Sequence[str] | None) -> list[Caption]:
    texts = [text for text in sample.texts if languages is None or text.language in languages]
    seen: dict[str, int] = {}
    rank = [seen.setdefault(text.language, number) != number for number, text in enumerate(texts)]
    return [text for _, text in sorted(zip(rank, texts, strict=True), key=lambda pair: pair[0])][:LINES]


def _draw_picture(sheet: Any, canvas: Any, sample: Sample, left: int, top: int) -> None:
    from PIL import Image

    from ...modalities.image import BadImageError, decode_image

    canvas.rectangle((left, top, left + TILE - 1, top + TILE - 1), outline=FRAME)
    if sample.image is None:
        canvas.text((left + 8, top + 8), "no picture", fill=QUIET)
        return
    try:
        pixels = decode_image(sample.image)
    except BadImageError as error:
        canvas.text((left + 8, top + 8), error.kind, fill=(190, 30, 30))
        return
    picture = Image.fromarray(pixels.permute(1, 2, 0).numpy())
    whole, scale = picture.size, TILE / max(picture.size)
    sharp = Image.Resampling.NEAREST if scale > 2 else Image.Resampling.LANCZOS
    picture = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))), sharp)
    left, top = left + (TILE - picture.width) // 2, top + (TILE - picture.height) // 2
    sheet.paste(picture, (left, top))
    if REGIONS in sample.members:
        _draw_regions(canvas, sample.members[REGIONS], whole, (left, top, picture.width, picture.height))


def _draw_regions(canvas: Any, content: bytes, whole: tuple[int, int], place: tuple[int, int, int, int]) -> None:
    """Outlines of the regions over their picture, each with the number of its label; regions of one label share a colour.

    Args:
        canvas: What is drawn on.
        content: The member.
        whole: Width and height of the picture in the boxes' pixels.
        place: Left, top, width and height of the picture on the canvas.
    """
    from ...modalities.region import name_regions
    from ..region_files import parse_regions

    left, top, width, height = place
    try:
        found = name_regions(parse_regions(content, whole))
    except BadSampleError as error:
        canvas.text((left + 8, top + 8), error.kind, fill=(190, 30, 30))
        return
    across, down = (width - 1) / whole[0], (height - 1) / whole[1]
    for number, box in enumerate(found.boxes.tolist()):
        label = -1 if found.label is None else int(found.label[number])
        colour = COLOURS[label % len(COLOURS)]
        corners = [left + box[0] * across, top + box[1] * down, left + box[2] * across, top + box[3] * down]
        canvas.rectangle(corners, outline=colour)
        if label >= 0:
            canvas.text((corners[0] + 2, corners[1] + 1), str(label), fill=colour)


def _draw_text(canvas: Any, text: str, place: tuple[int, int]) -> bool:
    """One line of text in the first font that has all its characters; False (and a note in its place) if none has."""
    path = choose_font(frozenset(text))
    if path is None:
        note = f"(no font for {len(text)} characters)"
        canvas.text(place, note, fill=QUIET, font=_font(_fonts()[0][0]) if _fonts() else None)
        return False
    font, room = _font(path), TILE - 34
    while text and canvas.textlength(text, font=font) > room:
        text = text.rstrip("…")[:-1].rstrip() + "…" if len(text) > 2 else ""
    canvas.text(place, text, fill=INK, font=font)
    return True


@lru_cache(maxsize=1)
def _fonts() -> list[tuple[str, frozenset[int]]]:
    """Plain fonts of this machine and the characters they have, DejaVu Sans first (matplotlib carries it)."""
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font

    plain = [
        font
        for font in fontManager.ttflist
        if font.style == "normal"
        and font.weight in (400, "normal", "regular")
        and not any(word in font.name for word in ("Mono", "Last Resort"))  # the latter has a box for everything
    ]
    plain.sort(key=lambda font: (font.name != "DejaVu Sans", "Sans" not in font.name, font.name, font.fname))
    return [(font.fname, frozenset(FT2Font(font.fname).get_charmap())) for font in plain]


def choose_font(characters: frozenset[str]) -> str | None:
    """File of the first font of this machine that has all characters, if any has."""
    wanted = {ord(character) for character in characters if not character.isspace()}
    return next((path for path, known in _fonts() if wanted <= known), None)


@lru_cache(maxsize=32)
def _font(path: str) -> Any:
    from PIL import ImageFont

    return ImageFont.truetype(path, 15)


def _describe(image: bytes) -> str:
    from ...modalities.image import BadImageError, decode_image

    try:
        _, height, width = decode_image(image).shape
    except BadImageError as error:
        return f", cannot be decoded: {error}"
    return f", {width} x {height}"


def _describe_member(extension: str, content: bytes) -> str:
    from ...modalities.region import OPTIONAL
    from ..region_files import parse_regions

    if extension != REGIONS:
        return ""
    try:
        found = parse_regions(content)
    except BadSampleError as error:
        return f", cannot be used: {error}"
    named = [name for name in OPTIONAL if getattr(found, name) is not None]
    told = f" with {', '.join(named)}" if named else ""
    return f": {len(found.boxes)} regions of {found.features.shape[1]} numbers{told}, in {found.size[0]} x {found.size[1]}"


def read_some(shards: ShardSet, numbers: Sequence[int]) -> tuple[list[Sample], list[Fault]]:
    """Those of the samples that can be read, and what is wrong with the others."""
    samples, faults = [], []
    for number in numbers:
        try:
            samples.append(shards.read(number))
        except BadSampleError as error:
            faults.append(Fault(error.kind, *shards.find(number), error.detail))
    return samples, faults
