"""Training and validation data as a Lightning data module."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from lightning import LightningDataModule

from ..modalities.tokenizer import Tokenizer
from .dealing import Batches, check_numbers, on_cuda
from .draws import MixedDraws
from .faults import FaultTally
from .mixture import Mixed, Mixture, check_mixtures
from .parts import ByTokens
from .reading import Reader
from .selection import find_languages, find_samples
from .shards.reader import ShardSet
from .source import Source
from .steps import StepNumbers, Steps, Tallied, load

log = logging.getLogger(__name__)


class Shards(LightningDataModule):
    """Endless training steps and fixed validation batches from shards.

    Training is counted in steps (`max_epochs: -1`, `max_steps`, `val_check_interval` in steps) and starts, or goes on
    after a checkpoint, at the step after those that were trained, with any number of workers or processes: the order is
    that of `order`, and what loaders have read ahead does not matter.

    Validation reads each source language by language: a batch holds one source and one language (of the translation,
    where there is one, else of the text), every sample once over all processes, the same text of it each time.
    """

    def __init__(
        self,
        sources: dict[str, Source],
        tokenizer: str | None = None,
        max_tokens: int = 128,
        validation: dict[str, Source] | None = None,
        seed: int = 0,
        workers: int = 2,
        start_method: str | None = None,
        max_bad_share: float = 0.02,
        mixtures: dict[str, Mixture] | None = None,
    ):
        """
        Args:
            sources: What is read, by name; a step reads all in this order, but for those of `mixtures`.
            tokenizer: Tokenizer file; None where no text is read.
            max_tokens: Longest text, start and end token included.
            validation: What is validated on, by the names that the passes of training know.
            seed: Of order, choice of texts and augmentation.
            workers: Processes that read ahead for each training process.
            start_method: How they are started (`fork`, `spawn`, `forkserver`); None: the platform's own way.
            max_bad_share: Share of samples that cannot be read, above which reading is an error; each process judges by
                its own rows.
            mixtures: Groups of sources, by a name of your own, of which a step reads one each.

        Raises:
            ValueError: A mixture names a source that is not there, or that is in another; or a passage in two languages is to
                be validated on.
        """
        super().__init__()
        check_numbers(workers, max_tokens, start_method=start_method, seed=seed)
        self.mixtures = mixtures or {}
        check_mixtures(self.mixtures, sources)
        self.sources, self.validation = sources, validation or {}
        for name, source in self.validation.items():
            if source.alternate is not None:
                raise ValueError(
                    f"validation.{name}: validation reads one language at a time, but the passages of `alternate` are in two; "
                    "leave alternate out (sentences with their translations), and translation, too (sentences)"
                )
        self.tokenizer = None if tokenizer is None else Tokenizer(tokenizer)
        self.max_tokens, self.seed, self.max_bad_share = max_tokens, seed, max_bad_share
        self.workers, self.start_method = workers, start_method
        self.readers: list[Reader] = []
        self.validation_readers: list[Reader] = []
        self._mixed: list[Mixed] = []
        self._tallied: Tallied | None = None
        if not self.validation:
            self.val_dataloader = super().val_dataloader  # type: ignore[method-assign]  # as if not written: Lightning then skips validation

    def prepare_data(self) -> None:
        """Index the shards, once for all processes of a machine."""
        for source in (*self.sources.values(), *self.validation.values()):
            open_shards(source)

    def setup(self, stage: str) -> None:
        """Open the shards.

        Raises:
            FileNotFoundError, ValueError: A source cannot be read as configured; it is named.
        """
        if stage == "fit" and not self.readers:
            self.readers = [self._open(name, source) for name, source in self.sources.items()]
            self._mixed = [self._mix(name, mixture) for name, mixture in self.mixtures.items()]
        if stage in ("fit", "validate") and not self.validation_readers:
            for name, source in self.validation.items():
                self.validation_readers += self._open_by_language(name, source)

    def _open(self, name: str, source: Source) -> Reader:
        shards = open_shards(source)
        tally = FaultTally(f"source {name}", self.max_bad_share)
        tally.add(len(shards), shards.faults)
        reader = self._reader(name, source, shards)
        tally.add(-len(reader.faults), reader.faults)
        log.info("source %s %s", name, reader.summary)
        return reader

    def _open_by_language(self, name: str, source: Source) -> list[Reader]:
        whole = self._open(name, source)
        choice = source.translation or source.text
        languages = [] if choice is None else find_languages(choice, whole.texts)
        sources = [source.in_language(language) for language in languages] or [source]
        return [
            self._reader(name, one, whole.shards, augment=False)
            for one in sources
            if len(find_samples(one, whole.shards, whole.texts)[0])
        ]

    def _reader(self, name: str, source: Source, shards: ShardSet, augment: bool = True) -> Reader:
        return Reader(name, source, shards, self.tokenizer, self.max_tokens, self.seed, augment)

    def _mix(self, name: str, mixture: Mixture) -> Mixed:
        readers = {reader.name: reader for reader in self.readers}
        return Mixed(name, mixture, {one: readers[one].size(mixture.by) for one in mixture.sources}, self.seed)

    def train_dataloader(self) -> Tallied:
        """All steps from the next one to train on, without end."""
        trainer: Any = self.trainer
        steps = Steps(self.readers, trainer.global_rank, trainer.world_size, self._mixed, trainer.max_steps)
        numbers = StepNumbers(lambda: trainer.global_step)
        numbers_at_end = self._steps_of_sources(trainer.max_steps) if trainer.max_steps > 0 else {}
        for reader in self.readers:
            reader.check_end(numbers_at_end.get(reader.name, 0))
        loader = load(steps, numbers, self.workers, on_cuda(trainer), self.start_method)
        self._tallied = Tallied(loader, FaultTally("training", self.max_bad_share))
        return self._tallied

    def val_dataloader(self) -> Batches:
        """All validation batches of this process: as many as each other has, perhaps with an empty one at the end."""
        parts = [partial(reader.read, *part) for reader in self.validation_readers for part in reader.once()]
        tally = FaultTally("validation", self.max_bad_share)
        return Batches(parts, self.trainer, self.workers, self.start_method, tally)

    def state_dict(self) -> dict[str, Any]:
        """What the order of training depends on, and how far it is planned; the position is the trainer's `global_step`."""
        mixtures = {name: mixed.order for name, mixed in zip(self.mixtures, self._mixed, strict=False)}
        order = {"seed": self.seed, "sources": {reader.name: reader.order for reader in self.readers}, "mixtures": mixtures}
        return {"order": order, "planned": self._plan_to_here()}

    def _plan_to_here(self) -> dict[str, list[int]]:
        """Micro-batches before each block so far, of sources whose steps are made of tokens: resuming jumps with it."""
        planned, numbers = {}, self._steps_of_sources(self._step)
        for reader in self.readers:
            if isinstance(reader.parts, ByTokens):
                reader.parts.draws_before(numbers[reader.name])
                planned[reader.name] = list(reader.parts.before)
        return planned

    def _steps_of_sources(self, until: int) -> dict[str, int]:
        """How many of the steps before one read each source."""
        numbers = {reader.name: until for reader in self.readers}
        for mixture in self._mixed:
            numbers |= mixture.steps_before(until)
        return numbers

    def report(self) -> dict[str, float]:
        """What has been drawn so far, by log key: of mixed sources and languages their share, and the epochs of each
        language; of each text the share of padding, as this process has read it since it started.

        Exact at the borders of blocks; between them, of a source whose steps are made of tokens, to within a block.
        """
        numbers = self._steps_of_sources(self._step)
        found = {
            f"data/{mixture}/share/{name}": numbers[name] / max(1, self._step)
            for mixture, one in self.mixtures.items()
            for name in one.sources
        }
        for reader in self.readers:
            if isinstance(reader.draws, MixedDraws):
                drawn = reader.draws.drawn(reader.parts.draws_before(numbers[reader.name]))
                for stratum in reader.draws.strata:
                    key = f"data/{reader.name}"
                    found[f"{key}/share/{stratum.name}"] = drawn[stratum.name] / max(1, sum(drawn.values()))
                    found[f"{key}/epochs/{stratum.name}"] = drawn[stratum.name] / len(stratum.samples)
        if self._tallied is not None:
            found |= {f"data/{name}/padding": share for name, share in self._tallied.padding.items()}
        return found

    @property
    def _step(self) -> int:
        trainer: Any = self.trainer
        return trainer.global_step if trainer is not None else 0

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Refuse to go on with another order than that of the checkpoint.

        Raises:
            ValueError: Seed, sources, their samples or batch sizes differ; both are named.
        """
        if not self.readers:  # nothing is trained
            return
        now, before = flatten(self.state_dict()["order"]), flatten(state_dict.get("order", state_dict))
        different = [
            f"{name}: checkpoint {before.get(name, 'none')}, now {now.get(name, 'none')}"
            for name in sorted({*now, *before})
            if now.get(name) != before.get(name)
        ]
        if different:
            raise ValueError(
                f"the data are not those of the checkpoint ({'; '.join(different)}), so that its position means nothing: "
                "resume with the same data, or start a new run from its weights"
            )
        for reader in self.readers:
            if isinstance(reader.parts, ByTokens):
                reader.parts.before = list(state_dict["planned"][reader.name])


def open_shards(source: Source) -> ShardSet:
    """The shards of a source, indexed."""
    return ShardSet(source.shards, source.fields, cache=source.cache)


def flatten(state: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with names joined by dots."""
    flat: dict[str, Any] = {}
    for name, value in state.items():
        flat.update(flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value})
    return flat
