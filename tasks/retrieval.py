"""Zero-shot retrieval: find pictures by texts and texts by pictures, in languages that never saw a picture in training.

Test batches hold either pictures (`batch.text` is None) or texts of one language (neither `batch.image` nor `batch.regions`).
Every picture and every text is read once, apart from each other, and their vectors are compared; or each text is read together
with each picture, and a matching head scores the pair. Writes `results.json`, `results.md`, `results.html` and `results.png`.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import lightning
import numpy as np
import torch
import torch.distributed as distributed
from jaxtyping import UInt8
from lightning.fabric.utilities import move_data_to_device
from rich.progress import track
from torch import Tensor
from torch.nn import functional as F

from ..modalities.batch import Batch, take
from ..modalities.text import text_identity
from ..modalities.tokenizer import Tokenizer
from ..models.encoder import Encoder, Vectors
from .agreement import check_agreement
from .matching import read_head, score_pairs
from .objectives.pairs import build_head, pictured
from .objectives.rows import join_rows
from .ranks import world
from .restore import load_encoder, read_checkpoint
from .results import Record, read_results, write_results, write_table
from .retrieval_chart import write_chart
from .retrieval_examples import choose_examples
from .retrieval_page import write_page
from .retrieval_scores import Collection, Line, LineKey, Picture, PictureKey, arrange, measure, measure_unlike

THUMBNAIL = 64
GRAY = np.full((3, THUMBNAIL, THUMBNAIL), 208, np.uint8)
"""Stands for a picture that was read as regions alone."""


class Retrieval(lightning.LightningModule):
    """Score an encoder that makes comparable vectors of pictures and texts, or one that tells whether they match."""

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: str,
        checkpoint: str | None = None,
        output: str = "runs/retrieval",
        data: str = "all",
        pictured: Sequence[str] = ("en",),
        examples: int = 8,
        seed: int = 0,
        ablation: str | None = None,
        ablation_name: str = "without",
        by: Literal["vectors", "matching"] | None = None,
        objective: str | None = None,
        pairs: int = 512,
    ):
        """
        Args:
            encoder: What is measured; must have `vector_width`, or fuse text and picture.
            tokenizer: Tokenizer file of the run.
            checkpoint: Pretraining checkpoint that the encoder's weights are taken from; None: the encoder as it is.
            output: Folder of the results; records of other evaluations there are kept.
            data: Name of all sources together, used where there is more than one. Each is scored alone as well.
            pictured: Languages whose texts were trained with pictures; means are given with and without them.
            examples: How many items the page shows.
            seed: Of the bootstrap and the choice of examples.
            ablation: A `results.json` of another run, to be shown beside this one.
            ablation_name: What that run is, such as `without the cross-lingual objective`.
            by: What is compared: `vectors`, or scores of the checkpoint's head of image-text `matching`, which takes texts x
                pictures readings; None: vectors where the encoder makes them.
            objective: Name of the objective whose head that is; None: the only one.
            pairs: Pairs that are read at a time, by matching.

        Raises:
            ValueError: The encoder makes no vectors, or fuses nothing, or there is no checkpoint to take the head from.
        """
        super().__init__()
        self.by = by or ("matching" if encoder.vector_width is None else "vectors")
        if pairs < 1:
            raise ValueError(f"retrieval: pairs is {pairs}; expected 1 or more")
        if self.by == "vectors" and encoder.vector_width is None:
            raise ValueError(
                f"retrieval compares vectors, and {type(encoder).__name__} makes none; use an encoder with two towers, or "
                "`by: matching`"
            )
        if self.by == "matching" and checkpoint is None:
            raise ValueError("retrieval by matching scores pairs by a head that was trained: give `checkpoint`")
        self.head = build_head(encoder) if self.by == "matching" else None
        self.objective, self.pairs = objective, pairs
        self.encoder, self.checkpoint, self.output, self.data = encoder, checkpoint, Path(output), data
        self.tokenizer, self.pictured, self.examples, self.seed = Tokenizer(tokenizer), list(pictured), examples, seed
        for language in self.pictured:
            self.tokenizer.language_id(language)
        self.ablation, self.ablation_name = None if ablation is None else Path(ablation), ablation_name
        self.pictures: dict[PictureKey, Picture] = {}
        self.lines: dict[LineKey, Line] = {}
        self.rows: dict[PictureKey | LineKey, Batch] = {}
        """What matching reads, a row each."""

    def setup(self, stage: str) -> None:
        check_agreement(self.encoder, self.tokenizer, getattr(self.trainer, "datamodule", None))
        if self.ablation is not None:
            read_results(self.ablation)  # an hour before it is needed, since it may be missing
        if self.checkpoint is not None:
            load_encoder(self.encoder, self.checkpoint, self.print, self.tokenizer)
        if self.head is not None:
            trained = read_head(read_checkpoint(self.checkpoint), str(self.checkpoint), self.encoder, self.objective)
            self.head.load_state_dict(trained.state_dict())

    def on_test_epoch_start(self) -> None:
        self.pictures, self.lines, self.rows = {}, {}, {}

    def test_step(self, batch: Batch, index: int) -> None:
        if batch.size == 0:
            return
        # Pictures are read for people, too, where the encoder reads regions.
        read = batch if "image" in self.encoder.widths else batch._replace(image=None)
        vectors = Vectors() if self.head is not None else self.encoder(read).vectors
        if batch.text is None:
            self._keep_pictures(batch, read, vectors)
        else:
            self._keep_lines(batch, read, vectors)

    def _keep_pictures(self, batch: Batch, read: Batch, vectors: Vectors) -> None:
        thumbnails = [GRAY] * batch.size if batch.image is None else shrink(batch.image.pixels).cpu().numpy()
        vector = _numbers(vectors.image, batch)
        columns = batch.sample.tolist(), batch.item.tolist(), pictured(read).tolist(), vector, thumbnails
        rows = zip(*columns, strict=True)
        for row, (sample, item, present, vector, thumbnail) in enumerate(rows):
            if present:
                self.pictures[batch.source, sample] = Picture(item, vector, thumbnail)
                self._keep_row((batch.source, sample), read, row)

    def _keep_row(self, key: PictureKey | LineKey, read: Batch, row: int) -> None:
        if self.head is not None:
            own = take(read, torch.tensor([row], device=read.item.device))._replace(source="")
            self.rows[key] = move_data_to_device(own, "cpu")

    def _keep_lines(self, batch: Batch, read: Batch, vectors: Vectors) -> None:
        text = batch.text
        first = text.present.int().argmax(1, keepdim=True)
        rows = zip(
            batch.sample.tolist(),
            batch.item.tolist(),
            text.language.gather(1, first)[:, 0].tolist(),
            text_identity(text).tolist(),
            _numbers(vectors.text, batch),
            text.tokens.cpu().numpy(),
            text.present.cpu().numpy(),
            strict=True,
        )
        for row, (sample, item, language, identity, vector, tokens, present) in enumerate(rows):
            if present.any():
                key = (batch.source, sample, self.tokenizer.languages[language], identity)
                self.lines[key] = Line(item, identity, vector, tuple(tokens[present].tolist()))
                self._keep_row(key, read, row)

    def on_test_epoch_end(self) -> None:
        self._gather()
        sources = sorted({source for source, _ in self.pictures})
        if not sources:
            raise ValueError("no picture to search: the test data gave no batch with pictures; check `data.sources`")
        if self.head is not None:
            self._match()
        main = self.data if len(sources) > 1 else sources[0]
        parts = {main: sources} | {source: [source] for source in sources}
        collections = {name: arrange(self.pictures, self.lines, some, cosine=self.head is None) for name, some in parts.items()}
        records: list[Record] = []
        for name, collection in collections.items():
            if collection.left_out:
                self.print(f"{name}: {collection.left_out} texts are left out, since their pictures could not be read")
            records += measure(collection, name, self.pictured, self.seed)
            records += measure_unlike(collection, name, self.pictured, self.seed)
        self._log(records)
        if self.global_rank == 0:
            self._write(records, main, collections[main])

    def _gather(self) -> None:
        """Every rank gets what all have read; what two have read counts once."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return
        every: list = [None] * distributed.get_world_size()
        distributed.all_gather_object(every, (self.pictures, self.lines, self.rows))
        for pictures, lines, rows in every:
            self.pictures |= pictures
            self.lines |= lines
            self.rows |= rows

    def _match(self) -> None:
        """Score all pairs, each rank those of its share of the texts. A text's vector is then its scores, and a picture's the
        unit vector of its place, so that their product is the score."""
        shown, said = sorted(self.pictures), sorted(self.lines)
        number, count = world()
        pad = 0 if self.encoder.vocabulary is None else self.encoder.vocabulary.pad
        own = said[number::count]
        found = torch.zeros(0, len(shown))
        if own:
            bar = self.trainer.progress_bar_callback
            hidden = number > 0 or bar is None or not bar.is_enabled
            found = score_pairs(
                self.encoder,
                self.head,
                *(join_rows([self.rows[key] for key in keys], pad) for keys in (own, shown)),
                rows=self.pairs,
                send=self.trainer.strategy.batch_to_device,
                context=self.trainer.precision_plugin.forward_context,
                watch=lambda starts: track(starts, "matching texts with pictures", disable=hidden),
            )
        every = [(own, found.numpy())]
        if count > 1:
            every = [None] * count
            distributed.all_gather_object(every, (own, found.numpy()))
        for keys, scores in every:
            self.lines |= {key: self.lines[key]._replace(vector=row) for key, row in zip(keys, scores, strict=True)}
        units = np.eye(len(shown), dtype=np.float32)
        self.pictures = {key: self.pictures[key]._replace(vector=units[row]) for row, key in enumerate(shown)}
        self.rows = {}

    def _log(self, records: Sequence[Record]) -> None:
        means = [record for record in records if record.metric == "mean recall@10" and "unlike" not in record.data]
        # Every rank has the same figures: nothing is left to reduce.
        names = [re.sub(r"[^-/\w.]+", "_", f"{r.data}/{r.task}/{r.metric}/{r.language}") for r in means]  # as TensorBoard wants
        self.log_dict({name: record.value for name, record in zip(names, means, strict=True)}, rank_zero_only=True)

    def _write(self, records: list[Record], main: str, collection: Collection) -> None:
        write_results(records, self.output)
        ablation = [] if self.ablation is None else read_results(self.ablation)
        examples = choose_examples(collection, self.tokenizer.decode, self.pictured, self.examples, seed=self.seed)
        shared = (records, main, self.pictured)
        write_page(self.output / "results.html", *shared, examples, collection.thumbnails, ablation, self.ablation_name)
        write_chart(self.output / "results.png", *shared, ablation, self.ablation_name)
        self.print(f"\nFrom a text to its picture, {main}, in per cent:\n")
        self.print(write_table([r for r in records if r[:2] == ("text_to_image_retrieval", main)]))
        self.print(f"All figures: {self.output / 'results.md'}; to look at: {self.output / 'results.html'}")


def _numbers(vectors: Tensor | None, batch: Batch) -> np.ndarray:
    """Vectors as rows; none yet by matching."""
    return np.zeros((batch.size, 0), np.float32) if vectors is None else vectors.float().cpu().numpy()


def shrink(pixels: UInt8[Tensor, "B 3 H W"], limit: int = THUMBNAIL) -> UInt8[Tensor, "B 3 h w"]:
    """Pictures no larger than `limit` on either side, in their own proportions."""
    factor = limit / max(pixels.shape[2:])
    if factor >= 1:
        return pixels
    size = [max(1, round(side * factor)) for side in pixels.shape[2:]]
    return F.interpolate(pixels.float(), size, mode="bilinear", antialias=True).round().clamp(0, 255).to(torch.uint8)
