"""Real documents, written by our own writer: help pages with their sentences in order, in English and in German."""

import gzip
import json
from functools import cache
from pathlib import Path

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter


@cache
def pages(data: Path, language: str, count: int = 60) -> list[list[str]]:
    """Sentences of help pages, those in which they stand in a row, two at least."""
    found: dict[str, list[tuple[int, str]]] = {}
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["source"] == "gnome" and row["split"] == "train" and row["tgt_lang"] == "de":
                page, number = row["id"].split("#")
                found.setdefault(page, []).append((int(number), row["tgt" if language == "de" else "src"]))
                if len(found) > 3 * count:
                    break
    ordered = [[text for _, text in sorted(page)] for page in found.values() if len(page) > 1]
    return ordered[:count]


def write_documents(folder: Path, data: Path, count: int = 60) -> str:
    """A shard of pages, every third one German; the page's number is its item."""
    with ShardWriter(folder) as writer:
        for number in range(count):
            language = "de" if number % 3 == 2 else "en"
            texts = [Caption(language, text, "sentence") for text in pages(data, language)[number]]
            writer.write(f"{number:04d}", texts, item=number, document=True)
    return str(folder)
