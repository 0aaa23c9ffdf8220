"""Sentence retrieval: find the translation of a sentence among the sentences of another language, by an encoder's vectors.

Tatoeba (arXiv:1812.10464, section 4.4), as in XTREME (arXiv:2003.11080, section 3) by the mean of a layer's states, but with
both directions reported. Test batches hold texts of one language; `batch.sample` joins translations, `batch.item` is
equal for texts that read the same. Nothing is trained. Writes `results.json`, `results.md` and a picture a source, of
several layers and poolings one more.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import lightning
import numpy as np
import torch

from ..modalities.batch import Batch
from ..models.encoder import Encoder
from ..models.pooling import Pooling
from .results import Record, write_results, write_table
from .sentence_chart import write_chart
from .sentence_heat_map import write_heat_map
from .sentence_reading import Part, SentenceReader, refuse_broken, refuse_same_data
from .sentence_scores import ACCURACY, Sentences, measure
from .sentence_views import View


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
                reported, and must read other files. None: the first is reported. Of the others only means are given.
            margin: Neighbours of the ratio margin, reported beside cosine; null: cosine alone.
            seed: Of the bootstrap.

        Raises:
            ValueError: The encoder reads no text, or layers and poolings cannot be meant.
        """
        super().__init__()
        self.reader = SentenceReader(encoder, tokenizer, checkpoint, pivot, layers, poolings, margin)
        self.encoder, self.output, self.pivot, self.views = encoder, Path(output), pivot, self.reader.views
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
        self.reader.read(self.encoder, batch)

    def on_test_epoch_end(self) -> None:
        found = {source: self._arrange(part) for source, part in self.reader.collect().items()}
        if not found:
            raise ValueError("no sentence to search: the test data gave no batch; check `data.sources`")
        chosen = self._choose(found)
        records: list[Record] = []
        for source, views in found.items():
            for view, texts in zip(self.views, views, strict=True):
                only_means = view != chosen
                records += measure(texts, self.pivot, f"{source}, {view.name}", self.margin, self.seed, only_means)
        self._log(records)
        if self.global_rank == 0:
            self._write(records, found.keys(), chosen)

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
        for view, vectors in zip(self.views, every, strict=True):
            texts = {
                code: Sentences(*(torch.from_numpy(column[own]) for column in (sample, identity, vectors)))
                for code, own in rows.items()
            }
            refuse_broken(texts, f"{source}, {view.name}")
            views.append(texts)
        return views

    def _choose(self, found: dict[str, list[dict[str, Sentences]]]) -> View:
        """The view that is reported."""
        if self.chosen_on is None or len(self.views) == 1:
            return self.views[0]
        if self.chosen_on not in found:
            raise ValueError(f"chosen_on is {self.chosen_on!r}, but the sources read are {', '.join(found)}")
        means = []
        for texts in found[self.chosen_on]:
            records = measure(texts, self.pivot, self.chosen_on, None, self.seed, only_means=True)
            means.append(sum(record.value for record in records) / len(records))
        best = max(range(len(means)), key=means.__getitem__)
        self.print(f"chosen on {self.chosen_on}: {self.views[best].name}, mean {ACCURACY} {100 * means[best]:.1f} %")
        return self.views[best]

    def _log(self, records: Sequence[Record]) -> None:
        means = [record for record in records if record.metric == f"mean {ACCURACY}"]
        # Every rank has the same figures: nothing is left to reduce.
        names = [re.sub(r"[^-/\w.]+", "_", f"{r.data}/{r.task}/{r.metric}") for r in means]  # as TensorBoard wants
        self.log_dict({name: record.value for name, record in zip(names, means, strict=True)}, rank_zero_only=True)

    def _write(self, records: list[Record], sources: Iterable[str], chosen: View) -> None:
        reported = [source for source in sources if source != self.chosen_on]
        if self.chosen_on is not None and not reported:
            reported = [self.chosen_on]
            if len(self.views) > 1:
                self.print(
                    f"{self.chosen_on}: {chosen.name} was chosen by the very figures that are reported, which are too high for "
                    "that; add another source to `data.sources`, and it is reported instead"
                )
        names = [f"{source}, {chosen.name}" for source in reported]
        write_results(sorted(records, key=lambda record: record.data not in names), self.output)  # what is reported first
        tables: dict[tuple[str, str], list[Record]] = {}
        for record in records:
            tables.setdefault((record.data, record.task), []).append(record)
        for name in names:
            ways = [table for (data, _), table in tables.items() if data == name]
            for table in ways:
                self.print(f"\n{table[0].task.replace('_', ' ').capitalize()}, {name}, in per cent:\n\n{write_table(table)}")
            write_chart(self._picture(name), *ways, name)
        if len(self.views) > 1:
            for source in reported:
                write_heat_map(self._picture(f"{source}, views"), records, self.views, chosen, source, self.chosen_on)
        self.print(f"All figures: {self.output / 'results.md'}")

    def _picture(self, name: str) -> Path:
        plain = re.sub(r"[^-\w]+", "_", name)
        return self.output / f"sentence_retrieval_{plain}.png"
