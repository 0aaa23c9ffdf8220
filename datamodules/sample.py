"""One record of a shard, as every reader gives it, whatever the shard's own layout."""

from collections.abc import Mapping
from typing import NamedTuple


class Caption(NamedTuple):
    """One text of a sample."""

    language: str
    """Code as the shard has it (`en`, `zh_CN`); `und` where the shard does not say."""
    text: str
    """Never blank: blank texts are counted and left out when a shard is indexed."""
    role: str = "caption"
    """What the text is to the sample: `caption`, `name`, `keyword`, `sentence`, ..."""


class Alignment(NamedTuple):
    """Which words of one text translate which words of another, both of one sample; words as `alignments.py` counts them."""

    text: int
    """Number of the text in `Sample.texts`."""
    translation: int
    """Number of its translation in `Sample.texts`."""
    words: tuple[tuple[int, int], ...]
    """Pairs of words, (of `text`, of `translation`), from 0; a word may stand in several pairs, or in none."""
    possible: tuple[tuple[int, int], ...] = ()
    """Pairs that whoever aligned them was not sure of."""


class Sample(NamedTuple):
    """One record. Nothing is decoded yet: a picture that is never looked at costs nothing."""

    shard: str
    """File name of the tar."""
    key: str
    """What the sample's members share as their name."""
    item: int
    """Identity of what the sample is about: the shard's own `item`, hashed to 63 bits; where it has none, its shard's
    file name and key (keys alone often start again in each shard)."""
    texts: tuple[Caption, ...]
    """In the order of the shard; documents keep their sentences in order."""
    image: bytes | None = None
    """The picture as stored (jpg, png or webp)."""
    members: Mapping[str, bytes] = {}
    """All other declared members as stored, by extension: `regions.npz`, `wav`, `codes.npy`, ..."""
    document: bool = False
    """Whether the texts of each language are the sentences of one document, one after the other; else each text stands
    for itself, as captions of one picture do."""
    alignments: tuple[Alignment, ...] = ()
    """Words of texts that translate each other, where the shard knows them."""


class BadSampleError(Exception):
    """A sample that cannot be used: to be counted by kind and skipped, never to stop a run.

    Args:
        kind: Short fixed name of what is wrong, such as `truncated image` or `missing member`.
        detail: What was found.
    """

    def __init__(self, kind: str, detail: str = ""):
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.detail = kind, detail

    def __reduce__(self):
        """Survive the way back from a worker process: an exception is otherwise pickled by its message alone."""
        return type(self), (self.kind, self.detail)
