"""Small real shards: drawn pictures with real names in several languages, written by our own writer."""

import io
import json
import tarfile
from pathlib import Path
from types import SimpleNamespace

import torch
from PIL import Image as Pillow
from trained import names

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter

LANGUAGES = ("en", "de", "sw")


def picture(number: int, form: str = "PNG", size: int = 8) -> bytes:
    """A picture whose red channel is its number."""
    content = io.BytesIO()
    Pillow.new("RGB", (size, size), (number % 256, 100, 200)).save(content, form)
    return content.getvalue()


def name_of(data: Path, language: str, number: int) -> str:
    """Real names that differ by their number."""
    own = [text for code, text in names(data) if code == language]
    return f"{own[number % len(own)]} {number}"


def write_shards(folder: Path, data: Path, counts=(10, 10, 3), languages=LANGUAGES, images=True, roles=("name", "keyword")):
    """Shards of the given numbers of samples; sample n is item n, with a text in each language and role.

    Returns:
        The folder.
    """
    number = 0
    for shard, count in enumerate(counts):
        with ShardWriter(folder / f"{shard}") as writer:
            for _ in range(count):
                texts = [
                    Caption(language, f"{name_of(data, language, number)} {role}", role)
                    for language in languages
                    for role in roles
                ]
                writer.write(f"{number:04d}", texts, item=number, image=picture(number) if images else None)
                number += 1
    return [str(folder / f"{shard}") for shard in range(len(counts))]


def write_tar(path: Path, members: dict[str, bytes]) -> str:
    """A tar of anything, for what our own writer refuses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return str(path)


def record(*texts: tuple[str, str], **fields) -> bytes:
    """A sample's JSON."""
    return json.dumps({"texts": [{"lang": language, "text": text} for language, text in texts], **fields}).encode()


def as_rank(module, rank: int = 0, world: int = 1, step: int = 0):
    """A data module as it stands on one of several ranks, without processes."""
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    module.trainer = SimpleNamespace(global_rank=rank, world_size=world, global_step=step, max_steps=-1, strategy=strategy)
    return module


def equal(left, right) -> bool:
    """Whether two batches or steps are the same, bit by bit."""
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(equal, left, right))
    return left == right
