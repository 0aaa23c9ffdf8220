"""What stands at a URL: its size, its version, and its bytes from any place on, over HTTP or through fsspec.

Trouble on the way (no connection, silence, a server that breaks off or is overloaded) is waited out and tried again; what
waiting does not mend (missing, denied) is an error at once. Both name the URL, and neither is ever a bad sample.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from .attempts import Opened, RemoteError, TroubleError, try_again
from .fsspec_objects import list_fsspec, open_fsspec
from .http_objects import open_http
from .urls import is_http, show


@contextmanager
def open_object(url: str, start: int = 0, stop: int | None = None, version: str = "") -> Iterator[Opened]:
    """Read an object.

    Args:
        url: Where it is.
        start: First byte that is wanted.
        stop: Byte before which it may end; None: at its end.
        version: Which one it must be to be read from `start`; else it is read from the beginning.

    Raises:
        MissingObjectError: There is none.
        DeniedObjectError: It is not ours to read.
        TroubleError: Another try may help, also while its blocks are read.
    """
    with (open_http if is_http(url) else open_fsspec)(url, start, stop, version) as opened:
        yield opened


def look(url: str) -> tuple[int, str]:
    """Size and version of an object, for one short request."""

    def attempt() -> tuple[int, str]:
        # Not HEAD: URLs are signed for GET alone.
        with open_object(url, stop=1) as opened:
            return opened.size, opened.version

    return try_again(url, attempt)


def read_object(url: str) -> bytes:
    """A small object, whole.

    Raises:
        MissingObjectError: There is none.
        RemoteError: It cannot be had.
    """

    def attempt() -> bytes:
        with open_object(url) as opened:
            content = b"".join(opened.blocks)
        if opened.size not in (-1, len(content)):
            raise TroubleError(f"broke off after {len(content)} of {opened.size} bytes")
        return content

    return try_again(url, attempt)


def list_objects(url: str) -> list[str]:
    """URLs that a pattern names, or the tars of a folder, where the store can be listed; sorted."""
    if is_http(url):
        raise RemoteError(f"{show(url)}: HTTP cannot list a folder; name tars by {{000..041}}, or a folder with index.json")
    return try_again(url, lambda: list_fsspec(url))
