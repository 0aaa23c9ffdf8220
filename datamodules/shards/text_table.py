"""What is known of the texts of many shards from their indexes alone."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .index import Index


class TextTable(NamedTuple):
    """What each text of a set is, without reading any: texts of sample s are `start[s]` to `start[s + 1]`."""

    start: np.ndarray
    """int64 `[S + 1]`."""
    language: np.ndarray
    """uint16 `[T]`, into `ShardSet.languages`."""
    role: np.ndarray
    """uint16 `[T]`, into `ShardSet.roles`."""
    size: np.ndarray
    """uint32 `[T]`: length in UTF-8 bytes."""


def tabulate(indexes: Iterable[Index], all_languages: tuple[str, ...], all_roles: tuple[str, ...]) -> TextTable:
    """The texts of all shards of a set, whose languages and roles these are, in the order of their indexes."""
    starts, languages, roles, sizes, before = [np.zeros(1, np.int64)], [], [], [], 0
    for index in indexes:
        arrays = index.arrays
        starts.append(arrays["first_text"][1:].astype(np.int64) + before)
        before += int(arrays["first_text"][-1])
        languages.append(_renumber(index.head["languages"], all_languages)[arrays["language"]])
        roles.append(_renumber(index.head["roles"], all_roles)[arrays["role"]])
        sizes.append(np.array(arrays["text_size"]))
    return TextTable(*map(np.concatenate, (starts, languages, roles, sizes)))


def _renumber(words: list[str], all_words: tuple[str, ...]) -> np.ndarray:
    """Where each word of a shard stands among all words; one entry at least, so that it can be indexed by nothing."""
    return np.array([all_words.index(word) for word in words] or [0], np.uint16)
