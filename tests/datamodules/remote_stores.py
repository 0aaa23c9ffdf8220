"""What the served stores of the tests hold, and what is found of it in a cache."""

import hashlib
from collections import Counter
from pathlib import Path

from loopback import Loopback

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import ShardSet, ShardWriter
from interlingua.datamodules.shards.cache import Cache
from interlingua.datamodules.shards.remote import RemoteTar, describe

COUNT, SHARDS = 12, 4
SIZE = 3_000_000


def write_store(folder: Path) -> Path:
    """Shards of samples in two languages, with their indexes beside them."""
    with ShardWriter(folder, samples_per_shard=COUNT // SHARDS) as writer:
        for number in range(COUNT):
            texts = [Caption("en", f"dog {number}"), Caption("de", f"Hund {number}")]
            writer.write(f"{number:04d}", texts, image=b"\x89PNG" + number.to_bytes(2, "big") * 1000)
    ShardSet(str(folder))  # writes the indexes
    return folder


def write_bytes(folder: Path) -> Path:
    """A store of a.tar, which is just bytes: for tests in which what is fetched is not looked into."""
    folder.mkdir()
    (folder / "a.tar").write_bytes(content_of(0))
    return folder


def content_of(number: int, size: int = SIZE) -> bytes:
    """Bytes that differ by their number."""
    return hashlib.shake_128(bytes([number])).digest(size)


def tars(counter: Counter[str]) -> dict[str, int]:
    """Counts of tars alone."""
    return {name: count for name, count in counter.items() if name.endswith(".tar")}


def find(server: Loopback, name: str = "a.tar", sha256: bool = False) -> RemoteTar:
    """A tar as it is found at the start of a run."""
    url = f"{server.url}/{name}"
    if not sha256:
        return describe([RemoteTar(url)])[0]
    content = (server.folder / name).read_bytes()
    return RemoteTar(url, len(content), sha256=hashlib.sha256(content).hexdigest())


def names(cache: Cache) -> list[str]:
    """Files of a cache, without locks."""
    return sorted(path.name for path in Path(cache.folder, "tars").rglob("*") if path.is_file() and path.name != "lock")


def fetch(cache: Cache, tar: RemoteTar) -> bytes:
    """The content of a tar that is fetched into a cache."""
    cache.fetch(tar)
    return cache.place(tar).read_bytes()
