"""BERT's WordPiece (arXiv:1810.04805, section 3; multilingual BERT's README), through Hugging Face's `tokenizers`.

Texts are cleaned as BERT does it (controls and format characters dropped, among them U+200B to U+200D), Han characters are
spaced, punctuation stands alone, the rest of a word is its longest pieces from the left. The cased vocabularies know no
Unicode normalisation: composed and decomposed spellings have different ids; the uncased lower-case and drop accents. Literal
`[MASK]` and the like stay text; Hugging Face's tokenizer reads them as the token.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..normalization import mend_surrogates
from ..vocabulary import Vocabulary
from ..words import WordFinder
from .cutter import ORDINARY, Cut
from .known_words import KnownWords, import_tokenizers

CONTROLS = {"pad": "[PAD]", "unknown": "[UNK]", "start": "[CLS]", "end": "[SEP]", "mask": "[MASK]"}
INSIDE = "##"


class BERTCutter:
    """Cuts by a `vocab.txt`.

    Args:
        vocabulary: Contents of the file, a piece a line.
        path: Where it is from, for messages.
        lower_case: Whether texts are lower-cased.
        strip_accents: Whether accents are dropped.
        chinese_characters: Whether Han characters are spaced.

    Raises:
        ImportError: `tokenizers` is not installed.
        ValueError: A control token is missing, or a piece is there twice.
    """

    keeps_spaces = False

    def __init__(self, vocabulary: bytes, path: str, lower_case: bool, strip_accents: bool, chinese_characters: bool):
        tokenizers = import_tokenizers(path)
        self._names = read_lines(vocabulary)
        self._ids = {piece: number for number, piece in enumerate(self._names)}
        check_pieces(self._names, self._ids, path)
        missing = [token for token in CONTROLS.values() if token not in self._ids]
        if missing:
            raise ValueError(f"{path}: no {', '.join(missing)} in the vocabulary; give the vocab.txt of a BERT checkpoint")
        self.vocabulary = Vocabulary(len(self._names), **{name: self._ids[token] for name, token in CONTROLS.items()})
        self.byte_pieces = np.zeros(len(self._names), dtype=bool)
        bodies = [piece.removeprefix(INSIDE) for piece in self._names]
        bodies[self.vocabulary.unknown] = ORDINARY
        self.find_words = WordFinder(bodies, [-1] * len(bodies))
        cases = "lower case" if lower_case else "cased"
        self.normalization = f"BERT's, {cases}, accents {'dropped' if strip_accents else 'kept'}"

        def normalizer(lowercase: bool, accents: bool, chinese: bool) -> Any:
            return tokenizers.normalizers.BertNormalizer(
                clean_text=True, handle_chinese_chars=chinese, strip_accents=accents, lowercase=lowercase
            )

        self._cleaner = normalizer(False, False, False)
        self._normalizer = normalizer(lower_case, strip_accents, False)
        cutter = tokenizers.Tokenizer(tokenizers.models.WordPiece(self._ids, unk_token=CONTROLS["unknown"]))
        cutter.normalizer = normalizer(lower_case, strip_accents, chinese_characters)
        cutter.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        self._words = KnownWords(cutter)

    def normalize(self, text: str, language: str | None = None) -> str:
        return " ".join(self._normalizer.normalize_str(mend_surrogates(text)).split())

    def cut(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> Cut:
        return self._words.cut([self._split(text) for text in texts])

    def _split(self, text: str) -> list[str]:
        # Cleaning leaves no white space but spaces, and it decides what was white space.
        return [part for part in self._cleaner.normalize_str(mend_surrogates(text)).split(" ") if part]

    def pieces(self, ids: list[int]) -> list[str]:
        return [self._names[number] for number in ids]

    def has_piece(self, piece: str) -> bool:
        return piece in self._ids or INSIDE + piece in self._ids

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.pieces(ids)).replace(" " + INSIDE, "")


def read_lines(contents: bytes) -> list[str]:
    """Lines of a vocabulary file, without what ends them; other white space is part of a piece."""
    lines = contents.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def check_pieces(names: Sequence[str], ids: dict[str, int], path: str) -> None:
    """Refuse a vocabulary with a piece that is there twice.

    Raises:
        ValueError: Names the first.
    """
    for number, piece in enumerate(names):
        if ids[piece] != number:
            raise ValueError(
                f"{path}: the piece {piece!r} is there twice, as {number} and {ids[piece]}; ids count lines, so a line must "
                "neither be added nor lost: copy the file anew"
            )
