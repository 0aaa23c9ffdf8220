"""Which texts of many samples are read, decided at once and by the index alone: nothing is opened to choose."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64, Integer

from .alternating import Alternating
from .choice import TextChoice, TranslationChoice
from .filtering import TextRows, have_partners
from .following import Following

Numbers = Int64[np.ndarray, "N"]
Rows = Int64[np.ndarray, "R"]


class Chooser:
    """Chooses a text of each sample, and its translation where one is asked for: first a language, then one of its texts."""

    def __init__(
        self,
        texts: TextRows,
        text: TextChoice,
        translation: TranslationChoice | None,
        following: Following | None = None,
        alternating: Alternating | None = None,
    ):
        """
        Args:
            texts: All texts there are.
            text: What may be the text.
            translation: What may stand beside it, in another language; None: nothing does.
            following: What follows the text in its document, which then stands beside it; None: nothing does.
            alternating: The passages that text and translation begin; None: they are read alone.
        """
        self.start, self.language, self.role = texts.start, texts.language, texts.role
        self.languages = max(1, len(texts.languages))
        self.kind, self.kinds = _kinds(texts, translation, alternating)
        self.first = texts.taken(text)
        self.second = None if translation is None else texts.taken(translation)
        self.following, self.alternating = following, alternating
        if following is not None:
            self.first, self.second = following.first, following.second
        elif alternating is not None:
            self.first, self.second = alternating.first, alternating.second
        self.weights = [
            np.array([choice.weight(role) for role in texts.roles] or [1.0]) for choice in (text, translation) if choice
        ]

    @property
    def passages(self) -> Following | Alternating | None:
        """Passages of documents that the texts begin; None: they are read alone."""
        return self.following or self.alternating

    def choose(
        self, sample: Numbers, luck: Float64[np.ndarray, "N 4"], language: Numbers | None = None, other: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Numbers of the chosen texts and of their translations (or of what follows them); -1 where there is none.

        Args:
            sample: Numbers of the samples.
            luck: Four numbers in [0, 1) that decide.
            language: The language of each text; None: any that may be chosen.
            other: That of its translation.
        """
        counts = self.start[sample + 1] - self.start[sample]
        owner = np.repeat(np.arange(len(sample)), counts)
        row = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts) + self.start[sample][owner]
        able = self.first[row] & self._is(language, owner, row)
        if self.second is None or self.following is not None:
            text = self._pick(owner[able], row[able], luck[:, :2], 0)
            return text, np.full(len(sample), -1) if self.following is None else self.following.go_on(text)
        partner = self.second[row] & self._is(other, owner, row)
        able &= have_partners(owner * self.kinds + self.kind[row], self.language[row], partner, self.languages)
        text = self._pick(owner[able], row[able], luck[:, :2], 0)
        beside = text[owner]
        partner &= (beside >= 0) & (self.language[row] != self.language[beside]) & (self.kind[row] == self.kind[beside])
        return text, self._pick(owner[partner], row[partner], luck[:, 2:], 1)

    def _is(self, wanted: Numbers | None, owner: Rows, row: Rows) -> Bool[np.ndarray, "R"]:
        return np.ones(len(row), bool) if wanted is None else self.language[row] == wanted[owner]

    def _pick(self, owner: Rows, row: Rows, luck: Float64[np.ndarray, "N 2"], which: int) -> Numbers:
        chosen = np.full(len(luck), -1)
        if not len(row):
            return chosen
        codes = owner * self.languages + self.language[row]
        distinct, first = np.unique(codes, return_index=True)
        distinct = distinct[np.argsort(first)]  # languages of a sample in the order of its texts
        many = np.bincount(distinct // self.languages, minlength=len(luck))
        place = np.cumsum(many) - many + (luck[:, 0] * many).astype(np.int64)
        taken = codes == distinct[place.clip(max=len(distinct) - 1)][owner]
        owner, row = owner[taken], row[taken]
        weight = self.weights[which][self.role[row]]
        ends = np.cumsum(weight)
        total = np.bincount(owner, weight, len(luck))
        before = (np.cumsum(total) - total)[owner]
        past = np.flatnonzero(ends - before > luck[owner, 1] * total[owner])
        found, first = np.unique(owner[past], return_index=True)
        last = np.flatnonzero(np.append(owner[1:] != owner[:-1], True))  # for what rounding leaves over
        chosen[owner[last]] = row[last]
        chosen[found] = row[past[first]]
        return chosen


def strata(
    texts: TextRows,
    text: TextChoice,
    translation: TranslationChoice | None,
    following: Following | None = None,
    alternating: Alternating | None = None,
) -> dict[tuple[int, int], Int64[np.ndarray, "_"]]:
    """Samples by the language of the text, and of its translation or of what follows it (-1: none); a sample may be in several.

    Returns:
        Ascending numbers of samples by places in `texts.languages`.
    """
    kind, kinds = _kinds(texts, translation, alternating)
    owner = texts.sample * kinds + kind
    if following is not None:
        found = _by_language(texts, owner, following.first)
        return {(language, language): groups for language, groups in found.items()}
    first = _by_language(texts, owner, texts.taken(text) if alternating is None else alternating.first)
    if translation is None:
        return {(language, -1): groups for language, groups in first.items()}
    second = _by_language(texts, owner, texts.taken(translation) if alternating is None else alternating.second)
    group = np.concatenate([np.zeros(0, np.int64), *second.values()])
    order = np.argsort(group, kind="stable")
    group, language = group[order], np.repeat(list(second), [len(groups) for groups in second.values()])[order]
    found = {}
    for one, groups in first.items():  # all partners of a language at once: there may be thousands of pairs
        begin = np.searchsorted(group, groups)
        counts = np.searchsorted(group, groups, side="right") - begin
        row = np.arange(counts.sum()) + np.repeat(begin - np.cumsum(counts) + counts, counts)
        row = row[np.argsort(language[row], kind="stable")]
        others, starts = np.unique(language[row], return_index=True)
        for other, part in zip(others.tolist(), np.split(row, starts[1:]), strict=False):
            if other != one:
                found[one, other] = np.unique(group[part] // kinds)
    return found


def _kinds(
    texts: TextRows, translation: TranslationChoice | None, alternating: Alternating | None
) -> tuple[Integer[np.ndarray, "T"], int]:
    """A number of each text, below the second: within a sample, those of one number may stand beside each other."""
    if alternating is not None:
        return alternating.kind, alternating.kinds
    if translation is not None and translation.same_role:
        return texts.role, max(1, len(texts.roles))
    return np.zeros(len(texts.language), np.int64), 1


def _by_language(
    texts: TextRows, owner: Integer[np.ndarray, "T"], taken: Bool[np.ndarray, "T"]
) -> dict[int, Integer[np.ndarray, "_"]]:
    """Groups within which texts may stand beside each other, by language, of the texts that are taken."""
    owner, language = owner[taken], texts.language[taken]
    return {int(one): np.unique(owner[language == one]) for one in np.unique(language)}


def name_stratum(pair: tuple[int, int], languages: Sequence[str]) -> str:
    """`de`, also for a text and what follows it, or `en-de` for a text and its translation."""
    return "-".join(languages[one] for one in dict.fromkeys(pair) if one >= 0)
