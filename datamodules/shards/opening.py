"""Tars and indexes that are open: the few that are read from, local ones and those in the cache."""

import logging
import os
from collections import OrderedDict, deque
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from ..sample import BadSampleError
from .attempts import RemoteError
from .cache import Cache
from .index import Index
from .remote import RemoteTar
from .remote_index import check_index
from .store import map_index
from .urls import show

OPEN_SHARDS = 128

log = logging.getLogger(__name__)


class Shard(NamedTuple):
    """One tar of a set."""

    path: Path
    """Of a remote one: where it is in the cache, once fetched."""
    index_path: Path
    samples: int
    remote: RemoteTar | None = None


class OpenShards:
    """Descriptors and indexes of some shards, opened when first asked for; the one unused for longest is closed for another.

    Open remote shards cannot be evicted, so no more than half the cache's limit is kept open.
    """

    def __init__(self, shards: Sequence[Shard], cache: Cache):
        self.shards, self.cache = shards, cache
        self.descriptors: OrderedDict[int, int] = OrderedDict()
        self._indexes: OrderedDict[int, Index] = OrderedDict()
        self._checked: set[int] = set()
        self._coming: deque[RemoteTar] = deque()
        self._fetcher: Thread | None = None

    def index(self, shard: int) -> Index:
        """The index of a shard.

        Raises:
            BadSampleError: It cannot be read any more.
        """
        if shard in self._indexes:
            self._indexes.move_to_end(shard)
            return self._indexes[shard]
        try:
            index = self._indexes[shard] = map_index(self.shards[shard].index_path)
        except OSError as error:
            raise BadSampleError("unreadable shard", str(error)) from error
        if len(self._indexes) > OPEN_SHARDS:
            self._indexes.popitem(last=False)
        return index

    def descriptor(self, shard: int) -> int:
        """The open tar of a shard, fetched if need be.

        Raises:
            BadSampleError: A local tar cannot be read any more.
            RemoteError: A remote one cannot be had.
        """
        if shard in self.descriptors:
            self.descriptors.move_to_end(shard)
            return self.descriptors[shard]
        self._close_some(shard)
        remote = self.shards[shard].remote
        descriptor = self._open_local(shard) if remote is None else self._open_remote(shard, remote)
        self.descriptors[shard] = descriptor
        return descriptor

    def prefetch(self, shards: Sequence[int]) -> None:
        """Fetch remote shards in the background, in this order, in place of what was asked for before.

        What fails is left to whoever reads the shard. More than half the cache's limit is not fetched ahead.
        """
        coming, room = [], self.cache.limit // 2
        for shard in shards:
            tar = self.shards[shard].remote
            room -= tar.size if tar else 0
            if tar and room >= 0:
                coming.append(tar)
        self._coming = deque(coming)
        if coming and (self._fetcher is None or not self._fetcher.is_alive()):
            self._fetcher = Thread(target=self._fetch_coming, name="interlingua prefetch", daemon=True)
            self._fetcher.start()

    def close(self) -> None:
        """Close all files and stop fetching ahead; reading opens them again."""
        self._coming.clear()
        while self.descriptors:
            os.close(self.descriptors.popitem()[1])
        self._indexes.clear()

    def _open_local(self, shard: int) -> int:
        try:
            return os.open(self.shards[shard].path, os.O_RDONLY)
        except OSError as error:
            raise BadSampleError("unreadable shard", str(error)) from error

    def _open_remote(self, shard: int, tar: RemoteTar) -> int:
        try:
            descriptor = self.cache.open(tar)
        except RemoteError:
            raise
        except OSError as error:
            raise RemoteError(f"{self.cache.root}: cannot keep {show(tar.url)} ({error}); name another cache") from error
        if shard not in self._checked:
            try:
                check_index(self.index(shard), descriptor, tar)
            except BaseException:
                os.close(descriptor)
                raise
            self._checked.add(shard)
        return descriptor

    def _fetch_coming(self) -> None:
        while True:
            try:
                tar = self._coming.popleft()
            except IndexError:
                return
            try:
                self.cache.fetch(tar)
            except (OSError, ValueError) as error:
                log.info("not fetched ahead: %s", error)

    def _close_some(self, coming: int) -> None:
        """Make room for one more open shard."""
        remote = self.shards[coming].remote
        room = self.cache.limit // 2 - (remote.size if remote else 0)
        opened = {shard: tar.size for shard in self.descriptors if (tar := self.shards[shard].remote)}
        used = sum(opened.values())
        for shard in list(self.descriptors):
            if len(self.descriptors) >= OPEN_SHARDS or (shard in opened and remote and used > room):
                os.close(self.descriptors.pop(shard))
                used -= opened.get(shard, 0)
