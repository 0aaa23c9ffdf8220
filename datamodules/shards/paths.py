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
        if not os.fspath(path):
            raise ValueError(f"found an empty path in {paths!r} (an unset variable?); expected tars, a pattern or a folder")
        try:
            names = [os.fspath(path)] if os.path.exists(path) else list(braceexpand(os.fspath(path)))
        except ValueError as error:
            raise ValueError(f"{path}: {error}; a pattern looks like 'data/{{000..041}}.tar'") from None
        for name in names:
            found += _find(name, os.fspath(path))
    if not found:
        raise FileNotFoundError("no shards: the list of paths is empty")
    real = Counter(tar.resolve() for tar in found)
    if twice := [str(tar) for tar in found if real[tar.resolve()] > 1]:
        raise ValueError(f"{twice[0]} is named twice in {paths}: each shard may be read once")
    if pipes := [str(tar) for tar in found if not tar.is_file()]:
        raise ValueError(f"{pipes[0]}: found a pipe, a device or a folder; random access needs a tar in a file: save it as one")
    return found


def read_summary(file: Path) -> dict[str, str]:
    """Checksum (`""` where it has none) of each shard by name, in order, out of an `index.json`.

    Raises:
        ValueError: It is not one of ours.
    """
    try:
        shards = json.loads(file.read_bytes())["shards"]
        return {str(shard["name"]): shard.get("sha256", "") for shard in shards}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file}: not an index of shards ({error!r}); remove it, or write the folder anew") from None


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
