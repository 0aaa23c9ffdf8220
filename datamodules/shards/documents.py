"""Documents that shards are written from: their sentences in order, each document a sample."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..sample import Caption
from .fields import check_language, excerpt, is_blank
from .json_lines import read_objects
from .lines import Lines
from .records import NOTED, Record
from .sources import read_identity

ROLE = "sentence"
_FIELDS = {"sentences", "language", "item"}


def read_documents(file: Path, language: str, longest: int, skipped: Counter[str]) -> Iterator[Record]:
    """Documents of a file: `.jsonl` has an object a document, any other text a sentence a line, a blank line between documents.

    Args:
        file: UTF-8, `.gz` too. Objects have `sentences` (a list of texts) and optionally `language` and `item`.
        language: Language code of what does not say its own.
        longest: Sentences of a sample; what is longer becomes several documents, since a sample is read whole.
        skipped: Counts blank sentences, documents without any, fields that nothing reads, and documents that were cut.
    """
    lines = ".jsonl" in file.suffixes[-2:]
    for sentences, code, item in _read_objects(file, language, skipped) if lines else _read_lines(file, language):
        texts = [Caption(code, text.strip(), ROLE) for text in sentences if not is_blank(text)]
        skipped["blank sentence"] += len(sentences) - len(texts)
        skipped["document without sentences"] += not texts
        skipped[f"{NOTED}document cut into several"] += len(texts) > longest
        for first in range(0, len(texts), longest):
            own = item if len(texts) <= longest or item is None else f"{item}, sentence {first}"
            yield Record(tuple(texts[first : first + longest]), own, document=True)


def _read_lines(file: Path, language: str) -> Iterator[tuple[list[str], str, None]]:
    with Lines(file) as lines:
        sentences: list[str] = []
        for line in lines:
            if line.strip():
                sentences.append(line)
            elif sentences:
                yield sentences, language, None
                sentences = []
        if sentences:
            yield sentences, language, None


def _read_objects(file: Path, language: str, skipped: Counter[str]) -> Iterator[tuple[list[str], str, str | int | None]]:
    for where, record in read_objects(file, skipped, "an object with `sentences`"):
        sentences, code = record.get("sentences"), record.get("language", language)
        if not (isinstance(sentences, list) and all(isinstance(text, str) for text in sentences)):
            found = ", ".join(record) or "none"
            raise ValueError(f"{where}: expected `sentences`, a list of texts in order; found the fields {found}")
        if not isinstance(code, str):
            raise ValueError(f"{where}, field language: found {excerpt(code)}, expected a text")
        skipped.update(f"field {name}, not read" for name in record if name not in _FIELDS)
        yield sentences, check_language(code, f"{where}, field language"), read_identity(record, where)
