"""Ranking: where the right entries of a gallery stand, with ties counted as chance would break them.

Entries that score the same have no order. Every figure here is the expectation over all orders of the ties, each as likely
as any other, so that a collapsed model, whose scores are all equal, gets exactly what guessing gets. The rank of a query is
that of its best relevant entry, from 1. Nothing is sorted: a rank is a number of entries that score higher, counted in tiles.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Float64, Int
from torch import Tensor

TILE_ROWS, TILE_ENTRIES = 128, 2**25
CACHED_ENTRIES = 2**18  # compared twice while they are in the cache


class Ranks(NamedTuple):
    """What decides the rank of each of Q queries' best relevant entry."""

    better: Int[Tensor, "Q"]
    """Entries that score higher than the best relevant one; all of them irrelevant."""
    tied: Int[Tensor, "Q"]
    """Irrelevant entries that score the same."""
    right: Int[Tensor, "Q"]
    """Relevant entries that score the same, the best one included: at least 1."""
    gallery: int
    """Number of entries ranked."""


def recall(ranks: Ranks, k: int) -> Float64[Tensor, "Q"]:
    """Probability that a relevant entry is among the first k, over all orders of the ties.

    Of the places that are left after the better entries, all go to tied irrelevant ones with probability
    C(tied, places) / C(tied + right, places).
    """
    places = k - ranks.better
    missed = torch.ones_like(places, dtype=torch.float64)
    for drawn in range(k):
        irrelevant = (ranks.tied - drawn).clamp_min(0)
        missed = torch.where(drawn < places, missed * irrelevant / (irrelevant + ranks.right), missed)
    return 1 - missed


def expected_rank(ranks: Ranks) -> Float64[Tensor, "Q"]:
    """Expected rank of the best relevant entry, from 1: the first of `right` in a row of t comes at (t + 1) / (right + 1)."""
    return ranks.better + 1 + ranks.tied.double() / (ranks.right + 1)


def guess(relevant: Int[Tensor, "R 2"], queries: int, gallery: int) -> Ranks:
    """Ranks of a model that knows nothing: all entries tied. `recall` of it is the level of chance.

    Args:
        relevant: Pairs (query, entry), as for `rank`.
    """
    right = torch.bincount(relevant[:, 0], minlength=queries)
    return Ranks(torch.zeros_like(right), gallery - right, right, gallery)


def relate(identity: Int[Tensor, "T"], owner: Int[Tensor, "T"], items: Int[Tensor, "N"]) -> Int[Tensor, "R 2"]:
    """Which texts and which pictures belong together: those whose item bears the text, or one that reads the same.

    Args:
        identity: What each text says (`text_identity`): equal for equal texts.
        owner: Item of each text.
        items: Item of each picture; several pictures may share one.

    Returns:
        Pairs (text, picture), each once; texts of one language should be given at a time.
    """
    bearers: dict[int, dict[int, None]] = {}
    for text, item in zip(identity.tolist(), owner.tolist(), strict=True):
        bearers.setdefault(text, {})[item] = None
    pictures: dict[int, list[int]] = {}
    for row, item in enumerate(items.tolist()):
        pictures.setdefault(item, []).append(row)
    pairs = [
        (row, picture)
        for row, text in enumerate(identity.tolist())
        for item in bearers[text]
        for picture in pictures.get(item, ())
    ]
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)


class Neighbourhoods(NamedTuple):
    """How near the nearest neighbours are: mean similarity of each vector to its k nearest on the other side."""

    queries: Float32[Tensor, "Q"]
    gallery: Float32[Tensor, "N"]


@torch.no_grad()
def rank(
    queries: Float[Tensor, "Q E"],
    gallery: Float[Tensor, "N E"],
    relevant: Int[Tensor, "R 2"],
    neighbourhoods: Neighbourhoods | None = None,
) -> Ranks:
    """Rank the gallery by dot product for every query. The result does not depend on the gallery's order.

    Args:
        queries: Vectors of any float type; compared in float32.
        gallery: Likewise. Equal rows score exactly the same.
        relevant: Pairs (query, entry) that are right, each once, at least one a query.
        neighbourhoods: Rank by ratio margin instead: each product is divided by the mean of its two vectors' neighbourhoods,
            so that vectors that are near everything come last (Artetxe and Schwenk 2019, arXiv:1811.01136, "ratio").

    Raises:
        ValueError: A vector is not finite or too large, a query has no relevant entry, or a margin has no meaning, since
            the mean of two neighbourhoods is not above 0.
    """
    queries, gallery = _finite(queries, "query"), _finite(gallery, "gallery")
    ends = _ends(relevant, len(queries), len(gallery))
    longest = queries.double().norm(dim=1).max() * gallery.double().norm(dim=1).max()
    if longest > torch.finfo(torch.float32).max:
        raise ValueError(f"dot products of up to {longest:.1e} overflow float32; normalise the vectors to length 1")
    relevant = relevant[relevant[:, 0].argsort(stable=True)].to(queries.device)
    # A product's last bit depends on its place in the matrix: equal rows are computed once, in an order of their own.
    distinct, place = torch.unique(gallery, dim=0, return_inverse=True)
    entries = place.sort().values if len(distinct) < len(gallery) else None
    near = None if neighbourhoods is None else _of_distinct(neighbourhoods, place, len(distinct))
    rows = max(1, min(TILE_ROWS, TILE_ENTRIES // len(gallery)))
    buffer = queries.new_empty(rows, len(distinct))
    parts = []
    with _exact(queries.device.type):
        for start in range(0, len(queries), rows):
            tile = queries[start : start + rows]
            scores = torch.mm(tile, distinct.T, out=buffer[: len(tile)])
            if near is not None:
                scores /= (near.queries[start : start + rows, None] + near.gallery) / 2
            pairs = relevant[ends[start] : ends[start + len(tile)]]
            row = pairs[:, 0] - start
            own = scores[row, place[pairs[:, 1]]]
            best = own.new_full((len(tile),), -torch.inf).scatter_reduce(0, row, own, "amax")
            right = torch.zeros_like(best, dtype=torch.int64).index_add(0, row, (own == best[row]).long())
            higher, equal = _count(scores if entries is None else scores[:, entries], best)
            parts.append((higher, equal - right, right))
    better, tied, right = (torch.cat(part) for part in zip(*parts, strict=True))
    return Ranks(better, tied, right, len(gallery))


def normalize(vectors: Float[Tensor, "N E"]) -> Float32[Tensor, "N E"]:
    """Rows at length 1 in float32, so that `rank` compares by cosine; a row of zeros stays one and is tied with all."""
    return torch.nn.functional.normalize(vectors.float(), dim=1)


@torch.no_grad()
def measure_neighbourhoods(left: Float[Tensor, "Q E"], right: Float[Tensor, "N E"], k: int = 4) -> Neighbourhoods:
    """Mean dot product of each vector with its k nearest on the other side; all of them where there are fewer.

    Args:
        left: Vectors, compared in float32.
        right: Likewise.
        k: Number of neighbours; published margins are of 4.

    Raises:
        ValueError: A vector is not finite, or k is below 1.
    """
    if k < 1:
        raise ValueError(f"margin is over {k} neighbours; expected 1 or more, such as 4")
    left, right = _finite(left, "left"), _finite(right, "right")
    return Neighbourhoods(_mean_nearest(left, right, k), _mean_nearest(right, left, k))


def _mean_nearest(vectors: Float32[Tensor, "Q E"], others: Float32[Tensor, "N E"], k: int) -> Float32[Tensor, "Q"]:
    distinct, place = torch.unique(vectors, dim=0, return_inverse=True)  # equal rows get exactly the same
    return find_nearest(distinct, others, k).scores.mean(1)[place]


class Nearest(NamedTuple):
    """The entries with the highest dot products of each vector, the highest first."""

    scores: Float32[Tensor, "Q k"]
    entries: Int[Tensor, "Q k"]


@torch.no_grad()
def find_nearest(vectors: Float[Tensor, "Q E"], others: Float[Tensor, "N E"], k: int) -> Nearest:
    """The k nearest of the other side, in tiles: no more than `TILE_ENTRIES` products are held at a time.

    Args:
        vectors: Compared in float32, by dot product.
        others: Likewise.
        k: How many; all of them where there are fewer.

    Raises:
        ValueError: A vector is not finite.
    """
    vectors, others = _finite(vectors, "left"), _finite(others, "right")
    rows = max(1, min(TILE_ROWS, TILE_ENTRIES // max(1, len(others))))
    buffer = vectors.new_empty(min(rows, len(vectors)), len(others))
    parts = []
    with _exact(vectors.device.type):
        for tile in vectors.split(rows):
            parts.append(torch.mm(tile, others.T, out=buffer[: len(tile)]).topk(min(k, len(others))))
    return Nearest(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _of_distinct(near: Neighbourhoods, place: Int[Tensor, "N"], distinct: int) -> Neighbourhoods:
    """Neighbourhoods of the distinct rows of a gallery; each row's must be those of the rows that equal it."""
    least = float(near.queries.min() + near.gallery.min())
    if least <= 0:
        raise ValueError(
            f"a ratio margin has no meaning: the mean of two neighbourhoods is {least / 2:.3g}, and must be above 0; the "
            "vectors are no nearer to their neighbours than at a right angle. Compare by cosine alone (`margin: null`)"
        )
    return Neighbourhoods(near.queries, near.gallery.new_empty(distinct).scatter_(0, place, near.gallery))


def _count(scores: Float32[Tensor, "T N"], best: Float32[Tensor, "T"]) -> tuple[Int[Tensor, "T"], Int[Tensor, "T"]]:
    """How many scores of each row are higher than the row's best relevant one, and how many are equal to it."""
    # Ones and zeros as floats are exact up to 2^24 entries; booleans cost torch three times as much on a CPU.
    rows = max(1, CACHED_ENTRIES // scores.shape[1])
    flags = torch.empty_like(scores[:rows])
    counts = []
    for some, limits in zip(scores.split(rows), best[:, None].split(rows), strict=True):
        higher = torch.gt(some, limits, out=flags[: len(some)]).sum(1)
        counts.append((higher, torch.eq(some, limits, out=flags[: len(some)]).sum(1)))
    higher, equal = (torch.cat(part).long() for part in zip(*counts, strict=True))
    return higher, equal


def _finite(vectors: Float[Tensor, "N E"], name: str) -> Float32[Tensor, "N E"]:
    bad = vectors.isfinite().all(dim=1).logical_not().nonzero()[:, 0].tolist()
    if bad:
        raise ValueError(
            f"{len(bad)} of {len(vectors)} {name} vectors are not finite (rows {', '.join(map(str, bad[:5]))}"
            f"{', ...' if len(bad) > 5 else ''}); the encoder has diverged or met broken input: nothing can be ranked by them"
        )
    return vectors.detach().float()


def _ends(relevant: Int[Tensor, "R 2"], queries: int, gallery: int) -> list[int]:
    """Where each query's pairs begin in the sorted list, and where the last one's end."""
    if not queries or not gallery:
        raise ValueError(f"nothing to rank: {queries} queries, {gallery} gallery entries; at least one of each is needed")
    limits = torch.tensor([queries, gallery], device=relevant.device)
    if ((relevant < 0) | (relevant >= limits)).any():
        most = relevant.amax(0).tolist()
        raise ValueError(f"relevant pairs must lie within {queries} queries and {gallery} entries, found up to {most}")
    if len(torch.unique(relevant[:, 0] * gallery + relevant[:, 1])) < len(relevant):
        raise ValueError("relevant pairs must be given once each, found some twice")
    counts = torch.bincount(relevant[:, 0], minlength=queries)
    without = (counts == 0).nonzero()[:, 0].tolist()
    if without:
        raise ValueError(
            f"{len(without)} of {queries} queries have no relevant gallery entry (rows {', '.join(map(str, without[:5]))}"
            f"{', ...' if len(without) > 5 else ''}); leave them out, or add what they look for"
        )
    return [0, *counts.cumsum(0).tolist()]


@contextmanager
def _exact(device: str) -> Iterator[None]:
    """Full float32 products, whatever precision the run has chosen for its own."""
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    before = [backend.fp32_precision for backend in backends]
    for backend in backends:
        backend.fp32_precision = "ieee"
    try:
        with torch.autocast(device, enabled=False):
            yield
    finally:
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = precision
