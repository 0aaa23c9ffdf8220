"""Which lines of a file are read, and which of them together make one sample, such as all translations of a sentence."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..sample import Caption
from .records import Record

Key = tuple[str, ...]


@dataclass(frozen=True)
class LineChoice:
    """What of a file is read.

    Args:
        languages: Codes of the languages whose texts are read; empty: all.
        conditions: Values that fields must have, by field; lines that have others are left out.
        group: Fields; lines that agree in all of them become one sample. Empty: each line is one.
    """

    languages: Collection[str] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    group: Sequence[str] = ()

    def takes(self, line: Mapping[str, Any], where: str) -> bool:
        """Whether a line meets all conditions."""
        return read_values(line, self.conditions, where) == tuple(self.conditions.values())


def read_values(line: Mapping[str, Any], names: Iterable[str], where: str) -> Key:
    """What a line has in some of its fields, as texts.

    Args:
        line: Its object.
        names: Of the fields; `--where` and `--group` name them.
        where: File and line, for messages.

    Raises:
        ValueError: A field is missing, or holds neither a text nor a whole number.
    """
    for name in names:
        if name not in line:
            raise ValueError(f"{where}: there is no field {name!r}, found {', '.join(line)}; every line needs what is named")
        if isinstance(line[name], bool) or not isinstance(line[name], str | int):
            raise ValueError(f"{where}, field {name}: found {line[name]!r}, expected a text or a whole number to compare")
    return tuple(str(line[name]) for name in names)


def parse_conditions(given: Sequence[str]) -> dict[str, str]:
    """`FIELD=VALUE` as fields and values.

    Raises:
        ValueError: There is no equals sign, or a field stands twice.
    """
    conditions: dict[str, str] = {}
    for one in given:
        name, sign, value = one.partition("=")
        if not sign or not name or name in conditions:
            raise ValueError(f"--where: found {one!r}, expected FIELD=VALUE, each field once")
        conditions[name] = value
    return conditions


def join(lines: Iterable[tuple[Key, Record]], skipped: Counter[str]) -> Iterator[Record]:
    """One record of all lines that have the same key, in the order of their first lines; all are held until the last is read.

    Equal texts of a language are one. The item of a record is its key.

    Args:
        lines: Key and record of each line.
        skipped: Counts samples that have several texts of a language.

    Raises:
        ValueError: Lines of one key have different pictures.
    """
    joined: dict[Key, tuple[dict[Caption, None], Record]] = {}
    for key, record in lines:
        texts, first = joined.setdefault(key, ({}, record))
        if record.image != first.image:
            raise ValueError(
                f"--group: lines that agree in {' / '.join(key)[:80]} have the pictures {first.image} and {record.image}; a "
                "sample has one picture: group by more fields"
            )
        texts.update(dict.fromkeys(record.texts))
    for key, (texts, first) in joined.items():
        languages = {text.language for text in texts}
        skipped["(not skipped) sample with several texts of a language"] += len(languages) < len(texts)
        yield first._replace(texts=tuple(texts), item="/".join(key))
