"""Command lines that answer a mistake in one line."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

_KINDS = {"int": "a whole number", "float": "a number"}
_INVALID = re.compile(rf"invalid ({'|'.join(_KINDS)}) value: (.*)", re.DOTALL)


class OneLineParser(argparse.ArgumentParser):
    """A parser, and so are its sub-commands', whose errors name what is wrong and where help is, without the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        told = _INVALID.sub(lambda found: f"found {found[2]}, expected {_KINDS[found[1]]}", message)
        self.exit(2, f"{self.prog}: {' '.join(told.split())} ({self.prog} --help)\n")


def tell(error: Exception) -> str:
    """An error for people: what the system says of a file without its number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def run_told(program: str, run: Callable[[], int], *errors: type[Exception]) -> int:
    """Exit status of a command: its own, or 2 after one line on standard error that says what is wrong.

    Args:
        program: What the line begins with.
        run: The command.
        errors: What else than `ValueError` and `OSError` is told so; others are faults of our own.
    """
    try:
        return run()
    except BrokenPipeError:
        raise
    except (ValueError, OSError, *errors) as error:
        print(f"{program}: {tell(error)}", file=sys.stderr)
        return 2


def check_outputs(files: Sequence[Path], force: bool, option: str = "--output") -> None:
    """Refuse files that cannot be written, before there is anything to write.

    Args:
        files: What the option stands for, the one that it names first.
        force: Whether files may be written over.
        option: Its name.

    Raises:
        ValueError: One is a folder, or no file can be made beside it.
        FileExistsError: One is there, and may not be written over.
    """
    if folders := [file for file in files if file.is_dir()]:
        raise ValueError(f"{option} is {files[0]}, but {folders[0]} is a folder; choose another name")
    there = [str(file) for file in files if file.exists()]
    if there and not force:
        raise FileExistsError(f"{' and '.join(there)} would be overwritten; choose another {option}, or give --force")
    _check_folder(files[0], files[0].absolute().parent, option)


def check_folder(folder: Path, option: str = "--output") -> None:
    """Refuse a folder that cannot be written into, before there is anything to write.

    Raises:
        ValueError: It is a file, or cannot be made or written into.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{option} is {folder}, which is a file; expected a folder")
    _check_folder(folder, folder.absolute(), option)


def _check_folder(named: Path, folder: Path, option: str) -> None:
    beside = next(there for there in (folder, *folder.parents) if there.exists())
    try:
        with TemporaryFile(dir=beside):  # permissions alone do not tell: the disk may be read-only
            pass
    except OSError as error:
        raise ValueError(
            f"{option} is {named}, but no file can be made in {beside} ({error.strerror}); choose another folder"
        ) from None
