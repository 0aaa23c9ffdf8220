"""Count how often each entry of a tokenizer's vocabulary stands in texts, for objectives that hide rare tokens more often."""

from collections.abc import Iterable
from itertools import islice

import numpy as np

from ..modalities.entry_counts import EntryCounts
from ..modalities.tokenizer import Tokenizer

TEXTS_AT_ONCE = 4096


def count_entries(lines: Iterable[tuple[str, str]], tokenizer: Tokenizer) -> EntryCounts:
    """Count the pieces of texts as training cuts them, but for what a longest row cuts off.

    Every text counts once, however often a mixture's exponent lets it be read.

    Args:
        lines: Language and text, as `train_tokenizer.read_shards` and `read_text_files` give them.
        tokenizer: What cuts the texts; its hash is kept beside the counts.
    """
    counts, texts, rest = np.zeros(tokenizer.vocabulary.size, np.int64), 0, iter(lines)
    while some := list(islice(rest, TEXTS_AT_ONCE)):
        languages, cut = [code for code, _ in some], [text for _, text in some]
        counts += np.bincount(tokenizer.encode(cut, languages).ids, minlength=len(counts))
        texts += len(some)
    return EntryCounts(tokenizer.hash, texts, counts)
