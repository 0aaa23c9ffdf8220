"""One shard with good samples and every kind of bad one that people have by mistake."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
from small_shards import name_of, picture, record

from interlingua.datamodules.shards.fields import FieldMap

MAP = FieldMap(require=["image", "text"])
"""Without it a sample without a picture is a sentence."""

GOOD = 12
FOUND_BY_INDEX = {
    "empty": "empty caption",
    "white": "empty caption",
    "alone": "missing member",
    "apart": "scattered members",
    "twice": "duplicate member",
    "again": "scattered members",
    "wrong": "broken json",
    "cut": "truncated tar",
}
"""Kind of fault by key."""
FOUND_BY_DECODING = {"half": "truncated image", "nan": "not finite"}


def regions(*numbers: float) -> bytes:
    """Regions with these features, of a picture of 8 x 8."""
    stored, boxes = io.BytesIO(), np.array([[1, 2, 5, 6]] * len(numbers), np.float32)
    np.savez(stored, features=np.array(numbers, np.float16)[:, None], boxes=boxes, size=np.array([8, 8], np.int32))
    return stored.getvalue()


def members(data: Path, decoding: bool) -> list[tuple[str, bytes]]:
    """All members in the order of the tar; bad samples stand among good ones.

    Args:
        data: The development data.
        decoding: Also those whose faults only decoding finds.
    """

    def sample(key: str, number: int, **parts: bytes) -> list[tuple[str, bytes]]:
        texts = [(language, name_of(data, language, number)) for language in ("en", "de")]
        whole = {"json": record(*texts), "png": picture(number)}
        return [(f"{key}.{extension}", content) for extension, content in (whole | parts).items()]

    good = [sample(f"good{number:02d}", number) for number in range(GOOD)]
    good[3] = sample("good03", 3, **{"regions.npz": regions(0.5, 1.0), "note.txt": b"undeclared"})
    good[4] = sample("good04", 4, json=record(("en", "a name"), ("de", " "), ("de", "ein Name")))
    apart, again = sample("apart", 20), sample("again", 21)
    half = picture(30, "JPEG", 64)
    bad = [
        sample("empty", 22, json=record(("en", ""))),
        sample("white", 23, json=record(("en", " \t\u200b "))),
        sample("alone", 24)[:1],
        apart[:1],
        sample("twice", 25) + sample("twice", 25)[:1],
        again,
        sample("wrong", 26, json=b'{"texts": ['),
        sample("foreign", 27, json=json.dumps({"texts": [{"lang": "xx", "text": "of no known language"}]}).encode()),
    ]
    if decoding:
        bad += [sample("half", 28, png=half[: len(half) // 2]), sample("nan", 29, **{"regions.npz": regions(0.5, np.nan)})]
    mixed = [part for pair in zip(good, bad, strict=False) for part in pair] + good[len(bad) :]
    return [member for part in (*mixed, apart[1:], again, sample("cut", 31)) for member in part]


def write_damaged(path: Path, data: Path, decoding: bool = True) -> str:
    """A tar of all these, that ends inside its last sample; its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in members(data, decoding):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        end = tar.offset
    with open(path, "r+b") as file:
        file.truncate(end - 450)
    return str(path)
