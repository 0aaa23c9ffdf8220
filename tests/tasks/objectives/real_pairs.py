"""Real sentences and their translations."""

import gzip
import json
from itertools import islice
from pathlib import Path

import tiny

from interlingua.modalities.batch import Batch
from interlingua.modalities.text import collate_text
from interlingua.modalities.tokenizer import Tokenizer


def real_pairs(data: Path, tokenizer: Tokenizer, languages: tuple[str, ...], count: int) -> tuple[list[dict[str, str]], Batch]:
    """Records of the parallel text into some languages, every hundredth, and the batch of them, cut at 48 tokens."""
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        wanted = (record for record in map(json.loads, file) if record["tgt_lang"] in languages)
        records = list(islice(wanted, 0, 100 * count, 100))
    sides = {"text": "src", "translation": "tgt"}
    texts = {
        name: collate_text([one[side] for one in records], [one[f"{side}_lang"] for one in records], tokenizer, 48)
        for name, side in sides.items()
    }
    return records, tiny.batch([4] * len(records), source="parallel")._replace(**texts)
