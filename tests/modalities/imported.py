"""Tokenizers imported from the small checkpoints of the published families."""

import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from published import checkpoints, sentences

from interlingua.modalities.tokenizer import Tokenizer
from interlingua.modalities.tokenizer_import import import_tokenizer

_FOLDER = tempfile.TemporaryDirectory()
FAMILIES = ("xlm-roberta", "bert", "uncased", "xlm")


class Published(NamedTuple):
    """A checkpoint's files, and the tokenizer imported from them."""

    folder: Path
    tokenizer: Tokenizer


@cache
def import_all(data: Path) -> dict[str, Published]:
    """By name, once a process; their files may be copied, never changed."""
    folder = Path(_FOLDER.name)
    languages = sorted({code for code, _ in sentences(data)})
    folders = {name: checkpoints(data) / name for name in ("xlm-roberta", "bert", "uncased")}
    folders["xlm"] = checkpoints(data) / "xlm" / "hf"
    found = {}
    for name, files in folders.items():
        family = "bert" if name == "uncased" else name
        codes = None if family == "xlm" else languages
        ours = import_tokenizer(files, family, folder / "ours" / f"{name}.json", codes, report=lambda line: None)
        found[name] = Published(files, ours)
    return found


def rows(tokenizer: Tokenizer, texts: list[str], languages: list[str] | None = None) -> list[list[int]]:
    """Ids of each text."""
    pieces = tokenizer.encode(texts, languages)
    return [part.tolist() for part in np.split(pieces.ids, np.cumsum(pieces.counts)[:-1])]


def of_data(data: Path) -> list[str]:
    return [text for _, text in sentences(data)]
