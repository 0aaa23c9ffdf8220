"""Words cut by Hugging Face's `tokenizers`, and kept."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .cutter import Cut, find_openings, flatten


class KnownWords(dict[str, tuple[int, ...]]):
    """Ids of the pieces of words, cut once each: some words make up most of any text.

    Args:
        cutter: A `tokenizers.Tokenizer`.
    """

    MOST = 1 << 17

    def __init__(self, cutter: Any):
        super().__init__()
        self.cutter = cutter

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(self) >= self.MOST:
            self.clear()
        # One by one: a batch starts threads, and loader workers already share the cores (and would fork after them).
        found = self[word] = tuple(self.cutter.encode(word, add_special_tokens=False).ids)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownWords, (self.cutter,)

    def cut(self, texts: Sequence[Sequence[str]], places: Sequence[Sequence[int]] | None = None) -> Cut:
        """Cut texts that are split already.

        Args:
            texts: The words of each text, cut by themselves.
            places: For each word, which of its text's parts between spaces it is of; None: each is one.
        """
        rows = [[self[word] for word in words] for words in texts]
        sizes = np.array([len(row) for row in rows], dtype=np.int64)
        lengths = np.array([len(ids) for row in rows for ids in row], dtype=np.int64)
        texts_of = np.repeat(np.arange(len(rows)), sizes)
        counts = np.bincount(texts_of, lengths, len(rows)).astype(np.int64)
        ids = flatten((ids for row in rows for ids in row), lengths)
        order = np.arange(len(lengths)) if places is None else flatten(places, sizes)
        return Cut(ids, counts, find_openings(np.repeat(order, lengths), counts))


def import_tokenizers(path: str) -> Any:
    """Hugging Face's `tokenizers`, with its parts.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import tokenizers
        import tokenizers.models
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers
    except ImportError:
        raise ImportError(f"{path}: this kind of vocabulary needs tokenizers: pip install interlingua[bert]") from None
    return tokenizers
