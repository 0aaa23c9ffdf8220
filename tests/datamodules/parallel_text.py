"""Real translations, and what a source reads of them."""

import gzip
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.source import Source
from interlingua.modalities.batch import Batch

PAIRS = 7000


def write_parallel(folder: Path, data: Path) -> str:
    """Shards of real translations between languages of the small tokenizer, from all parts of the corpus."""
    known, written = small_tokenizer(data).languages, 0
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as lines, ShardWriter(folder) as writer:
        for line in islice(lines, 0, None, 10):
            row = json.loads(line)
            texts = [Caption(row[f"{side}_lang"], row[side], "sentence") for side in ("src", "tgt")]
            if row["split"] == "train" and all(text.language in known and text.text.strip() for text in texts):
                writer.write(f"{written:06d}", texts, item=written)
                written += 1
            if written == PAIRS:
                break
    return str(folder)


def reader(paths: str, data: Path, max_tokens: int = 64, name: str = "texts", **options) -> Reader:
    """A source of texts of these shards, opened."""
    options = {"text": TextChoice(), **options}
    return Reader(name, Source(paths, **options), ShardSet(paths), small_tokenizer(data), max_tokens)


def batches_of(opened: Reader, count: int, rank: int = 0, world: int = 1) -> Sequence[Batch]:
    """What a rank reads in the first steps."""
    return [batch for step in range(count) for batch in opened.read_step(step, rank, world)[0]]
