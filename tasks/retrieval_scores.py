"""Scores of retrieval between pictures and texts, by language, both ways.

CLIP, arXiv:2103.00020, section 3.1 (cosine between two towers); recall@k of several captions a picture as in arXiv:1411.2539.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int
from torch import Tensor

from . import bootstrap
from .ranking import Ranks, expected_rank, guess, normalize, rank, recall, relate
from .results import Record

CUTS = (1, 5, 10)
METRICS = (*(f"recall@{k}" for k in CUTS), "median rank")


class Picture(NamedTuple):
    """A picture as an encoder sees it."""

    item: int
    vector: np.ndarray
    thumbnail: np.ndarray
    """uint8 [3, H, W], for people."""


class Line(NamedTuple):
    """A text as an encoder sees it."""

    item: int
    identity: int
    vector: np.ndarray
    tokens: tuple[int, ...]


PictureKey = tuple[str, int]
"""Source and number of the sample."""
LineKey = tuple[str, int, str, int]
"""Source, number of the sample, language, identity of the text."""


class Lines(NamedTuple):
    """Texts of one language."""

    item: Int[Tensor, "T"]
    identity: Int[Tensor, "T"]
    vectors: Float32[Tensor, "T E"]
    tokens: list[tuple[int, ...]]


class Collection(NamedTuple):
    """All that is searched, in an order that depends on nothing but the data."""

    item: Int[Tensor, "N"]
    vectors: Float32[Tensor, "N E"]
    thumbnails: list[np.ndarray]
    texts: dict[str, Lines]
    """By language."""
    left_out: int
    """Texts whose picture is not there."""


def arrange(
    pictures: Mapping[PictureKey, Picture], lines: Mapping[LineKey, Line], sources: Iterable[str], cosine: bool = True
) -> Collection:
    """Pictures and texts of some sources as one collection.

    Args:
        pictures, lines: Of all sources.
        sources: Which of them.
        cosine: Whether vectors are compared at length 1; else by their product as they are.

    Raises:
        ValueError: No picture has a text, or a vector is not finite; names source and samples.
    """
    sources = set(sources)
    shown = [key for key in sorted(pictures) if key[0] in sources]
    having = {pictures[key].item for key in shown}
    said = [key for key in sorted(lines) if key[0] in sources]
    kept = [key for key in said if lines[key].item in having]
    if not kept:
        raise ValueError(f"{', '.join(sorted(sources))}: no picture with a text ({len(shown)} pictures, {len(said)} texts)")
    vectors = _stack(shown, [pictures[key].vector for key in shown], "pictures", cosine)
    _stack(kept, [lines[key].vector for key in kept], "texts", cosine)
    texts = {}
    for language in sorted({key[2] for key in kept}):
        rows = [(key, lines[key]) for key in kept if key[2] == language]
        texts[language] = Lines(
            torch.tensor([line.item for _, line in rows]),
            torch.tensor([line.identity for _, line in rows]),
            _stack([key for key, _ in rows], [line.vector for _, line in rows], "texts", cosine),
            [line.tokens for _, line in rows],
        )
    item = torch.tensor([pictures[key].item for key in shown])
    return Collection(item, vectors, [pictures[key].thumbnail for key in shown], texts, len(said) - len(kept))


def measure(collection: Collection, data: str, pictured: Sequence[str], seed: int = 0) -> list[Record]:
    """All records of a collection: both ways, every language, and means over languages with and without the pictured ones.

    Args:
        collection: What is searched.
        data: Name in the records.
        pictured: Languages whose texts were trained with pictures.
        seed: Of the bootstrap.
    """
    everything = {language: torch.ones(len(lines.item), dtype=torch.bool) for language, lines in collection.texts.items()}
    return _measure(collection, data, pictured, seed, everything)


def measure_unlike(collection: Collection, data: str, pictured: Sequence[str], seed: int = 0) -> list[Record]:
    """The same for texts that read differently from all texts of their item in the pictured languages.

    What is searched stays whole; a picture asks for its texts only if all of them differ. So names that are spelt alike
    (`jazz`, `sushi`) cannot pass for understanding of a language. Empty if no pictured language is there.
    """
    known = {pair for language in pictured if language in collection.texts for pair in _pairs(collection.texts[language])}
    asked = {
        language: torch.tensor([pair not in known for pair in _pairs(lines)])
        for language, lines in collection.texts.items()
        if language not in pictured
    }
    asked = {language: mask for language, mask in asked.items() if mask.any()}
    if not known or not asked:
        return []
    return _measure(collection, f"{data}, texts unlike {', '.join(pictured)}", pictured, seed, asked)


class _Question(NamedTuple):
    ranks: Ranks
    by_chance: Ranks
    cluster: Int[Tensor, "Q"]


def _measure(
    collection: Collection, data: str, pictured: Sequence[str], seed: int, asked: Mapping[str, Bool[Tensor, "_"]]
) -> list[Record]:
    items, cluster = torch.unique(collection.item, return_inverse=True)
    draws = bootstrap.draw(len(items), seed=seed)
    records: dict[str, list[Record]] = {"text_to_image_retrieval": [], "image_to_text_retrieval": []}
    replicates: dict[str, dict[str, Float64[Tensor, "R M"]]] = {task: {} for task in records}
    for language, mask in asked.items():
        lines = collection.texts[language]
        pairs = relate(lines.identity, lines.item, collection.item)
        owners = torch.searchsorted(items, lines.item)
        either = {
            "text_to_image_retrieval": _ask(lines.vectors, collection.vectors, pairs, mask, owners),
            "image_to_text_retrieval": _ask(
                collection.vectors, lines.vectors, pairs.flip(1), _all_asked(pairs, mask, len(collection.item)), cluster
            ),
        }
        for task, question in either.items():
            if question is not None:
                found, replicates[task][language] = _score(question, draws)
                records[task] += [Record(task, data, language, *figure) for figure in found]
    for task in records:
        records[task] += _means(records[task], replicates[task], pictured)
    return [record for task in records for record in records[task]]


def _ask(
    queries: Float32[Tensor, "Q E"],
    gallery: Float32[Tensor, "N E"],
    pairs: Int[Tensor, "R 2"],
    mask: Bool[Tensor, "Q"],
    cluster: Int[Tensor, "Q"],
) -> _Question | None:
    """Rank the gallery for the queries in the mask."""
    if not mask.any():
        return None
    pairs = pairs[mask[pairs[:, 0]]]
    pairs = torch.stack([(mask.cumsum(0) - 1)[pairs[:, 0]], pairs[:, 1]], dim=1)
    ranks = rank(queries[mask], gallery, pairs)
    return _Question(ranks, guess(pairs, int(mask.sum()), len(gallery)), cluster[mask])


def _all_asked(pairs: Int[Tensor, "R 2"], mask: Bool[Tensor, "T"], pictures: int) -> Bool[Tensor, "N"]:
    """Pictures that have texts, all of them in the mask."""
    texts = torch.bincount(pairs[:, 1], minlength=pictures)
    return (texts > 0) & (torch.bincount(pairs[mask[pairs[:, 0]], 1], minlength=pictures) == texts)


Figure = tuple[str, float, float, float, int]
"""Metric, value, low, high, n: the rest of a record."""


def _score(question: _Question, draws: Float32[Tensor, "R C"]) -> tuple[list[Figure], Float64[Tensor, "R M"]]:
    """Figures of one question, and the replicates of `METRICS`."""
    n = len(question.cluster)
    hits, places = torch.stack([recall(question.ranks, k) for k in CUTS], dim=1), expected_rank(question.ranks)
    middle = bootstrap.medians(places, question.cluster, draws)
    replicates = torch.cat([bootstrap.means(hits, question.cluster, draws), middle[:, None]], dim=1)
    values = [*hits.mean(0).tolist(), bootstrap.median(places)]
    figures = [
        (metric, value, *bootstrap.interval(column), n)
        for metric, value, column in zip(METRICS, values, replicates.unbind(1), strict=True)
    ]
    by_chance = [recall(question.by_chance, k).mean().item() for k in CUTS]
    by_chance.append(bootstrap.median(expected_rank(question.by_chance)))
    figures += [(f"chance {metric}", value, value, value, n) for metric, value in zip(METRICS, by_chance, strict=True)]
    size = float(question.ranks.gallery)
    return [*figures, ("gallery size", size, size, size, n)], replicates


def _means(
    records: Sequence[Record], replicates: Mapping[str, Float64[Tensor, "R M"]], pictured: Sequence[str]
) -> list[Record]:
    """Means over languages; their intervals come of the languages' own draws, which are the same items in each."""
    others = [language for language in replicates if language not in pictured]
    groups = {"all": list(replicates)} if len(others) < len(replicates) or not pictured else {}
    if pictured:
        groups[f"all but {', '.join(pictured)}"] = others
    means = []
    for name, languages in groups.items():
        for column, metric in enumerate(METRICS):
            found = [record for record in records if record.metric == metric and record.language in languages]
            if found:
                value = sum(record.value for record in found) / len(found)
                low, high = bootstrap.interval(torch.stack([replicates[one][:, column] for one in languages]).mean(0))
                n = sum(record.n for record in found)
                means.append(Record(found[0].task, found[0].data, name, f"mean {metric}", value, low, high, n))
    return means


def _pairs(lines: Lines) -> list[tuple[int, int]]:
    return list(zip(lines.item.tolist(), lines.identity.tolist(), strict=True))


def _stack(keys: Sequence[tuple], vectors: Sequence[np.ndarray], name: str, cosine: bool) -> Float32[Tensor, "N E"]:
    """Vectors, for a cosine at length 1."""
    stacked = torch.from_numpy(np.stack(vectors))
    bad = stacked.isfinite().all(dim=1).logical_not().nonzero()[:, 0].tolist()
    if bad:
        first = ", ".join(f"{keys[row][0]} sample {keys[row][1]}" for row in bad[:3])
        raise ValueError(
            f"the vectors of {len(bad)} of {len(keys)} {name} are not finite ({first}{', ...' if len(bad) > 3 else ''}); "
            "the model has diverged or met broken input: nothing can be ranked by it"
        )
    return normalize(stacked) if cosine else stacked
