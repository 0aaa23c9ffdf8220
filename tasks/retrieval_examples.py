"""A few searches to look at: chosen by a hash of the item, so nobody has picked the good ones."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ..modalities.chance import chance, salt
from .ranking import expected_rank, rank, relate
from .retrieval_scores import Collection

SHOWN = 5


class Answer(NamedTuple):
    """One query and what it finds."""

    language: str
    query: str
    rank: float
    """Of the best right picture, from 1; expected over the orders of ties."""
    top: list[tuple[int, bool]]
    """The first five pictures, and whether each is right."""


class Example(NamedTuple):
    """One item, asked for in several languages."""

    picture: int
    answers: list[Answer]


def choose_examples(
    collection: Collection,
    decode: Callable[[Sequence[int]], str],
    pictured: Sequence[str],
    items: int = 8,
    languages: int = 12,
    seed: int = 0,
) -> list[Example]:
    """Examples for a page, the same ones in every run over the same data.

    Args:
        collection: What is searched.
        decode: Token ids to text.
        pictured: Languages trained with pictures; shown first.
        items: How many items; those with the smallest hashes of (seed, item).
        languages: How many languages; by hash too, where there are more.
        seed: Another seed shows other items.
    """
    order = chance(seed, collection.item).argsort(stable=True).tolist()
    chosen: dict[int, int] = {}
    for row in order:
        chosen.setdefault(int(collection.item[row]), row)
    rows = list(chosen.values())[:items]
    names = sorted(collection.texts, key=lambda name: (name not in pictured, int(chance(seed, salt(name)).item())))[:languages]
    names.sort(key=lambda name: (name not in pictured, name))
    found: dict[int, list[Answer]] = {row: [] for row in rows}
    for name in names:
        lines = collection.texts[name]
        for row in rows:
            texts = (lines.item == collection.item[row]).nonzero()[:, 0]
            if len(texts):
                text = int(texts[chance(seed, lines.identity[texts]).argmin()])
                found[row].append(_search(collection, name, text, decode))
    return [Example(row, answers) for row, answers in found.items() if answers]


def _search(collection: Collection, language: str, text: int, decode: Callable[[Sequence[int]], str]) -> Answer:
    lines = collection.texts[language]
    pairs = relate(lines.identity, lines.item, collection.item)
    right = pairs[pairs[:, 0] == text, 1]
    query = lines.vectors[text : text + 1]
    place = expected_rank(rank(query, collection.vectors, torch.stack([torch.zeros_like(right), right], dim=1)))
    top = (collection.vectors @ query[0]).argsort(descending=True, stable=True)[:SHOWN].tolist()
    return Answer(language, decode(lines.tokens[text]), place.item(), [(picture, picture in right.tolist()) for picture in top])
