"""From numbers of samples to batches: an opened source."""

import hashlib
import logging
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from ..modalities.batch import Batch, Fault
from ..modalities.chance import chance, salt
from ..modalities.tokenizer import Tokenizer
from .alternating import Alternating
from .choosing import Chooser, name_stratum, strata
from .draws import Draws, EvenDraws, MixedDraws, Stratum, choose_texts
from .filtering import TextRows
from .following import Following
from .order import Units
from .parts import ByCount, ByTokens, Part
from .region_reading import RegionReader
from .rows import RowReader
from .selection import find_samples, find_unknown
from .shards.lengths import find_lengths
from .shards.reader import ShardSet
from .source import Source
from .steps import Reading, split
from .turns import ExhaustedError

log = logging.getLogger(__name__)


class Reader:
    """An opened source: the samples that have all that is asked for, read into batches. It pickles, for workers.

    Which text is chosen and how a picture is cropped is decided by (seed, source, epoch, sample) alone: not by the rank,
    the batch or the other rows.

    Attributes:
        samples: Numbers in the shards of the samples that are read, ascending.
        summary: In words, how many these are, and what was left out.
        faults: Samples that are left out because the tokenizer does not know their languages.
        key: Random key of everything about this source.
        regions: What reads the regions of pictures, and knows their form; None: they are not read.
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
            if source.following is not None:
                known += "; only documents (`interlingua shards write documents`) have sentences that follow each other"
            if source.alternate is not None:
                known += "; `alternate` reads documents alone (`interlingua shards write jsonl --documents FIELD --parallel`)"
            raise ValueError(
                f"source {name!r} {self.summary}; languages found in {source.shards}: {languages}{known}; "
                "change what the source reads, or its shards"
            )
        self.samples = found
        following, alternating, chooser = None, None, None
        if source.following is not None:
            following = Following(self.texts, source.text, source.following)
        if source.alternate is not None:
            alternating = Alternating(self.texts, source.text, source.translation, source.alternate)
        if source.text is not None:
            chooser = Chooser(self.texts, source.text, source.translation, following, alternating)
        try:
            self.regions = None if source.regions is None else RegionReader(source.regions, shards, found)
        except ValueError as error:
            raise ValueError(f"source {name!r}: {error}") from None
        parts = following, alternating, self.regions
        self._rows = RowReader(name, source, shards, tokenizer, max_tokens, self.key, augment, *parts)
        self.draws = self._order(chooser)
        self.parts = self._cut()

    def _check_languages(self) -> None:
        for choice in (self.source.text, self.source.translation):
            for language in (choice and choice.languages) or ():
                self.tokenizer.language_id(language)

    def _lengths(self, chooser: Chooser) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of what is read from each text of the shards on, as the first text and as the second."""
        lengths = find_lengths(self.shards, self.tokenizer)
        return (lengths, lengths) if chooser.passages is None else chooser.passages.lengths(lengths)

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
        mean = self._mean_tokens(chooser) if source.sampling.by == "tokens" else lambda pair, samples: 1.0
        groups = []
        choices = source.text, source.translation, chooser.following, chooser.alternating
        for pair, samples in strata(self.texts, *choices).items():
            kept = samples[readable[samples]]
            if len(kept):
                name = name_stratum(pair, self.texts.languages)
                groups.append(Stratum(name, pair, kept, self._units(kept), mean(pair, kept)))
        draws = MixedDraws(groups, source.sampling, self.key, chooser)
        if source.sampling.max_epochs is not None and source.sampling.max_epochs < 1:
            never = [one.name for one, limit in zip(groups, draws.turns.limits, strict=True) if not limit]
            log.warning(
                "source %r: sampling.max_epochs %g is less than one epoch: a part of each language is never read%s; give 1 or "
                "more if that is not meant",
                self.name,
                source.sampling.max_epochs,
                f", and nothing of {', '.join(never)}" if never else "",
            )
        return draws

    def _mean_tokens(self, chooser: Chooser) -> Callable[[tuple[int, int], Int64[np.ndarray, "S"]], float]:
        """What tells the tokens of a draw in the mean, by its languages and the samples it is one of."""
        both, many = self._lengths(chooser), len(self.texts.languages)
        if chooser.alternating is not None:
            return lambda pair, samples: self._mean_passage(chooser, both, pair, samples)
        means = []
        for mask, lengths in zip((chooser.first, chooser.second), both, strict=True):
            if mask is not None:
                language = self.texts.language[mask]
                sums = np.bincount(language, np.minimum(lengths[mask], self.max_tokens), many)
                means.append(sums / np.bincount(language, minlength=many).clip(1))
        return lambda pair, samples: float(sum(side[one] for side, one in zip(means, pair, strict=False)))

    def _mean_passage(
        self,
        chooser: Chooser,
        lengths: tuple[np.ndarray, np.ndarray],
        pair: tuple[int, int],
        samples: Int64[np.ndarray, "S"],
    ) -> float:
        """The same for passages, each of which is one row and cut as a whole: a draw of each sample tells."""
        sample = torch.from_numpy(samples)
        languages = (np.full(len(samples), language) for language in pair)
        draws = choose_texts(sample, torch.zeros_like(sample), self.key, chooser, *languages)
        rows = lengths[0][draws.text.numpy()] + lengths[1][draws.translation.numpy()]
        return float(np.minimum(rows, self.max_tokens).mean())

    def _cut(self) -> ByCount | ByTokens:
        source = self.source
        if source.batch_size is not None:
            return ByCount(self.draws, source.batch_size)
        texts = 2 if source.two_texts else 1
        if self.max_tokens * texts > source.micro_tokens:
            raise ValueError(
                f"source {self.name!r}: a row of {texts} x {self.max_tokens} tokens (max_tokens) does not fit into "
                f"micro_batch_tokens {source.micro_tokens}; raise the one or lower the other"
            )
        parts = source.tokens // source.micro_tokens
        assert self.draws.chooser is not None
        joined = source.alternate is not None
        lengths = self._lengths(self.draws.chooser)[: 2 if joined else texts]
        return ByTokens(self.draws, lengths, self.max_tokens, source.micro_tokens, parts, source.pack, joined)

    def __len__(self) -> int:
        return len(self.samples)

    def size(self, by: str) -> float:
        """Samples, or tokens of all texts that may be read."""
        if by == "samples" or self.draws.chooser is None:
            return float(len(self))
        lengths = find_lengths(self.shards, self.tokenizer)
        return float(np.minimum(lengths[self.draws.chooser.first], self.max_tokens).sum())

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
        if source.following is not None:
            order["following"] = source.following
        if source.alternate is not None:
            order["alternate"] = source.alternate
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
            lengths = self._lengths(chooser)
            columns += [np.minimum(own, self.max_tokens) for own in lengths[: 1 if chooser.passages is None else 2]]
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
        """Read some rows; those that cannot be read are faults (see `RowReader.read`)."""
        return self._rows.read(draws, places)
