"""Which lines of a file are read, and which of them together make one sample, such as all translations of a sentence."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..sample import Caption
from .records import NOTED, Record

Key = tuple[str, ...]


@dataclass(frozen=True)
class LineChoice:
    """What of a file is read.

    Args:
        languages: Codes of the languages whose texts are read; empty: all.
        conditions: Values that fields must have, by field; lines that have others are left out.
        group: Fields; lines that agree in all of them become one sample. Empty: each line is one.
        documents: Field with DOCUMENT#NUMBER; the texts of a document in one language become one sample, by their numbers.
            Lines that differ in a field of `group` are of other documents. Empty: lines are no parts of documents.
        parallel: Whether the two languages of each line stay together, in one sample a document and pair of languages.

    Raises:
        ValueError: `parallel` without `documents`.
    """

    languages: Collection[str] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    group: Sequence[str] = ()
    documents: str = ""
    parallel: bool = False

    def __post_init__(self):
        if self.parallel and not self.documents:
            raise ValueError("--parallel keeps two languages of a document together; give --documents FIELD, too")

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


def read_place(line: Mapping[str, Any], name: str, where: str) -> tuple[str, int]:
    """Which document a line is of, and where in it.

    Args:
        line: Its object.
        name: Field with DOCUMENT#NUMBER.
        where: File and line, for messages.

    Raises:
        ValueError: The field is missing or holds something else.
    """
    (value,) = read_values(line, [name], where)
    document, sign, number = value.rpartition("#")
    if not (sign and document and number.isdecimal()):
        raise ValueError(
            f"{where}, field {name}: found {value!r}, but --documents expects DOCUMENT#NUMBER, as page#3 is the fourth text of "
            "a page; --where takes only the lines that have it"
        )
    return document, int(number)


def join_documents(lines: Iterable[tuple[Key, int, Record]], skipped: Counter[str]) -> Iterator[Record]:
    """One record of all texts of a document in one language, in their order; all are held until the last is read.

    Documents come in the order of their first lines, the languages of one after each other. A document's item is its key, so
    its translations are one item.

    Args:
        lines: Key of its document, place in it, and record of each line.
        skipped: Counts texts that stand where another one of their language stands.
    """
    documents: dict[tuple[Key, str], dict[int, Caption]] = {}
    for key, place, record in lines:
        for text in record.texts:
            first = documents.setdefault((key, text.language), {}).setdefault(place, text)
            skipped["text at a place of a document that has another"] += first.text != text.text
    for (key, _), texts in documents.items():
        yield Record(tuple(texts[place] for place in sorted(texts)), "/".join(key), document=True)


def join_parallel_documents(lines: Iterable[tuple[Key, int, Record]], skipped: Counter[str]) -> Iterator[Record]:
    """One record of all texts of a document and their translations into one language; all are held until the last is read.

    The texts of the one language stand first, then those of the other, both in their order: as many, the n-th translates the
    n-th. Order and items are as of `join_documents`.

    Args:
        lines: Key of its document, place in it, and record of each line, which has a text and its translation.
        skipped: Counts lines in one language, and those that stand where another one of their languages stands.
    """
    documents: dict[tuple[Key, str, str], dict[int, tuple[Caption, ...]]] = {}
    for key, place, record in lines:
        text, translation = record.texts
        if text.language == translation.language:
            skipped["pair in one language"] += 1
            continue
        first = documents.setdefault((key, text.language, translation.language), {}).setdefault(place, record.texts)
        skipped["pair at a place of a document that has another"] += first != record.texts
    for (key, _, _), pairs in documents.items():
        sides = zip(*(pairs[place] for place in sorted(pairs)), strict=True)
        yield Record(tuple(text for side in sides for text in side), "/".join(key), document=True)


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
        skipped[f"{NOTED}sample with several texts of a language"] += len(languages) < len(texts)
        yield first._replace(texts=tuple(texts), item="/".join(key))
