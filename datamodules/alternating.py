"""Passages of documents in two languages: every second sentence is read in its translation. By the index alone.

The documents of Unicoder's cross-lingual masked language modelling (arXiv:1909.00964, section on pre-training tasks).
"""

import numpy as np
from jaxtyping import Bool, Int64, Integer

from .choice import TextChoice, TranslationChoice
from .filtering import TextRows, have_partners


class Alternating:
    """The chains in which sentences follow each other, and the passages that are cut from two of them in turn.

    A chain holds the sentences of one language and role in one document. Chains of a document in two languages that are as long
    as each other translate each other, sentence by sentence. A passage begins at any sentence but the last: it has two at
    least, and so both languages, and ends where the chains do.

    Attributes:
        first: Texts at which a passage may begin.
        second: Texts that may be the translation of such a text.
        kind: Of the texts of a document, those of one kind may be translations of each other: they stand at one place of chains
            as long (of one role, if that is asked for).
        kinds: How many there are.
    """

    def __init__(self, texts: TextRows, text: TextChoice, translation: TranslationChoice, sentences: int):
        """
        Args:
            texts: All texts there are.
            text: Which of them may be read first, third, ...
            translation: Which of them may be read second, fourth, ...
            sentences: Most sentences of a passage.

        Raises:
            ValueError: A language or role that is asked for does not occur.
        """
        self.sentences = sentences
        sample, size = texts.sample, len(texts.language)
        row = np.flatnonzero(np.zeros(size, bool) if texts.document is None else texts.document[sample])
        row = row[np.lexsort((texts.role[row], texts.language[row], sample[row]))]  # a chain keeps its order
        columns = np.stack([column[row].astype(np.int64) for column in (sample, texts.language, texts.role)])
        begin = np.flatnonzero((np.diff(columns, prepend=-1) != 0).any(0))
        lengths = np.diff(begin, append=len(row))
        place, length = np.arange(len(row)) - np.repeat(begin, lengths), np.repeat(lengths, lengths)
        self._row, self._spot, self._left = row, np.full(size, -1), np.zeros(size, np.int64)
        self._spot[row] = np.arange(len(row))
        self._left[row] = length - place
        role = texts.role[row] if translation.same_role else 0
        codes = (length * (length.max(initial=0) + 1) + place) * max(1, len(texts.roles)) + role
        found, numbers = np.unique(codes, return_inverse=True)
        self.kinds = max(1, len(found))
        self.kind: Int64[np.ndarray, "T"] = np.zeros(size, np.int64)
        self.kind[row] = numbers
        self.second: Bool[np.ndarray, "T"] = texts.taken(translation) & (self._left > 1)
        first = texts.taken(text) & (self._left > 1)
        partners = have_partners(sample * self.kinds + self.kind, texts.language, self.second, len(texts.languages))
        self.first: Bool[np.ndarray, "T"] = first & partners

    def passage(self, text: int, translation: int) -> list[int]:
        """Numbers of the sentences of a passage, in the order in which they are read.

        Args:
            text: The sentence at which it begins.
            translation: The translation of that sentence, which is not read.
        """
        begin = int(self._spot[text]), int(self._spot[translation])
        count = min(self.sentences, int(self._left[text]))
        return [int(self._row[begin[place % 2] + place]) for place in range(count)]

    def lengths(self, lengths: Integer[np.ndarray, "T"]) -> tuple[Integer[np.ndarray, "T"], Integer[np.ndarray, "T"]]:
        """Tokens of a passage that begins at each text, and of one in which it is the translation of where it begins.

        Both are parts of one row: those in the text's language, with the start token, and those in the translation's.

        Args:
            lengths: Tokens of each text by itself, start and end token included.
        """
        tokens = np.maximum(lengths.astype(np.int64) - 1, 0)[self._row]  # pieces and end token
        parts = np.stack([np.ones_like(tokens), np.zeros_like(tokens)])
        left = self._left[self._row]
        for place in range(self.sentences):
            there = np.flatnonzero(left > place)
            parts[place % 2, there] += tokens[there + place]
        first, second = np.zeros((2, len(lengths)), np.int64)
        first[self._row], second[self._row] = parts
        return first, second
