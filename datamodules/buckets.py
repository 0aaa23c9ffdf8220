"""Micro-batches of a token budget: rows of about one length together, so that little of a batch is padding."""

import numpy as np
from jaxtyping import Int64, Integer

from .fit import fit_rows

GRADES = (1.1, 1.2)
"""Lengths within such a factor count as alike; rows of one bucket meet in random order."""


def cut_buckets(
    lengths: Integer[np.ndarray, "N streams"], budget: int, chance: Int64[np.ndarray, "N"]
) -> list[Int64[np.ndarray, "_"]]:
    """Rows of each micro-batch, none of which takes more than `budget` slots; micro-batches in random order.

    Args:
        lengths: Tokens of the row's text, and of its translation where there is one, as they will be read.
        budget: Rows times the longest text, summed over the texts.
        chance: A random number for each row.
    """
    orders = [_sort(lengths, grade, chance) for grade in GRADES[: lengths.shape[1]]]  # wider buckets suit few pairs
    batches = min((_cut(lengths, order, budget) for order in orders), key=len)
    return [batches[place] for place in np.argsort([chance[batch[0]] for batch in batches], kind="stable")]


def _sort(lengths: np.ndarray, grade: float, chance: np.ndarray) -> np.ndarray:
    """Rows by the bucket of the text, then up and down by that of the translation, so that neighbours are always alike."""
    first = np.ceil(np.log(np.maximum(lengths[:, 0], 1)) / np.log(grade)).astype(np.int64)
    second = np.ceil(np.log(np.maximum(lengths[:, -1], 1)) / np.log(GRADES[0])).astype(np.int64)
    return np.lexsort((chance, np.where(first % 2, -second, second), first))


def _cut(lengths: np.ndarray, order: np.ndarray, budget: int) -> list[np.ndarray]:
    lengths = lengths[order]
    batches, start = [], 0
    while start < len(order):
        most = budget // max(1, int(lengths[start].sum()))
        longest = np.maximum.accumulate(lengths[start : start + most], axis=0).sum(axis=1)
        fits = longest * np.arange(1, len(longest) + 1) <= budget
        count = len(fits) if fits.all() else max(1, int(np.argmin(fits)))
        batches.append(order[start : start + count])
        start += count
    return batches


def cut_packed(
    lengths: Integer[np.ndarray, "N"], max_tokens: int, budget: int, chance: Int64[np.ndarray, "N"]
) -> list[tuple[Int64[np.ndarray, "_"], Int64[np.ndarray, "_"]]]:
    """Texts of each micro-batch and the row that each stands in; rows hold several texts where they fit.

    Args:
        lengths: Tokens of each text, none above `max_tokens`.
        max_tokens: Tokens of a row.
        budget: Tokens of a micro-batch.
        chance: A random number for each text.
    """
    shuffled = np.argsort(chance, kind="stable")  # texts of one length meet in random order
    row = np.empty(len(lengths), np.int64)
    row[shuffled] = fit_rows(lengths[shuffled], max_tokens)
    first = np.full(int(row.max()) + 1, -1)
    first[row[::-1]] = np.arange(len(row))[::-1]
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(chance[first], kind="stable")] = np.arange(len(first))
    row = rank[row]
    order = np.argsort(row, kind="stable")
    rows = max(1, budget // max_tokens)
    cuts = np.searchsorted(row[order], np.arange(rows, len(first), rows))
    return [(part, row[part] % rows) for part in np.split(order, cuts)]
