"""The same examples where there should be others: a file that is read twice, a split that repeats another."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .examples import Question, Tagged

TOLD = 0.01
"""Share of a split's examples from which on it is said that another has them too: some short texts are said by many."""


class Repeats:
    """What a split has read so far, file by file."""

    def __init__(self):
        self.seen: dict[tuple[str, str], str] = {}

    def refuse(self, option: str, path: Path, records: Sequence[Any]) -> None:
        """Refuse a file whose examples have been read before.

        Args:
            option: That names it, for messages.
            path: Of the file.
            records: What was read of it.

        Raises:
            ValueError: They were read under this option from this file or a copy of it, or from this file as another language.
        """
        digest = hashlib.blake2b(digest_size=16)
        for record in records:
            digest.update(repr(record._replace(language="")).encode())
        by_option, by_file = (option, digest.hexdigest()), (str(path.resolve()), digest.hexdigest())
        if by_option in self.seen:
            raise ValueError(
                f"{option}: {path} holds the same examples as {self.seen[by_option]}, and each would count twice; name it once"
            )
        if by_file in self.seen:
            raise ValueError(
                f"{option}: {path} gives the same examples to {self.seen[by_file]}, in another language, as it does not say "
                "the language of each; give each language a file of its own"
            )
        self.seen[by_option], self.seen[by_file] = str(path), option


def count_shared(records: Iterable[Any], others: Iterable[Any]) -> tuple[int, int]:
    """How many examples are in another set too, by language and text, whatever their labels; and of how many.

    Args:
        records: What is looked at; only those in languages of `others` are counted.
        others: Where they should not be.
    """
    there = {_read(record) for record in others}
    languages = {language for language, _ in there}
    own = [_read(record) for record in records if record.language in languages]
    return sum(one in there for one in own), len(own)


def unseen(labels: Iterable[str], names: Iterable[str]) -> list[str]:
    """Labels, in their order, that stand nowhere among some names."""
    seen = Counter(names)
    return [label for label in labels if not seen[label]]


def _read(record: Any) -> tuple[str, int]:
    if isinstance(record, Question):
        text: Any = (record.question, record.context)
    else:
        text = record.words if isinstance(record, Tagged) else (record.first, record.second)
    return record.language, hash(text)
