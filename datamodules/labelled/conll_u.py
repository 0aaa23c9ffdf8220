"""Words with their part of speech: CoNLL-U, as Universal Dependencies are published (https://universaldependencies.org)."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ...modalities.normalization import is_empty
from ...modalities.parts_of_speech import UNIVERSAL
from .examples import Tagged
from .languages import require_language
from .skips import UNREADABLE, tell_skips
from .tables import read_blocks

_NO_WORD = re.compile(r"\d+[-.]\d+")
_TREEBANK = re.compile(r"([a-z]{2,3})_[^-]+-ud-[^.]+\.conllu(\.gz)?")
_NOTHING = "_"


class ConllU:
    """Syntactic words with their universal part of speech (UPOS).

    Ranges (`1-2`, a written word that is several) and empty nodes (`1.1`) are left out, as UD counts words. XTREME
    (arXiv:2003.11080) tags written words instead, so figures in languages that have ranges are of another test.
    """

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Tagged]:
        """Sentences in the order of the file.

        Args:
            file: UTF-8, `.gz` too.
            language: What it is in; None: the name says so, as in `en_ewt-ud-dev.conllu`.
            skipped: Counts sentences whose words are withheld (each is `_`), those that have a word without UPOS, and words
                that nothing can be read of; None: a warning tells.

        Raises:
            ValueError: Names file and line; a line has not ten columns, words are not numbered 1, 2, 3, ... or empty, a UPOS
                is unknown, or the language is not told.
        """
        named = _TREEBANK.fullmatch(file.name)
        code = require_language(
            language or (named and named[1]), file, ", or name it as UD does, LANGUAGE_TREEBANK-ud-dev.conllu"
        )
        with tell_skips(file, skipped) as skips:
            for block in read_blocks(file):
                words, tags = _read_words(block)
                skips.update([UNREADABLE] * sum(map(is_empty, words)))
                if set(words) == {_NOTHING}:
                    skips["sentence whose words are withheld"] += 1
                elif _NOTHING in tags:
                    skips["sentence that has a word without UPOS"] += 1
                elif words:
                    yield Tagged(code, tuple(words), tuple(tags))


def _read_words(block: list[tuple[str, list[str]]]) -> tuple[list[str], list[str]]:
    """Forms and parts of speech of a sentence."""
    words: list[str] = []
    tags: list[str] = []
    for where, row in block:
        if row[0].startswith("#"):
            continue
        if len(row) != 10:
            raise ValueError(f"{where}: found {len(row)} columns, expected 10, between tabs; a blank line ends a sentence")
        number, form, tag = row[0], row[1], row[3]
        if _NO_WORD.fullmatch(number):
            continue
        if number != str(len(words) + 1):
            raise ValueError(
                f"{where}: found word number {number!r}, expected {len(words) + 1}; is a line lost, or a blank one?"
            )
        if not form.strip():
            raise ValueError(f"{where}, column 2: found nothing, expected a word, or _ where it is withheld")
        if tag not in UNIVERSAL and tag != _NOTHING:
            raise ValueError(f"{where}, column 4: found {tag!r}, expected a UPOS, one of {', '.join(sorted(UNIVERSAL))}")
        words.append(form)
        tags.append(tag)
    return words, tags
