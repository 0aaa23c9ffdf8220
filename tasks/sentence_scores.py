"""Scores of retrieval between translations: each language against the pivot, both ways.

Accuracy of the nearest neighbour by cosine, as Tatoeba is scored (arXiv:1812.10464, section 4.4), and by ratio margin
(arXiv:1811.01136). Texts that read the same are one entry of what is searched, and right for every sentence that one of them
translates; entries that score the same share the credit (see `ranking`).
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float32, Float64, Int
from torch import Tensor

from . import bootstrap
from .ranking import Neighbourhoods, guess, measure_neighbourhoods, normalize, rank, recall
from .results import Record

ACCURACY = "accuracy@1"
BY_MARGIN = f"margin {ACCURACY}"


class Sentences(NamedTuple):
    """Texts of one language, one a sample, by the number of the sample."""

    sample: Int[Tensor, "N"]
    """The same for translations of each other; ascending, none twice."""
    identity: Int[Tensor, "N"]
    """Equal for texts that read the same."""
    vectors: Float32[Tensor, "N E"]
    """Of any length but 0; compared by direction."""


def measure(
    texts: Mapping[str, Sentences], pivot: str, data: str, margin: int | None = 4, seed: int = 0, only_means: bool = False
) -> list[Record]:
    """All records of one source: both ways, every language, and means over languages.

    Args:
        texts: By language.
        pivot: Language that all others are paired with.
        data: Name in the records.
        margin: Neighbours of the ratio margin; None: cosine alone.
        seed: Of the bootstrap. What is drawn again is a text of the pivot language, with all its translations.
        only_means: Leave the records of single languages out.

    Raises:
        ValueError: No sentence has a translation, or a margin has no meaning (see `rank`).
    """
    distinct, cluster = torch.unique(texts[pivot].identity, return_inverse=True)
    draws = bootstrap.draw(len(distinct), seed=seed)
    metrics = [*([BY_MARGIN] if margin else []), ACCURACY]
    tasks = [f"sentence_retrieval_to_{pivot}", f"sentence_retrieval_from_{pivot}"]
    records: dict[str, list[Record]] = {task: [] for task in tasks}
    replicates = []
    for language in sorted(texts.keys() - {pivot}):
        own, place = match(texts[language], texts[pivot])
        if not len(place):
            continue
        middle = Sentences(*(field[place] for field in texts[pivot]))
        try:
            ways = ask(own, middle, margin)
        except ValueError as error:
            raise ValueError(f"{data}, {language} and {pivot}: {error}") from None
        replicates.append(bootstrap.means(torch.cat([way.hits for way in ways], dim=1), cluster[place], draws))
        for task, way, drawn in zip(tasks, ways, replicates[-1].chunk(2, dim=1), strict=True):
            records[task] += _describe(task, data, language, metrics, way, drawn)
    if not replicates:
        raise ValueError(f"{data}: no sentence has a translation in {pivot}; languages found: {', '.join(sorted(texts))}")
    every = torch.stack(replicates).nanmean(0)  # a draw may leave a small language without any sentence
    found = []
    for task, drawn in zip(tasks, every.chunk(2, dim=1), strict=True):
        found += ([] if only_means else records[task]) + _average(records[task], metrics, drawn)
    return found


def tell_margin(galleries: Mapping[str, int], margin: int | None) -> str | None:
    """What to say where a neighbourhood is smaller than was asked for, since there are no more texts to be near; else None.

    Args:
        galleries: How many distinct texts are searched, by name.
        margin: Neighbours of the ratio margin.
    """
    few = [f"{name} {count}" for name, count in galleries.items() if count < (margin or 0)]
    if not few:
        return None
    return f"margin is over {margin} neighbours, but fewer texts are searched ({', '.join(few)}): there it is over all of them"


def match(texts: Sentences, middle: Sentences) -> tuple[Sentences, Int[Tensor, "M"]]:
    """Sentences that have a translation, and the row of each one's translation."""
    place = torch.searchsorted(middle.sample, texts.sample).clamp_max(max(0, len(middle.sample) - 1))
    have = middle.sample[place] == texts.sample if len(middle.sample) else torch.zeros_like(place, dtype=torch.bool)
    return Sentences(*(field[have] for field in texts)), place[have]


class Way(NamedTuple):
    """What came of searching one side for every sentence of the other."""

    hits: Float64[Tensor, "N M"]
    """Share of the credit, by margin where it is asked for, then by cosine."""
    by_chance: Float64[Tensor, "N"]
    gallery: int
    """Distinct texts that were searched."""


def ask(left: Sentences, right: Sentences, margin: int | None) -> tuple[Way, Way]:
    """Search the right side for each sentence of the left, and the left side for each of the right.

    Args:
        left: Sentences.
        right: Their translations, row by row.
        margin: Neighbours of the ratio margin; None: cosine alone.
    """
    (first, of_first), (second, of_second) = _distinct(left), _distinct(right)
    pairs = torch.unique(torch.stack([of_first, of_second], dim=1), dim=0)
    near = measure_neighbourhoods(first, second, margin) if margin else None
    back = Neighbourhoods(near.gallery, near.queries) if near else None
    return _search(first, second, of_first, pairs, near), _search(second, first, of_second, pairs.flip(1), back)


def _search(
    queries: Float32[Tensor, "Q E"],
    gallery: Float32[Tensor, "G E"],
    of: Int[Tensor, "N"],
    pairs: Int[Tensor, "R 2"],
    near: Neighbourhoods | None,
) -> Way:
    """Search for every distinct text, and give each sentence what came of its own."""
    found = [rank(queries, gallery, pairs, near)] if near else []
    found.append(rank(queries, gallery, pairs))
    by_chance = recall(guess(pairs, len(queries), len(gallery)), 1)
    return Way(torch.stack([recall(ranks, 1) for ranks in found], dim=1)[of], by_chance[of], len(gallery))


def _distinct(texts: Sentences) -> tuple[Float32[Tensor, "D E"], Int[Tensor, "N"]]:
    """Vectors at length 1 of the texts that read differently, and which of them each sentence is."""
    identities, of = torch.unique(texts.identity, return_inverse=True)
    rows = torch.arange(len(of))
    first = torch.full((len(identities),), len(of)).scatter_reduce(0, of, rows, "amin")
    return normalize(texts.vectors[first]), of


def _describe(task: str, data: str, language: str, metrics: list[str], way: Way, drawn: Float64[Tensor, "R M"]) -> list[Record]:
    """Records of one language one way."""
    n, values, by_chance = len(way.hits), way.hits.mean(0).tolist(), way.by_chance.mean().item()
    figures = [
        (metric, value, *bootstrap.interval(column))
        for metric, value, column in zip(metrics, values, drawn.unbind(1), strict=True)
    ]
    figures.append((f"chance {ACCURACY}", by_chance, by_chance, by_chance))
    figures.append(("gallery size", *[float(way.gallery)] * 3))
    return [Record(task, data, language, *figure, n) for figure in figures]


def _average(records: list[Record], metrics: list[str], drawn: Float64[Tensor, "R M"]) -> list[Record]:
    """Means over languages, each counting alike; their draws are the same sentences in all languages."""
    means = []
    for metric, column in zip(metrics, drawn.unbind(1), strict=True):
        same = [record for record in records if record.metric == metric]
        value, n = sum(record.value for record in same) / len(same), sum(record.n for record in same)
        first = same[0]
        means.append(Record(first.task, first.data, "all", f"mean {metric}", value, *bootstrap.interval(column), n))
    return means
