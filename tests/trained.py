"""A small tokenizer trained on real names in twelve languages, once a process; files that tests may copy, never change."""

import gzip
import json
import tempfile
from functools import cache
from pathlib import Path

from interlingua.datamodules.train_tokenizer import train_tokenizer
from interlingua.modalities.tokenizer import Tokenizer

_FOLDER = tempfile.TemporaryDirectory()


@cache
def names(data: Path, count: int = 150) -> list[tuple[str, str]]:
    """Language and text of the names and keywords of the first emoji of the quick start."""
    with gzip.open(data / "quickstart" / "emoji_mini.json.gz", "rt", encoding="utf-8") as file:
        captions = json.load(file)["captions"]
    return [(code, text) for code, items in captions.items() for texts in items[:count] for text in texts]


@cache
def small_tokenizer(data: Path) -> Tokenizer:
    """1,500 pieces; languages ar, de, en, es, fr, hi, ja, ko, ru, sw, tr, zh."""
    return train_tokenizer(names(data), Path(_FOLDER.name) / "small.model", size=1500, report=lambda line: None)
