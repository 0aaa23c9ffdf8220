"""What labelled data is made of, whatever file it came from."""

from typing import NamedTuple


class Sentences(NamedTuple):
    """A sentence or two, with what they are classified as."""

    language: str
    first: str
    second: str | None
    label: str
    """`""` where the file has none."""


class Tagged(NamedTuple):
    """Words of a sentence, each with its tag."""

    language: str
    words: tuple[str, ...]
    """As they stand: they may hold spaces, or nothing that a tokenizer keeps."""
    tags: tuple[str, ...]
    """As many as words; all `""` where the file has none."""


class Question(NamedTuple):
    """A question about a text in which the answer stands."""

    language: str
    key: str
    """What the file calls it."""
    question: str
    context: str
    answers: tuple[tuple[str, int], ...]
    """Text, and its first character in the context, counted in code points; -1 where it cannot be told. Any is right; empty
    where there is none, or none is told."""


class Translation(NamedTuple):
    """A sentence and its translation."""

    language: str
    key: str
    """Which of its set it is: equal for no two of a language."""
    text: str
    pivot: str
    """Language of the translation."""
    translation: str


class Comparable(NamedTuple):
    """Two collections of sentences, some of which translate each other."""

    language: str
    pivot: str
    texts: dict[str, str]
    """By key."""
    translations: dict[str, str]
    """Sentences in the pivot language, by key."""
    pairs: frozenset[tuple[str, str]] | None
    """Keys of a text and its translation; None where it is not told which translate each other."""
