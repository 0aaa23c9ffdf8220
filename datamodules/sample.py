"""One record of a shard, as every reader gives it, whatever the shard's own layout."""

from collections.abc import Mapping
from typing import NamedTuple


class Caption(NamedTuple):
    """One text of a sample."""

    language: str
    text: str
    role: str = "caption"


class Sample(NamedTuple):
    """One record. Nothing is decoded yet: a picture that is never looked at costs nothing."""

    shard: str
    """File name of the tar."""
    key: str
    """What the sample's members share as their name."""
    item: int
    """Identity of what the sample is about: the shard's own `item`, hashed to 63 bits; the key where it has none."""
    texts: tuple[Caption, ...]
    """In the order of the shard; documents keep their sentences in order."""
    image: bytes | None = None
    """The picture as stored (jpg, png or webp)."""
    members: Mapping[str, bytes] = {}
    """All other members as stored, by extension: `regions.npz`, `wav`, `codes.npy`, ..."""


class BadSampleError(Exception):
    """A sample that cannot be used: to be counted by kind and skipped, never to stop a run.

    Args:
        kind: Short fixed name of what is wrong, such as `truncated image` or `missing member`.
        detail: What was found.
    """

    def __init__(self, kind: str, detail: str = ""):
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.detail = kind, detail
