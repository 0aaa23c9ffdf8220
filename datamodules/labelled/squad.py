"""Questions whose answer stands in a text: SQuAD's JSON, version 1.1 (arXiv:1606.05250).

XQuAD (arXiv:1910.11856), MLQA (arXiv:1910.07475) and TyDi QA's gold passages (arXiv:2003.05002) are written in it.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..shards.fields import check_language, is_blank, require_characters
from ..shards.lines import Lines
from ..shards.records import NOTED
from .examples import Question
from .languages import LanguageChoice, require_language, shorten
from .skips import tell_skips

UNPLACED = -1
"""Start of an answer that does not stand where the file says, nor at one place only."""


@dataclass(frozen=True)
class Squad:
    """Questions on paragraphs, each with answers that stand in its paragraph.

    Args:
        language_in_id: Whether a question's id begins with its language, by name or code, and a hyphen, as TyDi's do
            (`english-12-3`, `en-12`). The file then says its languages itself, and one that is given takes only its questions.
    """

    language_in_id: bool = False

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Question]:
        """Questions in the order of the file.

        An answer that does not stand at its `answer_start` is given the place where it stands, if that is one, and `UNPLACED`
        else: its text is right all the same when answers are scored.

        Args:
            file: JSON, UTF-8, `.gz` too.
            language: What it is in (contexts and answers, where questions are in another, as in MLQA); None: ids say so.
            skipped: Counts answers at other places, answers without text, ids that stand twice, and questions that are blank;
                None: a warning tells.

        Raises:
            ValueError: Names file and place in it; it is not of this form, or the language is not told.
        """
        if not self.language_in_id:
            require_language(language, file, ", or set `language_in_id` if ids begin with it, as english-12-3")
        with tell_skips(file, skipped) as skips:
            choice = LanguageChoice(file, language)
            known: set[str] = set()
            for where, context, entry in _read_entries(file):
                key, question = _get(entry, "id", (str, int), where), _get(entry, "question", str, where)
                code = self._read_language(str(key), where) if self.language_in_id else str(language)
                if not choice.takes(code):
                    continue
                for text in (question, context):
                    require_characters(text, where)
                if is_blank(question) or is_blank(context):
                    skips["question or context that is blank"] += 1
                    continue
                skips.update([f"{NOTED}id that another question has"] if str(key) in known else [])
                known.add(str(key))
                yield Question(code, str(key), question, context, _read_answers(entry, context, where, skips))
            choice.check()

    def _read_language(self, key: str, where: str) -> str:
        name, hyphen, _ = key.partition("-")
        if not hyphen:
            raise ValueError(f"{where}: found id {key!r}, expected LANGUAGE-...; unset `language_in_id`, and give the language")
        return check_language(shorten(name), f"{where}, id {key!r}, before the hyphen")


def _read_entries(file: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Where each question stands, its context, and its entry."""
    with Lines(file) as lines:
        text = "".join(lines)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: not JSON ({error}); expected a file in SQuAD's form") from None
    for place, article in enumerate(_get(content, "data", list, str(file))):
        of_article = f"{file}, data[{place}]"
        for number, paragraph in enumerate(_get(article, "paragraphs", list, of_article)):
            where = f"{of_article}.paragraphs[{number}]"
            context = _get(paragraph, "context", str, where)
            for question, entry in enumerate(_get(paragraph, "qas", list, where)):
                yield f"{where}.qas[{question}]", context, entry


def _read_answers(entry: dict[str, Any], context: str, where: str, skipped: Counter[str]) -> tuple[tuple[str, int], ...]:
    answers = []
    for number, answer in enumerate(_get(entry, "answers", list, where) if "answers" in entry else ()):
        place = f"{where}.answers[{number}]"
        text, start = _get(answer, "text", str, place), _get(answer, "answer_start", int, place)
        if is_blank(text):
            skipped["answer without text"] += 1
        else:
            answers.append((text, _place(text, start, context, skipped)))
    return tuple(answers)


def _place(text: str, start: int, context: str, skipped: Counter[str]) -> int:
    """First character of an answer in the context."""
    if start >= 0 and context.startswith(text, start):
        return start
    found = context.find(text)
    if found >= 0 and context.find(text, found + 1) < 0:
        skipped[f"{NOTED}answer not at its answer_start, placed where it stands"] += 1
        return found
    skipped[f"{NOTED}answer not at its answer_start, {'at several places' if found >= 0 else 'nowhere'}: without a place"] += 1
    return UNPLACED


def _get(entry: Any, name: str, kind: type | tuple[type, ...], where: str) -> Any:
    """A field of an object.

    Raises:
        ValueError: It is not there, or something else.
    """
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = {list: "a list", str: "a text", int: "a whole number"}.get(kind, "a text or a number")
        found = f"{json.dumps(value, ensure_ascii=False)[:40]}" if isinstance(entry, dict) and name in entry else "nothing"
        raise ValueError(f"{where}, field {name}: found {found}, expected {expected}, as SQuAD 1.1 has it")
    return value
