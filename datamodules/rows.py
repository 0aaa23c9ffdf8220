"""From what is drawn to a batch: read each row, and collate them; what cannot be read is a fault and leaves a hole."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from ..modalities.augmentation import Shown, draw_luck
from ..modalities.batch import Batch, Fault, Text
from ..modalities.chance import chance, salt
from ..modalities.image import BadImageError, collate_images
from ..modalities.region import FoundRegions, collate_regions
from ..modalities.text import CrowdedRowError, collate_packed, collate_sentences, collate_text
from ..modalities.tokenizer import Tokenizer
from .alignments import collate_alignment, read_alignment
from .alternating import Alternating
from .draws import Draws
from .following import Following
from .region_reading import RegionReader
from .sample import BadSampleError, Caption, Sample
from .shards.fields import REGIONS
from .shards.reader import ShardSet
from .source import Source
from .steps import Reading

IMAGE = salt("image")


class Row(NamedTuple):
    """What is read of one sample."""

    item: int
    text: Caption | None
    translation: Caption | None
    """Or what follows the text."""
    pixels: UInt8[Tensor, "3 S S"] | None
    words: list[tuple[int, int]]
    """Pairs of words of text and translation that translate each other."""
    passage: list[Caption] = []  # noqa: RUF012, a default of a NamedTuple that nothing changes
    """Sentences in two languages, which stand in the place of the text."""
    regions: FoundRegions | None = None


class RowReader:
    """Reads the rows of one source. How a picture is cropped is decided by (key, epoch, sample) alone."""

    def __init__(
        self,
        name: str,
        source: Source,
        shards: ShardSet,
        tokenizer: Tokenizer | None,
        max_tokens: int,
        key: int,
        augment: bool,
        following: Following | None = None,
        alternating: Alternating | None = None,
        regions: RegionReader | None = None,
    ):
        """
        Args:
            name: Name of the source.
            source: What is read.
            shards: Its shards.
            tokenizer: May be None where no text is read.
            max_tokens: Longest text, start and end token included.
            key: Random key of the source.
            augment: False gives every picture its undisturbed form.
            following: The sentences of documents, where those that follow the text are read too.
            alternating: Those of documents in two languages, where they are read in turn.
            regions: What reads the regions of pictures, where they are read.
        """
        self.following, self.alternating, self.regions = following, alternating, regions
        self.name, self.source, self.shards, self.start = name, source, shards, shards.texts.start
        self.tokenizer, self.max_tokens, self.key, self.augment = tokenizer, max_tokens, key, augment

    def read(self, draws: Draws, places: Int64[Tensor, "N"] | None = None) -> Reading:
        """Read some rows; those that cannot be read are faults.

        Args:
            draws: What is read.
            places: Of packed texts: the row that each stands in.
        """
        crops: Sequence[Sequence[float] | None] = [None] * len(draws.sample)
        if self.source.image is not None and self.augment:
            crops = draw_luck(chance(self.key, draws.epoch, draws.sample, IMAGE))
        rows: list[Row] = []
        slots: list[int] = []
        faults: list[Fault] = []
        for slot, (sample, _, text, translation) in enumerate(zip(*(field.tolist() for field in draws), strict=True)):
            try:
                rows.append(self._read_row(sample, text, translation, crops[slot]))
                slots.append(slot)
            except (BadSampleError, BadImageError) as error:
                faults.append(Fault(error.kind, *self.shards.find(sample), error.detail))
        item = torch.tensor([row.item for row in rows], dtype=torch.int64)
        batch = Batch(self.name, item, draws.sample[slots], draws.epoch[slots])
        if places is not None:
            try:
                return Reading(self._collate_packed(rows, batch, places[slots]), slots, faults)
            except CrowdedRowError:  # lengths that were estimated, or texts that changed since they were counted
                fit, crowded = self._leave_out([row.text for row in rows], batch.sample, places[slots])
                draws, places = draws.at(torch.tensor(slots)[fit]), places[slots][fit]
                reading = self.read(draws, places)
                return Reading(reading.batch, [slots[place] for place in fit], faults + crowded)
        return Reading(self._collate(rows, batch), slots, faults)

    def _read_row(self, number: int, text: int, translation: int, crop: Sequence[float] | None) -> Row:
        members = () if self.regions is None else (REGIONS,)
        sample = self.shards.read(number, image=self.source.image is not None, members=members)
        first, words = int(self.start[number]), []
        if self.alternating is not None:
            passage = _take(sample, first, self.alternating.passage(text, translation))
            return Row(sample.item, None, None, None, words, passage)
        if self.following is not None:
            captions = [_join(sample, first, half) for half in self.following.halves(text, translation)]
        else:
            captions = [None if one < 0 else _join(sample, first, [one]) for one in (text, translation)]
            if translation >= 0 and sample.alignments:
                words = read_alignment(sample, text - first, translation - first)
        shown = self._show(sample, crop)
        regions = None if self.regions is None else self.regions.read(sample, shown)
        return Row(sample.item, *captions, None if shown is None else shown.pixels, words, regions=regions)

    def _show(self, sample: Sample, crop: Sequence[float] | None) -> Shown | None:
        if self.source.image is None:
            return None
        if sample.image is None:
            raise BadSampleError("missing image", "the picture that the index names is not there any more")
        return self.source.image.show(sample.image, crop)

    def _collate(self, rows: list[Row], batch: Batch) -> Batch:
        source = self.source
        if source.alternate is not None:
            return batch._replace(text=self._tokenize_passages([row.passage for row in rows]))
        if source.text is not None:
            batch = batch._replace(text=self._tokenize([row.text for row in rows]))
        if source.two_texts:
            batch = batch._replace(translation=self._tokenize([row.translation for row in rows]))
        if source.translation is not None:
            texts = ([row.text.text for row in rows], [row.translation.text for row in rows])
            words = [row.words for row in rows]
            batch = batch._replace(alignment=collate_alignment(words, *texts, batch.text, batch.translation, self.tokenizer))
        if source.image is not None:
            batch = batch._replace(image=collate_images([row.pixels for row in rows], source.image.size))
        if self.regions is not None:
            batch = batch._replace(regions=collate_regions([row.regions for row in rows], self.regions.form))
        return batch

    def _tokenize(self, captions: list[Caption]) -> Text:
        texts, languages = [caption.text for caption in captions], [caption.language for caption in captions]
        return collate_text(texts, languages, self.tokenizer, self.max_tokens)

    def _tokenize_passages(self, passages: list[list[Caption]]) -> Text:
        rows = [row for row, passage in enumerate(passages) for _ in passage]
        captions = [caption for passage in passages for caption in passage]
        texts, languages = [caption.text for caption in captions], [caption.language for caption in captions]
        return collate_sentences(texts, languages, rows, self.tokenizer, self.max_tokens)

    def _leave_out(
        self, captions: list[Caption], sample: Int64[Tensor, "N"], places: Int64[Tensor, "N"]
    ) -> tuple[list[int], list[Fault]]:
        """Which packed texts their rows have room for, the first ones first, and the others as faults."""
        texts, languages = [caption.text for caption in captions], [caption.language for caption in captions]
        lengths = np.minimum(self.tokenizer.count_tokens(texts, languages), self.max_tokens).tolist()
        fit, faults, load = [], [], Counter[int]()
        for number, (length, row) in enumerate(zip(lengths, places.tolist(), strict=True)):
            if load[row] + length > self.max_tokens:
                detail = f"its {length} tokens are more than were counted; count anew (`interlingua shards index --tokenizer`)"
                faults.append(Fault("changed texts", *self.shards.find(int(sample[number])), detail))
                continue
            load[row] += length
            fit.append(number)
        return fit, faults

    def _collate_packed(self, rows: list[Row], batch: Batch, places: Int64[Tensor, "N"]) -> Batch:
        """Rows of several texts; a row is known by its first text."""
        kept, numbers = places.unique(return_inverse=True)
        first = torch.tensor([int((numbers == row).nonzero()[0]) for row in range(len(kept))], dtype=torch.int64)
        texts, languages = [row.text.text for row in rows], [row.text.language for row in rows]
        text = collate_packed(texts, languages, numbers.tolist(), self.tokenizer, self.max_tokens)
        return Batch(batch.source, batch.item[first], batch.sample[first], batch.epoch[first], text=text)


def _take(sample: Sample, first: int, numbers: list[int]) -> list[Caption]:
    """Texts of a sample by their numbers, of which `first` is its first."""
    if max(numbers) - first >= len(sample.texts):
        raise BadSampleError("missing text", "the texts that the index names are not there any more")
    return [sample.texts[number - first] for number in numbers]


def _join(sample: Sample, first: int, numbers: list[int]) -> Caption:
    """The same as one text."""
    captions = _take(sample, first, numbers)
    return captions[0]._replace(text=" ".join(caption.text for caption in captions))
