"""Pairs of sentences with a class: XNLI and MultiNLI (arXiv:1809.05053), PAWS-X (arXiv:1908.11828), XTREME's copies of both."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..shards.fields import check_language, is_blank
from ..shards.records import NOTED
from .examples import Sentences
from .languages import LanguageChoice, require_language
from .skips import tell_skips
from .tables import read_rows, read_table

_INFERENCE = {name: name for name in ("entailment", "neutral", "contradiction")} | {"contradictory": "contradiction"}
_PARAPHRASE = {"0": "0", "1": "1"}
_UNDECIDED = "-"
_UNTRANSLATED = "NS"
_BYTES = re.compile(r"""b(["']).*\1""", re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"]|"")*""(?:[^"]|"")*"')


class Xnli:
    """Premise, hypothesis, and what follows: `xnli.dev.tsv`, `xnli.test.tsv`, MultiNLI's own files, XNLI's translations of it.

    Columns are found by the header's names. A file with a column `language` says its languages itself, and a language that is
    given takes only its lines.
    """

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Sentences]:
        """Pairs in the order of the file; `contradictory` is read as `contradiction`.

        Args:
            file: Tab-separated, UTF-8, `.gz` too.
            language: What it is in; None: its column says so.
            skipped: Counts pairs on which annotators do not agree (`-`) and pairs with a blank sentence; None: a warning tells.

        Raises:
            ValueError: Names file and line; the file has no such columns, a label is none of inference, the language is not
                told or no code of one, or no line is in it.
        """
        columns = {
            "language": ("language",),
            "first": ("sentence1", "premise"),
            "second": ("sentence2", "hypo", "hypothesis"),
            "label": ("gold_label", "label"),
        }
        with tell_skips(file, skipped) as skips:
            choice = LanguageChoice(file, language)
            for where, row in read_table(file, columns, optional=("language",)):
                code = check_language(row["language"], where) if "language" in row else require_language(language, file)
                if not choice.takes(code):
                    continue
                if row["label"] == _UNDECIDED:
                    skips["pair on which annotators do not agree"] += 1
                elif _are_there(row["first"], row["second"], skips):
                    label = _read_label(row["label"], _INFERENCE, where)
                    yield Sentences(code, row["first"], row["second"], label)
            choice.check()


class PawsX:
    """Two sentences, and whether one paraphrases the other: `test_2k.tsv`, `train.tsv`, `translated_train.tsv`..."""

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Sentences]:
        """Pairs in the order of the file, labelled `0` or `1`.

        Args:
            file: Tab-separated with a header, UTF-8, `.gz` too.
            language: What it is in: it does not say so itself.
            skipped: Counts pairs of which a sentence is blank or `NS` (its translation failed; published figures score these,
                too), and texts that are written as Python's bytes, `b'...'`, and read as what they stand for; None: a warning
                tells.

        Raises:
            ValueError: Names file and line; the file has no such columns, a label is neither 0 nor 1, or the language is not
                told.
        """
        code = require_language(language, file)
        columns = {"first": ("sentence1",), "second": ("sentence2",), "label": ("label",)}
        with tell_skips(file, skipped) as skips:
            for where, row in read_table(file, columns):
                first, second = (_read_bytes(row[side], skips) for side in ("first", "second"))
                if _are_there(first, second, skips):
                    yield Sentences(code, first, second, _read_label(row["label"], _PARAPHRASE, where))


@dataclass(frozen=True)
class XtremePairs:
    """XTREME's copies of XNLI and PAWS-X: `train-en.tsv`, `dev-de.tsv`, `test-de.tsv`; no header, two sentences and a label.

    XTREME writes them with a writer that wraps texts with quotation marks in marks and doubles their own, and reads them
    without undoing it, so its figures are of `"He said ""no""."` where the data has `He said "no".`

    Args:
        unquote: Whether to undo that; not what XTREME's published figures were measured with.
    """

    unquote: bool = False

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Sentences]:
        """Pairs in the order of the file; in files without labels (XTREME hides those of its tests) each label is `""`.

        Args:
            file: Tab-separated, UTF-8, `.gz` too.
            language: What it is in: it does not say so itself.
            skipped: Counts pairs of which a sentence is blank or `NS`, and texts wrapped in marks; None: a warning tells.

        Raises:
            ValueError: Names file and line; a line has more or fewer columns, a label is none of either task, or the language
                is not told.
        """
        code = require_language(language, file)
        labels = _INFERENCE | _PARAPHRASE
        with tell_skips(file, skipped) as skips:
            expected = None
            for where, row in read_rows(file):
                expected = expected or len(row)
                if len(row) not in (2, 3) or len(row) != expected:
                    raise ValueError(
                        f"{where}: found {len(row)} columns, expected a sentence, another and a label (or no label in the "
                        "whole file), without a header; XNLI's and PAWS-X's own files are read by Xnli and PawsX"
                    )
                first, second = (self._read_text(text.strip(), skips) for text in row[:2])
                label = _read_label(row[2].strip(), labels, where) if len(row) == 3 else ""
                if _are_there(first, second, skips):
                    yield Sentences(code, first, second, label)

    def _read_text(self, text: str, skipped: Counter[str]) -> str:
        if not _QUOTED.fullmatch(text):
            return text
        skipped[f"{NOTED}text wrapped in quotation marks, {'undone' if self.unquote else 'kept'}"] += 1
        return text[1:-1].replace('""', '"').strip() if self.unquote else text


def _are_there(first: str, second: str, skipped: Counter[str]) -> bool:
    """Whether both sentences have something to read; counts the pair if not."""
    for kind, missing in (("blank sentence", is_blank), ("sentence NS", _UNTRANSLATED.__eq__)):
        if missing(first) or missing(second):
            skipped[f"pair with a {kind}"] += 1
            return False
    return True


def _read_label(found: str, labels: dict[str, str], where: str) -> str:
    if found not in labels:
        raise ValueError(
            f"{where}, label: found {found[:40]!r}, expected one of {', '.join(labels)}; is this another data set, or is a "
            "column lost?"
        )
    return labels[found]


def _read_bytes(text: str, skipped: Counter[str]) -> str:
    """The text that `b'...'` stands for."""
    if not _BYTES.fullmatch(text):
        return text
    try:
        read = ast.literal_eval(text).decode().strip()
    except (ValueError, SyntaxError):  # it only looks so
        return text
    skipped[f"{NOTED}text written as bytes, read as text"] += 1
    return read
