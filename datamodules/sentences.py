"""Data of retrieval between translations: every sentence once, one language a batch."""

import hashlib
import logging
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Int64
from lightning import LightningDataModule

from ..modalities.chance import chance, salt
from ..modalities.normalization import normalize
from ..modalities.tokenizer import Tokenizer
from .choice import TextChoice
from .dealing import Batches, check_numbers
from .evaluation_reading import Identities, Told, cut, open_sources, read_texts
from .faults import FaultTally
from .filtering import TextRows
from .shards.cache import Cache
from .shards.fields import FieldMap
from .shards.reader import ShardSet
from .steps import Reading

log = logging.getLogger(__name__)


class SentenceRetrievalData(LightningDataModule):
    """Test batches of one source and one language: of samples that have a text in the pivot language and one in another, both.

    Of each language and sample the first text is taken that `texts` takes. `Batch.sample` is the number of the sample, the
    same for all translations of a sentence; `Batch.item` says what reads alike: it is equal for texts that are equal after
    normalisation. Batches are the same, and each comes once, whatever the number of processes.
    """

    def __init__(
        self,
        sources: dict[str, str | list[str]],
        tokenizer: str,
        pivot: str = "en",
        texts: TextChoice = TextChoice(),  # noqa: B008, frozen
        limit: int | None = 1000,
        least: int = 100,
        seed: int = 0,
        max_tokens: int = 128,
        batch_size: int = 128,
        fields: FieldMap | None = None,
        workers: int = 2,
        start_method: str | None = None,
        max_bad_share: float = 0.02,
        cache: Cache | None = None,
    ):
        """
        Args:
            sources: Paths or patterns of tars, by the name under which results are given.
            tokenizer: Tokenizer file.
            pivot: Language that all others are paired with.
            texts: Languages and roles of the texts; None: all languages that the tokenizer knows.
            limit: Sentences of a language at most, drawn by chance, the same ones for all languages as far as they have
                them; None: all. Tatoeba's sets have up to 1,000.
            least: Languages with fewer sentences are left out, and named: accuracy among a handful says nothing.
            seed: Decides which sentences are drawn.
            max_tokens: Longest text, start and end token included.
            batch_size: Rows of a batch; each process reads whole batches.
            fields: What the members of foreign shards are; None: the project's own layout.
            workers: Processes that read ahead for each process.
            start_method: How they are started (`fork`, `spawn`, `forkserver`); None: the platform's own way.
            max_bad_share: Share of rows that cannot be read, above which reading is an error.
            cache: Where remote shards are kept; None: in the user's cache folder.

        Raises:
            ValueError: A number is out of range, or the tokenizer does not know the pivot.
        """
        super().__init__()
        check_numbers(workers, max_tokens, batch_size, start_method, seed)
        for name, found in (("limit", limit), ("least", least)):
            if found is not None and found < 1:
                raise ValueError(f"{name} is {found}; expected 1 or more sentences of a language")
        self.sources, self.fields, self.cache, self.tokenizer = sources, fields, cache, Tokenizer(tokenizer)
        self.tokenizer.language_id(pivot)
        if texts.languages is not None and pivot not in texts.languages:
            texts = replace(texts, languages=[pivot, *texts.languages])
        self.pivot, self.texts, self.limit, self.least, self.seed = pivot, texts, limit, least, seed
        self.max_tokens, self.batch_size, self.workers = max_tokens, batch_size, workers
        self.start_method, self.max_bad_share = start_method, max_bad_share
        self.parts: list[partial[Reading]] = []

    def prepare_data(self) -> None:
        """Index the shards, once for all processes of a machine."""
        open_sources(self.sources, self.fields, self.cache)

    def setup(self, stage: str) -> None:
        """Open the shards and list all batches.

        Raises:
            FileNotFoundError, ValueError: A source has no language with enough translations of the pivot, or the tokenizer
                does not know a language that is asked for.
        """
        if not self.parts:
            opened = open_sources(self.sources, self.fields, self.cache)
            self.parts = [part for name, shards in opened.items() for part in self._list(name, shards)]

    def _list(self, name: str, shards: ShardSet) -> list[partial[Reading]]:
        FaultTally(f"source {name}", self.max_bad_share).add(len(shards), shards.faults)
        try:
            for language in self.texts.languages or ():
                self.tokenizer.language_id(language)
            found = find_translations(TextRows.of(shards, self.tokenizer.languages), self.texts, self.pivot)
        except ValueError as error:
            raise ValueError(f"source {name!r}: {error}") from None
        few = [f"{code} {len(pairs)}" for code, pairs in found.items() if len(pairs) < self.least]
        kept = {code: draw(pairs, self.limit, self.seed) for code, pairs in found.items() if len(pairs) >= self.least}
        if not kept:
            raise ValueError(
                f"source {name!r}: no language has {self.least} sentences or more that are in {self.pivot} too; set `least` "
                f"lower, or read other shards (found: {', '.join(few) or 'none'})"
            )
        unknown = [] if self.texts.languages else [code for code in shards.languages if code not in self.tokenizer.languages]
        for codes, why in (
            (few, f"have fewer than {self.least} sentences"),
            (unknown, "are none of the tokenizer's languages"),
        ):
            if codes and self.trainer.global_rank == 0:
                log.warning("source %s: left out, as they %s: %s", name, why, ", ".join(codes))
        texts = {code: pairs[:, 0] for code, pairs in kept.items()}
        texts[self.pivot] = np.unique(np.concatenate([pairs[:, 1] for pairs in kept.values()]))
        read = partial(read_texts, name, shards, self.tokenizer, self.max_tokens, by_reading)
        return [partial(read, part) for code in sorted(texts) for part in cut(texts[code], self.batch_size)]

    def test_dataloader(self) -> Batches:
        """All batches of this process: as many as each other has, perhaps with an empty one at the end."""
        tally = FaultTally("evaluation", self.max_bad_share)
        return Batches(self.parts, self.trainer, self.workers, self.start_method, tally)


def find_translations(rows: TextRows, choice: TextChoice, pivot: str) -> dict[str, Int64[np.ndarray, "N 2"]]:
    """Texts with a translation in the pivot language, one a sample, by language; languages sorted.

    Args:
        rows: All texts.
        choice: Which of them; of a sample's texts in a language that it takes, the first.
        pivot: Code of the language.

    Returns:
        Pairs (number of the text, number of the pivot's text), ascending.

    Raises:
        ValueError: A language or role that is asked for is in no sample, or the pivot is.
    """
    if pivot not in rows.languages:
        raise ValueError(f"no text in {pivot}, the pivot; languages found: {', '.join(rows.languages) or 'none'}")
    taken, sample = rows.taken(choice), rows.sample
    first = {}
    for place, code in enumerate(rows.languages):
        numbers = np.flatnonzero(taken & (rows.language == place))
        first[code] = numbers[np.unique(sample[numbers], return_index=True)[1]]
    partner = np.full(rows.samples, -1)
    partner[sample[first[pivot]]] = first[pivot]
    found = {}
    for code, numbers in sorted(first.items()):
        pairs = np.stack([numbers, partner[sample[numbers]]], axis=1)
        if code != pivot and len(numbers):
            found[code] = pairs[pairs[:, 1] >= 0]
    return found


def draw(pairs: Int64[np.ndarray, "N 2"], limit: int | None, seed: int) -> Int64[np.ndarray, "_ 2"]:
    """At most `limit` pairs, in their order: those whose pivot's text has the lowest lot, whatever the language."""
    if limit is None or len(pairs) <= limit:
        return pairs
    lots = chance(salt("sentence retrieval"), seed, torch.from_numpy(pairs[:, 1])).numpy()
    return pairs[np.sort(np.argsort(lots, kind="stable")[:limit])]


def by_reading(told: Told) -> Identities:
    """Texts that read alike are the same; translations are one sample."""
    return Identities([reads_as(caption.text) for caption in told.captions], told.owners)


def reads_as(text: str) -> int:
    """Identity of a text, 63 bits: equal for texts that are equal after normalisation, whatever a tokenizer makes of them."""
    return int.from_bytes(hashlib.blake2b(normalize(text).encode(), digest_size=8).digest(), "little") >> 1
