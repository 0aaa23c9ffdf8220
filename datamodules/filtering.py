"""Which samples have what a source reads, by the index alone: before anything is opened, and in arrays."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, Integer

from .choice import TextChoice, TranslationChoice
from .shards.reader import ShardSet


@dataclass(frozen=True)
class TextRows:
    """All texts of some shards, one row a text.

    Args:
        samples: How many samples there are.
        start: Texts of sample s are `start[s]` to `start[s + 1]`.
        language: Which of `languages` it is in.
        role: Which of `roles` it has.
        languages: Codes of all languages there are.
        roles: All roles there are.
        readable: Which languages may be chosen where a choice names none; None: all.
        document: Which samples are documents, whose texts of a language are sentences in their order; None: none.
    """

    samples: int
    start: Integer[np.ndarray, "edges"]
    language: Integer[np.ndarray, "T"]
    role: Integer[np.ndarray, "T"]
    languages: Sequence[str]
    roles: Sequence[str]
    readable: Bool[np.ndarray, "languages"] | None = None
    document: Bool[np.ndarray, "samples"] | None = None

    @classmethod
    def of(cls, shards: ShardSet, known: Collection[str] | None = None) -> "TextRows":
        """All texts of opened shards.

        Args:
            shards: Where they are.
            known: Languages that can be read; None: all.
        """
        table = shards.texts
        readable = None if known is None else np.array([code in known for code in shards.languages], bool)
        columns = table.start, table.language, table.role, shards.languages, shards.roles
        return cls(len(shards), *columns, readable, shards.is_document)

    @property
    def sample(self) -> Int64[np.ndarray, "T"]:
        """Number of the sample that each text belongs to."""
        return np.repeat(np.arange(self.samples), np.diff(self.start))

    def taken(self, choice: TextChoice) -> Bool[np.ndarray, "T"]:
        """Texts that may be chosen.

        Raises:
            ValueError: A language or role that is asked for does not occur.
        """
        chosen = np.ones(len(self.language), dtype=bool)
        if choice.languages is None and self.readable is not None and len(self.readable):
            chosen &= self.readable[self.language]
        for wanted, found, values, what in (
            (choice.languages, self.languages, self.language, "language"),
            (choice.roles, self.roles, self.role, "role"),
        ):
            if wanted is not None:
                _refuse_unknown(wanted, found, what)
                chosen &= np.isin(values, [number for number, name in enumerate(found) if name in wanted])
        return chosen

    def languages_taken(self, choice: TextChoice) -> list[str]:
        """Codes of the languages in which some text may be chosen."""
        return [self.languages[number] for number in np.unique(self.language[self.taken(choice)])]

    def have_text(self, choice: TextChoice) -> Bool[np.ndarray, "samples"]:
        """Samples with at least one such text."""
        return np.bincount(self.sample[self.taken(choice)], minlength=self.samples) > 0

    def have_pair(self, text: TextChoice, translation: TranslationChoice) -> Bool[np.ndarray, "samples"]:
        """Samples with such a text and, in another language, such a translation of it."""
        first, second = self.taken(text), self.taken(translation)
        # Within a group (a sample, or a sample and a role) there is a pair where both sides are there and the texts of
        # the two together are in two languages or more.
        roles = len(self.roles) if translation.same_role else 1
        group = self.sample.astype(np.int64) * roles + (self.role if translation.same_role else 0)
        groups = self.samples * roles
        both = (np.bincount(group[first], minlength=groups) > 0) & (np.bincount(group[second], minlength=groups) > 0)
        distinct = np.unique((group * len(self.languages) + self.language)[first | second])
        paired = both & (np.bincount(distinct // max(1, len(self.languages)), minlength=groups) > 1)
        return np.any(paired.reshape(self.samples, roles), axis=1)


def have_partners(
    group: Int64[np.ndarray, "R"],
    language: Integer[np.ndarray, "R"],
    partner: Bool[np.ndarray, "R"],
    languages: int,
) -> Bool[np.ndarray, "R"]:
    """Whether some partner of each row's group is in another language than the row.

    Args:
        group: Rows of one number may stand beside each other.
        language: Of each row, below `languages`.
        partner: Rows that may be the other one.
        languages: How many there are.
    """
    codes = np.unique((group * languages + language)[partner])
    groups, first, distinct = np.unique(codes // max(1, languages), return_index=True, return_counts=True)
    if not len(groups):
        return np.zeros(len(group), bool)
    place = np.searchsorted(groups, group).clip(max=len(groups) - 1)
    only = codes[first][place] % languages
    return (groups[place] == group) & ((distinct[place] > 1) | (only != language))


def _refuse_unknown(wanted: Collection[str], found: Sequence[str], what: str) -> None:
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise ValueError(f"{what} {', '.join(missing)} is in no sample of the shards; found: {', '.join(found) or 'none'}")
