"""An attempt to read an object: what it gives, what may go wrong with it, and how long the next one waits."""

import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from .urls import show

TRIES = 8
UNREACHED_TRIES = 3
"""Tries, about a second and a half, where a host has never answered: more likely its name or port is wrong."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds; about a minute over all tries

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class RemoteError(OSError):
    """An object that cannot be had, in one line that names its URL and the fix."""


class MissingObjectError(RemoteError):
    """There is no object at a URL."""


class DeniedObjectError(RemoteError):
    """An object is not ours to read."""


class TroubleError(Exception):
    """What may be gone at the next try.

    Args:
        what: What happened.
        wait: Seconds that the server asks to wait.
    """

    def __init__(self, what: str, wait: float = 0.0):
        super().__init__(what)
        self.wait = wait


class UnreachedError(TroubleError):
    """Nothing listens, or no host has this name, and none ever answered there.

    Args:
        what: What happened.
        address: Host and port.
    """

    def __init__(self, what: str, address: str):
        super().__init__(what)
        self.address = address


class Opened(NamedTuple):
    """An object that is being read."""

    start: int
    """Place of the first byte that comes: 0 where the rest alone was asked for, but is not to be had or not of this version."""
    size: int
    """Bytes of the whole object; -1 where the server does not say."""
    version: str
    """ETag, else time of change; `""` where the server says neither."""
    blocks: Iterator[bytes]


class Patience:
    """Waits between tries, longer each time, until there were too many of them.

    Args:
        url: What is tried.
        known: Whether its host is known to be right, as when a running training fetches its shards; such is waited for.
    """

    def __init__(self, url: str, known: bool = True):
        self.url, self.known, self.failures = url, known, 0

    def wait(self, trouble: TroubleError) -> None:
        """Wait for the next try.

        Raises:
            RemoteError: There were enough.
        """
        self.failures += 1
        if isinstance(trouble, UnreachedError) and not self.known and self.failures >= min(UNREACHED_TRIES, TRIES):
            raise RemoteError(
                f"{show(self.url)}: nothing answers at {trouble.address}: {trouble} ({self.failures} tries); check host and "
                "port of the URL, and that the server runs"
            )
        if self.failures >= TRIES:
            raise RemoteError(
                f"{show(self.url)}: cannot be read: {trouble} ({self.failures} tries); check the URL, the network and the store"
            )
        # Apart in time, so that the ranks of a cluster do not all come back at once; the run's own generators stay untouched.
        pause = min(FIRST_WAIT * 2 ** (self.failures - 1), LONGEST_WAIT) * random.SystemRandom().uniform(0.8, 1.2)
        pause = max(pause, min(trouble.wait, LONGEST_WAIT))
        log.warning("%s: %s; trying again in %.1f s", show(self.url), trouble, pause)
        time.sleep(pause)


def try_again(url: str, attempt: Callable[[], Result]) -> Result:
    """What an attempt gives, made until it succeeds; not for long where the host of the URL never answered.

    Raises:
        RemoteError: There was too much trouble, or some that waiting does not mend.
    """
    patience = Patience(url, known=False)
    while True:
        try:
            return attempt()
        except TroubleError as trouble:
            patience.wait(trouble)


def name_error(error: BaseException) -> str:
    """An error in one line; some have no words."""
    return " ".join(str(error).split()) or type(error).__name__
