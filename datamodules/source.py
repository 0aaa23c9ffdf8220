"""One source: what is read of its samples, and from numbers of samples to a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from ..modalities.augmentation import ImageTransform, draw_luck
from ..modalities.batch import Batch, Fault, Text
from ..modalities.chance import chance, salt, uniform
from ..modalities.image import BadImageError, collate_images, decode_image
from ..modalities.text import collate_text
from ..modalities.tokenizer import Tokenizer
from .choice import TextChoice, TranslationChoice, choose
from .filtering import TextRows
from .sample import BadSampleError, Caption
from .shards.fields import FieldMap
from .shards.reader import ShardSet
from .steps import Reading


@dataclass(frozen=True)
class Source:
    """What is read of each sample. A sample that lacks any of it is left out before training starts, and counted.

    Args:
        shards: Paths or patterns of tars.
        batch_size: Rows of one optimiser step, over all processes.
        micro_batch_size: Rows that a process reads forward and backward at once; None: all of its share. In validation
            one process reads a whole batch, of this many rows (None: of `batch_size` rows).
        text: Which text is read; None: none.
        translation: Which other text stands beside it, in another language; None: none.
        image: How pictures are prepared; None: they are not looked at.
        fields: What the members of foreign shards are; None: the project's own layout.
    """

    shards: str | list[str]
    batch_size: int
    micro_batch_size: int | None = None
    text: TextChoice | None = None
    translation: TranslationChoice | None = None
    image: ImageTransform | None = None
    fields: FieldMap | None = None

    def __post_init__(self):
        for field in ("batch_size", "micro_batch_size"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field} is {value}; give at least 1")
        if self.text is None and self.image is None:
            raise ValueError(f"source of {self.shards}: neither `text` nor `image` is read; give at least one")
        if self.translation is not None and self.text is None:
            raise ValueError(f"source of {self.shards}: a `translation` stands beside a `text`; give `text`, if only as {{}}")

    def in_language(self, language: str) -> "Source":
        """The same with one language alone: of the translation, where there is one, else of the text."""
        if self.translation is not None:
            return replace(self, translation=replace(self.translation, languages=[language]))
        return replace(self, text=self.text and replace(self.text, languages=[language]))


class Row(NamedTuple):
    """What is read of one sample."""

    item: int
    text: Caption | None
    translation: Caption | None
    pixels: UInt8[Tensor, "3 S S"] | None


class Reader:
    """An opened source: the samples that have all that is asked for, read into batches. It pickles, for workers.

    Which text is chosen and how a picture is cropped is decided by (seed, source, epoch, sample) alone: not by the rank,
    the batch or the other rows.

    Attributes:
        samples: Numbers in the shards of the samples that are read, ascending.
        summary: In words, how many these are, and what was left out.
        key: Random key of everything about this source.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        shards: ShardSet,
        tokenizer: Tokenizer | None = None,
        max_tokens: int = 512,
        seed: int = 0,
        augment: bool = True,
    ):
        """
        Args:
            name: Name of the source.
            source: What is read.
            shards: Its shards.
            tokenizer: May be None where no text is read.
            max_tokens: Longest text, start and end token included.
            seed: Of order, choice and augmentation.
            augment: False gives every picture its undisturbed form.

        Raises:
            ValueError: Nothing is left to read, a language or role that is asked for is in no sample, or the tokenizer
                does not know a language.
        """
        self.name, self.source, self.shards = name, source, shards
        self.tokenizer, self.max_tokens, self.augment = tokenizer, max_tokens, augment
        self.batch_size, self.micro_batch_size = source.batch_size, source.micro_batch_size
        self.key = int(chance(seed, salt(name)))
        try:
            found, self.summary = find_samples(source, shards)
            for choice in (source.text, source.translation):
                self._check_languages([] if choice is None else find_languages(choice, shards))
        except ValueError as error:
            raise ValueError(f"source {name!r}: {error}") from None
        if not len(found):
            languages = ", ".join(shards.languages) or "none"
            raise ValueError(
                f"source {name!r} {self.summary}; languages found in {source.shards}: {languages}; "
                "change what the source reads, or its shards"
            )
        self.samples = torch.from_numpy(found)

    def _check_languages(self, languages: Sequence[str]) -> None:
        for language in languages:
            if self.tokenizer is None:
                raise ValueError("text is read, but no tokenizer is given; set `tokenizer`")
            self.tokenizer.language_id(language)

    def __len__(self) -> int:
        return len(self.samples)

    def read(self, number: Int64[Tensor, "N"], epoch: Int64[Tensor, "N"]) -> Reading:
        """Read some rows; those that cannot be read are faults.

        Args:
            number: Places in `samples`.
            epoch: How many times each had been drawn before.
        """
        sample = self.samples[number]
        luck = uniform(self.key, epoch[:, None], sample[:, None], salt("text"), torch.arange(4)).tolist()
        crop = draw_luck(chance(self.key, epoch, sample, salt("image")))
        rows: list[Row] = []
        slots: list[int] = []
        faults: list[Fault] = []
        for slot, one in enumerate(sample.tolist()):
            try:
                rows.append(self._read_row(one, luck[slot], crop[slot] if self.augment else None))
                slots.append(slot)
            except (BadSampleError, BadImageError) as error:
                faults.append(Fault(error.kind, *self.shards.find(one), error.detail))
        item = torch.tensor([row.item for row in rows], dtype=torch.int64)
        return Reading(self._collate(rows, Batch(self.name, item, sample[slots], epoch[slots])), slots, faults)

    def _read_row(self, number: int, luck: Sequence[float], crop: Sequence[float] | None) -> Row:
        sample = self.shards.read(number, image=self.source.image is not None)
        text, translation, pixels = None, None, None
        if self.source.text is not None:
            chosen = choose(sample.texts, self.source.text, self.source.translation, luck)
            if chosen is None:
                raise BadSampleError("missing text", "the texts that the index names are not there any more")
            text, translation = chosen
        if self.source.image is not None:
            if sample.image is None:
                raise BadSampleError("missing image", "the picture that the index names is not there any more")
            pixels = self.source.image(decode_image(sample.image), crop)
        return Row(sample.item, text, translation, pixels)

    def _collate(self, rows: list[Row], batch: Batch) -> Batch:
        return batch._replace(
            text=None if self.source.text is None else self._tokenize([row.text for row in rows]),
            translation=None if self.source.translation is None else self._tokenize([row.translation for row in rows]),
            image=None if self.source.image is None else collate_images([row.pixels for row in rows], self.source.image.size),
        )

    def _tokenize(self, captions: list[Caption]) -> Text:
        texts, languages = [caption.text for caption in captions], [caption.language for caption in captions]
        return collate_text(texts, languages, self.tokenizer, self.max_tokens)


def find_samples(source: Source, shards: ShardSet) -> tuple[Int64[np.ndarray, "N"], str]:
    """Numbers of the samples that have all that a source reads, and in words how many were left out and why.

    Raises:
        ValueError: A language or role that is asked for is in no sample.
    """
    lacking: dict[str, np.ndarray] = {}
    texts = TextRows.of(shards)
    if source.text is not None:
        lacking["text"] = ~texts.have_text(source.text)
        if source.translation is not None:
            lacking["translation"] = ~texts.have_pair(source.text, source.translation)
    if source.image is not None:
        lacking["picture"] = ~shards.has_image
    found = np.flatnonzero(~np.logical_or.reduce(list(lacking.values())))
    counts = ", ".join(f"{int(missing.sum())} without {what}" for what, missing in lacking.items() if missing.any())
    return found, f"reads {len(found)} of {len(shards)} samples" + (f", leaves out {counts}" if counts else "")


def find_languages(choice: TextChoice, shards: ShardSet) -> list[str]:
    """Codes of all languages in which a text may be chosen, sorted."""
    return sorted(TextRows.of(shards).languages_taken(choice))
