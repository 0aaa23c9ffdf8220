"""Which remote tars are meant by URLs, and which bytes each of them is, without fetching any."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from .attempts import DeniedObjectError, MissingObjectError, RemoteError
from .objects import list_objects, look, read_object
from .summary import parse_summary
from .urls import add_to_path, file_name, folder_of, is_http, show

THREADS = 32

Element = TypeVar("Element")
Result = TypeVar("Result")


class RemoteTar(NamedTuple):
    """One remote shard in one version."""

    url: str
    size: int = -1
    """Bytes; -1 where nobody has asked yet."""
    version: str = ""
    """What its store calls this version of it: ETag, or time of change."""
    sha256: str = ""
    """As its `index.json` has it, in hexadecimal digits; then the version need not be known."""

    @property
    def name(self) -> str:
        """File name."""
        return file_name(self.url)

    @property
    def identity(self) -> str:
        """What tells it from other objects of its URL and size; `""` where nothing does."""
        return f"sha256 {self.sha256}" if self.sha256 else self.version

    @property
    def digest(self) -> str:
        """Its folder in a cache. Signed anew, a URL stays what it is, if its objects can be told apart otherwise."""
        url = self.url.partition("?")[0] if self.identity else self.url
        return hashlib.blake2b(f"{url}\n{self.size}\n{self.identity}".encode(), digest_size=12).hexdigest()


def find_remote(url: str) -> list[RemoteTar]:
    """The tars that a URL names: a tar, a folder with `index.json`, or what a store lists for a folder or pattern.

    Raises:
        RemoteError: There are none, or they cannot be had.
        ValueError: The `index.json` is not one of ours.
    """
    try:
        file_name(url)
    except ValueError as error:
        raise ValueError(f"{show(url)}: not a URL ({error}); expected SCHEME://HOST/FOLDER/NAME.tar") from None
    if "*" in url.partition("?")[0]:
        return _some([RemoteTar(found) for found in list_objects(url)], url, "this pattern finds nothing")
    if file_name(url).endswith(".tar"):
        return [RemoteTar(url)]
    folder = folder_of(url) if file_name(url) in ("", "index.json") else url
    listed = _read_summary(folder)
    if listed is not None:
        return _some(list(listed.values()), url, "its index.json lists no shard")
    if is_http(url):
        raise RemoteError(
            f"{show(url)}: found no index.json in this folder; a tar's URL ends with .tar; name tars by a pattern such as "
            "{00000..00041}.tar, or upload the index.json that the writer leaves beside them"
        )
    return _some([RemoteTar(found) for found in list_objects(folder)], url, "found neither index.json nor *.tar in this folder")


def describe(tars: Sequence[RemoteTar]) -> list[RemoteTar]:
    """The same with sizes and versions: by the `index.json` of their folders, where it has them, else by asking for each.

    Raises:
        RemoteError: One is missing, denied, or of unknown size.
    """
    unknown = [tar for tar in tars if tar.size < 0]
    folders = list(dict.fromkeys(folder_of(tar.url) for tar in unknown))
    listed = dict(zip(folders, in_threads(_read_summary_if_allowed, folders), strict=True))
    told = [(listed[folder_of(tar.url)] or {}).get(tar.name, tar) for tar in unknown]
    asked = [tar.url for tar in told if tar.size < 0]
    looks = dict(zip(asked, in_threads(look, asked), strict=True))
    found = {}
    for tar, known in zip(unknown, told, strict=True):
        size, version = looks.get(known.url, (known.size, known.version))
        if size < 0:
            raise RemoteError(f"{show(tar.url)}: the server does not tell its size; serve it as a plain file")
        found[tar.url] = known._replace(url=tar.url, size=size, version=version)
    return [found.get(tar.url, tar) for tar in tars]


def in_threads(function: Callable[[Element], Result], elements: Iterable[Element], threads: int = THREADS) -> list[Result]:
    """Results in order, of many at once; the first alone, so that what is wrong with all is told once.

    Raises:
        Exception: Of the first that fails; no more are begun.
    """
    first, *rest = [*elements] or [None]
    if first is None:
        return []
    results = [function(first)]
    with ThreadPoolExecutor(threads) as pool:
        try:
            return results + list(pool.map(function, rest))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _read_summary(folder: str) -> dict[str, RemoteTar] | None:
    """What the `index.json` of a folder says of its shards, by name; None where there is none."""
    place = add_to_path(folder, "/index.json")
    try:
        content = read_object(place)
    except MissingObjectError:
        return None
    return {
        name: _of_summary(add_to_path(folder, f"/{name}"), entry) for name, entry in parse_summary(content, show(place)).items()
    }


def _read_summary_if_allowed(folder: str) -> dict[str, RemoteTar] | None:
    """The same, where the tars are named anyhow: stores that let nobody list them deny what is missing."""
    try:
        return _read_summary(folder)
    except DeniedObjectError:
        return None


def _of_summary(url: str, entry: dict[str, Any]) -> RemoteTar:
    size, sha256 = entry.get("bytes"), entry.get("sha256")
    if isinstance(size, int) and isinstance(sha256, str) and sha256:
        return RemoteTar(url, size, sha256=sha256)
    return RemoteTar(url)


def _some(tars: list[RemoteTar], url: str, problem: str) -> list[RemoteTar]:
    if not tars:
        raise MissingObjectError(f"{show(url)}: {problem}; check the URL, or name the tars")
    return tars
