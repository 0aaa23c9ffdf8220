"""Which lines of a file are read, and which of them together make one sample, such as all translations of a sentence."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..sample import Caption
from .fields import check_language, excerpt
from .records import NOTED, Record

Key = tuple[str, ...]
_TEXTS = ("src", "tgt", "caption", "captions", "text", "texts")


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
        ValueError: They do not go together, or a code is none.
    """

    languages: Collection[str] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    group: Sequence[str] = ()
    documents: str = ""
    parallel: bool = False

    def __post_init__(self):
        if self.parallel and not self.documents:
            raise ValueError("--parallel keeps two languages of a document together; give --documents FIELD, too")
        for code in self.languages:
            check_language(code, "--languages")
        if self.parallel and len({*self.languages}) == 1:
            raise ValueError(
                f"--languages: found {', '.join(self.languages)} alone, but --parallel keeps two languages together; name "
                "both, or leave --parallel out"
            )
        for option, names in (("--group", self.group), ("--where", self.conditions)) if self.documents else ():
            own = [name for name in names if name in (self.documents, *_TEXTS)]
            if own:
                raise ValueError(
                    f"{option}: found {own[0]}, which differs from line to line of a document, so that each would be a "
                    f"document of its own; leave {own[0]} out, as --documents {self.documents} puts lines together itself"
                )

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
            raise ValueError(f"{where}, field {name}: found {excerpt(line[name])}, expected a text or a whole number")
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
        skipped: Counts texts that stand where another one of their language stands, and documents of one text.

    Raises:
        ValueError: See `_check_lengths`.
    """
    documents: dict[tuple[Key, str], dict[int, Caption]] = {}
    for key, place, record in lines:
        for text in record.texts:
            first = documents.setdefault((key, text.language), {}).setdefault(place, text)
            skipped["text at a place of a document that has another"] += first.text != text.text
    _check_lengths(documents, skipped)
    for (key, _), texts in documents.items():
        yield Record(tuple(texts[place] for place in sorted(texts)), "/".join(key), document=True)


def join_parallel_documents(lines: Iterable[tuple[Key, int, Record]], skipped: Counter[str]) -> Iterator[Record]:
    """One record of all texts of a document and their translations into one language; all are held until the last is read.

    The texts of the one language stand first, then those of the other, both in their order: as many, the n-th translates the
    n-th. Lines with the two languages the other way round belong to the same document; the languages stand as in its first
    line. Order and items are as of `join_documents`.

    Args:
        lines: Key of its document, place in it, and record of each line, which has a text and its translation.
        skipped: Counts lines in one language, those that were turned round, those that stand where another one of their
            languages stands, and documents of one text.

    Raises:
        ValueError: See `_check_lengths`.
    """
    documents: dict[tuple[Key, str, str], dict[int, tuple[Caption, ...]]] = {}
    for key, place, record in lines:
        text, translation = record.texts
        if text.language == translation.language:
            skipped["pair in one language"] += 1
            continue
        pair = record.texts
        if turned := (key, translation.language, text.language) in documents:
            pair = pair[::-1]
        skipped[f"{NOTED}pair whose languages were turned round, as in the first line of its document"] += turned
        first = documents.setdefault((key, pair[0].language, pair[1].language), {}).setdefault(place, pair)
        skipped["pair at a place of a document that has another"] += first != pair
    _check_lengths(documents, skipped)
    for (key, _, _), pairs in documents.items():
        sides = zip(*(pairs[place] for place in sorted(pairs)), strict=True)
        yield Record(tuple(text for side in sides for text in side), "/".join(key), document=True)


def _check_lengths(documents: Mapping[tuple, Mapping[int, Any]], skipped: Counter[str]) -> None:
    """
    Args:
        documents: What stands at each place, by key and languages.
        skipped: Counts documents of one text.

    Raises:
        ValueError: All are of one text, and would not be if `group` were left out.
    """
    alone = sum(len(places) == 1 for places in documents.values())
    skipped[f"{NOTED}document of one sentence"] += alone
    if documents and alone == len(documents) > len({(key[-1], *languages) for key, *languages in documents}):
        raise ValueError(
            f"--group: each of the {alone} documents has one sentence, since lines of one document differ in the fields of "
            "--group; leave those out, as --documents puts lines together itself"
        )


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
