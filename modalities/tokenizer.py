"""Text to pieces and back, by vocabularies of several families, under one interface.

Ours (`interlingua tokenizer train`) is SentencePiece with byte fallback under our own normalisation. Those that published
checkpoints need, XLM-R's, BERT's and XLM's, are taken over by `interlingua tokenizer import`; they cut texts as their
models were trained on (`cutters`). Whichever it is, control tokens never arise from text, and words are numbered alike.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from .cutters.bert import BERTCutter
from .cutters.cutter import Cut, Cutter
from .cutters.own import OwnCutter, open_model, read_vocabulary
from .cutters.xlm import XLMCutter
from .cutters.xlm_roberta import XLMRobertaCutter
from .normalization import POLICY
from .tokenizer_files import OWN, Card, read_card, write_card


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
        path: `NAME.json`, or the `NAME.model` beside it; see `tokenizer_files`.

    Attributes:
        family: Kind of its vocabulary: `interlingua`, `xlm-roberta`, `bert` or `xlm`.
        vocabulary: Size and control ids, to be shaken hands on with the tower.
        languages: Codes in the order of their ids.
        normalization: What is done to texts before they are cut, for people.
        keeps_spaces: Whether `decode` puts spaces back where they stood.
        byte_pieces: bool `[size]`: the pieces that stand for one byte of a character that the vocabulary lacks.
        hash: Checksum over all that decides ids (files, normalisation, languages), for what is stored beside data.
        pieces_hash: The same without the languages.

    Raises:
        FileNotFoundError: One of the files is missing.
        ImportError: The family needs a package that is not installed.
        ValueError: The files do not belong together, or the model lacks what we build on.
    """

    def __init__(self, path: str | Path):
        card = read_card(Path(path))
        self._cutter = open_cutter(card)
        self.vocabulary = self._cutter.vocabulary
        self.normalization = self._cutter.normalization
        card.check(self.vocabulary, self.normalization)
        self.path, self.family, self.languages = card.path, card.family, card.languages
        self.hash, self.pieces_hash = card.hash, card.pieces_hash
        self.keeps_spaces, self.byte_pieces = self._cutter.keeps_spaces, self._cutter.byte_pieces
        self._silent = set(self.vocabulary.controls) - {self.vocabulary.unknown}
        self._language_ids = {code: number for number, code in enumerate(self.languages)}

    def normalize(self, text: str, language: str | None = None) -> str:
        """Text as it is read.

        Args:
            text: Any string.
            language: Its language; XLM's punctuation depends on it (None: English).
        """
        return self._cutter.normalize(text, language)

    def language_id(self, code: str) -> int:
        """Id of a language.

        Raises:
            ValueError: The tokenizer does not know the code; it lists those it knows.
        """
        if code not in self._language_ids:
            raise ValueError(
                f"unknown language {code!r}: the tokenizer {self.path} knows {', '.join(self.languages)}; correct the "
                "code in the data, or train or import the tokenizer with it (`interlingua tokenizer train --languages`)"
            )
        return self._language_ids[code]

    def encode(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> Pieces:
        """Normalise texts and cut them into pieces.

        Args:
            texts: Any strings.
            languages: Of each text. Only XLM's words depend on it, by rules for abbreviations and apostrophes (None: all are
                read as English).
        """
        cut = self._cut(texts, languages)
        return Pieces(cut.ids, self._cutter.find_words(cut.ids, cut.counts, cut.opens), cut.counts)

    def count_tokens(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> Int64[np.ndarray, "N"]:
        """Tokens of each text as a row of its own: its pieces, start and end token; 0 where nothing is left to read."""
        counts = self._cut(texts, languages).counts
        return np.where(counts > 0, counts + 2, 0)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Pieces as the vocabulary writes them, for people to look at."""
        return self._cutter.pieces(self._checked(ids))

    def has_piece(self, piece: str) -> bool:
        """Whether a string, such as a single character, is a piece of the vocabulary."""
        return self._cutter.has_piece(piece)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a sequence of ids; control tokens are left out.

        Raises:
            ValueError: An id lies outside the vocabulary.
        """
        return self._cutter.decode([number for number in self._checked(ids) if number not in self._silent])

    def _cut(self, texts: Sequence[str], languages: Sequence[str] | None) -> Cut:
        if languages is not None and len(languages) != len(texts):
            raise ValueError(f"{len(texts)} texts, but {len(languages)} languages: give one a text, or none at all")
        return self._cutter.cut(texts, languages)

    def _checked(self, ids: Sequence[int]) -> list[int]:
        size = self.vocabulary.size
        wrong = [number for number in ids if not 0 <= number < size]
        if wrong:
            raise ValueError(f"token id {wrong[0]} is not in the vocabulary of {self.path} (0 to {size - 1})")
        return list(ids)


def open_cutter(card: Card) -> Cutter:
    """What cuts texts by the files of a card.

    Raises:
        ImportError: It needs a package that is not installed.
        ValueError: The files are not of the card's family.
    """
    files = card.files
    if card.family == OWN:
        return OwnCutter(files[".model"], card.path)
    if card.family == "xlm-roberta":
        return XLMRobertaCutter(files[".model"], card.path)
    if card.family == "bert":
        return BERTCutter(files[".vocab.txt"], card.path, **card.options)
    return XLMCutter(files[".vocab.json"], files[".merges.txt"], card.path, **card.options)


def write_tokenizer(path: Path, model: bytes, languages: Sequence[str], training: dict[str, Any]) -> None:
    """Write the two files of a tokenizer of our own.

    Args:
        path: `NAME.model`.
        model: A SentencePiece model as bytes.
        languages: Codes in the order of their ids.
        training: How it was trained: for people, read by nothing.
    """
    vocabulary = asdict(read_vocabulary(open_model(model, str(path)), str(path)))
    write_card(Card(str(path), OWN, {".model": model}, {}, POLICY, vocabulary, tuple(languages)), training=training)
