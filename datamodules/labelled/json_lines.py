"""Classified sentences as JSON lines: fields as the user names them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..shards.fields import check_language, is_blank
from ..shards.joining import read_values
from ..shards.sources import read_objects
from .examples import Sentences
from .languages import LanguageChoice, require_language
from .skips import tell_skips


@dataclass(frozen=True)
class JsonLines:
    """An object a line, with a sentence or two and a class.

    Args:
        text: Field of the sentence.
        label: Field of its class, a text or a whole number.
        second: Field of a second sentence; None: there is none.
        language: Field of the language; None: the user says it for the whole file. A language that is said takes only its
            lines where the field is there.
        conditions: Values that fields must have, by field (`split: train`); other lines are left out.
    """

    text: str = "text"
    label: str = "label"
    second: str | None = None
    language: str | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Sentences]:
        """Examples in the order of the file.

        Args:
            file: JSON lines, UTF-8, `.gz` too.
            language: What it is in; None: the field says so.
            skipped: Counts lines with a blank sentence, and blank lines; None: a warning tells.

        Raises:
            ValueError: Names file, line and field; a field is missing or of another kind, no line meets the conditions or is in
                the language, or the language is not told.
        """
        with tell_skips(file, skipped) as skips:
            choice = LanguageChoice(file, language)
            met: set[bool] = set()
            for where, line in read_objects(file, skips):
                met.add(meets := read_values(line, self.conditions, where) == tuple(self.conditions.values()))
                if not meets:
                    continue
                code = self._read_language(line, language, file, where)
                if not choice.takes(code):
                    continue
                first = _read_text(line, self.text, where)
                second = None if self.second is None else _read_text(line, self.second, where)
                if is_blank(first) or (second is not None and is_blank(second)):
                    skips["blank sentence"] += 1
                    continue
                yield Sentences(code, first, second, _read_label(line, self.label, where))
            choice.check()
            if met == {False}:
                asked = ", ".join(f"{name}={value}" for name, value in self.conditions.items())
                raise ValueError(f"{file}: no line has {asked}; look which values its lines have")

    def _read_language(self, line: Mapping[str, Any], language: str | None, file: Path, where: str) -> str:
        if self.language is None:
            return require_language(language, file, instead=", or name the field that has it (`language`)")
        return check_language(_read_text(line, self.language, where), f"{where}, field {self.language}")


def _read_text(line: Mapping[str, Any], name: str, where: str) -> str:
    if not isinstance(line.get(name), str):
        raise ValueError(f"{where}, field {name}: {_found(line, name)}; expected a text")
    return line[name].strip()


def _read_label(line: Mapping[str, Any], name: str, where: str) -> str:
    if isinstance(line.get(name), bool) or not isinstance(line.get(name), str | int):
        raise ValueError(f"{where}, field {name}: {_found(line, name)}; expected a label, a text or a whole number")
    return str(line[name]).strip()


def _found(line: Mapping[str, Any], name: str) -> str:
    if name in line:
        return f"found {json.dumps(line[name], ensure_ascii=False)[:40]}"
    return f"it is not there, found {', '.join(line)}"
