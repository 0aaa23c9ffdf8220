"""Objects over HTTP: parts of them, their versions, and what the answers of servers mean."""

import http.client
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from .attempts import DeniedObjectError, MissingObjectError, Opened, RemoteError, TroubleError, UnreachedError, name_error
from .urls import show

TIMEOUT = 30.0
"""Seconds without a byte after which a connection is given up."""
BLOCK = 1 << 20
_reached: set[str] = set()
"""Hosts that answered this process, whatever it was: those that are silent later are waited for."""


@contextmanager
def open_http(url: str, start: int, stop: int | None, version: str) -> Iterator[Opened]:
    """As `objects.open_object`."""
    headers = {"User-Agent": "interlingua", "Accept-Encoding": "identity"}
    if start or stop is not None:
        headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        if version:
            headers["If-Range"] = version.partition(" ")[2]
    address = _address(url)
    request = urllib.request.Request(quote(url, safe="%/:=&?~+!$,;'@()*[]"), headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        _reached.add(address)
        with error:
            size = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
            if error.code != 416 or size is None:
                _judge_status(url, error.code, error.headers.get("Retry-After", ""))
            yield Opened(0, int(size[1]), _version(error.headers), iter(()))  # shorter than `start`, or empty
            return
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise RemoteError(f"{show(url)}: {name_error(error.reason)}; mend its certificate, or this machine's") from None
        what = f"no connection ({getattr(error.reason, 'strerror', None) or error.reason})"
        if _is_absent(error.reason) and address not in _reached:
            raise UnreachedError(what, address) from None
        raise TroubleError(what) from None
    except (OSError, http.client.HTTPException) as error:
        raise TroubleError(name_error(error)) from None
    except ValueError as error:
        raise RemoteError(f"{show(url)}: not a URL ({error}); expected http(s)://HOST/FOLDER/NAME.tar") from None
    _reached.add(address)
    with response:
        first, size = 0, int(response.headers.get("Content-Length", -1))
        if response.status == 206:
            given = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
            if given is None:
                raise TroubleError("a part came without saying which")
            first, size = int(given[1]), -1 if given[2] == "*" else int(given[2])
        yield Opened(first, size, _version(response.headers), _blocks(response))


def _address(url: str) -> str:
    """Host and port.

    Raises:
        RemoteError: They are none.
    """
    try:
        parts = urlsplit(url)
        if not parts.hostname or parts.port == 0:
            raise ValueError("no host" if not parts.hostname else "port 0")
    except ValueError as error:
        raise RemoteError(f"{show(url)}: not a URL ({error}); expected http(s)://HOST/FOLDER/NAME.tar") from None
    return parts.netloc


def _is_absent(reason: object) -> bool:
    """Whether nothing listens at a port, or no host has a name: what a mistyped URL gives, and waiting rarely mends."""
    return isinstance(reason, ConnectionRefusedError) or (
        isinstance(reason, socket.gaierror) and reason.errno == socket.EAI_NONAME
    )


def _blocks(response: Any) -> Iterator[bytes]:
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise TroubleError(name_error(error)) from None
        if not block:
            return
        yield block


def _version(headers: Any) -> str:
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
