"""Sentences of documents and those that follow them: two halves of a passage, by the index alone."""

import numpy as np
from jaxtyping import Bool, Int64, Integer

from .choice import TextChoice
from .filtering import TextRows

Numbers = Int64[np.ndarray, "N"]


class Following:
    """The chains in which sentences follow each other, and the halves of passages that are cut from them.

    A chain holds the sentences of one language in one document, those that may be chosen. The first half of a passage begins
    at any sentence but the last, the second half goes on where it ends. Each has at most `sentences`; where a chain ends
    before, the second half has what is left, and the first leaves it one sentence at least. Halves are so read in the
    same language and from the same document always.

    Attributes:
        next: The sentence after each text; -1 where none follows.
        first: Texts at which a passage may begin.
        second: Texts that follow another.
    """

    def __init__(self, texts: TextRows, text: TextChoice, sentences: int):
        """
        Args:
            texts: All texts there are.
            text: Which of them may be read.
            sentences: Most sentences of a half.

        Raises:
            ValueError: A language or role that is asked for does not occur.
        """
        self.sentences = sentences
        sample, documents = texts.sample, np.zeros(texts.samples, bool) if texts.document is None else texts.document
        row = np.flatnonzero(texts.taken(text) & documents[sample])
        row = row[np.lexsort((row, texts.language[row], sample[row]))]
        before, after = row[:-1], row[1:]
        follows = (sample[before] == sample[after]) & (texts.language[before] == texts.language[after])
        self.next = np.full(len(texts.language), -1)
        self.next[before[follows]] = after[follows]
        self.first: Bool[np.ndarray, "T"] = self.next >= 0
        self.second: Bool[np.ndarray, "T"] = np.zeros(len(self.next), bool)
        self.second[after[follows]] = True

    def go_on(self, text: Numbers) -> Numbers:
        """Where the second half begins, of passages that begin at some texts; -1 where -1 is asked for."""
        if not len(self.next):
            return text
        second = text
        for _ in range(self.sentences):
            after = self.next[second]
            second = np.where((second >= 0) & (after >= 0), after, second)
        return second

    def halves(self, text: int, second: int) -> tuple[list[int], list[int]]:
        """Numbers of the sentences of both halves of a passage.

        Args:
            text: The first sentence of the first half.
            second: That of the second half.
        """
        return self._walk(text, second), self._walk(second, -1)

    def _walk(self, number: int, end: int) -> list[int]:
        found: list[int] = []
        while number != end and len(found) < self.sentences:
            found.append(number)
            number = int(self.next[number])
        return found

    def lengths(self, lengths: Integer[np.ndarray, "T"]) -> tuple[Integer[np.ndarray, "T"], Integer[np.ndarray, "T"]]:
        """Tokens of first halves and of second halves that begin at each text, start and end token included.

        Args:
            lengths: Tokens of each text by itself, likewise.
        """
        if self.sentences == 1 or not len(self.next):
            return lengths, lengths
        pieces = np.maximum(lengths.astype(np.int64) - 2, 0)
        first, second, here = pieces + 2, pieces + 2, self.next
        for _ in range(self.sentences - 1):
            after = np.where(here >= 0, self.next[here], -1)
            second += np.where(here >= 0, pieces[here], 0)
            first += np.where(after >= 0, pieces[here], 0)  # the last sentence is left to the second half
            here = after
        return first, second
