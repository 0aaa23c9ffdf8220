"""What exact resume costs, on 200,000 real sentence pairs; and the memory of the order of 100 million samples.

    INTERLINGUA_DATA=... python benchmarks/order.py

Writes shards of the training pairs of the parallel text, indexes them, counts their tokens, and reads a first step: of a
fresh run, and of one that goes on within the third epoch. Times are CPU seconds, one thread.
"""

import argparse
import gzip
import json
import os
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from measure import memory_of, resident

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.draws import EvenDraws
from interlingua.datamodules.order import BLOCK, Units, draw
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.lengths import find_lengths
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.source import Source
from interlingua.datamodules.train_tokenizer import read_shards, train_tokenizer
from interlingua.modalities.tokenizer import Tokenizer

SAMPLES, MANY = 200_000, 100_000_000


def write_pairs(data: Path, folder: Path) -> None:
    """The first training pairs, in shards of 10,000."""
    written = 0
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as lines, ShardWriter(folder) as writer:
        for row in map(json.loads, lines):
            texts = [Caption(row[f"{side}_lang"].rstrip("12"), row[side], "sentence") for side in ("src", "tgt")]
            if row["split"] == "train" and all(text.text.strip() for text in texts) and texts[0].language != texts[1].language:
                writer.write(f"{written:06d}", texts, item=written)
                written += 1
            if written == SAMPLES:
                return
    raise SystemExit(f"only {written} pairs, {SAMPLES} are needed")


def seconds(run) -> tuple[float, object]:
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def measure(data: Path, folder: Path) -> None:
    shards_folder = folder / "shards"
    took, _ = seconds(lambda: write_pairs(data, shards_folder))
    print(f"writing {SAMPLES:,} samples: {took:.1f} s")
    for index in shards_folder.glob("*.index"):
        index.unlink()
    took, shards = seconds(lambda: ShardSet(str(shards_folder)))
    size = sum(file.stat().st_size for file in shards_folder.glob("*.index")) / 2**20
    tars = sum(file.stat().st_size for file in shards_folder.glob("*.tar")) / 2**20
    print(f"building the index: {took:.1f} s, {size:.1f} MiB beside {tars:.0f} MiB of tars; {len(shards):,} samples")
    print(f"opening it again: {seconds(lambda: ShardSet(str(shards_folder)))[0]:.2f} s")
    train_tokenizer(read_shards([str(shards_folder)], [], print), folder / "t.model", limit=200_000, report=lambda _: None)
    tokenizer = Tokenizer(folder / "t.model")
    took, _ = seconds(lambda: find_lengths(shards, tokenizer))
    print(f"counting tokens: {took:.1f} s; once")
    sources = {
        "rows": Source(str(shards_folder), 256, text=TextChoice(), translation=TranslationChoice()),
        "tokens": Source(str(shards_folder), text=TextChoice(), translation=TranslationChoice()),
        "packed": Source(str(shards_folder), text=TextChoice(), pack=True),
    }
    for name, source in sources.items():
        compare(name, source, tokenizer)


def compare(name: str, source: Source, tokenizer: Tokenizer) -> None:
    """A fresh run beside one that goes on within the third epoch."""
    opened, reader = seconds(lambda: Reader(name, source, ShardSet(source.shards), tokenizer, 128))
    first, _ = seconds(lambda: reader.read_step(0, 0, 1))
    step = 0
    while reader.parts.draws_before(step) < 2.5 * SAMPLES:
        step += 100
    planned = getattr(reader.parts, "before", None)
    resumed = pickle.loads(pickle.dumps(reader))  # as a new process has it
    if planned is not None:
        resumed.parts.before, resumed.parts._kept = list(planned), None
    again, _ = seconds(lambda: resumed.read_step(step, 0, 1))
    size = 0 if planned is None else len(pickle.dumps(planned))
    print(
        f"{name}: opening {opened:.2f} s, first step {first:.2f} s; first step after resuming at step {step} "
        f"(epoch {reader.parts.draws_before(step) / SAMPLES:.1f}): {again:.2f} s; position in the checkpoint {size} bytes"
    )


def order_memory() -> float:
    """MiB that drawing from 100 million samples takes, at several places of several epochs."""
    before = resident()
    units = Units.of(MANY)
    for first in (0, MANY // 3, 5 * MANY // 2, 9 * MANY):
        draw(first, 4096, units, key=1)
    return resident() - before


def table_memory() -> float:
    """MiB of the list of samples that a source of 100 million keeps beside the order."""
    before = resident()
    samples = np.arange(MANY)
    EvenDraws(samples, Units.of(MANY), 1, None).draws(MANY // 2, 4096)
    return resident() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory-of", choices=("order", "table"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.memory_of:
        print(json.dumps({"memory": order_memory() if arguments.memory_of == "order" else table_memory()}))
        return
    order, table = (memory_of(__file__, "--memory-of", what) for what in ("order", "table"))
    print(f"order of {MANY:,} samples: {order:.0f} MiB, in blocks of {BLOCK:,}; with the list of samples {table:.0f} MiB")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(os.environ["INTERLINGUA_DATA"]), Path(folder))


if __name__ == "__main__":
    main()
