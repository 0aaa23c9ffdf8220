"""Sentences with their translations: Tatoeba's sets, as published with LASER (arXiv:1812.10464, section 4.4)."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..shards.fields import check_language, is_blank
from ..shards.lines import Lines
from .examples import Translation
from .languages import shorten
from .skips import tell_skips

_NAME = re.compile(r"tatoeba\.([^.-]+)-([^.-]+)\.([^.]+)(?:\.gz)?")
_SORTED = re.compile(r"([a-z]{2})-en\.(?:\1|en)")


@dataclass(frozen=True)
class Tatoeba:
    """A folder of `tatoeba.LANGUAGE-eng.LANGUAGE` and `tatoeba.LANGUAGE-eng.eng`, line n translating line n.

    Args:
        pivot: The side that all files have, as their names write it.
    """

    pivot: str = "eng"

    def read(self, folder: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Translation]:
        """Pairs of each language in order; the key is the number of the line, from 1, the language has two letters if it can.

        Args:
            folder: Of the files, each UTF-8, `.gz` too.
            language: Only its files; as the names write it (`deu`) or with two letters (`de`). None: all.
            skipped: Counts pairs with a blank side; None: a warning tells.

        Raises:
            ValueError: Names the folder or file; there are no such files, none in the language, a side is missing, or the sides
                have other numbers of lines.
        """
        sides = self._find(folder)
        taken = [code for code in sorted(sides) if language is None or shorten(language) == shorten(code)]
        if not taken:
            raise ValueError(f"{folder}: no file in {language!r}; languages found: {', '.join(sorted(sides))}")
        with tell_skips(folder, skipped) as skips:
            for code in taken:
                own = check_language(shorten(code), f"{sides[code][0]}, name")
                for number, (text, translation) in enumerate(_read_pairs(*sides[code]), 1):
                    if is_blank(text) or is_blank(translation):
                        skips["pair with a blank side"] += 1
                    else:
                        yield Translation(own, str(number), text, shorten(self.pivot), translation)

    def _find(self, folder: Path) -> dict[str, tuple[Path, Path]]:
        """Both sides of each language, by its code as it is written."""
        named = [(file, name) for file in folder.glob("*") if (name := _NAME.fullmatch(file.name))]
        files = {(name[1], name[3]): file for file, name in named if name[2] == self.pivot}
        codes = {code for code, _ in files}
        if not codes:
            if any(_SORTED.fullmatch(file.name) for file in folder.glob("*")):
                raise ValueError(
                    f"{folder}: these are XTREME's copies (de-en.de, de-en.en), whose English sides are sorted, so that line n "
                    "no longer translates line n; give the folder of LASER's files, tatoeba.deu-eng.deu and tatoeba.deu-eng.eng"
                )
            raise ValueError(f"{folder}: expected files tatoeba.LANGUAGE-{self.pivot}.LANGUAGE and .{self.pivot}, found none")
        for code in codes:
            for side in (code, self.pivot):
                if (code, side) not in files:
                    raise ValueError(f"{folder}: tatoeba.{code}-{self.pivot}.{side} is missing; copy it beside the other side")
        return {code: (files[code, code], files[code, self.pivot]) for code in codes}


def _read_pairs(file: Path, other: Path) -> list[tuple[str, str]]:
    with Lines(file) as left, Lines(other) as right:
        texts, translations = [line.strip() for line in left], [line.strip() for line in right]
    if len(texts) != len(translations):
        raise ValueError(
            f"{file} has {len(texts)} lines, {other.name} has {len(translations)}; expected equally many, as line "
            "n translates line n"
        )
    return list(zip(texts, translations, strict=True))
