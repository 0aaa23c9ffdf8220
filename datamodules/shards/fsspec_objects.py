"""Objects in stores that fsspec reads: s3, gs and others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .attempts import DeniedObjectError, MissingObjectError, Opened, RemoteError, TroubleError, name_error

BLOCK = 1 << 24  # each is a request of its own


@contextmanager
def open_fsspec(url: str, start: int, stop: int | None, version: str) -> Iterator[Opened]:
    """As `objects.open_object`."""
    with _trouble(url):
        system, path = _file_system(url)
        details = system.info(path)
    if details.get("type") == "directory" or details.get("size") is None:
        raise MissingObjectError(f"{url}: found a folder, expected an object")
    now = _version(details)
    first = start if version in ("", now) else 0

    def blocks() -> Iterator[bytes]:
        for place in range(first, details["size"], BLOCK):
            with _trouble(url):
                # By name: some file systems have another argument in their places.
                block = system.cat_file(path, start=place, end=min(place + BLOCK, details["size"]))
            yield block
        with _trouble(url):
            system.invalidate_cache(path)
            later = _version(system.info(path))
        if later != now:
            raise TroubleError("changed while it was read")

    yield Opened(first, details["size"], now, blocks())


def list_fsspec(url: str) -> list[str]:
    """URLs that a pattern names, or the tars of a folder; sorted.

    Raises:
        TroubleError: Another try may help.
    """
    scheme = url.partition("://")[0]
    with _trouble(url):
        system, path = _file_system(url)
        found = system.glob(path if "*" in path else f"{path.rstrip('/')}/*.tar")
        return sorted(f"{scheme}://{name.lstrip('/') if scheme != 'file' else name}" for name in found)


def _version(details: dict[str, Any]) -> str:
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
def _trouble(url: str) -> Iterator[None]:
    """Name what goes wrong in a store's own library, whose errors are of any class."""
    try:
        yield
    except RemoteError:
        raise
    except FileNotFoundError:
        raise MissingObjectError(f"{url}: not found; check the name, or the pattern it comes from") from None
    except Exception as error:
        if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            raise DeniedObjectError(
                f"{url}: access denied ({name_error(error)}); check the credentials of this store"
            ) from None
        raise TroubleError(name_error(error)) from None
