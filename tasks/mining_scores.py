"""Pairs of translations mined out of two collections of sentences, and what they are worth.

Candidates by ratio margin over the nearest neighbours both ways (Artetxe and Schwenk 2019, arXiv:1811.01136, sections 3.2 and
3.3); F1 of those above a threshold, as in BUCC (XTREME, arXiv:2003.11080, section 3). Texts are given once each: the same text
under two keys is one. The order of rows decides nothing but ties, so it should not know what translates what.
"""

from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64
from torch import Tensor

from . import bootstrap
from .ranking import Nearest, find_nearest

Way = Literal["max", "forward", "backward"]


class Candidates(NamedTuple):
    """Pairs of rows that may be translations, the highest score first; ties by row."""

    left: Int64[np.ndarray, "C"]
    right: Int64[np.ndarray, "C"]
    score: Float64[np.ndarray, "C"]


class Counts(NamedTuple):
    """Numbers of pairs."""

    found: int
    """That were taken for translations."""
    right: int
    """Of these."""
    gold: int
    """That are translations."""

    @property
    def shares(self) -> tuple[float, float, float]:
        """F1, precision and recall, each 0 where it is a share of nothing."""
        return tuple(float(share) for share in _shares(np.array([self], dtype=np.float64))[0])


def find_candidates(
    left: Float32[Tensor, "N E"], right: Float32[Tensor, "M E"], margin: int | None = 4, way: Way = "max"
) -> Candidates:
    """The pairs that are worth a look.

    Args:
        left: Vectors of length 1, on any device; a text each.
        right: Likewise.
        margin: Neighbours k of the ratio margin: a cosine is divided by the mean of what both texts have in the mean with
            their k nearest on the other side. None: the cosine alone.
        way: `forward`: for each text on the left the best of its k nearest on the right; `backward`: for each on the right
            the best on the left; `max`: both together, the highest score first, as long as neither text is taken.

    Raises:
        ValueError: A vector is not finite, or a margin has no meaning, since a mean that is divided by is not above 0.
    """
    forth, back = find_nearest(left, right, margin or 1), find_nearest(right, left, margin or 1)
    forward = _take_best(forth, back, margin)
    backward = _take_best(back, forth, margin)
    ways = {"forward": [(np.arange(len(left)), *forward)], "backward": [(backward[0], np.arange(len(right)), backward[1])]}
    ways["max"] = ways["forward"] + ways["backward"]
    first, second, score = (np.concatenate(part) for part in zip(*ways[way], strict=True))
    order = np.lexsort((second, first, -score))
    found = Candidates(first[order], second[order], score[order])
    return _take_free(found, len(left), len(right)) if way == "max" else found


def _take_best(own: Nearest, other: Nearest, margin: int | None) -> tuple[Int64[np.ndarray, "N"], Float64[np.ndarray, "N"]]:
    """The best entry of each row's nearest, and its score."""
    scores = own.scores.double()
    if margin is not None:
        around = (scores.mean(1, keepdim=True) + other.scores.double().mean(1)[own.entries]) / 2
        if around.min() <= 0:
            raise ValueError(
                f"a ratio margin has no meaning: the mean of two neighbourhoods is {around.min():.3g}, and must be above 0; "
                "the vectors are no nearer to their neighbours than at a right angle. Compare by cosine alone (`margin: null`)"
            )
        scores = scores / around
    best, place = scores.max(1)
    return own.entries.gather(1, place[:, None])[:, 0].cpu().numpy(), best.cpu().numpy()


def _take_free(candidates: Candidates, left: int, right: int) -> Candidates:
    """From the top, every pair of two texts that are both free."""
    taken, kept = (bytearray(left), bytearray(right)), []
    for place, (first, second) in enumerate(zip(candidates.left.tolist(), candidates.right.tolist(), strict=True)):
        if not (taken[0][first] or taken[1][second]):
            taken[0][first] = taken[1][second] = 1
            kept.append(place)
    return Candidates(*(column[kept] for column in candidates))


def are_right(candidates: Candidates, gold: Int64[np.ndarray, "G 2"]) -> Bool[np.ndarray, "C"]:
    """Which candidates are translations.

    Args:
        candidates: Pairs of rows.
        gold: The pairs of rows that translate each other.
    """
    wide = 1 + max(int(pairs.max(initial=0)) for pairs in (candidates.right, gold[:, 1]))
    return np.isin(candidates.left * wide + candidates.right, gold[:, 0] * wide + gold[:, 1])


def tune(candidates: Candidates, right: Bool[np.ndarray, "C"], gold: int) -> float:
    """The threshold above which F1 is highest: halfway between the last score that is taken and the first that is not.

    Candidates of one score are taken together or not at all; of several thresholds that are as good, it is the highest.

    Args:
        candidates: At least one.
        right: Which of them are translations.
        gold: How many translations there are.
    """
    score = candidates.score
    f1 = 2 * np.cumsum(right) / (np.arange(1, len(score) + 1) + gold)
    f1[:-1][score[:-1] == score[1:]] = -1
    last = int(f1.argmax())
    below = score[last + 1] if last + 1 < len(score) else score[last]
    middle = (score[last] + below) / 2
    return float(middle if middle > below else score[last])  # neighbouring floats have nothing between them


def count(candidates: Candidates, right: Bool[np.ndarray, "C"], gold: int, threshold: float) -> Counts:
    """What is found at a threshold."""
    taken = candidates.score >= threshold
    return Counts(int(taken.sum()), int(right[taken].sum()), gold)


def resample(
    candidates: Candidates,
    right: Bool[np.ndarray, "C"],
    gold: Int64[np.ndarray, "G 2"],
    threshold: float,
    texts: int,
    times: int = 1000,
    seed: int = 0,
) -> Float[np.ndarray, "R 3"]:
    """F1, precision and recall at a threshold that stays, where texts on the left are drawn again with all their pairs.

    Args:
        candidates: Pairs of rows.
        right: Which of them are translations.
        gold: The pairs of rows that are.
        threshold: At which they are taken.
        texts: How many there are on the left.
        times: Draws.
        seed: Of the draws.
    """
    taken = candidates.score >= threshold
    rows = (candidates.left[taken], candidates.left[taken & right], gold[:, 0])
    own = np.stack([np.bincount(row, minlength=texts) for row in rows], axis=1)
    # Texts are of few kinds, such as found and right: how many of each kind are drawn is all that counts.
    kinds, many = np.unique(own, axis=0, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(texts, many / texts, size=times)
    return _shares((drawn @ kinds).astype(np.float64))


def interval(replicates: Float64[np.ndarray, "R"]) -> tuple[float, float]:
    """The middle 95 % of the replicates."""
    return bootstrap.interval(torch.from_numpy(np.ascontiguousarray(replicates)))


def _shares(counts: Float64[np.ndarray, "R 3"]) -> Float64[np.ndarray, "R 3"]:
    found, right, gold = counts.T
    parts = ((2 * right, found + gold), (right, found), (right, gold))
    return np.stack([part / np.maximum(whole, 1) for part, whole in parts], axis=1)
