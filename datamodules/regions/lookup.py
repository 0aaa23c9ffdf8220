"""All files of a detector as one table of pictures, found by name."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, get_args

from ..shards.progress import track
from .detector_file import DetectorFile, Fields
from .ids import Rule, make_comparable

Format = Literal["bottom-up", "uniter", "volta-lmdb", "volta-h5", "npz"]
FORMATS: tuple[Format, ...] = get_args(Format)


def open_detector_file(form: Format, path: Path) -> DetectorFile:
    """A file, database or folder of a detector.

    Raises:
        ValueError: It is of another kind, or its package is not installed.
    """
    from .npz_folder import NpzFolder
    from .tsv import TsvFile
    from .uniter import UniterFile
    from .volta import VoltaH5, VoltaLmdb

    openers: dict[Format, Callable[[Path], DetectorFile]]
    openers = {"bottom-up": TsvFile, "uniter": UniterFile, "volta-lmdb": VoltaLmdb, "volta-h5": VoltaH5, "npz": NpzFolder}
    return openers[form](path)


class Lookup:
    """Where the regions of each picture are. Use it as a context manager, so that files are closed.

    Attributes:
        twice: Pictures that stand in the files more than once; the first is taken.
    """

    def __init__(self, form: Format, paths: Sequence[Path], rule: Rule):
        """
        Args:
            form: Of all files.
            paths: Files of one detector.
            rule: How names are compared.

        Raises:
            ValueError: A file is not what it should be, has no picture, or two of its names cannot be told
                apart by the rule.
        """
        self.files: list[DetectorFile] = []
        self.twice = 0
        self._places: dict[str, tuple[int, Any, str]] = {}
        self._stack = ExitStack()
        with ExitStack() as failing:  # what is open is closed if a later file is refused
            for path in paths:
                file = open_detector_file(form, path)
                failing.callback(file.close)
                self.files.append(file)
            for number, (path, file) in enumerate(zip(paths, self.files, strict=True)):
                self._read_names(number, path, track(file.names(), f"reading names of {path.name}"), rule)
            self._stack = failing.pop_all()

    def _read_names(self, number: int, path: Path, names: Iterable[tuple[str, Any]], rule: Rule) -> None:
        found = 0
        for name, place in names:
            key, found = make_comparable(name, rule), found + 1
            if key not in self._places:
                self._places[key] = (number, place, name)
            elif self._places[key][2] == name:
                self.twice += 1
            else:
                other = self._places[key][2]
                raise ValueError(
                    f"{path}: {name!r} and {other!r} are one by --match {rule} ({key!r}); choose --match exact or another"
                )
        if not found:
            raise ValueError(f"{path}: it has no picture; expected the regions of one or more")

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def read(self, key: str) -> Fields:
        """Fields of a picture.

        Args:
            key: Its comparable name.

        Raises:
            BadRegionsError: They cannot be read.
        """
        number, place, _ = self._places[key]
        return self.files[number].read(place)

    def examples(self) -> list[str]:
        """The first names, as they stand in the files."""
        return [name for _, (_, _, name) in zip(range(3), self._places.values(), strict=False)]

    def __enter__(self) -> "Lookup":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def count_unused(lookup: Lookup, used: Iterable[str]) -> Counter[str]:
    """Pictures of the files that no sample took."""
    return Counter({"noted: regions of a picture that is in no shard": len(lookup) - len(set(used))})
