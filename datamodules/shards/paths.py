"""Which tars are meant by paths, patterns and folders."""

import glob
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


def find_shards(paths: Sequence[str] | str) -> list[Path]:
    """Local tars that paths, brace patterns, glob patterns and folders name, in order.

    Raises:
        FileNotFoundError: One of them finds nothing.
        ValueError: A shard is named twice.
    """
    from braceexpand import braceexpand

    found: list[Path] = []
    for path in [os.fspath(paths)] if isinstance(paths, str | os.PathLike) else paths:
        for name in [path] if os.path.exists(path) else braceexpand(os.fspath(path)):
            found += _find(name, os.fspath(path))
    if not found:
        raise FileNotFoundError("no shards: the list of paths is empty")
    if twice := [str(tar) for tar, count in Counter(found).items() if count > 1]:
        raise ValueError(f"{twice[0]} is named twice in {paths}: each shard may be read once")
    return found


def _find(name: str, pattern: str) -> list[Path]:
    """The tars of one name that is no brace pattern any more."""
    path = Path(name)
    if path.is_dir():
        listed = path / "index.json"
        if listed.exists():
            tars = [path / shard["name"] for shard in json.loads(listed.read_bytes())["shards"]]
        else:
            tars = sorted(path.glob("*.tar"))
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
