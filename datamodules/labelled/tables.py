"""Tab-separated files, read as they stand: a quotation mark is a character like others.

Readers that take it for the edge of a column (Python's `csv`, pandas) join lines of XNLI and PAWS-X and lose hundreds of pairs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from ..shards.lines import Lines


def read_rows(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Columns of each line that is not blank, and where it stands, for messages."""
    for where, line in _read_lines(file):
        if line:
            yield where, line.split("\t")


def read_blocks(file: Path) -> Iterator[list[tuple[str, list[str]]]]:
    """The lines between blank ones: columns of each, and where it stands, for messages."""
    block: list[tuple[str, list[str]]] = []
    for where, line in _read_lines(file):
        if line:
            block.append((where, line.split("\t")))
        elif block:
            yield block
            block = []
    if block:
        yield block


def read_table(
    file: Path, columns: Mapping[str, Collection[str]], optional: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, str]]]:
    """What stands in some columns of each line under a header, and where the line stands, for messages.

    Args:
        file: The first line names the columns.
        columns: Names that a header may have for each column, by our own name.
        optional: Our names of columns that may be missing; they are then missing in what is yielded.

    Raises:
        ValueError: The header lacks a column or has it twice, or a line has more columns than the header or too few.
    """
    rows = read_rows(file)
    where, header = next(rows, (f"{file}, line 1", []))
    places = {}
    for name, known in columns.items():
        found = [place for place, column in enumerate(header) if column.strip() in known]
        if len(found) > 1 or not (found or name in optional):
            raise ValueError(
                f"{where}: expected a header with one column {' or '.join(known)}, found {_list(header)}; columns stand "
                "between tabs"
            )
        if found:
            places[name] = found[0]
    needed = max(places.values(), default=0)
    for where, row in rows:
        if not needed < len(row) <= len(header):
            raise ValueError(
                f"{where}: found {len(row)} columns, the header has {len(header)}; a text may hold no tab and no line end, "
                "so copy the file anew, or mend the line"
            )
        yield where, {name: row[place].strip() for name, place in places.items()}


def _read_lines(file: Path) -> Iterator[tuple[str, str]]:
    """Each line without its end, and where it stands; a blank one is `""`.

    Raises:
        ValueError: A line holds NUL, as what is left of a file after a crash does.
    """
    with Lines(file) as lines:
        for number, line in enumerate(lines, 1):
            where = f"{file}, line {number}"
            if "\0" in line:
                raise ValueError(f"{where}: found a NUL character, so the file is damaged or no text; copy it anew")
            yield where, line.rstrip("\r\n") if line.strip() else ""


def _list(header: Sequence[str]) -> str:
    return ", ".join(repr(column[:40]) for column in header) or "an empty file"
