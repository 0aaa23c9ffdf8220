"""What data of all kinds of retrieval share: sources opened by name, and batches of texts by their numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64

from ..modalities.batch import Batch, Fault
from ..modalities.text import collate_text
from ..modalities.tokenizer import Tokenizer
from .sample import BadSampleError, Caption, Sample
from .shards.cache import Cache
from .shards.fields import FieldMap
from .shards.reader import ShardSet
from .steps import Reading


def open_sources(sources: Mapping[str, str | list[str]], fields: FieldMap | None, cache: Cache | None) -> dict[str, ShardSet]:
    """Shards by the name of their source; they are indexed where they are not yet.

    Raises:
        FileNotFoundError, ValueError: Shards are missing, or not what `fields` says.
    """
    return {name: ShardSet(paths, fields, cache=cache) for name, paths in sources.items()}


def cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Rows in parts of one size, the last with what is left."""
    return [rows[first : first + size] for first in range(0, len(rows), size)]


class Told(NamedTuple):
    """Texts by number, those that could be read."""

    captions: list[Caption]
    samples: list[Sample]
    """The sample of each, without its picture."""
    numbers: list[int]
    """Number of each in `ShardSet.texts`."""
    owners: list[int]
    """Number of its sample."""
    slots: list[int]
    """Which of the numbers asked for these are, ascending."""
    faults: list[Fault]


class Identities(NamedTuple):
    """What is said of the rows of a batch, beside their texts."""

    item: Sequence[int]
    """Equal for what belongs together."""
    sample: Sequence[int]
    """`Batch.sample`: what is counted once."""


def read_texts(
    name: str,
    shards: ShardSet,
    tokenizer: Tokenizer,
    max_tokens: int,
    identities: Callable[[Told], Identities],
    numbers: Int64[np.ndarray, "N"],
) -> Reading:
    """One batch of texts.

    Args:
        name: Name of the source.
        shards: Where the texts are.
        tokenizer: What cuts them into pieces.
        max_tokens: Longest text, start and end token included.
        identities: What the rows are, from the texts that could be read.
        numbers: Texts `[N]`, as numbered in `ShardSet.texts`.
    """
    told = read_captions(shards, numbers)
    if not told.captions:
        return Reading(None, [], told.faults)
    texts, languages = [caption.text for caption in told.captions], [caption.language for caption in told.captions]
    batch = identify(name, identities(told))
    return Reading(batch._replace(text=collate_text(texts, languages, tokenizer, max_tokens)), told.slots, told.faults)


def read_captions(shards: ShardSet, numbers: Int64[np.ndarray, "N"]) -> Told:
    """Texts by their numbers in `ShardSet.texts`."""
    start = shards.texts.start
    owners = (np.searchsorted(start, numbers, side="right") - 1).tolist()
    told = Told([], [], [], [], [], [])
    for slot, (number, owner) in enumerate(zip(numbers.tolist(), owners, strict=True)):
        place = number - int(start[owner])
        try:
            sample = shards.read(owner, image=False, members=())
            if place >= len(sample.texts):
                raise BadSampleError("missing text", "the texts that the index names are not there any more")
            told.captions.append(sample.texts[place])
            told.samples.append(sample)
            told.numbers.append(number)
            told.owners.append(owner)
            told.slots.append(slot)
        except BadSampleError as error:
            told.faults.append(Fault(error.kind, *shards.find(owner), error.detail))
    return told


def identify(name: str, identities: Identities) -> Batch:
    """A batch of nothing but identities."""
    item, sample = torch.tensor(identities.item), torch.tensor(identities.sample)
    return Batch(name, item, sample, torch.zeros_like(item))
