"""Random access to the samples of many shards, through their indexes."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from sys import getsizeof

import numpy as np

from ...modalities.batch import Fault
from ..sample import Alignment, BadSampleError, Caption, Sample
from .cache import Cache
from .fields import FieldMap
from .index import Index, understand
from .opening import OpenShards, Shard
from .paths import find_tars
from .progress import track
from .remote import RemoteTar, describe
from .remote_index import fetch_beside, find_remote_indexes
from .store import find_index, map_index, read_head, store_index
from .tar import read_at
from .text_table import TextTable, tabulate

KEPT_BYTES = 2**25


_Told = tuple[tuple[Caption, ...], int, bool, tuple[Alignment, ...]]
"""Texts, item, document and alignments of a sample."""


class ShardSet:
    """Samples of local and remote shards, numbered from 0 in the order of the shards; bad ones have no number.

    Building missing indexes is the only slow part; opening is a short read a shard. Files are opened when first read, a
    limited number at a time, anew in each process; pickles hold paths alone.

    A remote shard (http, https, or a scheme that fsspec knows) is fetched whole into the cache when a sample of it is first
    read. What cannot be fetched after some tries is an error, `RemoteError`, and no bad sample.

    The texts that are read first are kept, up to `KEPT_BYTES` of memory in each process: small sets are read many times
    over, and parsing dozens of texts costs more than all else about a sample. None is dropped for another, since in
    shuffled order each sample is as likely to be read next.

    Attributes:
        languages: Codes of all texts, sorted. roles: Roles of all texts, sorted.
        faults: Samples that the indexes found bad; broken places of tars that cost no sample have the key `""`.
        fields: Samples that have a declared member, by extension. unmatched: Undeclared members, by extension (`""`:
            names without one). blank: Blank texts that were left out of samples that have others.
        sizes: int64 `[shards]`, samples of each shard. bytes: int64 `[shards]`, bytes of each tar.
        remote: Whether any shard is fetched before it is read.
    """

    def __init__(
        self,
        paths: Sequence[str] | str,
        fields: FieldMap | None = None,
        index_folder: str | Path | None = None,
        cache: Cache | None = None,
    ):
        """
        Args:
            paths: Tars, brace patterns (`{00000..00041}.tar`), glob patterns, folders (the shards of their `index.json`,
                else all their tars), or a list of these; local, or URLs.
            fields: What the members of the shards are; None for this project's own layout.
            index_folder: Where indexes are kept; None for beside the tars, or the user's cache where that is read-only;
                those of remote shards in the cache.
            cache: Where remote shards are kept; None for the user's cache folder.

        Raises:
            FileNotFoundError: A path or pattern finds no shard.
            RemoteError: A remote shard is missing, denied or out of reach.
            ValueError: A shard is named twice, or larger than the cache.
        """
        self.map, self.cache = fields or FieldMap(), cache or Cache()
        folder = None if index_folder is None else Path(index_folder)
        tars = find_tars(paths)
        local = {tar: find_index(tar, self.map, folder) for tar in tars if isinstance(tar, Path)}
        for tar in track([tar for tar, place in local.items() if place is None], "indexing shards"):
            local[tar] = store_index(tar, self.map, folder)
        remote = describe([tar for tar in tars if isinstance(tar, RemoteTar)])
        indexes = find_remote_indexes(remote, self.map, self.cache, folder)
        fetched = iter([Shard(self.cache.place(tar), place, 0, tar) for tar, place in zip(remote, indexes, strict=True)])
        self._join([Shard(tar, local[tar], 0) if isinstance(tar, Path) else next(fetched) for tar in tars])
        self._start_reading()

    def _join(self, shards: list[Shard]) -> None:
        """Read the heads of all indexes."""
        self.shards: list[Shard] = []
        self.fields: Counter[str] = Counter()
        self.unmatched: Counter[str] = Counter()
        self.blank = 0
        languages: set[str] = set()
        roles: set[str] = set()
        faults: list[Fault] = []
        bytes_of: list[int] = []
        for shard in shards:
            head = read_head(shard.index_path)
            if head is None:
                raise ValueError(f"{shard.index_path}: the index vanished or broke while it was being read; start again")
            self.shards.append(shard._replace(samples=head["samples"]))
            bytes_of.append(head["bytes"])
            self.fields.update(head["fields"])
            self.unmatched.update(head["unmatched"])
            self.blank += head["blank"]
            languages.update(head["languages"])
            roles.update(head["roles"])
            faults += Index(head, {}).faults
        self.languages, self.roles = tuple(sorted(languages)), tuple(sorted(roles))
        self.faults: tuple[Fault, ...] = tuple(faults)
        self.sizes = np.array([shard.samples for shard in self.shards], np.int64)
        self.bytes = np.array(bytes_of, np.int64)
        self.remote = any(shard.remote for shard in self.shards)
        self._ends = np.cumsum(self.sizes).tolist()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, number: int | np.integer, image: bool = True, members: Sequence[str] | None = None) -> Sample:
        """One sample, its picture not decoded.

        Args:
            number: From 0 to `len(self)` - 1.
            image: False leaves pictures unread, for text-only use.
            members: Extensions of other members that are read; None: all that the map hands on.

        Raises:
            IndexError: There is no such number.
            BadSampleError: The shard changed or cannot be read any more.
            RemoteError: The shard cannot be fetched.
        """
        shard, local = self._locate(number)
        index, descriptor = self._open.index(shard), self._open.descriptor(shard)
        name, key = self.shards[shard].path.name, _key(index, local)
        arrays, extensions = index.arrays, index.head["extensions"]
        wanted = self.map.members if members is None else [one for one in members if one in self.map.members]
        told, handed_on = self._told.get(number), (*(self.map.image if image else ()), *wanted)
        contents = {}
        for member in range(arrays["first_member"][local], arrays["first_member"][local + 1]):
            extension = extensions[arrays["extension"][member]]
            if extension in handed_on or (told is None and extension in self._telling):
                contents[extension] = _read_member(descriptor, arrays, member, extension)
        captions, item, document, alignments = told or self._understand(int(number), contents, name, key)
        picture = next((extension for extension in self.map.image if extension in contents), None)
        members = {extension: contents[extension] for extension in contents if extension in handed_on and extension != picture}
        image_bytes = contents.get(picture) if picture else None
        return Sample(name, key, item, captions, image_bytes, members, document, alignments)

    def __iter__(self) -> Iterator[Sample]:
        """All samples in order; a bad one raises."""
        return (self.read(number) for number in range(len(self)))

    def find(self, number: int | np.integer) -> tuple[str, str]:
        """Shard and key of a sample, for messages."""
        shard, local = self._locate(number)
        return self.shards[shard].path.name, _key(self._open.index(shard), local)

    @cached_property
    def items(self) -> np.ndarray:
        """int64 `[S]`: identity of each sample."""
        return self._gather("item")

    @cached_property
    def has_image(self) -> np.ndarray:
        """bool `[S]`: whether each sample has a picture."""
        return self._gather("image")

    def has(self, extension: str) -> np.ndarray:
        """bool `[S]`: whether each sample has a declared member of this extension; the indexes alone are read."""
        return np.concatenate([_has(index, extension) for index in self._indexes()])

    @cached_property
    def is_document(self) -> np.ndarray:
        """bool `[S]`: whether the texts of each sample are sentences in their order."""
        return self._gather("document")

    @cached_property
    def texts(self) -> TextTable:
        """Language, role and length of all texts."""
        return tabulate(self._indexes(), self.languages, self.roles)

    def select(
        self,
        languages: Sequence[str] | None = None,
        roles: Sequence[str] | None = None,
        texts: int = 1,
        image: bool | None = None,
    ) -> np.ndarray:
        """Numbers of the samples with at least `texts` texts of these languages and roles; nothing is read.

        Args:
            languages: None for any.
            roles: None for any.
            texts: How many texts must fit; 0 takes samples without text.
            image: True or False: with or without a picture; None: either.

        Returns:
            int64 `[N]`, ascending.
        """
        table = self.texts
        fit = np.ones(len(table.language), bool)
        for wanted, words, column in ((languages, self.languages, table.language), (roles, self.roles, table.role)):
            if wanted is not None:
                fit &= np.isin(column, [words.index(word) for word in wanted if word in words])
        count = np.diff(np.concatenate([[0], np.cumsum(fit)])[table.start])
        chosen = count >= texts
        if image is not None:
            chosen &= self.has_image == image
        return np.flatnonzero(chosen)

    def prefetch(self, shards: Sequence[int]) -> None:
        """Fetch remote shards that will be read soon, in a background thread, in this order; local ones are passed over.

        A later call replaces what is still to come of an earlier one. Failures are left to reading. Half the cache's limit
        is fetched ahead at most.

        Args:
            shards: Places in `self.shards`.
        """
        self._open.prefetch(shards)

    def fetch_beside(self, word: str) -> None:
        """Fetch files `NAME.tar.WORD` from beside remote tars to beside their indexes, where they are there and not here."""
        pairs = [(shard.remote, shard.index_path) for shard in self.shards if shard.remote]
        fetch_beside([tar for tar, _ in pairs], [place for _, place in pairs], word)

    def close(self) -> None:
        """Close all files; reading opens them again."""
        self._open.close()

    def __del__(self):
        if "_open" in self.__dict__:
            self.close()

    def __getstate__(self) -> dict:
        drop = {"_open", "_told", "_telling", "_room", "items", "has_image", "is_document", "texts"}
        return {name: value for name, value in self.__dict__.items() if name not in drop}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._start_reading()

    def _start_reading(self) -> None:
        self._open = OpenShards(self.shards, self.cache)
        self._told: dict[int, _Told] = {}
        self._telling = {"json", *(text.member for text in self.map.texts)}
        self._room = KEPT_BYTES

    def _understand(self, number: int, contents: Mapping[str, bytes], name: str, key: str) -> _Told:
        """What the JSON of a sample tells, kept while there is room."""
        captions, _, item, document, alignments = understand(contents, self.map, name, key)
        told = tuple(captions), item, document, alignments
        if self._room > 0:
            self._told[number] = told
            self._room -= sum(getsizeof(part) for caption in captions for part in (caption, *caption))
            self._room -= sum(120 * len(alignment.words + alignment.possible) for alignment in alignments)  # bytes a pair
        return told

    def _locate(self, number: int | np.integer) -> tuple[int, int]:
        if not 0 <= number < len(self):
            raise IndexError(f"sample {number}: these shards have samples 0 to {len(self) - 1}")
        shard = bisect_right(self._ends, number)
        return shard, int(number) - (self._ends[shard - 1] if shard else 0)

    def _indexes(self) -> Iterator[Index]:
        return (map_index(shard.index_path) for shard in self.shards)

    def _gather(self, name: str) -> np.ndarray:
        return np.concatenate([np.array(index.arrays[name]) for index in self._indexes()])


def _read_member(descriptor: int, arrays: Mapping[str, np.ndarray], member: int, extension: str) -> bytes:
    size, offset = int(arrays["size"][member]), int(arrays["offset"][member])
    try:
        content = read_at(descriptor, size, offset)
    except OSError as error:
        raise BadSampleError("unreadable shard", str(error)) from error
    if len(content) < size:
        raise BadSampleError("truncated member", f"{extension} has {len(content)} of {size} bytes: the tar changed")
    return content


def _has(index: Index, extension: str) -> np.ndarray:
    extensions = index.head["extensions"]
    if extension not in extensions:
        return np.zeros(index.head["samples"], bool)
    before = np.concatenate([[0], np.cumsum(index.arrays["extension"] == extensions.index(extension))])
    return np.diff(before[index.arrays["first_member"]]) > 0


def _key(index: Index, local: int) -> str:
    start, end = index.arrays["key_start"][local : local + 2]
    return index.arrays["key_bytes"][start:end].tobytes().decode("utf-8", "surrogateescape")
