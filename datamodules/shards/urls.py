"""URLs as text: what they lead to, how their paths are put together and taken apart, how messages show them."""

import re
from urllib.parse import quote, unquote, urlsplit, urlunsplit


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
