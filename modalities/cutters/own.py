"""Our own vocabularies: SentencePiece (arXiv:1808.06226), unigram with byte fallback, under our own normalisation.

Control tokens (pad, unknown, start, end, mask) are control symbols of the model and never arise from text: a literal `</s>`
or `<mask>` stays the ordinary characters it is written with.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..normalization import POLICY, normalize
from ..vocabulary import Vocabulary
from ..words import WordFinder
from .cutter import Cut, flatten

MASK = "<mask>"


class OwnCutter:
    """Cuts by a model that `interlingua tokenizer train` wrote.

    Args:
        model: The model as bytes.
        path: Where it is from, for messages.

    Raises:
        ValueError: It is no SentencePiece model, or lacks what we build on.
    """

    normalization = POLICY
    keeps_spaces = True

    def __init__(self, model: bytes, path: str):
        self._processor = open_model(model, path)
        self.vocabulary = read_vocabulary(self._processor, path)
        pieces = [self._processor.id_to_piece(piece) for piece in range(self.vocabulary.size)]
        values = [int(piece[3:5], 16) if self._processor.is_byte(number) else -1 for number, piece in enumerate(pieces)]
        self.byte_pieces = np.array(values) >= 0
        self.find_words = WordFinder(pieces, values)

    def normalize(self, text: str, language: str | None = None) -> str:
        return normalize(text)

    def cut(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> Cut:
        # One thread: loader workers already share the cores.
        rows = self._processor.encode([normalize(text) for text in texts], num_threads=1)
        counts = np.array([len(row) for row in rows], dtype=np.int64)
        return Cut(flatten(rows, counts), counts)

    def pieces(self, ids: list[int]) -> list[str]:
        return self._processor.id_to_piece(ids)

    def has_piece(self, piece: str) -> bool:
        return self._processor.piece_to_id(piece) != self.vocabulary.unknown

    def decode(self, ids: list[int]) -> str:
        return self._processor.decode(ids)


def open_model(model: bytes, path: str) -> Any:
    """A processor of a SentencePiece model.

    Raises:
        ValueError: It is none.
    """
    from sentencepiece import SentencePieceProcessor

    try:
        return SentencePieceProcessor(model_proto=model)
    except RuntimeError:
        raise ValueError(f"{path}: not a SentencePiece model, or cut short; copy it anew, or train it again") from None


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
            "arise from text; train it with `interlingua tokenizer train`, or, if it is a published model's, take it over with "
            "`interlingua tokenizer import`"
        )
    return Vocabulary(processor.get_piece_size(), **ids)
