"""Parallel text that shards are written from: Moses files, with their word alignments, and tab-separated columns."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..sample import Alignment, Caption
from .fields import check_language, is_blank
from .lines import Lines
from .pharaoh import Reading, UnusableError, read_pairs
from .records import Record


def read_moses(
    files: Sequence[Path],
    languages: Sequence[str],
    skipped: Counter[str],
    alignments: Sequence[Path] = (),
    reading: Reading = Reading(),  # noqa: B008 - it is immutable
) -> Iterator[Record]:
    """Parallel text: line n of each file translates line n of the others.

    Args:
        files: Two or more, of equally many lines.
        languages: Code of each file; empty for the files' extensions (`news.en`, `news.de.gz`).
        skipped: Counts lines that are blank in some file, and alignments that cannot be used, with the first line of each.
        alignments: Pharaoh files of as many lines: of the first text with the second, with the third, ...; empty for none.
        reading: How their numbers are to be read.
    """
    codes = [check_language(code, "--languages") for code in languages] or [_extension_language(file) for file in files]
    _check_count(codes, files, "files")
    if alignments and len(alignments) != len(files) - 1:
        raise ValueError(
            f"--alignments: found {len(alignments)} files for {len(files)} texts; expected one for each text but the first"
        )
    every = [*files, *alignments]
    counts = [_count_lines(file) for file in every]
    if len(set(counts)) > 1:
        found = ", ".join(f"{file} has {count}" for file, count in zip(every, counts, strict=True))
        raise ValueError(f"{found} lines; expected equally many: line {min(counts) + 1} has no translation in the shorter")
    opened = [Lines(file) for file in every]
    try:
        for number, row in enumerate(zip(*opened, strict=True), 1):
            texts, pairs = row[: len(files)], row[len(files) :]
            for record in _pair([texts], codes, skipped):
                aligned = _Aligned(texts, number, reading, skipped)
                found = [
                    aligned.read(file, place, line) for place, (file, line) in enumerate(zip(alignments, pairs, strict=True), 1)
                ]
                yield record._replace(alignments=tuple(filter(None, found)))
    finally:
        for file in opened:
            file.close()


class _Aligned:
    """Reads the alignments of one line."""

    def __init__(self, texts: Sequence[str], number: int, reading: Reading, skipped: Counter[str]):
        self.texts, self.number, self.reading, self.skipped = texts, number, reading, skipped

    def read(self, file: Path, place: int, line: str) -> Alignment | None:
        """The alignment of the first text and the one at `place`; None where it is empty or cannot be used, then counted."""
        where = f"{file}, line {self.number}"
        try:
            words, possible = read_pairs(line, (self.texts[0], self.texts[place]), self.reading, where)
        except UnusableError as error:
            known = next((kind for kind in self.skipped if kind.startswith(f"{error} (first: {file},")), None)
            self.skipped[known or f"{error} (first: {where})"] += 1
            return None
        return Alignment(0, place, tuple(words), tuple(possible)) if words or possible else None


def read_tsv(file: Path, languages: Sequence[str], skipped: Counter[str]) -> Iterator[Record]:
    """Parallel text: a column a language, tabs between them, no quoting.

    Args:
        file: UTF-8.
        languages: Code of each column; empty where the first line has them.
        skipped: Counts lines with a blank column.
    """
    with Lines(file) as lines:
        first = 1
        codes = [check_language(code, "--languages") for code in languages]
        if not codes:
            header, first = next(lines, "").rstrip("\r\n").split("\t"), 2
            where = f"{file}, line 1 (the header, as --languages is not given)"
            codes = [check_language(code.strip(), f"{where}, column {column}") for column, code in enumerate(header, 1)]
        _check_count(codes, codes, "columns")
        yield from _pair(_columns(file, lines, len(codes), first), codes, skipped)


def _columns(file: Path, lines: Lines, expected: int, first: int) -> Iterator[list[str]]:
    for number, line in enumerate(lines, first):
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) != expected and line.strip():
            raise ValueError(f"{file}, line {number}: found {len(columns)} columns, expected {expected} (one a language)")
        yield columns


def _pair(rows: Iterable[Sequence[str]], codes: Sequence[str], skipped: Counter[str]) -> Iterator[Record]:
    for row in rows:
        texts = tuple(Caption(code, text.strip(), "sentence") for code, text in zip(codes, row, strict=False))
        if len(texts) == len(codes) and not any(is_blank(caption.text) for caption in texts):
            yield Record(texts)
        else:
            skipped["line without translation"] += 1


def _check_count(codes: Sequence[str], columns: Sequence, what: str) -> None:
    if len(columns) < 2:
        raise ValueError(f"parallel text needs two or more {what}, found {len(columns)}")
    if len(codes) != len(columns):
        raise ValueError(f"--languages: found {len(codes)} codes ({', '.join(codes)}) for {len(columns)} {what}")
    if len(set(codes)) < len(codes):
        raise ValueError(f"parallel text: each language may stand once, found {', '.join(codes)}; see --languages")


def _extension_language(file: Path) -> str:
    suffix = (file.with_suffix("") if file.suffix == ".gz" else file).suffix[1:]
    return check_language(suffix, f"{file}, extension (or give --languages)")


def _count_lines(file: Path) -> int:
    with Lines(file) as lines:
        return sum(1 for _ in lines)
