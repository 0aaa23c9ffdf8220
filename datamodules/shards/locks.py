"""Locks between the processes of a machine that are gone with the process that holds them."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_held: set[int] = set()


@contextmanager
def locked(file: Path, wait: bool = True) -> Iterator[bool]:
    """Hold a lock while in the context, alone among threads and processes.

    Args:
        file: Made if needed, with its folder; whoever holds the lock may delete it.
        wait: False: do not wait for it.

    Yields:
        Whether it is held; always, if waited for.
    """
    descriptor = _acquire(file, wait)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            _held.discard(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def is_at(descriptor: int, file: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False


def _acquire(file: Path, wait: bool) -> int | None:
    while True:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # another process has just removed the folder
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        if is_at(descriptor, file):
            _held.add(descriptor)
            return descriptor
        os.close(descriptor)


def _let_go() -> None:
    """A forked child has copies of what other threads of its parent hold: kept, they would outlive the parent."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
