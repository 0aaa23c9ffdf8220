"""How often each entry of a vocabulary stands in some texts: a JSON file that says which tokenizer counted.

`{"format": 1, "tokenizer": HASH, "texts": N, "counts": [one number an entry, in the order of ids]}`.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

FORMAT = 1


class EntryCounts(NamedTuple):
    """Counts of vocabulary entries."""

    tokenizer: str
    """Hash of the tokenizer that cut the texts."""
    texts: int
    """How many texts were counted."""
    counts: Int64[np.ndarray, "V"]
    """Occurrences of each entry; control tokens, which are not pieces of a text, have none."""


def write_counts(found: EntryCounts, path: str | Path) -> None:
    """Write counts; folders are made."""
    head = {"format": FORMAT, "tokenizer": found.tokenizer, "texts": found.texts}
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, "counts": found.counts.tolist()}) + "\n", encoding="utf-8")


def read_counts(path: str | Path) -> EntryCounts:
    """Counts from a file.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is not such a file.
    """
    try:
        card = json.loads(Path(path).read_text(encoding="utf-8"))
        counts = np.array(card["counts"])
        if card["format"] != FORMAT or counts.ndim != 1 or counts.dtype.kind != "i" or (counts < 0).any():
            raise ValueError(f"format {card['format']!r}, counts of type {counts.dtype} and shape {counts.shape}")
        return EntryCounts(str(card["tokenizer"]), int(card["texts"]), counts.astype(np.int64))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"counts file {path} does not exist; `interlingua tokenizer counts` writes it from shards and a tokenizer"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} does not hold counts of vocabulary entries of format {FORMAT} ({error!r}); "
            "write it anew with `interlingua tokenizer counts`"
        ) from error
