"""A bilingual dictionary as sequences of a tokenizer's pieces: an npz file, without pickles, that says which tokenizer cut it.

`interlingua tokenizer dictionary` writes it.
"""

import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

FORMAT = 1
NUMBERS = ("language", "start", "pieces", "word", "pairs")


class Dictionary(NamedTuple):
    """Words and phrases of several languages (S of them, N pieces in all), and which translate which (E pairs)."""

    tokenizer: str
    """Hash of the tokenizer that cut them."""
    language: Int64[np.ndarray, "S"]
    """Id of each word's language."""
    start: Int64[np.ndarray, "S+1"]
    """Where the pieces of each word start, and behind all of them."""
    pieces: Int64[np.ndarray, "N"]
    word: Int64[np.ndarray, "N"]
    """Which word of its phrase each piece belongs to, from 0."""
    pairs: Int64[np.ndarray, "E 2"]
    """What is looked up, and what translates it; both directions of a pair are pairs of their own."""
    punctuation: Bool[np.ndarray, "V"]
    """Vocabulary entries of nothing but punctuation, which stands behind a word and is not looked up with it."""


def write_dictionary(found: Dictionary, path: str | Path) -> None:
    """Write a dictionary; folders are made.

    Args:
        found: What is written.
        path: `NAME.npz`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        name: value.astype(np.int32) for name, value in found._asdict().items() if name not in ("tokenizer", "punctuation")
    }
    head = {"format": np.array(FORMAT), "tokenizer": np.array(found.tokenizer)}
    with path.open("wb") as file:  # savez would put .npz behind another name
        np.savez_compressed(file, **head, **arrays, punctuation=found.punctuation)


def read_dictionary(path: str | Path) -> Dictionary:
    """A dictionary from its file.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is not such a file, or holds no pair.
    """
    if Path(path).is_dir():
        raise ValueError(f"dictionary {path} is a folder; give the .npz in it that `interlingua tokenizer dictionary` wrote")
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if int(arrays["format"]) != FORMAT:
                raise ValueError(f"format {arrays['format']}")
            found = Dictionary(
                str(arrays["tokenizer"]),
                *(arrays[name].astype(np.int64) for name in NUMBERS),
                arrays["punctuation"].astype(bool),
            )
        _check(found)
        return found
    except FileNotFoundError:
        raise FileNotFoundError(
            f"dictionary {path} does not exist; `interlingua tokenizer dictionary` writes it from lexicons and a tokenizer"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} does not hold a dictionary of format {FORMAT} ({error!r}); "
            "write it anew with `interlingua tokenizer dictionary`"
        ) from error


def _check(found: Dictionary) -> None:
    words, pieces = len(found.language), len(found.pieces)
    fits = (
        found.start.shape == (words + 1,)
        and found.start[0] == 0
        and found.start[-1] == pieces == len(found.word)
        and (np.diff(found.start) > 0).all()
        and found.pairs.ndim == 2
        and found.pairs.shape[1] == 2
        and ((found.pairs >= 0) & (found.pairs < words)).all()
        and ((found.pieces >= 0) & (found.pieces < len(found.punctuation))).all()
        and (found.language >= 0).all()
        and (found.word >= 0).all()
    )
    if not fits:
        raise ValueError(f"{words} words, {pieces} pieces and pairs of shape {found.pairs.shape} that do not belong together")
    if not len(found.pairs):
        raise ValueError("no pair, so that nothing could be replaced by it")
