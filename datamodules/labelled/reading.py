"""Labelled records in memory, as steps and evaluation read them."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from ...modalities.batch import Batch, Fault
from ...modalities.chance import chance, salt
from ...modalities.tokenizer import Tokenizer
from ..order import draw, share
from ..steps import Reading
from .layout import Layout

LABELS = "names of labels"
"""Under which an order holds a hash of them."""


class LabelledReader:
    """Records of one split, read into batches. It pickles, for workers.

    Attributes:
        name: Source of the batches.
        records: Numbered from 0 by `Batch.sample`.
    """

    def __init__(
        self,
        name: str,
        records: Sequence[Any],
        layout: Layout,
        classes: Mapping[str, int],
        tokenizer: Tokenizer,
        max_tokens: int,
        batch_size: int,
        micro_batch_size: int | None = None,
        seed: int = 0,
    ):
        """
        Args:
            name: Source of the batches.
            records: What is read.
            layout: What makes rows of them.
            classes: Number of each class by its name; -1 of `""`.
            tokenizer: What cuts words into pieces.
            max_tokens: Longest row.
            batch_size: Records of one optimiser step, over all processes.
            micro_batch_size: Records that are read at once; None: all of a process's share.
            seed: Of the order.
        """
        self.name, self.records, self.layout, self.classes = name, records, layout, classes
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self.batch_size, self.micro_batch_size = batch_size, micro_batch_size
        self.key = int(chance(seed, salt(name)))

    def check_world(self, world: int) -> None:
        """Raise ValueError if a step cannot be shared evenly by `world` processes."""
        if self.batch_size % world:
            raise ValueError(
                f"data.batch_size {self.batch_size} (examples of one optimiser step, over all processes) is not divisible by "
                f"{world} processes; give a multiple of {world}"
            )

    @cached_property
    def order(self) -> dict[str, Any]:
        """All that the order depends on but the seed: to be compared when a run is resumed."""
        digest = hashlib.blake2b(digest_size=8)
        for record in self.records:
            digest.update(repr(record).encode())
        return {
            "examples": len(self.records),
            "texts and labels": digest.hexdigest(),
            LABELS: hash_classes(self.classes),
            "batch_size": self.batch_size,
        }

    def read_step(self, number: int, rank: int, world: int) -> tuple[list[Batch], list[Fault]]:
        """A rank's micro-batches of a step."""
        mine = share(self.batch_size, rank, world)
        draws = draw(number * self.batch_size + mine.start, len(mine), len(self.records), self.key)
        size = self.micro_batch_size or len(mine)
        pairs = zip(draws.sample.split(size), draws.epoch.split(size), strict=True)
        return [self.read(sample, epoch) for sample, epoch in pairs], []

    def once(self) -> list[partial[Reading]]:
        """Every record once, in a fixed order, one language at a time, as what reads each batch."""
        places: dict[str, list[int]] = {}
        for place, record in enumerate(self.records):
            places.setdefault(record.language, []).append(place)
        size = self.micro_batch_size or self.batch_size
        parts = [part for language in sorted(places) for part in torch.tensor(places[language]).split(size)]
        return [partial(self.read_part, part) for part in parts]

    def read_part(self, sample: Int64[Tensor, "N"]) -> Reading:
        """Some records, for evaluation."""
        return Reading(self.read(sample, torch.zeros_like(sample)), list(range(len(sample))), [])

    def read(self, sample: Int64[Tensor, "N"], epoch: Int64[Tensor, "N"]) -> Batch:
        """Some records, one or more rows each."""
        records = [self.records[number] for number in sample.tolist()]
        laid = self.layout.lay(records, self.classes, self.tokenizer, self.max_tokens)
        numbers = sample[laid.record]
        return Batch(self.name, numbers, numbers, epoch[laid.record], text=laid.text, target=laid.target)


def hash_classes(classes: Mapping[str, int]) -> str:
    """A hash of names and numbers of classes."""
    return hashlib.blake2b(repr(sorted(classes.items())).encode(), digest_size=8).hexdigest()
