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
            ValueError: Names the folder or file; there are no such files, none in the language, a side is missing or there
                twice, two codes mean one language, the sides have other numbers of lines, or no pair has text on both.
        """
        sides = self._find(folder)
        taken = [code for code in sorted(sides) if language is None or shorten(language) == shorten(code)]
        if not taken:
            raise ValueError(f"{folder}: no file in {language!r}; languages found: {', '.join(sorted(sides))}")
        with tell_skips(folder, skipped) as skips:
            for code in taken:
                own = check_language(shorten(code), f"{sides[code][0]}, name")
                blank, pairs = 0, _read_pairs(*sides[code])
                for number, (text, translation) in enumerate(pairs, 1):
                    if is_blank(text) or is_blank(translation):
                        skips["pair with a blank side"] += 1
                        blank += 1
                    else:
                        yield Translation(own, str(number), text, shorten(self.pivot), translation)
                if blank == len(pairs):
                    file, other = sides[code]
                    raise ValueError(
                        f"{file} and {other.name}: {f'all of {blank} pairs have a blank side' if blank else 'both are empty'}; "
                        "copy them anew, or move them away"
                    )

    def _find(self, folder: Path) -> dict[str, tuple[Path, Path]]:
        """Both sides of each language, by its code as it is written."""
        named = [(file, name) for file in folder.glob("*") if (name := _NAME.fullmatch(file.name))]
        files: dict[tuple[str, str], Path] = {}
        for file, name in sorted(named, key=lambda pair: pair[0]):
            if name[2] == self.pivot and (other := files.setdefault((name[1], name[3]), file)) != file:
                raise ValueError(f"{other} and {file.name} are the same side; which is meant is not told: move one away")
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
        meant = {shorten(self.pivot): self.pivot}
        for code in sorted(codes):
            if shorten(code) in meant:
                raise ValueError(
                    f"{folder}: tatoeba.{code}-{self.pivot}.* is in {shorten(code)}, as {meant[shorten(code)]!r} is, and one "
                    "language has one set; move one away, or correct its code"
                )
            meant[shorten(code)] = code
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
