"""Sentence mining: which sentences of two collections translate each other, by an encoder's vectors; most do not.

BUCC 2018 as in XTREME (arXiv:2003.11080, section 3): ratio margin (arXiv:1811.01136), a threshold tuned on the gold pairs of
one split, F1 on another. A batch's source is called SPLIT/LANGUAGE and holds the texts of that language and those in the pivot
language that are searched; `batch.sample` joins translations, `batch.item` is equal for texts that read the same. Nothing is
trained. Writes `results.json` and `results.md`, the pairs that were taken, and a picture of other thresholds.
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import lightning
import numpy as np
import torch
from jaxtyping import Int64

from ..modalities.batch import Batch
from ..models.encoder import Encoder
from ..models.pooling import Pooling
from .language_names import language_name
from .mined_pairs import write_pairs
from .mining_chart import write_chart
from .mining_scores import Candidates, Way, are_right, count, find_candidates, interval, resample, tune
from .ranking import normalize
from .results import Record, write_results, write_table
from .sentence_page import Chart, Pair, Story, write_page
from .sentence_reading import Part, SentenceReader, refuse_broken
from .sentence_scores import Sentences, tell_margin
from .sentence_views import UNTRAINED, View

METRICS = ("F1", "precision", "recall")
SHOWN = 12
"""Pairs of each language on the page."""


class Collections(NamedTuple):
    """Both sides of a source, each text once, and which translate each other."""

    left: tuple[Sentences, ...]
    """By view; `sample` is one of the text's."""
    right: tuple[Sentences, ...]
    """In the pivot language."""
    gold: Int64[np.ndarray, "G 2"]
    """Rows of a text and of its translation."""
    samples: tuple[dict[int, list[int]], ...]
    """Of either side, all samples of each row's text."""


class Mined(NamedTuple):
    """What was mined of one language by one view."""

    candidates: Candidates
    right: np.ndarray
    """Which of them are translations."""
    collections: Collections


class SentenceMining(lightning.LightningModule):
    """Score an encoder of text by the translations that it finds among sentences without."""

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: str,
        checkpoint: str | None = None,
        output: str = "runs/mining",
        pivot: str = "en",
        tuned_on: str = "bucc/dev",
        layers: Sequence[int | None] = (None,),
        poolings: Sequence[Pooling] = ("mean",),
        margin: int | None = 4,
        way: Way = "max",
        untrained: bool = False,
        seed: int = 0,
    ):
        """
        Args:
            encoder: What is measured.
            tokenizer: Tokenizer file of the run.
            checkpoint: What the encoder's weights are taken from; None: the encoder as it is.
            output: Folder of the results; records of other evaluations there are kept.
            pivot: Language in which translations are searched.
            tuned_on: Source whose gold pairs tell each language's threshold, and which of several layers and poolings is
                reported: that of the best mean F1. All other sources are reported.
            layers: Blocks after which states are taken (0: before the first), all in one reading; null: what the encoder
                gives last, which is its vectors where it makes them.
            poolings: How states become a vector: `mean` over all tokens, controls included, or `first`.
            margin: Neighbours of the ratio margin; null: cosine alone.
            way: Which pairs are candidates: `forward`: for each text the best of its nearest in the pivot language; `backward`:
                for each text in the pivot language; `max`: of both, the highest score first, as long as neither text is taken.
            untrained: Report beside it what the encoder gets with random weights (those of `seed_everything`), with thresholds
                of its own, in the same reading; it costs as much again.
            seed: Of the bootstrap.

        Raises:
            ValueError: The encoder reads no text, or layers and poolings cannot be meant; or `untrained` without a checkpoint.
        """
        super().__init__()
        self.reader = SentenceReader(encoder, tokenizer, checkpoint, pivot, layers, poolings, margin, untrained)
        self.untrained = deepcopy(encoder) if untrained else None  # before a checkpoint fills it
        self.encoder, self.output, self.tuned_on, self.views = encoder, Path(output), tuned_on, self.reader.views
        self.margin, self.way, self.seed = margin, way, seed
        self.shown: dict[str, dict[str, list[Pair]]] = {}
        self.task = "sentence_mining" if way == "max" else f"sentence_mining_{way}"

    def setup(self, stage: str) -> None:
        sources = self.reader.check(self.encoder, getattr(self.trainer, "datamodule", None))
        if sources is not None:
            self._require_split(sources)
        self.reader.load(self.encoder, self.print)

    def _require_split(self, names: Sequence[str] | Mapping[str, object]) -> None:
        """Refuse to tune on what is reported: there must be a source for each."""
        if self.tuned_on not in names or len(names) < 2:
            raise ValueError(
                f"thresholds are tuned on {self.tuned_on!r} and reported on another source, but the data's sources are "
                f"{', '.join(names) or 'none'}; add the one that is missing, or name the right one by `model.tuned_on`"
            )

    def on_test_epoch_start(self) -> None:
        self.reader.start()

    def test_step(self, batch: Batch, index: int) -> None:
        self.reader.read(self.encoder, self.untrained, batch)

    def on_test_epoch_end(self) -> None:
        splits: dict[str, dict[str, Collections]] = {}
        for source, part in self.reader.collect().items():
            split, _, language = source.rpartition("/")
            splits.setdefault(split, {})[language] = self._arrange(part, language)
        self._require_split(splits)
        for split, languages in splits.items():
            lacking = ", ".join(sorted(languages.keys() - splits[self.tuned_on]))
            if lacking:
                raise ValueError(
                    f"{split} has {lacking}, but {self.tuned_on} has not: no threshold can be tuned for it; add its gold "
                    "pairs there, or leave it out"
                )
        reported, tuned = self._tune(splits.pop(self.tuned_on))
        records: list[Record] = []
        for split, languages in splits.items():
            for number, thresholds in reported.items():
                mined = {code: self._mine(texts, number, f"{split}/{code}") for code, texts in languages.items()}
                records += self._measure(mined, thresholds, f"{split}, {self.views[number].name}")
                if self.global_rank == 0 and not self.views[number].untrained:
                    self._write_mined(mined, thresholds, split, self.views[number])
        records += tuned
        means = [record for record in records if record.metric == "mean F1"]
        names = [f"{r.data}/{r.task}/F1".replace(", ", "_").replace(" ", "_") for r in means]  # as TensorBoard wants
        self.log_dict({name: record.value for name, record in zip(names, means, strict=True)}, rank_zero_only=True)
        if self.global_rank == 0:
            self._write(records, [f"{split}, {self.views[number].name}" for split in splits for number in reported])

    def _arrange(self, part: Part, language: str) -> Collections:
        """Each text once, in an order that knows neither the files' nor what translates what."""
        tokenizer, pivot = self.reader.tokenizer, self.reader.pivot
        numbers = {code: tokenizer.language_id(code) for code in (language, pivot)}
        found = {tokenizer.languages[number] for number in np.unique(part.language).tolist()}
        if found != set(numbers):
            raise ValueError(
                f"{part.source}: found texts in {', '.join(sorted(found))}; expected {language} and the pivot {pivot}, "
                "both and no other"
            )
        sides, rows, samples = [], [], []
        for number in numbers.values():
            own = np.flatnonzero(part.language == number)
            own = own[np.lexsort((part.sample[own], part.identity[own]))]
            _, first, place = np.unique(part.identity[own], return_index=True, return_inverse=True)
            columns = [torch.from_numpy(column[own[first]]) for column in (part.sample, part.identity)]
            sides.append(tuple(Sentences(*columns, torch.from_numpy(some[own[first]])) for some in part.vectors))
            rows.append(dict(zip(part.sample[own].tolist(), place.reshape(-1).tolist(), strict=True)))
            samples.append({})
            for sample, row in rows[-1].items():
                samples[-1].setdefault(row, []).append(sample)
        gold = sorted({(row, rows[1][sample]) for sample, row in rows[0].items() if sample in rows[1]})
        if not gold:
            raise ValueError(f"{part.source}: no text has a translation: nothing can be scored")
        for view, *both in zip(self.views, *sides, strict=True):
            refuse_broken(dict(zip(numbers, both, strict=True)), f"{part.source}, {view.name}")
        return Collections(*sides, np.array(gold), tuple(samples))

    def _mine(self, collections: Collections, view: int, name: str) -> Mined:
        told = tell_margin({name: min(len(side[view].vectors) for side in collections[:2])}, self.margin)
        if told is not None and view == 0:
            self.print(told)
        vectors = [normalize(side[view].vectors.to(self.device)) for side in collections[:2]]
        try:
            candidates = find_candidates(*vectors, self.margin, self.way)
        except ValueError as error:
            raise ValueError(f"{name}, {self.views[view].name}: {error}") from None
        return Mined(candidates, are_right(candidates, collections.gold), collections)

    def _tune(self, languages: Mapping[str, Collections]) -> tuple[dict[int, dict[str, float]], list[Record]]:
        """Each language's threshold by view that is reported, and records of the source that told them."""
        every: list[tuple[dict[str, float], list[Record]]] = []
        for number, view in enumerate(self.views):
            mined = {code: self._mine(texts, number, f"{self.tuned_on}/{code}") for code, texts in languages.items()}
            thresholds = {code: tune(one.candidates, one.right, len(one.collections.gold)) for code, one in mined.items()}
            every.append((thresholds, self._measure(mined, thresholds, f"{self.tuned_on}, {view.name}")))
        means = [records[-1].value for (_, records), view in zip(every, self.views, strict=True) if not view.untrained]
        chosen = max(range(len(means)), key=means.__getitem__)
        if len(means) > 1:
            self.print(f"chosen on {self.tuned_on}: {self.views[chosen].name}, mean F1 {100 * means[chosen]:.1f} %")
        others = [record for _, records in every for record in records if record.language == "all"]
        reported = [chosen, *([chosen + len(means)] if self.untrained is not None else [])]  # and its untrained twin
        records = [record for number in reported for record in every[number][1]]
        records += [record for record in others if record not in records]
        return {number: every[number][0] for number in reported}, records

    def _measure(self, mined: Mapping[str, Mined], thresholds: Mapping[str, float], data: str) -> list[Record]:
        """Records of all languages, and means over them, of which the mean F1 is the last."""
        records: list[Record] = []
        every: list[np.ndarray] = []
        for code, (candidates, right, (left, other, gold, _)) in mined.items():
            texts, limit = len(left[0].sample), thresholds[code]
            counts = count(candidates, right, len(gold), limit)
            drawn = resample(candidates, right, gold, limit, texts, seed=self.seed + len(every))
            figures = [(*one, *interval(drawn[:, place])) for place, one in enumerate(zip(METRICS, counts.shares, strict=True))]
            sizes = {"found size": counts.found, "right size": counts.right, "gold size": counts.gold}
            points = {"threshold": limit, **sizes, "gallery size": len(other[0].sample)}
            figures += [(name, *[float(value)] * 3) for name, value in points.items()]
            records += [Record(self.task, data, code, *figure, texts) for figure in figures]
            every.append(drawn)
        drawn, n = np.mean(every, axis=0), sum(record.n for record in records if record.metric == "F1")
        for place in (1, 2, 0):  # what the evaluation stands for comes last
            same = [record.value for record in records if record.metric == METRICS[place]]
            value = sum(same) / len(same)
            records.append(Record(self.task, data, "all", f"mean {METRICS[place]}", value, *interval(drawn[:, place]), n))
        return records

    def _write_mined(self, mined: Mapping[str, Mined], thresholds: Mapping[str, float], split: str, view: View) -> None:
        """The pairs that were taken, where the data tells their texts, and what other thresholds would have taken."""
        self.output.mkdir(parents=True, exist_ok=True)
        name, pivot = f"{split}, {view.name}", self.reader.pivot
        curves = {code: (one.candidates, one.right, len(one.collections.gold)) for code, one in mined.items()}
        write_chart(self._file(name, "png"), curves, thresholds, name, self.margin)
        tell = getattr(self.trainer.datamodule, "read_texts", None)
        for code, one in mined.items() if tell is not None else ():
            path = self._file(f"{split}, {code}, {view.name}", "tsv")
            sides = [tell(f"{split}/{code}", language) for language in (code, pivot)]
            samples = one.collections.samples
            taken = write_pairs(path, one.candidates, one.right, thresholds[code], samples, sides, (code, pivot))
            self.print(f"{taken} pairs of {split}/{code}: {path}")
            with open(path, encoding="utf-8") as lines:
                rows = [line.rstrip("\n").split("\t") for line in islice(lines, 1, 1 + SHOWN)]
            self.shown.setdefault(name, {})[code] = [(row[0], row[3], row[4], row[5] == "yes") for row in rows]

    def _file(self, name: str, ending: str) -> Path:
        plain = re.sub(r"[^-\w]+", "_", name).strip("_")
        return self.output / f"{self.task}_{plain}.{ending}"

    def _write(self, records: list[Record], reported: Sequence[str]) -> None:
        write_results(records, self.output)
        for name in reported:
            table = [record for record in records if record.data == name]
            self.print(f"\n{self.task.replace('_', ' ').capitalize()}, {name}, shares in per cent:\n\n{write_table(table)}")
        for name in (name for name in reported if not name.endswith(UNTRAINED)):
            self._write_page(name, *([r for r in records if r.data == data] for data in (name, name + UNTRAINED)))
        self.print(f"All figures: {self.output / 'results.md'}")

    def _write_page(self, name: str, own: Sequence[Record], untrained: Sequence[Record]) -> None:
        pivot, count = language_name(self.reader.pivot), sum(record.metric == "F1" for record in own)
        story = Story(
            f"Sentence mining on {name}",
            f"Translations of {count} language{'s' * (count != 1)} mined among sentences in {pivot}",
            "Most sentences have no translation on the other side. Pairs are taken that score at least a threshold, which was "
            f"tuned on {self.tuned_on}, for each language apart.",
            "With 95 % intervals (sentences are drawn again; thresholds stay).",
        )
        charts = [Chart(metric, metric, own, untrained) for metric in METRICS]
        write_page(self._file(name, "html"), story, charts, self.shown.get(name), pivot)
