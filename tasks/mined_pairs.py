"""The pairs that were mined, as a table: a line a pair, the highest score first."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from .mining_scores import Candidates

Texts = Mapping[int, tuple[str, str]]
"""Key and text by sample."""


def write_pairs(
    path: Path,
    candidates: Candidates,
    right: Bool[np.ndarray, "C"],
    threshold: float,
    samples: Sequence[Mapping[int, Sequence[int]]],
    texts: Sequence[Texts],
    languages: Sequence[str],
) -> int:
    """Write the pairs that reach the threshold: score, keys and texts of both sides, and whether they are in the gold pairs.

    Keys of texts that stand several times are joined by commas; tabs and line ends within a text become spaces.

    Args:
        path: A file of tab-separated values, with a line of names.
        candidates: Pairs of rows.
        right: Which of them are translations.
        threshold: At which they are taken.
        samples: Of either side, all samples of each row's text.
        texts: Of either side.
        languages: Of either side.

    Returns:
        How many pairs there are.
    """
    taken = np.flatnonzero(candidates.score >= threshold).tolist()
    first, second = languages
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, dialect="excel-tab", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None)
        rows.writerow(["score", f"key_{first}", f"key_{second}", f"text_{first}", f"text_{second}", "in_gold"])
        for place in taken:
            pair = (int(candidates.left[place]), int(candidates.right[place]))
            found = [[one[sample] for sample in own[row]] for own, one, row in zip(samples, texts, pair, strict=True)]
            keys = [",".join(dict.fromkeys(key for key, _ in own)) for own in found]
            words = [" ".join(own[0][1].split()) for own in found]
            rows.writerow([f"{candidates.score[place]:.6f}", *keys, *words, "yes" if right[place] else "no"])
    return len(taken)
