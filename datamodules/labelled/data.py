"""Labelled text as a Lightning data module: fine-tuning in one language or several, evaluation in many."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from lightning import LightningDataModule
from lightning.pytorch.utilities import rank_zero_info, rank_zero_only

from ...modalities.batch import Batch
from ...modalities.tokenizer import Tokenizer
from ..dealing import Batches, check_numbers, on_cuda
from ..faults import FaultTally
from ..shards.lines import Lines
from ..steps import StepNumbers, Steps, Tallied, load
from .layout import Format, Layout
from .overlap import TOLD, count_shared, unseen
from .reading import LABELS, LabelledReader, hash_classes
from .sentence_layout import SentenceLayout
from .splits import Files, Found, draw_few, hold_out, list_files, read_split, tell_unknown

log = logging.getLogger(__name__)

LOOKED_AT = 10_000
"""Examples of a split, evenly spread, that are cut into pieces to say how many lose some."""


SHOWN = 20
"""Labels that are named where there are more."""


class Amount(NamedTuple):
    """How much of the source is read at a time, as models ask of any source."""

    batch_size: int
    micro_batch_size: int | None
    pack: bool = False
    batch_tokens: None = None
    micro_batch_tokens: None = None


class Labelled(LightningDataModule):
    """Endless training steps and fixed batches for evaluation of texts that people have labelled.

    A batch of training holds any languages, one of evaluation a single one, and `Batch.target` says what is right.
    `Batch.sample` is the number of an example in its split. Training is counted in steps and its order is arithmetic, as that
    of `Shards`: an epoch holds every example once, and a run resumes exactly with any number of workers and processes.

    Zero-shot transfer trains on one language and evaluates in all: `train: {en: FILE}`, `validation: {en: FILE, de: FILE}`.
    Translate-train names several languages in `train`, few-shot names them in `limit` as well.

    The batches of training and of validation are of the source `name`, those to test on of `NAME/validation`, which comes
    first, and `NAME/test`: so that a checkpoint can be chosen by the one and judged by the other.

    Attributes:
        labels: Names of the classes, by their number.
        examples: Records by source of the batches to test on; `Batch.sample` numbers them.
    """

    def __init__(
        self,
        format: Format,
        tokenizer: str,
        train: Files | None = None,
        validation: Files | None = None,
        test: Files | None = None,
        labels: list[str] | str | None = None,
        layout: Layout | None = None,
        max_tokens: int = 128,
        batch_size: int = 32,
        micro_batch_size: int | None = None,
        limit: dict[str, int] | int | None = None,
        bucket: int = 0,
        held_out: float = 0.0,
        test_format: Format | None = None,
        seed: int = 0,
        workers: int = 2,
        start_method: str | None = None,
        name: str = "labelled",
    ):
        """
        Args:
            format: What reads the files (`Xnli`, `JsonLines`, `ConllU`, `Squad`, ...).
            tokenizer: Tokenizer file.
            train: Files by language: `{en: FILE}`, or `{en: [FILE, FILE], de: FILE}`. Of a file that says the languages of its
                examples, a language takes only its own; without languages (`FILE`) all that the tokenizer knows are read.
            validation: The same, of what a run is watched by and chosen by.
            test: The same, of what is to be reported.
            labels: Names of the classes, in the order of their numbers; or a file with a name a line.
            layout: How examples stand in rows, for their kind; None: `SentenceLayout()`.
            max_tokens: Longest row, control tokens included.
            batch_size: Examples of one optimiser step, over all processes.
            micro_batch_size: Examples that a process reads forward and backward at once, and of a batch of evaluation; None:
                all of its share, and `batch_size`.
            limit: Few-shot: how many examples of each language, or of some languages, are trained on; None: all.
            bucket: Which few these are: buckets of other numbers are drawn independently, and equal for all runs.
            held_out: Where there is no validation set: the share, by chance over texts, of the examples of the files of `train`
                and `validation` that are validated on, and never trained on. 0: these files are read whole.
            test_format: What reads the files of `test`, where they are of another format; None: `format`.
            seed: Of the order.
            workers: Processes that read ahead for each training process.
            start_method: How they are started (`fork`, `spawn`, `forkserver`); None: the platform's own way.
            name: Source of the batches, as the passes of training know it.

        Raises:
            ValueError: A number is out of range, or the labels are missing, not needed, or not different.
        """
        super().__init__()
        check_numbers(workers, max_tokens, batch_size, start_method, seed, bucket)
        for option, found in (("micro_batch_size", micro_batch_size), *_named_limits(limit)):
            if found is not None and found < 1:
                raise ValueError(f"data.{option} is {found}; give at least 1 example, or null")
        if not 0 <= held_out < 1:
            raise ValueError(f"data.held_out is {held_out}; it is a share: give a number from 0 to below 1")
        if held_out and (train is None or validation is None):
            raise ValueError("data.held_out parts the examples of `train` and `validation`; give both, perhaps the same files")
        self.format, self.test_format, self.files = format, test_format or format, {"train": train, "test": test}
        self.files["validation"] = validation
        self.layout = layout or SentenceLayout()
        self.labels = read_labels(labels, self.layout)
        self.classes = {"": -1, **{label: number for number, label in enumerate(self.labels)}}
        self.tokenizer, self.max_tokens = Tokenizer(tokenizer), max_tokens
        self.batch_size, self.micro_batch_size = batch_size, micro_batch_size
        self.limit, self.bucket, self.held_out, self.seed, self.name = limit, bucket, held_out, seed, name
        self.workers, self.start_method = workers, start_method
        self.sources = {} if train is None else {name: Amount(batch_size, micro_batch_size)}
        self.validation = {} if validation is None else {name: Amount(batch_size, micro_batch_size)}
        self.examples: dict[str, list[Any]] = {}
        self.readers: dict[str, LabelledReader] = {}
        self._told: set[str] = set()
        self._tallied: Tallied | None = None
        if not validation:
            self.val_dataloader = super().val_dataloader  # type: ignore[method-assign]  # as if not written: Lightning then skips validation

    def setup(self, stage: str) -> None:
        """Read the files of the splits that the stage needs.

        Raises:
            FileNotFoundError, ValueError: A file cannot be read as configured; it is named.
        """
        wanted = {"fit": ("train", "validation"), "validate": ("validation",), "test": ("validation", "test")}
        for split in wanted.get(stage, ()):
            if split not in self.readers and self.files[split] is not None:
                self.readers[split] = self._open(split)
        if stage == "fit" and {"train", "validation"} <= self.readers.keys():
            trained, watched = ({one.language for one in self.readers[split].records} for split in ("train", "validation"))
            if trained - watched:
                log.warning(
                    "data.validation: nothing in %s, which is trained in: no checkpoint can be chosen by it",
                    ", ".join(sorted(trained - watched)),
                )
        self._compare(*wanted.get(stage, ()))
        if stage == "test":
            there = [split for split in wanted["test"] if split in self.readers]
            self.examples = {f"{self.name}/{split}": list(self.readers[split].records) for split in there}

    def _compare(self, *splits: str) -> None:
        """Refuse a split that repeats another, file by file; say so where it has some of the same texts.

        Raises:
            ValueError: One file is read whole for both.
        """
        if len(splits) < 2 or not self.readers.keys() >= set(splits):
            return
        first, second = splits
        shared, of = count_shared(self.readers[second].records, self.readers[first].records)
        both = set(list_files(self.files[first])) & set(list_files(self.files[second]))
        if both and shared == of and not self.held_out:
            raise ValueError(
                f"data.{second}: all of its {of} examples are those of data.{first}, read from {min(both)}; give it files "
                "of its own, or part one file by `held_out`"
            )
        if shared > TOLD * of:
            log.warning(
                "data.%s: %d of its %d examples, in languages that are in both, have the texts of examples of data.%s: figures "
                "on them tell little of others",
                *(second, shared, of, first),
            )

    def _open(self, split: str) -> LabelledReader:
        format = self.test_format if split == "test" else self.format
        found = read_split(split, self.files[split], format, self.layout, self.classes, self.tokenizer.languages)
        records = found.records
        if self.held_out and split != "test":
            records = hold_out(records, self.held_out, held=split == "validation")
        if split == "train" and self.limit is not None:
            records = self._draw(records)
        if not records:
            raise ValueError(
                f"data.{split}: held_out {self.held_out} leaves no example, as it parts texts by chance, and there are few; "
                "change it, or give files of validation without it"
            )
        reader = self._reader(self.name, records)
        try:
            self.layout.lay(records[:1], self.classes, self.tokenizer, self.max_tokens)
        except ValueError as error:
            raise ValueError(f"data.layout, of the first example of {split}: {error}") from None
        self._tell(split, found, records)
        return reader

    @rank_zero_only
    def _tell(self, split: str, found: Found, records: list[Any]) -> None:
        """Say in a line what of a split is read, of how much, and what of it is not."""
        kept, there = (Counter(record.language for record in some) for some in (records, found.records))
        parts = ", ".join(f"{code} {_of(kept[code], there[code])}" for code in sorted(there))
        bare = Counter(record.language for record in records if not self.layout.is_labelled(record))
        left_out = []
        if split == "train" and self.layout.classifies:
            never = unseen(self.labels, (name for record in records for name in self.layout.names(record)))
            if never:
                left_out.append(f"{len(never)} of {len(self.labels)} labels stand nowhere in it ({_shown(never)})")
        if found.unknown:
            new = set(found.unknown) - self._told
            self._told |= new
            languages = tell_unknown(found.unknown) if new else "the same languages"
            left_out.append(f"{found.unknown.total()} left out, in {languages}")
        if bare:
            left_out.append(f"{bare.total()} without a label, which are not scored ({_by_language(bare)})")
        name = "training" if split == "train" else split
        line = "; ".join([f"{name}: {_of(len(records), len(found.records))} examples ({parts})", *left_out])
        (log.warning if left_out else rank_zero_info)(line)
        looked_at = records[:: -(-len(records) // LOOKED_AT)]
        cut = self.layout.count_cut(looked_at, self.tokenizer, self.max_tokens)
        if cut:
            of = "" if len(looked_at) == len(records) else " that were looked at"
            log.warning(
                f"{name}: {cut.total()} of {len(looked_at)} examples{of} are longer than {self.layout.bound} allows, and lose "
                f"their last pieces ({_by_language(cut)})"
            )

    def _reader(self, name: str, records: list[Any]) -> LabelledReader:
        sizes = self.max_tokens, self.batch_size, self.micro_batch_size
        return LabelledReader(name, records, self.layout, self.classes, self.tokenizer, *sizes, self.seed)

    def _draw(self, records: list[Any]) -> list[Any]:
        there = Counter(record.language for record in records)
        limits: Any = self.limit if isinstance(self.limit, dict) else dict.fromkeys(there, self.limit)
        for language in limits:
            if language not in there:
                raise ValueError(
                    f"data.limit.{language}: no example in this language is trained on, only in {', '.join(sorted(there))}"
                )
        drawn = draw_few(records, limits, self.bucket)
        kept = Counter(record.language for record in drawn)
        level = logging.WARNING if any(kept[code] < most for code, most in limits.items()) else logging.INFO
        found = ", ".join(f"{kept[code]} of {there[code]} in {code}, limit {limits[code]}" for code in sorted(limits))
        log.log(level, "bucket %d: %s", self.bucket, found)
        return drawn

    def train_dataloader(self) -> Tallied:
        """All steps from the next one to train on, without end.

        Raises:
            ValueError: There is nothing to train on.
        """
        trainer: Any = self.trainer
        steps = Steps([self._get("train")], trainer.global_rank, trainer.world_size, end=trainer.max_steps)
        loader = load(steps, StepNumbers(lambda: trainer.global_step), self.workers, on_cuda(trainer), self.start_method)
        self._tallied = Tallied(loader, FaultTally("training", 1.0))
        return self._tallied

    def val_dataloader(self) -> Batches:
        """All validation batches of this process: as many as each other has, perhaps with an empty one at the end."""
        return self._once(self._get("validation"))

    def test_dataloader(self) -> Batches:
        """The same of validation and of test, each under a name of its own.

        Raises:
            ValueError: There is neither.
        """
        self.read_first()
        return self._once(*(self._reader(name, records) for name, records in self.examples.items()))

    def read_first(self) -> tuple[str, Batch]:
        """The first example to test on, after `setup("test")`: its source, and its rows.

        Raises:
            ValueError: There is nothing to test on.
        """
        if not self.examples:
            raise ValueError("data.test: nothing to test on; give `test` or `validation`, files by language")
        source, records = next(iter(self.examples.items()))
        return source, self._reader(source, records[:1]).once()[0]().batch

    def _get(self, split: str) -> LabelledReader:
        if split not in self.readers:
            raise ValueError(f"data.{split}: no files are given; give them by language, such as {{en: FILE}}")
        return self.readers[split]

    def _once(self, *readers: LabelledReader) -> Batches:
        parts = [part for reader in readers for part in reader.once()]
        return Batches(parts, self.trainer, self.workers, self.start_method, FaultTally("evaluation", 1.0))

    def state_dict(self) -> dict[str, Any]:
        """What the order of training depends on, and the labels; the position is the trainer's `global_step`."""
        if "train" not in self.readers:
            return {}
        return {"order": {"seed": self.seed, "name": self.name, **self.readers["train"].order}, "labels": list(self.labels)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Refuse to go on with another order than that of the checkpoint, or to measure with other labels.

        Raises:
            ValueError: Seed, examples, labels or batch size differ; both are named.
        """
        now, before = self.state_dict().get("order"), state_dict.get("order", {})
        if before.get(LABELS, hash_classes(self.classes)) != hash_classes(self.classes):
            raise ValueError(tell_labels(self.labels, state_dict.get("labels")))
        if now is None:  # nothing is trained
            return
        names = sorted({*now, *before})
        different = [
            f"{name}: checkpoint {before.get(name, 'none')}, now {now.get(name, 'none')}"
            for name in names
            if now.get(name) != before.get(name)
        ]
        if different:
            raise ValueError(
                f"the data are not those of the checkpoint ({'; '.join(different)}), so that its position means nothing: "
                "resume with the same data, or start a new run from its weights"
            )

    def report(self) -> dict[str, float]:
        """How often the examples have been gone through, and the share of padding as this process has read them."""
        trainer: Any = self.trainer
        if trainer is None or "train" not in self.readers:
            return {}
        reader = self.readers["train"]
        found = {f"data/{self.name}/epochs": trainer.global_step * self.batch_size / len(reader.records)}
        padding = {} if self._tallied is None else self._tallied.padding
        return found | {f"data/{name}/padding": share for name, share in padding.items()}


def read_labels(labels: list[str] | str | None, layout: Layout) -> list[str]:
    """Names of classes, as configured or from their file.

    Raises:
        ValueError: There are none where there should be, their file is no text, or there are where nothing is classified; or
            a name is blank or stands twice.
        FileNotFoundError: There is no such file.
    """
    if not layout.classifies:
        if labels:
            raise ValueError(f"data.labels: {type(layout).__name__} knows no classes; leave them out")
        return []
    if not labels:
        raise ValueError("data.labels: nothing sets them; give the names of all classes, or a file with a name a line")
    if isinstance(labels, str):
        if not Path(labels).is_file():
            raise FileNotFoundError(f"data.labels: there is no file {labels}; give one with a name a line, or a list of names")
        with Lines(Path(labels)) as lines:
            labels = [line.strip() for line in lines if line.strip()]
    odd = [name for name, count in Counter(labels).items() if count > 1 or not name.strip()]
    if odd or not labels:
        raise ValueError(f"data.labels: names must be different and not blank; found {', '.join(map(repr, odd)) or 'none'}")
    return list(labels)


def tell_labels(now: Sequence[str], before: Sequence[str] | None) -> str:
    """What to say where labels are not those that were trained on.

    Args:
        now: As configured.
        before: In the checkpoint; None: it holds no more than a hash of them.
    """
    if before is None:
        was = "the checkpoint was trained with others, or in another order"
    else:
        pairs = enumerate(zip_longest(now, before, fillvalue="none"))
        place, (ours, theirs) = next((place, pair) for place, pair in pairs if pair[0] != pair[1])
        was = f"the checkpoint's are {_shown(before)}: label {place} is {ours!r}, and was {theirs!r}"
    return (
        f"data.labels are {_shown(now)}, but {was}, so that classes would be taken for each other; give `data.labels` the same "
        "names in the same order"
    )


def _shown(labels: Sequence[str]) -> str:
    return (", ".join(labels[:SHOWN]) or "none") + (f", ... ({len(labels)} in all)" if len(labels) > SHOWN else "")


def _of(kept: int, there: int) -> str:
    return str(kept) if kept == there else f"{kept} of {there}"


def _by_language(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{language} {count}" for language, count in sorted(counts.items()))


def _named_limits(limit: dict[str, int] | int | None) -> list[tuple[str, int | None]]:
    if isinstance(limit, dict):
        return [(f"limit.{language}", count) for language, count in limit.items()]
    return [("limit", limit)]
