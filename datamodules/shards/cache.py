"""The folder in which remote shards are kept while they are read.

    tars/DIGEST/NAME.tar                  whole, of one URL in one version; its time of change is that of its last opening
    tars/DIGEST/NAME.tar.BYTES.partial    on its way; what a killed process leaves is gone on with
    bytes                                 how many are kept at most, so that few fetches need look at all that is there
    tars/DIGEST/lock                      held by who fetches or evicts; all others wait, then read what was fetched
    indexes/DIGEST/NAME.tar.index         kept without limit: small, and what spares fetching a tar to know it

Readers hold a shared lock on the tar itself: what is in use is not evicted. All locks die with their process.
"""

import fcntl
import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .attempts import Patience, RemoteError, TroubleError
from .locks import is_at, locked
from .objects import open_object
from .remote import RemoteTar
from .store import user_cache
from .urls import show
from .writer import checksum

log = logging.getLogger(__name__)
_warned: set[Path] = set()


class _Entry(NamedTuple):
    """One shard's folder in a cache."""

    used: float
    size: int
    folder: str


@dataclass(frozen=True)
class Cache:
    """Where remote shards are kept, and how much of them; many processes may share one.

    Args:
        folder: On a local disk; None: in the user's cache folder.
        gigabytes: Most that is kept, in 10^9 bytes: the shards that were not opened for longest make room. Shards in use
            are never removed for others.
    """

    folder: str | Path | None = None
    gigabytes: float = 100.0

    def __post_init__(self):
        if not self.gigabytes > 0:
            raise ValueError(f"cache of {self.gigabytes} gigabytes: give more than 0, with room for several shards")

    @property
    def root(self) -> Path:
        """The folder."""
        return user_cache() / "remote" if self.folder is None else Path(self.folder)

    @property
    def limit(self) -> int:
        """Bytes."""
        return int(min(self.gigabytes, 1e9) * 1e9)  # without end, too

    def place(self, tar: RemoteTar) -> Path:
        """Where a shard is, once fetched."""
        return self.root / "tars" / tar.digest / tar.name

    def check(self, tar: RemoteTar) -> None:
        """
        Raises:
            ValueError: A shard does not fit at all.
        """
        if tar.size > self.limit:
            raise ValueError(
                f"{show(tar.url)} has {tar.size / 1e9:.3g} GB, but the cache {self.root} is limited to {self.gigabytes:.3g}; "
                "allow more gigabytes (room for several shards), or write smaller shards"
            )

    def open(self, tar: RemoteTar) -> int:
        """A descriptor of a shard, fetched if need be; until it is closed, the shard stays.

        A shard that another process is fetching is waited for.

        Raises:
            RemoteError: It cannot be had, or is another than when it was indexed.
            ValueError: As `check`.
        """
        self.check(tar)
        place = self.place(tar)
        descriptor = self._open_kept(tar)
        while descriptor is None:
            with locked(place.with_name("lock")):
                if not place.exists():
                    with self._make_room(tar) as partial:
                        _download(tar, partial)
                        os.replace(partial, place)
                descriptor = self._open_kept(tar)
        return descriptor

    def fetch(self, tar: RemoteTar) -> None:
        """Have a shard in the cache, as `open` does."""
        os.close(self.open(tar))

    def _open_kept(self, tar: RemoteTar) -> int | None:
        """A descriptor of a shard that is here, whole."""
        place = self.place(tar)
        try:
            descriptor = os.open(place, os.O_RDONLY)
        except FileNotFoundError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if is_at(descriptor, place) and os.fstat(descriptor).st_size == tar.size:
            with suppress(PermissionError):  # another user's: it has the age of its last opening by that user
                os.utime(descriptor)
            return descriptor
        os.close(descriptor)
        if place.exists() and place.stat().st_size != tar.size:  # cut by someone; another file has come if it was evicted
            place.unlink(missing_ok=True)
        return None

    @contextmanager
    def _make_room(self, tar: RemoteTar) -> Iterator[Path]:
        """Evict until a shard fits, and the file it is to be written into, in the name of which its room is reserved."""
        place = self.place(tar)
        partial = place.with_name(f"{tar.name}.{tar.size}.partial")
        with locked(self.root / "lock"):
            total = _read_number(self.root / "bytes") + tar.size
            if total > self.limit:
                total = self._evict_for(tar, place.parent)
            (self.root / "bytes").write_text(f"{total}\n")
            partial.touch()
        try:
            yield partial
        except OSError as error:
            if isinstance(error, RemoteError):
                raise
            raise RemoteError(
                f"{partial}: cannot keep {show(tar.url)} ({error}); make room there, or name another cache"
            ) from error
        finally:
            if partial.exists() and not partial.stat().st_size:  # it would keep its room reserved
                partial.unlink()

    def _evict_for(self, tar: RemoteTar, folder: Path) -> int:
        """Evict until a shard fits.

        Returns:
            Bytes that the cache will hold with it.
        """
        entries = [entry for entry in _list(self.root / "tars") if entry.folder != str(folder)]
        total = tar.size + sum(entry.size for entry in entries)
        for entry in sorted(entries):
            if total > self.limit and _evict(Path(entry.folder)):
                total -= entry.size
        if total > self.limit and self.root not in _warned:
            _warned.add(self.root)
            log.warning(
                "cache %s: shards in use at once need %.3g GB, more than its limit of %.3g; allow more gigabytes, or read "
                "fewer shards at once",
                *(self.root, total / 1e9, self.gigabytes),
            )
        return total


def _read_number(file: Path) -> int | float:
    """What a file says; without end where it says nothing."""
    try:
        return int(file.read_text())
    except (FileNotFoundError, ValueError):
        return math.inf


def _list(folder: Path) -> Iterator[_Entry]:
    """What a cache holds; shards on their way count whole."""
    for shard in os.scandir(folder):
        size, used = 0, 0.0
        try:
            for file in os.scandir(shard):
                status = file.stat()
                reserved = file.name.removesuffix(".partial").rpartition(".")[2] if file.name.endswith(".partial") else ""
                size += int(reserved) if reserved else status.st_size
                used = max(used, status.st_mtime)
        except FileNotFoundError:  # another process evicts it
            continue
        yield _Entry(used, size, shard.path)


def _evict(folder: Path) -> bool:
    """Remove a shard, unless it is in use."""
    with locked(folder / "lock", wait=False) as held:
        if not held:
            return False
        files = [file for file in folder.iterdir() if file.name != "lock"]
        for file in files:
            try:
                with open(file, "rb") as opened:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    file.unlink()
            except (BlockingIOError, PermissionError):  # in use, or another user's
                return False
        (folder / "lock").unlink()
        with suppress(OSError):  # another process has begun to fetch it anew
            folder.rmdir()
    return True


def _download(tar: RemoteTar, partial: Path) -> None:
    """Fetch a shard whole into a file, going on where an earlier try broke off, and prove that it is the one meant.

    Raises:
        RemoteError: It cannot be had, or is another.
    """
    for again in (True, False):
        resumed = _fill(tar, partial)
        found = checksum(partial) if tar.sha256 else ""
        if found == tar.sha256:
            return
        partial.unlink()
        if not (resumed and again):
            raise RemoteError(
                f"{show(tar.url)}: checksum (SHA-256) {found[:12]}..., but its index.json says {tar.sha256[:12]}...; "
                "upload tars and index.json of one writing"
            )


def _fill(tar: RemoteTar, partial: Path) -> bool:
    """Write all bytes of a shard.

    Returns:
        Whether they came in parts, perhaps of different objects.
    """
    patience, version, most = Patience(tar.url), tar.version, 0
    with open(partial, "r+b" if partial.exists() else "w+b") as file:
        have = file.seek(0, os.SEEK_END)
        if not (tar.version or tar.sha256) or have > tar.size:
            have = 0  # nobody could tell whether the rest is of the same object
        resumed = have > 0
        while have < tar.size:
            try:
                with open_object(tar.url, have, version=version) as opened:
                    _check_same(tar, opened.size, opened.version)
                    if opened.start not in (0, have):
                        raise TroubleError(f"asked from byte {have}, it came from {opened.start}")
                    version, have = opened.version, file.seek(opened.start)
                    resumed = have > 0
                    file.truncate()
                    for block in opened.blocks:
                        file.write(block)
                        have += len(block)
                if have != tar.size:
                    raise TroubleError(f"broke off after {have} of {tar.size} bytes")
            except TroubleError as trouble:
                if have > most:
                    most, patience.failures = have, 0
                if have > tar.size or not (version or tar.sha256):
                    have = 0
                patience.wait(trouble)
        file.truncate(have)
        file.flush()
        os.fsync(file.fileno())
    return resumed


def _check_same(tar: RemoteTar, size: int, version: str) -> None:
    if tar.sha256 and size not in (-1, tar.size):
        raise RemoteError(
            f"{show(tar.url)}: found {size} bytes, but its index.json says {tar.size}; "
            "upload tars and index.json of one writing"
        )
    if size not in (-1, tar.size):
        before, now = f"{tar.size} bytes", f"{size} bytes"
    elif version and tar.version and version != tar.version:
        before, now = tar.version, version
    else:
        return
    raise RemoteError(
        f"{show(tar.url)}: changed since it was indexed ({before}, now {now}); start again, so that it is indexed anew"
    )
