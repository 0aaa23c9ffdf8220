"""Tokens of every text of some shards, counted once by one tokenizer, so that batches are planned before a text is read.

A file a tar stands beside its index (`NAME.tar.lengths`, or `NAME.tar.lengths-MAP` under a declared field map), or in the
user's cache where that folder is read-only. It belongs to one index, and so to one state of the tar, and to one tokenizer.
Layout: a mark, the length of the head, the head (JSON), padding to 64 bytes, then the lengths, memory-mapped when read: 16
bits each, or 32 in shards with a text of more than 65,535 tokens.
"""

import hashlib
import json
import logging
import os
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64, UInt

from ...modalities.tokenizer import Tokenizer
from ..sample import BadSampleError
from .index import Index
from .progress import track
from .reader import ShardSet
from .store import map_index, name_apart, user_cache
from .urls import show

log = logging.getLogger(__name__)

WORD = "lengths"
"""What stands in the file's name in place of `index`."""
MARK = b"interlingua text lengths 1\n"
IDENTITY = ("shard", "bytes", "changed", "map")
"""What of an index's head says which tar, in which state and read by which field map, it belongs to."""
TEXTS_AT_ONCE = 4096


class Lengths(NamedTuple):
    """What is known of the texts of one shard."""

    head: dict[str, Any]
    """What the lengths belong to (as of the index, and `tokenizer`), `texts`, and `unread`: samples by fault that could not
    be read when their texts were counted."""
    tokens: UInt[np.ndarray, "T"]


def find_lengths(shards: ShardSet, tokenizer: Tokenizer, build: bool = True, replace: bool = False) -> UInt[np.ndarray, "T"]:
    """Tokens of every text, start and end token included, not cut; in the order of `ShardSet.texts`.

    Those beside remote shards are fetched; missing ones are built, the only slow part. Several processes may do so at once:
    each takes the shards in another order and leaves out those that are there by then. Texts that cannot be read at that
    time are counted, told, and given a length by their bytes: it stays so until `replace`, since an order of batches that has
    been trained on must not change.

    Args:
        shards: Where the texts are.
        tokenizer: What cuts them.
        build: False reads only what is there.
        replace: Write over files of another tokenizer, and over those with texts that could not be read.

    Returns:
        uint16; uint32 if any text has more than 65,535 tokens.

    Raises:
        ValueError: A file was made with another tokenizer.
        FileNotFoundError: A file is missing, and `build` is False.
        OSError: A file can be written neither beside its index nor in the user's cache.
    """
    shards.fetch_beside(WORD)
    store = _Store(shards, tokenizer, replace)
    found = {number: store.find(number) for number in range(len(shards.shards))}
    missing = [number for number, lengths in found.items() if lengths is None]
    if missing and not build:
        raise FileNotFoundError(
            f"{shards.shards[missing[0]].path}: the tokens of its texts are not counted yet (shards without: {len(missing)}); "
            f"run `{store.command(missing[0])}`"
        )
    found.update(store.build(missing))
    store.tell_unread(found)
    columns = [lengths.tokens for lengths in found.values()]
    return np.concatenate(columns) if len(columns) > 1 else columns[0]


def read_lengths(path: Path) -> Lengths | None:
    """The lengths in a file, memory-mapped; None where there is none or it is not one of ours, whole."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(len(MARK)) != MARK:
                return None
            start = len(MARK) + 8 + int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(min(start, size) - len(MARK) - 8))
        end = start + head["texts"] * np.dtype(head["type"]).itemsize
        head["tokenizer"], head["unread"]
    except (OSError, ValueError, KeyError, TypeError):  # a damaged head may be any JSON
        return None
    if end > size:
        return None  # cut short, as a full disk or an interrupted copy leaves it
    return Lengths(head, np.asarray(np.memmap(path, mode="r"))[start:end].view(head["type"]))


def write_lengths(lengths: Lengths, path: Path) -> None:
    """Write lengths whole or not at all: many ranks may do so at once.

    Raises:
        OSError: The folder cannot be written.
    """
    head = json.dumps({**lengths.head, "type": lengths.tokens.dtype.str}).encode()
    head += b" " * (-(len(MARK) + 8 + len(head)) % 64)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(MARK + len(head).to_bytes(8, "little") + head + lengths.tokens.tobytes())
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


class _Store:
    """The lengths of some shards by one tokenizer: found, counted and stored."""

    def __init__(self, shards: ShardSet, tokenizer: Tokenizer, replace: bool):
        self.shards, self.tokenizer, self.replace = shards, tokenizer, replace
        self.starts = np.cumsum([0, *(shard.samples for shard in shards.shards)]).tolist()

    def command(self, number: int) -> str:
        """What counts the tokens of a shard and its neighbours anew."""
        shard = self.shards.shards[number]
        place = shard.path.parent if shard.remote is None else show(shard.remote.url)
        return f"interlingua shards index {place} --tokenizer {self.tokenizer.path}"

    def find(self, number: int) -> Lengths | None:
        """The lengths of a shard that are still valid, wherever they are; None where they must be built.

        Raises:
            ValueError: They were made with another tokenizer, and are not to be replaced.
        """
        shard = self.shards.shards[number]
        wanted = _identify(map_index(shard.index_path))
        if shard.remote is not None:
            del wanted["changed"]  # an upload changes it
        other: tuple[Path, str] | None = None
        for place in self._places(number):
            lengths = read_lengths(place)
            if lengths is None or any(lengths.head.get(name) != value for name, value in wanted.items()):
                continue
            if lengths.head["tokenizer"] == self.tokenizer.hash:
                return None if self.replace and lengths.head["unread"] else lengths
            other = other or (place, lengths.head["tokenizer"])
        if other and not self.replace:
            raise ValueError(
                f"{other[0]}: made with a tokenizer of hash {other[1][:12]}, but {self.tokenizer.path} has hash "
                f"{self.tokenizer.hash[:12]}; give the tokenizer it was made with, or write over it: `{self.command(number)}`"
            )
        return None

    def build(self, missing: list[int]) -> Iterator[tuple[int, Lengths]]:
        """Count and store the lengths of some shards, but for those that another process has stored meanwhile."""
        first = os.getpid() % max(1, len(missing))  # processes of one run start at different shards
        order = [*missing[first:], *missing[:first]]
        samples = (sample for number in order for sample in range(self.starts[number], self.starts[number + 1]))
        total = sum(self.shards.shards[number].samples for number in order)
        tracked = track(samples, "counting tokens", total)
        for number in order:
            own = islice(tracked, self.shards.shards[number].samples)
            lengths = self.find(number)
            if lengths is None:
                lengths = self._count(number, own)
                self._write(number, lengths)
            yield number, lengths
            deque(own, maxlen=0)  # what has been left out
        deque(tracked, maxlen=0)  # closes the bar

    def tell_unread(self, found: dict[int, Lengths]) -> None:
        """Log how many samples have lengths that are only estimated."""
        unread = sum((Counter(lengths.head["unread"]) for lengths in found.values()), Counter())
        if unread:
            number = next(number for number, lengths in found.items() if lengths.head["unread"])
            log.warning(
                "%d samples could not be read when their tokens were counted (%s), of %s first; their lengths are estimated "
                "from their bytes; to count them anew: `%s`",
                unread.total(),
                ", ".join(f"{kind}: {count}" for kind, count in unread.most_common()),
                self.shards.shards[number].path,
                self.command(number),
            )

    def _places(self, number: int) -> list[Path]:
        """Where the lengths of a shard may be, in order of preference."""
        index = self.shards.shards[number].index_path
        stem, _, field_map = index.name.rpartition(".index")
        name = f"{stem}.{WORD}{field_map}"
        return [index.with_name(name), name_apart(user_cache(), str(index.parent.resolve()), name)]

    def _write(self, number: int, lengths: Lengths) -> None:
        beside, cache = self._places(number)
        try:
            write_lengths(lengths, beside)
        except OSError:
            write_lengths(lengths, cache)

    def _count(self, number: int, samples: Iterator[int]) -> Lengths:
        index = map_index(self.shards.shards[number].index_path)
        first = index.arrays["first_text"].astype(np.int64)
        unread: Counter[str] = Counter()
        tokens = np.full(first[-1], -1, np.int64)
        texts = self._read_texts(samples, self.starts[number], first, unread)
        while some := list(islice(texts, TEXTS_AT_ONCE)):
            places, languages = [place for place, _, _ in some], [language for _, language, _ in some]
            tokens[places] = self.tokenizer.count_tokens([text for _, _, text in some], languages)
        tokens = _estimate(tokens, index.arrays["text_size"])
        head = {**_identify(index), "tokenizer": self.tokenizer.hash, "unread": unread}
        return Lengths(head, tokens.astype("<u2" if tokens.max(initial=0) < 2**16 else "<u4"))

    def _read_texts(
        self, samples: Iterator[int], start: int, first: Int64[np.ndarray, "S1"], unread: Counter[str]
    ) -> Iterator[tuple[int, str, str]]:
        """Place among the shard's texts, language and text; what cannot be read is counted by kind."""
        for sample in samples:
            begin, end = first[sample - start : sample - start + 2].tolist()
            try:
                texts = self.shards.read(sample, image=False, members=()).texts
                if len(texts) != end - begin:
                    raise BadSampleError("changed texts", f"{len(texts)} texts, the index has {end - begin}")
            except BadSampleError as error:
                unread[error.kind] += 1
                continue
            yield from ((place, text.language, text.text) for place, text in enumerate(texts, begin))


def _identify(index: Index) -> dict[str, Any]:
    """What lengths are valid for, whoever counted them."""
    sizes = np.ascontiguousarray(index.arrays["text_size"])
    digest = hashlib.blake2b(sizes.tobytes(), digest_size=8).hexdigest()
    return {**{name: index.head[name] for name in IDENTITY}, "texts": len(sizes), "text_sizes": digest}


def _estimate(tokens: Int64[np.ndarray, "T"], sizes: UInt[np.ndarray, "T"]) -> Int64[np.ndarray, "T"]:
    """Put a length in the place of -1: by size in bytes, as the shard's other texts have."""
    known = tokens >= 0
    per_byte = tokens[known].sum() / sizes[known].sum() if known.any() else 1 / 3
    return np.where(known, tokens, np.ceil(sizes * per_byte).astype(np.int64).clip(3))
