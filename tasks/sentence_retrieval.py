"""Sentence retrieval: find the translation of a sentence among the sentences of another language, by an encoder's vectors.

Tatoeba (arXiv:1812.10464, section 4.4), as in XTREME (arXiv:2003.11080, section 3) by the mean of a layer's states, but with
both directions reported. Test batches hold texts of one language; `batch.sample` joins translations, `batch.item` is
equal for texts that read the same. Nothing is trained. Writes `results.json`, `results.md` and a picture a source, of
several layers and poolings one more. Where none of them is chosen, none is reported: there are their means alone.
"""

import re
from collections.abc import Iterable, Sequence
from copy import deepcopy
from itertools import zip_longest
from pathlib import Path

import lightning
import numpy as np
import torch

from ..modalities.batch import Batch
from ..models.encoder import Encoder
from ..models.pooling import Pooling
from .language_names import language_name
from .results import Record, explain, write_results, write_summaries, write_table
from .sentence_chart import by, by_language, find_metric, write_chart
from .sentence_heat_map import write_heat_map
from .sentence_page import Chart, Story, write_page
from .sentence_reading import Part, SentenceReader, refuse_broken, refuse_same_data
from .sentence_scores import ACCURACY, Sentences, measure, tell_margin
from .sentence_views import View

NONE_CHOSEN, ON_ITSELF = " (none chosen)", " (chosen on itself)"
"""Stands behind the names of views that nothing, or nothing else than what is reported, tells apart; `results` explains it."""


class SentenceRetrieval(lightning.LightningModule):
    """Score an encoder of text by how it finds translations."""

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: str,
        checkpoint: str | None = None,
        output: str = "runs/sentences",
        pivot: str = "en",
        layers: Sequence[int | None] = (None,),
        poolings: Sequence[Pooling] = ("mean",),
        chosen_on: str | None = None,
        margin: int | None = 4,
        untrained: bool = False,
        seed: int = 0,
    ):
        """
        Args:
            encoder: What is measured.
            tokenizer: Tokenizer file of the run.
            checkpoint: What the encoder's weights are taken from; None: the encoder as it is.
            output: Folder of the results; records of other evaluations there are kept.
            pivot: Language that all others are paired with.
            layers: Blocks after which states are taken (0: before the first), all in one reading; null: what the encoder
                gives last, which is its vectors where it makes them.
            poolings: How states become a vector: `mean` over all tokens, controls included, or `first`.
            chosen_on: Source by which one of several layers and poolings is chosen, by mean accuracy by cosine; all others are
                reported, and must read other files. Of views that are not chosen only means are given. None: of several,
                none is chosen.
            margin: Neighbours of the ratio margin, reported beside cosine; null: cosine alone.
            untrained: Report beside it what the encoder gets with random weights (those of `seed_everything`), in the same
                reading; it costs as much again.
            seed: Of the bootstrap.

        Raises:
            ValueError: The encoder reads no text, or layers and poolings cannot be meant; or `untrained` without a checkpoint.
        """
        super().__init__()
        self.reader = SentenceReader(encoder, tokenizer, checkpoint, pivot, layers, poolings, margin, untrained)
        self.untrained = deepcopy(encoder) if untrained else None  # before a checkpoint fills it
        self.encoder, self.output, self.pivot = encoder, Path(output), pivot
        self.views = [view for view in self.reader.views if not view.untrained]
        self.margin, self.seed, self.chosen_on = margin, seed, chosen_on

    def setup(self, stage: str) -> None:
        sources = self.reader.check(self.encoder, getattr(self.trainer, "datamodule", None))
        if self.chosen_on is not None and sources is not None:
            if self.chosen_on not in sources:
                raise ValueError(f"chosen_on is {self.chosen_on!r}, but the data's sources are {', '.join(sources)}")
            refuse_same_data(sources, self.chosen_on, "chosen_on")
        self.reader.load(self.encoder, self.print)

    def on_test_epoch_start(self) -> None:
        self.reader.start()

    def test_step(self, batch: Batch, index: int) -> None:
        self.reader.read(self.encoder, self.untrained, batch)

    def on_test_epoch_end(self) -> None:
        found = {source: self._arrange(part) for source, part in self.reader.collect().items()}
        if not found:
            raise ValueError("no sentence to search: the test data gave no batch; check `data.sources`")
        chosen, note = self._choose(found), self._note(found)
        records: list[Record] = []
        for source, views in found.items():
            for view, texts in zip(self.reader.views, views, strict=True):
                only_means = view._replace(untrained=False) != chosen
                records += measure(texts, self.pivot, f"{source}, {view.name}{note}", self.margin, self.seed, only_means)
        self._log(records)
        galleries: dict[str, int] = {}
        for one in records:
            if one.metric == "gallery size":
                name = f"{one.data.partition(', ')[0]}/{one.language}"
                galleries[name] = min(int(one.value), galleries.get(name, int(one.value)))
        if told := tell_margin(galleries, self.margin):
            self.print(told)
        if self.global_rank == 0:
            self._write(records, found.keys(), chosen, note)

    def _arrange(self, part: Part) -> list[dict[str, Sentences]]:
        """Texts of a source by view and language, in an order that depends on nothing but the data; each once."""
        source, sample, language, identity, every = part
        rows = {}
        for number in np.unique(language).tolist():
            own = np.flatnonzero(language == number)
            rows[self.reader.tokenizer.languages[number]] = own[np.unique(sample[own], return_index=True)[1]]
        if self.pivot not in rows:
            raise ValueError(f"{source}: no text in {self.pivot}, the pivot; languages read: {', '.join(rows)}")
        lost = sum(int((~np.isin(sample[own], sample[rows[self.pivot]])).sum()) for own in rows.values())
        if lost:
            self.print(f"{source}: {lost} texts are left out, since the {self.pivot} text of their sample could not be read")
        views = []
        for view, vectors in zip(self.reader.views, every, strict=True):
            texts = {
                code: Sentences(*(torch.from_numpy(column[own]) for column in (sample, identity, vectors)))
                for code, own in rows.items()
            }
            refuse_broken(texts, f"{source}, {view.name}")
            views.append(texts)
        return views

    def _choose(self, found: dict[str, list[dict[str, Sentences]]]) -> View | None:
        """The view that is reported; None: of several, none was chosen."""
        if len(self.views) == 1:
            return self.views[0]
        if self.chosen_on is None:
            return None
        if self.chosen_on not in found:
            raise ValueError(f"chosen_on is {self.chosen_on!r}, but the sources read are {', '.join(found)}")
        means = []
        for texts in found[self.chosen_on][: len(self.views)]:
            records = measure(texts, self.pivot, self.chosen_on, None, self.seed, only_means=True)
            means.append(sum(record.value for record in records) / len(records))
        best = max(range(len(means)), key=means.__getitem__)
        self.print(f"chosen on {self.chosen_on}: {self.views[best].name}, mean {ACCURACY} {100 * means[best]:.1f} %")
        return self.views[best]

    def _note(self, sources: Iterable[str]) -> str:
        """What must be said of every figure of several views."""
        if len(self.views) == 1:
            return ""
        if self.chosen_on is None:
            return NONE_CHOSEN
        return ON_ITSELF if set(sources) == {self.chosen_on} else ""

    def _log(self, records: Sequence[Record]) -> None:
        means = [record for record in records if record.metric == f"mean {ACCURACY}"]
        # Every rank has the same figures: nothing is left to reduce.
        names = [re.sub(r"[^-/\w.]+", "_", f"{r.data}/{r.task}/{r.metric}") for r in means]  # as TensorBoard wants
        self.log_dict({name: record.value for name, record in zip(names, means, strict=True)}, rank_zero_only=True)

    def _write(self, records: list[Record], sources: Iterable[str], chosen: View | None, note: str) -> None:
        reported = [source for source in sources if source != self.chosen_on] or list(sources)
        tables: dict[str, list[list[Record]]] = {}
        for record in records:
            ways = tables.setdefault(record.data, [])
            if not ways or ways[-1][0].task != record.task:
                ways.append([])
            ways[-1].append(record)
        twin = [] if chosen is None or self.untrained is None else [chosen._replace(untrained=True)]
        first = [f"{source}, {view.name}{note}" for source in reported for view in (chosen, *twin) if view is not None]
        write_results(sorted(records, key=lambda record: record.data not in first), self.output)  # what is reported first
        for source in reported:
            if chosen is not None:
                self._write_reported(
                    f"{source}, {chosen.name}{note}", [f"{source}, {view.name}{note}" for view in twin], tables
                )
            if len(self.views) > 1:
                picture = self._file(f"{source}, views", "png")
                write_heat_map(picture, records, self.views, chosen, source, self.chosen_on, note)
        if chosen is None:
            summary = "\n".join(write_summaries([table for ways in tables.values() for table in ways]))
            self.print(f"\nSentence retrieval, in per cent:\n\n{summary}")
        if note:
            told = explain([record for record in records if note in record.data]).splitlines()
            self.print(next(line for line in told if line.startswith(f"*{note.strip(' ()')}*")))
        self.print(f"All figures: {self.output / 'results.md'}")

    def _write_reported(self, name: str, untrained: Sequence[str], tables: dict[str, list[list[Record]]]) -> None:
        """Tables and pictures of what was chosen, or is the only view."""
        for table in (table for data in (name, *untrained) for table in tables[data]):
            task = table[0].task.replace("_", " ").capitalize()
            self.print(f"\n{task}, {table[0].data}, in per cent:\n\n{write_table(table)}")
        below = [table for data in untrained for table in tables[data]]
        write_chart(self._file(name, "png"), *tables[name], name, below)
        charts = [
            Chart(own[0].task.removeprefix("sentence_retrieval_").replace("_", " "), find_metric(own), own, bare)
            for own, bare in zip_longest(tables[name], below, fillvalue=())
        ]
        pivot, count = language_name(self.pivot), len(by_language(tables[name][0], find_metric(tables[name][0])))
        story = Story(
            f"Sentence retrieval on {name}",
            f"Translations found between {pivot} and {count} language{'s' * (count != 1)}",
            "Each sentence searches its translation among the sentences of the other language, by the vectors of an encoder "
            f"that was never trained for it; {by(find_metric(tables[name][0]))}. Languages count alike.",
            "Share of sentences whose nearest neighbour is their translation, with 95 % intervals (bootstrap over sentences).",
        )
        write_page(self._file(name, "html"), story, charts)

    def _file(self, name: str, ending: str) -> Path:
        plain = re.sub(r"[^-\w]+", "_", name).strip("_")
        return self.output / f"sentence_retrieval_{plain}.{ending}"
