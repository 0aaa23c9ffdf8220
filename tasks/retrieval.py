"""Zero-shot retrieval: find pictures by texts and texts by pictures, in languages that never saw a picture in training.

Reads every picture and every text once, apart from each other, and compares their vectors. Test batches hold either pictures
(`batch.text` is None) or texts of one language (`batch.image` is None). Writes `results.json`, `results.md`, `results.html`
and `results.png`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import lightning
import torch
import torch.distributed as distributed
from jaxtyping import UInt8
from torch import Tensor
from torch.nn import functional as F

from ..modalities.batch import Batch
from ..modalities.text import text_identity
from ..modalities.tokenizer import Tokenizer
from ..models.encoder import Encoder, Vectors
from .agreement import check_agreement
from .restore import load_encoder
from .results import Record, read_results, write_results, write_table
from .retrieval_chart import write_chart
from .retrieval_examples import choose_examples
from .retrieval_page import write_page
from .retrieval_scores import Collection, Line, LineKey, Picture, PictureKey, arrange, measure, measure_unlike

THUMBNAIL = 64


class Retrieval(lightning.LightningModule):
    """Score an encoder that makes comparable vectors of pictures and texts."""

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
    ):
        """
        Args:
            encoder: What is measured; must have `vector_width`.
            tokenizer: Tokenizer file of the run.
            checkpoint: Pretraining checkpoint that the encoder's weights are taken from; None: the encoder as it is.
            output: Folder of the results; records of other evaluations there are kept.
            data: Name of all sources together, used where there is more than one. Each is scored alone as well.
            pictured: Languages whose texts were trained with pictures; means are given with and without them.
            examples: How many items the page shows.
            seed: Of the bootstrap and the choice of examples.
            ablation: A `results.json` of another run, to be shown beside this one.
            ablation_name: What that run is, such as `without the cross-lingual objective`.
        """
        super().__init__()
        if encoder.vector_width is None:
            raise ValueError(
                f"retrieval compares vectors, and {type(encoder).__name__} makes none; use an encoder with two towers"
            )
        self.encoder, self.checkpoint, self.output, self.data = encoder, checkpoint, Path(output), data
        self.tokenizer, self.pictured, self.examples, self.seed = Tokenizer(tokenizer), list(pictured), examples, seed
        for language in self.pictured:
            self.tokenizer.language_id(language)
        self.ablation, self.ablation_name = None if ablation is None else Path(ablation), ablation_name
        self.pictures: dict[PictureKey, Picture] = {}
        self.lines: dict[LineKey, Line] = {}

    def setup(self, stage: str) -> None:
        check_agreement(self.encoder, self.tokenizer, getattr(self.trainer, "datamodule", None))
        if self.ablation is not None:
            read_results(self.ablation)  # an hour before it is needed, since it may be missing
        if self.checkpoint is not None:
            load_encoder(self.encoder, self.checkpoint, self.print, self.tokenizer)

    def on_test_epoch_start(self) -> None:
        self.pictures, self.lines = {}, {}

    def test_step(self, batch: Batch, index: int) -> None:
        if batch.size == 0:
            return
        vectors = self.encoder(batch).vectors
        if batch.image is not None:
            self._keep_pictures(batch, vectors)
        if batch.text is not None:
            self._keep_lines(batch, vectors)

    def _keep_pictures(self, batch: Batch, vectors: Vectors) -> None:
        rows = zip(
            batch.sample.tolist(),
            batch.item.tolist(),
            batch.image.present.tolist(),
            vectors.image.float().cpu().numpy(),
            shrink(batch.image.pixels).cpu().numpy(),
            strict=True,
        )
        for sample, item, present, vector, thumbnail in rows:
            if present:
                self.pictures[batch.source, sample] = Picture(item, vector, thumbnail)

    def _keep_lines(self, batch: Batch, vectors: Vectors) -> None:
        text = batch.text
        first = text.present.int().argmax(1, keepdim=True)
        rows = zip(
            batch.sample.tolist(),
            batch.item.tolist(),
            text.language.gather(1, first)[:, 0].tolist(),
            text_identity(text).tolist(),
            vectors.text.float().cpu().numpy(),
            text.tokens.cpu().numpy(),
            text.present.cpu().numpy(),
            strict=True,
        )
        for sample, item, language, identity, vector, tokens, present in rows:
            if present.any():
                key = (batch.source, sample, self.tokenizer.languages[language], identity)
                self.lines[key] = Line(item, identity, vector, tuple(tokens[present].tolist()))

    def on_test_epoch_end(self) -> None:
        self._gather()
        sources = sorted({source for source, _ in self.pictures})
        if not sources:
            raise ValueError("no picture to search: the test data gave no batch with pictures; check `data.sources`")
        main = self.data if len(sources) > 1 else sources[0]
        parts = {main: sources} | {source: [source] for source in sources}
        collections = {name: arrange(self.pictures, self.lines, some) for name, some in parts.items()}
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
        distributed.all_gather_object(every, (self.pictures, self.lines))
        for pictures, lines in every:
            self.pictures |= pictures
            self.lines |= lines

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


def shrink(pixels: UInt8[Tensor, "B 3 H W"], limit: int = THUMBNAIL) -> UInt8[Tensor, "B 3 h w"]:
    """Pictures no larger than `limit` on either side, in their own proportions."""
    factor = limit / max(pixels.shape[2:])
    if factor >= 1:
        return pixels
    size = [max(1, round(side * factor)) for side in pixels.shape[2:]]
    return F.interpolate(pixels.float(), size, mode="bilinear", antialias=True).round().clamp(0, 255).to(torch.uint8)
