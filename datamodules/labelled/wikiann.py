"""Words with the names they are part of: WikiANN (PAN-X), Pan et al. 2017 (aclanthology.org/P17-1178), tags as IOB2."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...modalities.normalization import is_empty
from ..shards.fields import check_language
from ..shards.records import NOTED
from .examples import Tagged
from .languages import LanguageChoice, require_language
from .skips import UNREADABLE, tell_skips
from .tables import read_blocks

_TAG = re.compile(r"O|[BI]-\S+")
_UNTABBED = re.compile(rf"\S+\s+(?:{_TAG.pattern})\s*")


@dataclass(frozen=True)
class WikiAnn:
    """A word a line with its tag, a blank line between sentences: `en:Ada<tab>B-PER`, or `Ada<tab>B-PER` in XTREME's copies.

    Args:
        prefixed: Whether each word stands behind its language and a colon. The file then says its language itself, and one that
            is given takes only its sentences.
        iob1: Whether an entity may begin with I-, as in IOB1; its first tag is then read as B-. Else that is an error.
    """

    prefixed: bool = True
    iob1: bool = False

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Tagged]:
        """Sentences in the order of the file; where a file has words alone (XTREME hides the tags of its tests), tags are `""`.

        Args:
            file: Tab-separated, UTF-8, `.gz` too.
            language: What it is in; None: its words say so.
            skipped: Counts tags that `iob1` changes, and words that nothing can be read of; None: a warning tells.

        Raises:
            ValueError: Names file and line; a line is no word with a tag, or some sentences have tags and others none, tags are
                not IOB2, words lack the prefix or have it
                unasked, or the language is not told.
        """
        with tell_skips(file, skipped) as skips:
            choice = LanguageChoice(file, language)
            tagged: bool | None = None
            for block in read_blocks(file):
                code, words = self._read_words(block, language, file)
                skips.update([UNREADABLE] * sum(map(is_empty, words)))
                tags = self._read_tags(block, skips)
                if tagged is None:
                    tagged = any(tags)
                if tagged != any(tags):
                    raise ValueError(
                        f"{block[0][0]}: found a sentence with{'out' * tagged} tags after others with{'out' * (not tagged)}; "
                        "give each word a tag, behind a tab, or none in the whole file"
                    )
                if choice.takes(code):
                    yield Tagged(code, words, tags)
            choice.check()

    def _read_words(self, block: list[tuple[str, list[str]]], language: str | None, file: Path) -> tuple[str, tuple[str, ...]]:
        """Language and words of a sentence."""
        words = [row[0] for _, row in block]
        if not self.prefixed:
            code = require_language(language, file, instead=", or set `prefixed` if each word stands behind it (en:word)")
            if all(word.startswith(f"{code}:") for word in words):
                raise ValueError(
                    f"{block[0][0]}: found {words[0]!r}, and {code}: before all words of the sentence; set `prefixed`"
                )
            return code, tuple(words)
        split = [word.partition(":") for word in words]
        for (where, row), (code, colon, _) in zip(block, split, strict=True):
            if not colon or code != split[0][0]:
                raise ValueError(
                    f"{where}: found {row[0]!r}, expected LANGUAGE:WORD, one language a sentence; set `prefixed: false` if "
                    "words stand alone"
                )
        return check_language(split[0][0], f"{block[0][0]}, before the colon"), tuple(word for _, _, word in split)

    def _read_tags(self, block: list[tuple[str, list[str]]], skipped: Counter[str]) -> tuple[str, ...]:
        """Tags of a sentence, as IOB2."""
        if all(len(row) == 1 for _, row in block):
            if all(_UNTABBED.fullmatch(row[0]) for _, row in block):
                raise ValueError(
                    f"{block[0][0]}: found {block[0][1][0]!r}, a word and a tag without a tab between them; put one there"
                )
            return ("",) * len(block)
        tags: list[str] = []
        for where, row in block:
            tag = row[1].strip() if len(row) == 2 else ""
            if not _TAG.fullmatch(tag):
                raise ValueError(f"{where}: found {row!r}, expected a word, a tab and its tag: O, B-TYPE or I-TYPE")
            before = tags[-1] if tags else "O"
            if tag.startswith("I-") and before[2:] != tag[2:]:
                if not self.iob1:
                    raise ValueError(
                        f"{where}: found {tag} after {before}, but in IOB2 an entity begins with B-; set `iob1` to read it "
                        f"as B{tag[1:]}"
                    )
                skipped[f"{NOTED}entity that begins with I-, read as B-"] += 1
                tag = f"B{tag[1:]}"
            tags.append(tag)
        return tuple(tags)
