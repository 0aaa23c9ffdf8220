"""Which texts of many samples are read, decided at once and by the index alone: nothing is opened to choose."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64, Integer

from .choice import TextChoice, TranslationChoice
from .filtering import TextRows
from .following import Following

Numbers = Int64[np.ndarray, "N"]
Rows = Int64[np.ndarray, "R"]


class Chooser:
    """Chooses a text of each sample, and its translation where one is asked for: first a language, then one of its texts."""

    def __init__(
        self, texts: TextRows, text: TextChoice, translation: TranslationChoice | None, following: Following | None = None
    ):
        """
        Args:
            texts: All texts there are.
            text: What may be the text.
            translation: What may stand beside it, in another language; None: nothing does.
            following: What follows the text in its document, which then stands beside it; None: nothing does.
        """
        self.start, self.language, self.role = texts.start, texts.language, texts.role
        self.languages, self.roles = max(1, len(texts.languages)), max(1, len(texts.roles))
        self.first = texts.taken(text)
        self.second = None if translation is None else texts.taken(translation)
        self.same_role = translation is not None and translation.same_role
        self.following = following
        if following is not None:
            self.first, self.second = following.first, following.second
        self.weights = [
            np.array([choice.weight(role) for role in texts.roles] or [1.0]) for choice in (text, translation) if choice
        ]

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
        able &= self._has_partner(self._group(owner, row), row, partner)
        text = self._pick(owner[able], row[able], luck[:, :2], 0)
        beside = text[owner]
        partner &= (beside >= 0) & (self.language[row] != self.language[beside])
        if self.same_role:
            partner &= self.role[row] == self.role[beside]
        return text, self._pick(owner[partner], row[partner], luck[:, 2:], 1)

    def _is(self, wanted: Numbers | None, owner: Rows, row: Rows) -> Bool[np.ndarray, "R"]:
        return np.ones(len(row), bool) if wanted is None else self.language[row] == wanted[owner]

    def _group(self, owner: Rows, row: Rows) -> Rows:
        """Texts of one group may stand beside each other."""
        return owner * self.roles + self.role[row] if self.same_role else owner

    def _has_partner(self, group: Rows, row: Rows, partner: Bool[np.ndarray, "R"]) -> Bool[np.ndarray, "R"]:
        """Whether some possible translation in the row's group is in another language."""
        codes = np.unique((group * self.languages + self.language[row])[partner])
        groups, first, distinct = np.unique(codes // self.languages, return_index=True, return_counts=True)
        if not len(groups):
            return np.zeros(len(row), bool)
        place = np.searchsorted(groups, group).clip(max=len(groups) - 1)
        only = codes[first][place] % self.languages
        return (groups[place] == group) & ((distinct[place] > 1) | (only != self.language[row]))

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
    texts: TextRows, text: TextChoice, translation: TranslationChoice | None, following: Following | None = None
) -> dict[tuple[int, int], Int64[np.ndarray, "_"]]:
    """Samples by the language of the text, and of its translation or of what follows it (-1: none); a sample may be in several.

    Returns:
        Ascending numbers of samples by places in `texts.languages`.
    """
    if following is not None:
        found = _by_language(texts, following.first, None)
        return {(language, language): groups for language, groups in found.items()}
    first = _by_language(texts, texts.taken(text), translation)
    if translation is None:
        return {(language, -1): np.unique(groups) for language, groups in first.items()}
    second = _by_language(texts, texts.taken(translation), translation)
    roles = max(1, len(texts.roles)) if translation.same_role else 1
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
                found[one, other] = np.unique(group[part] // roles)
    return found


def _by_language(
    texts: TextRows, taken: Bool[np.ndarray, "T"], translation: TranslationChoice | None
) -> dict[int, Integer[np.ndarray, "_"]]:
    """Groups within which texts may stand beside each other (samples, or samples and roles), by language."""
    owner = np.repeat(np.arange(texts.samples), np.diff(texts.start))[taken]
    if translation is not None and translation.same_role:
        owner = owner * max(1, len(texts.roles)) + texts.role[taken]
    language = texts.language[taken]
    return {int(one): np.unique(owner[language == one]) for one in np.unique(language)}


def name_stratum(pair: tuple[int, int], languages: Sequence[str]) -> str:
    """`de`, also for a text and what follows it, or `en-de` for a text and its translation."""
    return "-".join(languages[one] for one in dict.fromkeys(pair) if one >= 0)
