"""Text to pieces and back: SentencePiece (arXiv:1808.06226), unigram with byte fallback, under our own normalisation.

A tokenizer is two files side by side: `NAME.model`, SentencePiece's own, and `NAME.json`, which declares what the model
cannot: languages in order, the policy of normalisation, the control ids, and the checksum of the model they belong to.
`interlingua tokenizer train` writes both. Control tokens (pad, unknown, start, end, mask) are control symbols of the model
and never arise from text: a literal `</s>` or `<mask>` stays the ordinary characters it is written with.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from .normalization import POLICY, normalize
from .vocabulary import Vocabulary
from .words import WordFinder

MASK = "<mask>"
FORMAT = 1


class Pieces(NamedTuple):
    """Texts as pieces, one after the other, without control tokens."""

    ids: Int64[np.ndarray, "T"]
    """Vocabulary ids of all pieces."""
    words: Int64[np.ndarray, "T"]
    """Word of its text that each piece belongs to, from 0 (see `words`)."""
    counts: Int64[np.ndarray, "N"]
    """Pieces of each text; 0 where nothing is left of it after normalisation."""


class Tokenizer:
    """A tokenizer read from local files. It pickles whole, so workers need no files.

    Args:
        path: `NAME.model`; `NAME.json` stands beside it.

    Attributes:
        vocabulary: Size and control ids, to be shaken hands on with the tower.
        languages: Codes in the order of their ids.
        byte_pieces: bool `[size]`: the pieces that stand for one byte of a character that the vocabulary lacks.
        hash: Checksum over all that decides ids (model, normalisation, languages), for what is stored beside data.

    Raises:
        FileNotFoundError: One of the two files is missing.
        ValueError: The files do not belong together, or the model lacks what we build on.
    """

    def __init__(self, path: str | Path):
        from sentencepiece import SentencePieceProcessor

        model, card = _read_files(Path(path))
        self.path = str(path)
        self.languages: tuple[str, ...] = tuple(card["languages"])
        self.hash = hashlib.sha256(json.dumps([card["sha256"], POLICY, self.languages]).encode()).hexdigest()
        try:
            self._processor: Any = SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise ValueError(f"{path}: not a SentencePiece model, or cut short; copy it anew, or train it again") from None
        self.vocabulary = read_vocabulary(self._processor, self.path)
        if card["vocabulary"] != asdict(self.vocabulary):
            raise ValueError(
                f"{path}: the model has {asdict(self.vocabulary)}, its .json says {card['vocabulary']}; "
                "train the tokenizer again or restore the .json that was written with it"
            )
        pieces = [self._processor.id_to_piece(piece) for piece in range(self.vocabulary.size)]
        values = [int(piece[3:5], 16) if self._processor.is_byte(number) else -1 for number, piece in enumerate(pieces)]
        self.byte_pieces = np.array(values) >= 0
        self._find_words = WordFinder(pieces, values)
        self._silent = set(self.vocabulary.controls) - {self.vocabulary.unknown}
        self._language_ids = {code: number for number, code in enumerate(self.languages)}

    def normalize(self, text: str) -> str:
        """Text as it is read: the declared policy of `normalization`."""
        return normalize(text)

    def language_id(self, code: str) -> int:
        """Id of a language.

        Raises:
            ValueError: The tokenizer does not know the code; it lists those it knows.
        """
        if code not in self._language_ids:
            raise ValueError(
                f"unknown language {code!r}: the tokenizer {self.path} knows {', '.join(self.languages)}; correct the "
                "code in the data, or train the tokenizer with it (`interlingua tokenizer train --languages`)"
            )
        return self._language_ids[code]

    def encode(self, texts: Sequence[str]) -> Pieces:
        """Normalise texts and cut them into pieces, all in one call of SentencePiece."""
        rows = self._cut(texts)
        counts = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(counts.sum()))
        return Pieces(ids, self._find_words(ids, counts), counts)

    def count_tokens(self, texts: Sequence[str]) -> Int64[np.ndarray, "N"]:
        """Tokens of each text as a row of its own: its pieces, start and end token; 0 where nothing is left to read."""
        counts = np.array([len(row) for row in self._cut(texts)], dtype=np.int64)
        return np.where(counts > 0, counts + 2, 0)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Pieces as SentencePiece writes them, for people to look at."""
        return self._processor.id_to_piece(self._checked(ids))

    def has_piece(self, piece: str) -> bool:
        """Whether a string, such as a single character, is a piece of the vocabulary."""
        return self._processor.piece_to_id(piece) != self.vocabulary.unknown

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a sequence of ids; control tokens are left out.

        Raises:
            ValueError: An id lies outside the vocabulary.
        """
        return self._processor.decode([number for number in self._checked(ids) if number not in self._silent])

    def _cut(self, texts: Sequence[str]) -> list[list[int]]:
        # One thread: loader workers already share the cores.
        return self._processor.encode([normalize(text) for text in texts], num_threads=1)

    def _checked(self, ids: Sequence[int]) -> list[int]:
        size = self.vocabulary.size
        wrong = [number for number in ids if not 0 <= number < size]
        if wrong:
            raise ValueError(f"token id {wrong[0]} is not in the vocabulary of {self.path} (0 to {size - 1})")
        return list(ids)


def write_tokenizer(path: Path, model: bytes, languages: Sequence[str], training: dict[str, Any]) -> None:
    """Write the two files of a tokenizer.

    Args:
        path: `NAME.model`.
        model: A SentencePiece model as bytes.
        languages: Codes in the order of their ids.
        training: How it was trained: for people, read by nothing.
    """
    from sentencepiece import SentencePieceProcessor

    card = {
        "format": FORMAT,
        "sha256": hashlib.sha256(model).hexdigest(),
        "normalization": POLICY,
        "vocabulary": asdict(read_vocabulary(SentencePieceProcessor(model_proto=model), str(path))),
        "languages": list(languages),
        "training": training,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model)
    path.with_suffix(".json").write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_vocabulary(processor: Any, path: str) -> Vocabulary:
    """Size and control ids of a SentencePiece model.

    Raises:
        ValueError: A control token is missing, or could arise from text.
    """
    ids = {
        "pad": processor.pad_id(),
        "unknown": processor.unk_id(),
        "start": processor.bos_id(),
        "end": processor.eos_id(),
        "mask": processor.piece_to_id(MASK),
    }
    wrong = [name for name, number in ids.items() if name != "unknown" and not (number >= 0 and processor.is_control(number))]
    if wrong:
        raise ValueError(
            f"{path}: {', '.join(wrong)} must be control symbols of the SentencePiece model and are not there, or could "
            "arise from text; train it with `interlingua tokenizer train`"
        )
    return Vocabulary(processor.get_piece_size(), **ids)


def _read_files(path: Path) -> tuple[bytes, dict[str, Any]]:
    if path.suffix != ".model":
        raise ValueError(f"tokenizer {path}: give the path of its NAME.model; NAME.json is found beside it")
    beside = path.with_suffix(".json")
    for file in (path, beside):
        if not file.is_file():
            raise FileNotFoundError(
                f"tokenizer file {file} does not exist; a tokenizer is NAME.model with NAME.json beside it, "
                "as `interlingua tokenizer train --output NAME.model` writes them"
            )
    try:
        card = json.loads(beside.read_text(encoding="utf-8"))
        found = {key: card[key] for key in ("format", "sha256", "normalization", "vocabulary", "languages")}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{beside} does not describe a tokenizer ({error!r}); `tokenizer train` writes it") from error
    languages = card["languages"]
    if not (isinstance(languages, list) and languages and all(isinstance(code, str) and code for code in languages)):
        raise ValueError(f"{beside}: languages is {languages!r}; expected a list of codes in the order of their ids")
    if len(set(languages)) < len(languages):
        raise ValueError(f"{beside}: languages is {languages!r}; every code must be there once")
    model = path.read_bytes()
    expected = {"format": FORMAT, "sha256": hashlib.sha256(model).hexdigest(), "normalization": POLICY}
    for key, value in expected.items():
        if found[key] != value:
            raise ValueError(
                f"{beside}: {key} is {found[key]!r}, but {path.name} and this version need {value!r}; "
                "restore the .json written with the model, or train the tokenizer again"
            )
    return model, card
