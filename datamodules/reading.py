"""From numbers of samples to batches: an opened source."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor

from ..modalities.augmentation import draw_luck
from ..modalities.batch import Batch, Fault, Text
from ..modalities.chance import chance, salt
from ..modalities.image import BadImageError, collate_images
from ..modalities.text import CrowdedRowError, collate_packed, collate_text
from ..modalities.tokenizer import Tokenizer
from .alignments import collate_alignment, read_alignment
from .choice import TextChoice
from .choosing import Chooser, name_stratum, strata
from .draws import Draws, EvenDraws, MixedDraws, Stratum, choose_texts
from .filtering import TextRows
from .order import Units
from .parts import ByCount, ByTokens, Part
from .sample import BadSampleError, Caption
from .shards.lengths import find_lengths
from .shards.reader import ShardSet
from .source import Source
from .steps import Reading, split
from .turns import ExhaustedError

IMAGE = salt("image")


class Row(NamedTuple):
    """What is read of one sample."""

    item: int
    text: Caption | None
    translation: Caption | None
    pixels: UInt8[Tensor, "3 S S"] | None
    words: list[tuple[int, int]]
    """Pairs of words of text and translation that translate each other."""


class Reader:
    """An opened source: the samples that have all that is asked for, read into batches. It pickles, for workers.

    Which text is chosen and how a picture is cropped is decided by (seed, source, epoch, sample) alone: not by the rank,
    the batch or the other rows.

    Attributes:
        samples: Numbers in the shards of the samples that are read, ascending.
        summary: In words, how many these are, and what was left out.
        faults: Samples that are left out because the tokenizer does not know their languages.
        key: Random key of everything about this source.
        draws: Which samples, and which of their texts, come when.
        parts: Which of them each micro-batch holds.
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
                does not know a language that is asked for.
        """
        self.name, self.source, self.shards = name, source, shards
        self.tokenizer, self.max_tokens, self.augment = tokenizer, max_tokens, augment
        self.key = int(chance(seed, salt(name)))
        self.texts = TextRows.of(shards, None if tokenizer is None else tokenizer.languages)
        try:
            if source.text is not None and tokenizer is None:
                raise ValueError("text is read, but no tokenizer is given; set `tokenizer`")
            found, self.summary = find_samples(source, shards, self.texts)
            self._check_languages()
            self.faults = find_unknown(source, shards, self.texts)
        except ValueError as error:
            raise ValueError(f"source {name!r}: {error}") from None
        if not len(found):
            languages = ", ".join(shards.languages) or "none"
            known = "" if tokenizer is None else f"; languages of the tokenizer: {', '.join(tokenizer.languages)}"
            raise ValueError(
                f"source {name!r} {self.summary}; languages found in {source.shards}: {languages}{known}; "
                "change what the source reads, or its shards"
            )
        self.samples = found
        chooser = None if source.text is None else Chooser(self.texts, source.text, source.translation)
        self.draws = self._order(chooser)
        self.parts = self._cut()

    def _check_languages(self) -> None:
        for choice in (self.source.text, self.source.translation):
            for language in (choice and choice.languages) or ():
                self.tokenizer.language_id(language)

    def _lengths(self) -> np.ndarray:
        return find_lengths(self.shards, self.tokenizer)

    def _units(self, samples: Int64[np.ndarray, "S"]) -> Units:
        if not self.shards.remote:
            return Units.of(len(samples))
        shard = np.searchsorted(np.cumsum(self.shards.sizes), samples, side="right")
        sizes = np.bincount(shard)
        return Units(torch.from_numpy(sizes[sizes > 0]), self.source.window)

    def _order(self, chooser: Chooser | None) -> EvenDraws | MixedDraws:
        source = self.source
        if source.sampling is None or chooser is None:
            return EvenDraws(self.samples, self._units(self.samples), self.key, chooser)
        readable = np.zeros(len(self.shards), bool)
        readable[self.samples] = True
        tokens = self._mean_tokens(chooser) if source.sampling.by == "tokens" else []
        groups = []
        for pair, samples in strata(self.texts, source.text, source.translation).items():
            kept = samples[readable[samples]]
            if len(kept):
                name = name_stratum(pair, self.texts.languages)
                mean = float(sum(side[one] for side, one in zip(tokens, pair, strict=False))) if tokens else 1.0
                groups.append(Stratum(name, pair, kept, self._units(kept), mean))
        return MixedDraws(groups, source.sampling, self.key, chooser)

    def _mean_tokens(self, chooser: Chooser) -> list[Float64[np.ndarray, "languages"]]:
        """Tokens of a text by language in the mean: of those that may be the text, and of those that may be its translation."""
        lengths, many = np.minimum(self._lengths(), self.max_tokens), len(self.texts.languages)
        means = []
        for mask in (chooser.first, chooser.second):
            if mask is not None:
                language = self.texts.language[mask]
                sums = np.bincount(language, lengths[mask], many)
                means.append(sums / np.bincount(language, minlength=many).clip(1))
        return means

    def _cut(self) -> ByCount | ByTokens:
        source = self.source
        if source.batch_size is not None:
            return ByCount(self.draws, source.batch_size)
        texts = 1 if source.translation is None else 2
        if self.max_tokens * texts > source.micro_tokens:
            raise ValueError(
                f"source {self.name!r}: a row of {texts} x {self.max_tokens} tokens (max_tokens) does not fit into "
                f"micro_batch_tokens {source.micro_tokens}; raise the one or lower the other"
            )
        parts = source.tokens // source.micro_tokens
        return ByTokens(self.draws, self._lengths(), self.max_tokens, source.micro_tokens, parts, source.pack)

    def __len__(self) -> int:
        return len(self.samples)

    def size(self, by: str) -> float:
        """Samples, or tokens of all texts that may be read."""
        if by == "samples" or self.draws.chooser is None:
            return float(len(self))
        return float(np.minimum(self._lengths()[self.draws.chooser.first], self.max_tokens).sum())

    @property
    def order(self) -> dict[str, int | str | float | None]:
        """All that the order depends on but the seed: to be compared when a run is resumed."""
        source, sampling = self.source, self.source.sampling
        items = hashlib.blake2b(np.ascontiguousarray(self.shards.items[self.samples]).tobytes(), digest_size=8).hexdigest()
        order: dict[str, int | str | float | None] = {"samples": len(self), "items": items, "batch_size": source.batch_size}
        if source.batch_size is None:
            assert self.tokenizer is not None
            order |= {"batch_tokens": source.tokens, "micro_batch_tokens": source.micro_tokens, "pack": source.pack}
            order |= {"max_tokens": self.max_tokens, "tokenizer": self.tokenizer.hash}
        if source.batch_size is None or sampling is not None:
            order["texts that may be read"] = self._texts_read
        if self.shards.remote:
            order["window"] = source.window
        if sampling is not None:
            most = None if sampling.max_epochs is None else float(sampling.max_epochs)
            order |= {"sampling.exponent": str(sampling.points), "sampling.by": sampling.by, "sampling.max_epochs": str(most)}
        return order

    @cached_property
    def _texts_read(self) -> str:
        """What depends on texts: their lengths where steps are made of tokens, their languages where these are drawn."""
        chooser, digest = self.draws.chooser, hashlib.blake2b(digest_size=8)
        assert chooser is not None
        columns = [chooser.start, chooser.language, chooser.role, chooser.first, chooser.second, *chooser.weights]
        if self.source.batch_size is None or self.source.sampling.by == "tokens":
            columns.append(np.minimum(self._lengths(), self.max_tokens))
        for column in columns:
            digest.update(b"" if column is None else np.ascontiguousarray(column).data)
        return digest.hexdigest()

    def check_world(self, world: int) -> None:
        """Raise ValueError if a step cannot be shared evenly by `world` processes."""
        source = self.source
        if source.batch_size is not None and source.batch_size % world:
            raise ValueError(
                f"source {self.name!r}: batch_size {source.batch_size} (rows of one optimiser step, over all "
                f"processes) is not divisible by {world} processes; give a multiple of {world}"
            )
        parts = source.tokens // source.micro_tokens
        if source.batch_size is None and parts % world:
            raise ValueError(
                f"source {self.name!r}: batch_tokens {source.tokens} are {parts} micro-batches of {source.micro_tokens} "
                f"tokens, which {world} processes cannot share evenly; change batch_tokens"
            )

    def check_end(self, steps: int) -> None:
        """Raise ValueError if `sampling.max_epochs` does not allow for so many steps of rows, of this source."""
        limits = self.draws.turns.limits if isinstance(self.draws, MixedDraws) else None
        if limits is not None and self.source.batch_size is not None and steps * self.source.batch_size > limits.sum():
            raise ValueError(
                f"source {self.name!r}: {steps} steps of {self.source.batch_size} rows need more than the {limits.sum()} that "
                f"sampling.max_epochs {self.source.sampling.max_epochs} allows; raise it, or train fewer steps"
            )

    def read_step(self, number: int, rank: int, world: int) -> tuple[list[Batch], list[Fault]]:
        """A rank's micro-batches of a step, and what of them could not be read."""
        batches: list[Batch] = []
        faults: list[Fault] = []
        try:
            parts = self.parts.step(number, rank, world)
        except ExhaustedError as error:
            raise ExhaustedError(f"source {self.name!r}: {error}; raise sampling.max_epochs, or train fewer steps") from None
        for part in parts:
            reading = self.read(*part)
            rows = len(part.draws.sample)
            size = rows if self.source.batch_size is None else self.source.micro_batch_size or rows
            batches += [reading.batch] if part.rows is not None else split(reading, rows, size)
            faults += reading.faults
        return batches, faults

    def once(self) -> list[Part]:
        """Every sample once, in a fixed order, in parts that are read together."""
        if isinstance(self.parts, ByTokens):
            parts, first, block = [], 0, 0
            while first < len(self):
                parts += self.parts.block(block)
                first, block = sum(self.draws.block(block)), block + 1
            return parts
        size = self.source.micro_batch_size or self.parts.batch_size
        return [Part(self.draws.draws(first, min(size, len(self) - first))) for first in range(0, len(self), size)]

    def rows(self, sample: Int64[Tensor, "N"], epoch: Int64[Tensor, "N"]) -> Draws:
        """Which texts are read of some samples in some epochs."""
        return choose_texts(sample, epoch, self.key, self.draws.chooser)

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
                fit, crowded = self._leave_out([row.text.text for row in rows], batch.sample, places[slots])
                draws, places = draws.at(torch.tensor(slots)[fit]), places[slots][fit]
                reading = self.read(draws, places)
                return Reading(reading.batch, [slots[place] for place in fit], faults + crowded)
        return Reading(self._collate(rows, batch), slots, faults)

    def _read_row(self, number: int, text: int, translation: int, crop: Sequence[float] | None) -> Row:
        sample = self.shards.read(number, image=self.source.image is not None)
        first, pixels = int(self.texts.start[number]), None
        if max(text, translation) - first >= len(sample.texts):
            raise BadSampleError("missing text", "the texts that the index names are not there any more")
        captions = [None if one < 0 else sample.texts[one - first] for one in (text, translation)]
        words = read_alignment(sample, text - first, translation - first) if translation >= 0 and sample.alignments else []
        if self.source.image is not None:
            if sample.image is None:
                raise BadSampleError("missing image", "the picture that the index names is not there any more")
            pixels = self.source.image.read(sample.image, crop)
        return Row(sample.item, *captions, pixels, words)

    def _collate(self, rows: list[Row], batch: Batch) -> Batch:
        source = self.source
        if source.text is not None:
            batch = batch._replace(text=self._tokenize([row.text for row in rows]))
        if source.translation is not None:
            batch = batch._replace(translation=self._tokenize([row.translation for row in rows]))
            texts = ([row.text.text for row in rows], [row.translation.text for row in rows])
            words = [row.words for row in rows]
            batch = batch._replace(alignment=collate_alignment(words, *texts, batch.text, batch.translation, self.tokenizer))
        if source.image is not None:
            batch = batch._replace(image=collate_images([row.pixels for row in rows], source.image.size))
        return batch

    def _tokenize(self, captions: list[Caption]) -> Text:
        texts, languages = [caption.text for caption in captions], [caption.language for caption in captions]
        return collate_text(texts, languages, self.tokenizer, self.max_tokens)

    def _leave_out(
        self, texts: list[str], sample: Int64[Tensor, "N"], places: Int64[Tensor, "N"]
    ) -> tuple[list[int], list[Fault]]:
        """Which packed texts their rows have room for, the first ones first, and the others as faults."""
        lengths = np.minimum(self.tokenizer.count_tokens(texts), self.max_tokens).tolist()
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


def find_samples(source: Source, shards: ShardSet, texts: TextRows) -> tuple[Int64[np.ndarray, "N"], str]:
    """Numbers of the samples that have all that a source reads, and in words how many were left out and why.

    Raises:
        ValueError: A language or role that is asked for is in no sample.
    """
    lacking: dict[str, np.ndarray] = {}
    if source.text is not None:
        lacking["text"] = ~texts.have_text(source.text)
        if source.translation is not None:
            lacking["translation"] = ~texts.have_pair(source.text, source.translation)
    if source.image is not None:
        lacking["picture"] = ~shards.has_image
    found = np.flatnonzero(~np.logical_or.reduce(list(lacking.values())))
    counts = ", ".join(f"{int(missing.sum())} without {what}" for what, missing in lacking.items() if missing.any())
    return found, f"reads {len(found)} of {len(shards)} samples" + (f", leaves out {counts}" if counts else "")


def find_unknown(source: Source, shards: ShardSet, texts: TextRows) -> tuple[Fault, ...]:
    """Samples whose texts are in languages alone that the tokenizer does not know."""
    if source.text is None or texts.readable is None or texts.readable.all():
        return ()
    whole = TextRows(texts.samples, texts.start, texts.language, texts.role, texts.languages, texts.roles)
    lost = np.flatnonzero(whole.have_text(source.text) & ~texts.have_text(source.text))
    languages = [texts.languages[texts.language[texts.start[number]]] for number in lost]
    return tuple(
        Fault("unknown language", *shards.find(number), f"{language} is none of the tokenizer's")
        for number, language in zip(lost, languages, strict=True)
    )


def find_languages(choice: TextChoice, texts: TextRows) -> list[str]:
    """Codes of all languages in which a text may be chosen, sorted."""
    return sorted(texts.languages_taken(choice))
