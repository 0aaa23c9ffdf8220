"""Which tars are meant by paths, patterns, folders and URLs."""

import glob
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .remote import RemoteTar, find_remote
from .summary import read_summary
from .urls import is_url, show


def find_shards(paths: Sequence[str] | str) -> list[Path]:
    """Local tars that paths, brace patterns, glob patterns and folders name, in order.

    Raises:
        FileNotFoundError: One of them finds nothing.
        ValueError: A shard is named twice, or not local.
    """
    found = find_tars(paths)
    if remote := [tar.url for tar in found if isinstance(tar, RemoteTar)]:
        raise ValueError(f"{show(remote[0])}: found a URL, expected local shards; copy them here first")
    return [tar for tar in found if isinstance(tar, Path)]


def find_tars(paths: Sequence[str] | str) -> list[Path | RemoteTar]:
    """Tars that paths, URLs, brace patterns, glob patterns and folders name, in order, whether local or remote.

    Raises:
        FileNotFoundError: One of them finds nothing.
        RemoteError: A URL leads to none.
        ValueError: A shard is named twice.
    """
    from braceexpand import braceexpand

    found: list[Path | RemoteTar] = []
    for path in [os.fspath(paths)] if isinstance(paths, str | os.PathLike) else paths:
        if not os.fspath(path):
            raise ValueError(
                f"found an empty path in {_list(paths)} (an unset variable?); expected tars, a pattern or a folder"
            )
        try:
            names = [os.fspath(path)] if os.path.exists(path) else list(braceexpand(os.fspath(path)))
        except ValueError as error:
            raise ValueError(f"{path}: {error}; a pattern looks like 'data/{{000..041}}.tar'") from None
        for name in names:
            found += find_remote(name) if is_url(name) else _find(name, os.fspath(path))
    if not found:
        raise FileNotFoundError("no shards: the list of paths is empty")
    _check(found, paths)
    return found


def _list(paths: Sequence[str] | str) -> str:
    return " ".join(f"'{path}'" for path in ([paths] if isinstance(paths, str | os.PathLike) else paths))


def _check(found: list[Path | RemoteTar], paths: Sequence[str] | str) -> None:
    """
    Raises:
        ValueError: A shard is named twice, or cannot be read at random.
    """
    real = [str(tar.resolve()) if isinstance(tar, Path) else tar.url for tar in found]
    count = Counter(real)
    if twice := [name for name in real if count[name] > 1]:
        raise ValueError(f"{show(twice[0])} is named twice in {_list(paths)}: each shard may be read once")
    if pipes := [str(tar) for tar in found if isinstance(tar, Path) and not tar.is_file()]:
        raise ValueError(f"{pipes[0]}: found a pipe, a device or a folder; random access needs a tar in a file: save it as one")


def _find(name: str, pattern: str) -> list[Path]:
    """The tars of one name that is no brace pattern any more."""
    path = Path(name)
    if path.is_dir():
        listed = path / "index.json"
        tars = [path / name for name in read_summary(listed)] if listed.exists() else sorted(path.glob("*.tar"))
        missing = [tar for tar in tars if not tar.exists()]
        if missing or not tars:
            problem = f"{listed} names {missing[0].name}, which is not there" if missing else "no *.tar in this folder"
            raise FileNotFoundError(f"{path}: {problem}; copy the whole folder, or name the tars")
        return tars
    tars = [path] if path.exists() else [Path(match) for match in sorted(glob.glob(name))]
    if not tars:
        where = f" (from the pattern {pattern})" if name != pattern else ""
        raise FileNotFoundError(f"{name}{where}: no such shard; expected local tars, a pattern or a folder of tars")
    return tars
