"""Scores that are kept beside a run, to be used again where nothing has changed."""

import glob
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from . import __version__

KEPT = "transfer.json"
PARTS = {"data", "seed", "objectives", "checkpoints", "average", "unit", "majority"}


def fingerprint(files: Sequence[Path], node: dict[str, Any]) -> str:
    """A hash of what is scored: what the checkpoints hold, the data's configuration, and the files that it names."""
    digest = hashlib.sha256(json.dumps([__version__, node], sort_keys=True).encode())
    for file in files:
        try:
            with ZipFile(file) as archive:  # checksums of all parts stand at its end
                parts: Any = [(part.filename.partition("/")[2], part.CRC, part.file_size) for part in archive.infolist()]
        except BadZipFile:
            parts = file.stat().st_mtime_ns
        digest.update(json.dumps([file.name, parts]).encode())
    for name in sorted(set(_strings(node))):
        for found in sorted(glob.glob(name, recursive=True)):
            for file in sorted(Path(found).rglob("*")) if os.path.isdir(found) else [Path(found)]:
                digest.update(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for entry in node.values() if isinstance(node, dict) else node:
            yield from _strings(entry)


def read_kept(file: Path) -> dict[str, Any]:
    """Scores that were kept; nothing where there are none, or the file is damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and found.keys() >= PARTS else {}


def keep(found: dict[str, Any], folder: Path) -> None:
    """Write scores beside a run; where that cannot be, say so."""
    kept = folder / KEPT
    beside = kept.with_name(kept.name + ".partial")
    try:
        beside.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, kept)
    except OSError as error:
        print(f"{kept}: cannot be written ({error.strerror}): the scores are not kept", flush=True)
