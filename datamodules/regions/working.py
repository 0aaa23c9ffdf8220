"""Shards on their way into a folder: those that are finished survive an interruption, and the same command goes on from there.

All is made in `OUT/.regions`: `plan.json` says what with, each stage has a folder with tars, and beside each finished tar a
`.json` with its entry for `index.json` and what was counted. Nothing of it remains once the shards are published.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..shards.locks import locked
from ..shards.writer import OURS

NAME = ".regions"


class Stage:
    """A folder of tars that are made one by one."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def is_finished(self, name: str) -> bool:
        """Whether the tar of this name is whole."""
        return self._note(name).exists()

    def partial(self, name: str) -> Path:
        """Where a tar is written until it is whole."""
        return self.folder / f"{name}.partial"

    def finish(self, name: str, entry: Mapping[str, Any], counts: Mapping[str, int], used: Sequence[str] = ()) -> None:
        """Give a whole tar its name.

        Args:
            name: Of the tar.
            entry: What `index.json` says of it.
            counts: What was done and left out, by kind.
            used: Whose regions are in it.
        """
        os.replace(self.partial(name), self.folder / name)
        note = self._note(name)
        fresh = note.with_name(f"{note.name}.partial")
        fresh.write_text(json.dumps({"entry": dict(entry), "counts": dict(counts), "used": list(used)}), encoding="utf-8")
        os.replace(fresh, note)

    def read(self, name: str) -> dict[str, Any]:
        """What `finish` was told."""
        return json.loads(self._note(name).read_text(encoding="utf-8"))

    def counts(self, names: Sequence[str]) -> Counter[str]:
        """What was done and left out, over several tars."""
        return sum((Counter(self.read(name)["counts"]) for name in names), Counter())

    def _note(self, name: str) -> Path:
        return self.folder / f"{name}.json"


class Working:
    """The folder in which shards are made, until they are published beside it.

    Attributes:
        folder: `OUT/.regions`.
        resumed: Whether something was there to go on from.
    """

    def __init__(self, out: Path, tars: Sequence[Path], resumed: bool):
        self.out, self.folder, self.names, self.resumed = out, out / NAME, [tar.name for tar in tars], resumed

    def stage(self, name: str) -> Stage:
        """A folder for the tars of one stage."""
        return Stage(self.folder / name)

    def publish(self, stage: Stage, summary: Mapping[str, Any], others: Sequence[Path] = ()) -> None:
        """Put the tars of a stage in the place of what is there, with `index.json`, and remove the working folder.

        Args:
            stage: All of its tars are finished.
            summary: What `index.json` says.
            others: More files to go beside the tars.
        """
        for path in _listed(self.out):
            if path.name not in self.names:
                path.unlink(missing_ok=True)
        for path in [*(stage.folder / name for name in self.names), *others]:
            if path.exists():  # else an interruption came just after it
                os.replace(path, self.out / path.name)
        fresh = self.folder / "index.json"
        fresh.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        os.replace(fresh, self.out / "index.json")
        shutil.rmtree(self.folder)


@contextmanager
def open_working(out: Path, tars: Sequence[Path], plan: Mapping[str, Any], force: bool) -> Iterator[Working]:
    """Begin to make shards in a folder, or go on with what was begun.

    Args:
        out: Where the shards go.
        tars: What they are made of; their copies keep their names.
        plan: What the result depends on.
        force: Replace shards that are in the folder, and whatever was begun with another plan.

    Raises:
        FileExistsError: The folder is not empty, or not a folder.
        ValueError: It is a folder of the source, two tars have one name, another plan was begun there, or another process
            is at work there.
    """
    _check_places(out, tars)
    working, plan = out / NAME, json.loads(json.dumps(plan))
    begun = _read_plan(working)
    if begun is not None and begun != plan and not force:
        differ = [name for name in {**begun, **plan} if begun.get(name) != plan.get(name)]
        raise ValueError(
            f"{out}: an interrupted command is to be gone on with there, which differs in {', '.join(sorted(differ))}; "
            "give what it was given, or --force to start over"
        )
    resumed = begun == plan
    names = {*(tar.name for tar in tars), "index.json", NAME}
    if not force and out.exists() and any(path.name not in (names if resumed else {NAME}) for path in out.iterdir()):
        raise FileExistsError(f"{out}: the folder is not empty; name another, or --force to replace its shards")
    try:
        working.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{out}: the folder cannot be made ({error.strerror}); name another") from None
    with locked(working / "lock", wait=False) as alone:
        if not alone:
            raise ValueError(f"{out}: another process is writing there; wait for it, or name another folder")
        if not resumed:
            _clear(working)
            (working / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        try:
            yield Working(out, tars, resumed)
        except BaseException:
            if not any(working.glob("*/*.tar.json")):  # a refusal leaves nothing behind
                discard(out)
            raise


def discard(out: Path) -> None:
    """Remove what was begun in a folder, and the folder if nothing else is there."""
    shutil.rmtree(out / NAME, ignore_errors=True)
    with suppress(OSError):
        out.rmdir()


def _check_places(out: Path, tars: Sequence[Path]) -> None:
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"{out}: expected a folder for the shards, found a file; name another")
    if any(tar.resolve().parent == out.resolve() for tar in tars):
        raise ValueError(f"{out}: the shards to copy are in this folder, and are never written to; name another")
    twice = [name for name, count in Counter(tar.name for tar in tars).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]}: several shards have this name, and copies keep it; take one folder at a time")


def _read_plan(working: Path) -> dict[str, Any] | None:
    try:
        return json.loads((working / "plan.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _clear(working: Path) -> None:
    for path in working.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


def _listed(folder: Path) -> Iterator[Path]:
    """Shards of a folder, whatever their names, and what belongs to them."""
    try:
        listed = json.loads((folder / "index.json").read_text(encoding="utf-8"))["shards"]
        names = {str(entry["name"]) for entry in listed}
    except (OSError, ValueError, TypeError, KeyError):  # it may be anything
        names = set()
    for path in sorted(folder.iterdir()):
        tar, extension, rest = path.name.rpartition(".tar")
        belongs = tar + extension in names and (not rest or rest.startswith((".index", ".lengths")))
        if path.is_file() and (belongs or OURS.fullmatch(path.name)):
            yield path
