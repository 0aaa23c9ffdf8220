"""Write the quick start's shards, so that nothing of a novel concept is in training.

    train/pictures    pictures with English names and keywords: the only texts that ever stand with a picture
    train/names       the names and keywords of the same concepts in twelve languages, without pictures
    train/captions    both in one: the upper bound, for comparison
    validation, test  pictures of novel concepts with their names in twelve languages

The split is the data's own, by concept. An item is one emoji: variants of a concept (a man and a woman shrugging) have
pictures and names of their own. Names have the role `name`, keywords `keyword`.

Two kinds of leaks are closed. A training text that equals a novel concept's name in any language is dropped, whatever
its own language and role: moto is French for motorcycle, which is in training, and Spanish for motor scooter. And a
training picture that shows what a novel one shows is dropped: the flags of Norway and Bouvet Island are one drawing.
"""

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...modalities.normalization import normalize
from ..sample import Caption
from ..shards.writer import ShardWriter, find_older

SPLITS = ("train", "validation", "test")
FOLDERS = ("train/pictures", "train/names", "train/captions", "validation", "test")
SAME_PICTURE = 6.0
"""Root mean square difference (of 255) below which two pictures are one drawing. In the data there is nothing between
4.9 (the flags of Diego Garcia and the British Indian Ocean Territory) and 7.5 (loudspeakers of low and medium volume)."""


class Emoji(NamedTuple):
    """One picture with its texts."""

    item: str
    """Code points in hexadecimal digits, joined by hyphens."""
    split: str
    concept: str
    texts: tuple[Caption, ...]


class Dropped(NamedTuple):
    """What was kept out of training, because a novel concept has the same."""

    names: int
    keywords: int
    pictures: int


def load_emoji() -> tuple[list[Emoji], np.ndarray]:
    """All emoji with all texts, and their pictures: uint8 `[1906, 32, 32, 3]`."""
    from PIL import Image

    folder = files(__package__)
    data = json.loads(gzip.decompress((folder / "emoji_mini.json.gz").read_bytes()))
    side, columns = data["px"], data["cols"]
    with Image.open(io.BytesIO((folder / "emoji_mini.webp").read_bytes())) as opened:
        sheet = np.asarray(opened.convert("RGB"))
    tiles = sheet.reshape(-1, side, columns, side, 3).swapaxes(1, 2).reshape(-1, side, side, 3)
    emoji = [
        Emoji(item, SPLITS[split], concept, _captions(data, number))
        for number, (item, _, _, split, concept) in enumerate(data["items"])
    ]
    return emoji, tiles[: len(emoji)]


def _captions(data: Mapping[str, Any], number: int) -> tuple[Caption, ...]:
    return tuple(
        Caption(language, text, "keyword" if place else "name")
        for language in data["langs"]
        for place, text in enumerate(data["captions"][language][number])
    )


def fold(text: str) -> str:
    """Text as leaks are looked for: the tokenizer's normalisation, without case, joiners and variation selectors."""
    folded = normalize(normalize(text).casefold())
    return folded.translate(dict.fromkeys((0x200C, 0x200D, 0xFE0E, 0xFE0F)))


def novel_names(emoji: Sequence[Emoji]) -> frozenset[str]:
    """Folded names of all validation and test concepts, in all languages."""
    return frozenset(fold(text.text) for one in emoji if one.split != "train" for text in one.texts if text.role == "name")


def novel_pictures(emoji: Sequence[Emoji], pictures: np.ndarray) -> frozenset[str]:
    """Items of training whose picture shows what a picture of a validation or test concept shows."""
    flat = pictures.reshape(len(pictures), -1).astype(np.float32)
    novel = np.array([one.split != "train" for one in emoji])
    square = (flat**2).mean(1)
    nearest = square[:, None] + square[novel] - 2 / flat.shape[1] * flat @ flat[novel].T
    same = nearest.min(1) < SAME_PICTURE**2
    return frozenset(one.item for one, found in zip(emoji, same, strict=True) if found and one.split == "train")


def close_leaks(emoji: Sequence[Emoji]) -> tuple[list[Emoji], Dropped]:
    """The training emoji, without texts that name a novel concept; pictures are left to `novel_pictures`."""
    novel = novel_names(emoji)
    kept, names, keywords = [], 0, 0
    for one in emoji:
        if one.split == "train":
            leaks = [fold(text.text) in novel for text in one.texts]
            lost = Counter(text.role for text, leak in zip(one.texts, leaks, strict=True) if leak)
            names, keywords = names + lost["name"], keywords + lost["keyword"]
            kept.append(one._replace(texts=tuple(text for text, leak in zip(one.texts, leaks, strict=True) if not leak)))
    return kept, Dropped(names, keywords, 0)


def write_quickstart(folder: Path | str, force: bool = False) -> Dropped:
    """Write all shards of the quick start, with licences and counts beside them.

    Args:
        folder: Gets the folders named at the top of this file, `NOTICE` and `about.json`.
        force: Replace shards that are there.

    Returns:
        How much was kept out of training.

    Raises:
        FileExistsError: One of the folders is not empty.
    """
    folder = Path(folder)
    for name in FOLDERS:
        find_older(folder / name, force)  # before the work, as it may be refused
    emoji, pictures = load_emoji()
    encoded = {one.item: _encode(picture) for one, picture in zip(emoji, pictures, strict=True)}
    training, dropped = close_leaks(emoji)
    shown_elsewhere = novel_pictures(emoji, pictures)
    dropped = dropped._replace(pictures=len(shown_elsewhere))
    shown = [one for one in training if one.item not in shown_elsewhere]
    _write(folder / "train" / "pictures", _only(shown, languages=["en"]), encoded, force)
    _write(folder / "train" / "names", training, {}, force)
    _write(folder / "train" / "captions", shown, encoded, force)
    for split in SPLITS[1:]:
        novel = [one for one in emoji if one.split == split]
        _write(folder / split, _only(novel, roles=["name"]), encoded, force)
    (folder / "NOTICE").write_bytes((files(__package__) / "NOTICE").read_bytes())
    about = {"data": "quickstart", "dropped": dropped._asdict()}
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return dropped


def _only(
    emoji: Sequence[Emoji], languages: Sequence[str] | None = None, roles: Sequence[str] | None = None
) -> Iterator[Emoji]:
    for one in emoji:
        texts = tuple(
            text
            for text in one.texts
            if (languages is None or text.language in languages) and (roles is None or text.role in roles)
        )
        if texts:
            yield one._replace(texts=texts)


def _write(folder: Path, emoji: Iterable[Emoji], encoded: Mapping[str, bytes], force: bool) -> None:
    with ShardWriter(folder, samples_per_shard=512, force=force) as writer:
        for one in emoji:
            writer.write(one.item, one.texts, one.item, encoded.get(one.item), concept=one.concept)


def _encode(picture: np.ndarray) -> bytes:
    from PIL import Image

    stored = io.BytesIO()
    Image.fromarray(picture).save(stored, "PNG")
    return stored.getvalue()
