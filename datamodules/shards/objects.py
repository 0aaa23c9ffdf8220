"""What stands at a URL: its size, its version, and its bytes from any place on, over HTTP or through fsspec.

Trouble on the way (no connection, silence, a server that breaks off or is overloaded) is waited out and tried again; what
waiting does not mend (missing, denied) is an error at once. Both name the URL, and neither is ever a bad sample.
"""

import http.client
import logging
import random
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

TIMEOUT = 30.0
"""Seconds without a byte after which a connection is given up."""
TRIES = 8
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds; about a minute over all tries
BLOCK = 1 << 20
FSSPEC_BLOCK = 1 << 24  # each is a request of its own

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
    """Waits between tries, longer each time, until there were too many of them."""

    def __init__(self, url: str):
        self.url, self.failures = url, 0

    def wait(self, trouble: TroubleError) -> None:
        """Wait for the next try.

        Raises:
            RemoteError: There were enough.
        """
        self.failures += 1
        if self.failures >= TRIES:
            raise RemoteError(
                f"{show(self.url)}: cannot be read: {trouble} ({self.failures} tries); check the URL, the network and the store"
            )
        # Apart in time, so that the ranks of a cluster do not all come back at once; the run's own generators stay untouched.
        pause = min(FIRST_WAIT * 2 ** (self.failures - 1), LONGEST_WAIT) * random.SystemRandom().uniform(0.8, 1.2)
        pause = max(pause, min(trouble.wait, LONGEST_WAIT))
        log.warning("%s: %s; trying again in %.1f s", show(self.url), trouble, pause)
        time.sleep(pause)


def is_url(path: str) -> bool:
    """Whether a path names something outside the file system."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


def is_http(url: str) -> bool:
    """Whether plain HTTP leads to it."""
    return url.lower().startswith(("http://", "https://"))


def show(url: str) -> str:
    """A URL for messages: the query of a signed one is a key that belongs in no log."""
    return url.split("?")[0] + ("?..." if "?" in url else "") if is_http(url) else url


def add_to_path(url: str, addition: str) -> str:
    """A URL with something more at the end of its path, the query kept."""
    if not is_http(url):
        return url + addition
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path + quote(addition)))


def file_name(url: str) -> str:
    """The last part of a URL's path; `""` where it ends with a slash."""
    return unquote(urlsplit(url).path.rpartition("/")[2]) if is_http(url) else url.rpartition("/")[2]


def folder_of(url: str) -> str:
    """A URL without the last part of its path, the query kept."""
    if not is_http(url):
        return url.rpartition("/")[0]
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.rpartition("/")[0]))


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
    with (_open_http if is_http(url) else _open_fsspec)(url, start, stop, version) as opened:
        yield opened


def look(url: str) -> tuple[int, str]:
    """Size and version of an object, for one short request."""

    def attempt() -> tuple[int, str]:
        # Not HEAD: URLs are signed for GET alone.
        with open_object(url, stop=1) as opened:
            return opened.size, opened.version

    return _try(url, attempt)


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

    return _try(url, attempt)


def list_objects(url: str) -> list[str]:
    """URLs that a pattern names, or the tars of a folder, where the store can be listed; sorted."""
    if is_http(url):
        raise RemoteError(f"{show(url)}: HTTP cannot list a folder; name tars by {{000..041}}, or a folder with index.json")
    scheme = url.partition("://")[0]

    def attempt() -> list[str]:
        with _fsspec_trouble(url):
            system, path = _file_system(url)
            found = system.glob(path if "*" in path else f"{path.rstrip('/')}/*.tar")
            return sorted(f"{scheme}://{name.lstrip('/') if scheme != 'file' else name}" for name in found)

    return _try(url, attempt)


def _try(url: str, attempt: Callable[[], Result]) -> Result:
    patience = Patience(url)
    while True:
        try:
            return attempt()
        except TroubleError as trouble:
            patience.wait(trouble)


@contextmanager
def _open_http(url: str, start: int, stop: int | None, version: str) -> Iterator[Opened]:
    headers = {"User-Agent": "interlingua", "Accept-Encoding": "identity"}
    if start or stop is not None:
        headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        if version:
            headers["If-Range"] = version.partition(" ")[2]
    request = urllib.request.Request(quote(url, safe="%/:=&?~+!$,;'@()*[]"), headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            size = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
            if error.code != 416 or size is None:
                _judge_status(url, error.code, error.headers.get("Retry-After", ""))
            yield Opened(0, int(size[1]), _http_version(error.headers), iter(()))  # shorter than `start`, or empty
            return
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise RemoteError(f"{show(url)}: {_name(error.reason)}; mend its certificate, or this machine's") from None
        raise TroubleError(f"no connection ({error.reason})") from None
    except (OSError, http.client.HTTPException) as error:
        raise TroubleError(_name(error)) from None
    except ValueError as error:
        raise RemoteError(f"{show(url)}: not a URL ({error}); expected http(s)://HOST/FOLDER/NAME.tar") from None
    with response:
        first, size = 0, int(response.headers.get("Content-Length", -1))
        if response.status == 206:
            given = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
            if given is None:
                raise TroubleError("a part came without saying which")
            first, size = int(given[1]), -1 if given[2] == "*" else int(given[2])
        yield Opened(first, size, _http_version(response.headers), _http_blocks(response))


def _http_blocks(response: Any) -> Iterator[bytes]:
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise TroubleError(_name(error)) from None
        if not block:
            return
        yield block


def _http_version(headers: Any) -> str:
    if tag := headers.get("ETag", ""):
        return f"etag {tag.removeprefix('W/')}"  # proxies that compress make tags weak
    changed = headers.get("Last-Modified", "")
    return changed and f"changed {changed}"


def _judge_status(url: str, status: int, wait: str) -> None:
    if status in (404, 410):
        raise MissingObjectError(f"{show(url)}: not found (HTTP {status}); check the name, or the pattern it comes from")
    if status in (401, 403):
        raise DeniedObjectError(
            f"{show(url)}: access denied (HTTP {status}); sign the URL anew, make it public, or name it by its store's "
            "scheme (s3://, gs://) with credentials; some stores answer so for what is missing, too"
        )
    if status in (408, 425, 429) or status >= 500:
        raise TroubleError(f"HTTP {status}", float(wait) if wait.isdecimal() else 0.0)
    raise RemoteError(f"{show(url)}: the server refuses it (HTTP {status}); check the URL")


@contextmanager
def _open_fsspec(url: str, start: int, stop: int | None, version: str) -> Iterator[Opened]:
    with _fsspec_trouble(url):
        system, path = _file_system(url)
        details = system.info(path)
    if details.get("type") == "directory" or details.get("size") is None:
        raise MissingObjectError(f"{url}: found a folder, expected an object")
    now = _fsspec_version(details)
    first = start if version in ("", now) else 0

    def blocks() -> Iterator[bytes]:
        for place in range(first, details["size"], FSSPEC_BLOCK):
            with _fsspec_trouble(url):
                # By name: some file systems have another argument in their places.
                block = system.cat_file(path, start=place, end=min(place + FSSPEC_BLOCK, details["size"]))
            yield block
        with _fsspec_trouble(url):
            system.invalidate_cache(path)
            later = _fsspec_version(system.info(path))
        if later != now:
            raise TroubleError("changed while it was read")

    yield Opened(first, details["size"], now, blocks())


def _fsspec_version(details: dict[str, Any]) -> str:
    names = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "blob_id", "mtime", "updated", "created")
    return next((f"{name} {details[name]}" for name in names if details.get(name)), "")


def _file_system(url: str) -> tuple[Any, str]:
    """What fsspec reads a URL with, and the path in it; made anew after a fork, kept otherwise."""
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(url)
    except ImportError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise RemoteError(f"{url}: {reason}; s3:// and gs:// need `pip install 'interlingua[remote]'`") from None
    except ValueError as error:
        raise RemoteError(f"{url}: {error}; expected http(s)://, s3://, gs:// or another scheme that fsspec knows") from None


@contextmanager
def _fsspec_trouble(url: str) -> Iterator[None]:
    """Name what goes wrong in a store's own library, whose errors are of any class."""
    try:
        yield
    except RemoteError:
        raise
    except FileNotFoundError:
        raise MissingObjectError(f"{url}: not found; check the name, or the pattern it comes from") from None
    except Exception as error:
        if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            raise DeniedObjectError(f"{url}: access denied ({_name(error)}); check the credentials of this store") from None
        raise TroubleError(_name(error)) from None


def _name(error: BaseException) -> str:
    """An error in one line; some have no words."""
    return " ".join(str(error).split()) or type(error).__name__
