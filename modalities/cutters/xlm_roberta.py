"""XLM-R's vocabulary (arXiv:1911.02116; fairseq's dictionary): SentencePiece's ids plus one, four control tokens first.

fairseq numbers `<s>` 0, `<pad>` 1, `</s>` 2, `<unk>` 3, then the model's pieces after its own three (`<unk>`, `<s>`, `</s>`);
`<mask>` is the last. Real XLM-R: 250,000 pieces of the model, 250,002 rows, mask 250,001. XLM-V and InfoXLM are alike.

Texts are read as the model itself normalises them (`nmt_nfkc`: NFKC, U+200C a space, U+200D kept, runs of white space one), and
by nothing of ours, but that lone surrogates become U+FFFD. Literal control tokens stay text, as in fairseq; Hugging
Face's tokenizer reads a literal `</s>` or `<mask>` as the token.
"""

from collections.abc import Sequence

import numpy as np

from ..normalization import mend_surrogates
from ..vocabulary import Vocabulary
from ..words import SPACE, WordFinder
from .cutter import Cut, flatten
from .own import open_model

FIRST = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"
OF_MODEL = ("<unk>", "<s>", "</s>")
"""What a model of this family has as its first pieces."""


class XLMRobertaCutter:
    """Cuts by XLM-R's `sentencepiece.bpe.model`.

    Args:
        model: The model as bytes.
        path: Where it is from, for messages.

    Raises:
        ValueError: It is no SentencePiece model, or not of this family.
    """

    normalization = "the model's own"
    keeps_spaces = True

    def __init__(self, model: bytes, path: str):
        self._processor = open_model(model, path)
        size = self._processor.get_piece_size()
        of_model = [self._processor.id_to_piece(piece) for piece in range(size)]
        if tuple(of_model[:3]) != OF_MODEL:
            raise ValueError(
                f"{path}: the first pieces are {' '.join(of_model[:3])}; XLM-R's are {' '.join(OF_MODEL)}, and its ids are "
                "counted from there; give the sentencepiece.bpe.model of an XLM-R checkpoint"
            )
        self.vocabulary = Vocabulary(size + 2, pad=1, unknown=3, start=0, end=2, mask=size + 1)
        self._names = [*FIRST, *of_model[3:], MASK]
        self._ids = np.array([3, 0, 2, *range(4, size + 1)], dtype=np.int64)  # by number in the model
        values = [int(piece[3:5], 16) if self._is_byte(number) else -1 for number, piece in enumerate(self._names)]
        self.byte_pieces = np.array(values) >= 0
        self.find_words = WordFinder(self._names, values)

    def _is_byte(self, number: int) -> bool:
        return 3 < number < self.vocabulary.mask and self._processor.is_byte(number - 1)

    def normalize(self, text: str, language: str | None = None) -> str:
        return self._processor.normalize(mend_surrogates(text)).replace(SPACE, " ").strip()

    def cut(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> Cut:
        # One thread: loader workers already share the cores.
        rows = self._processor.encode([mend_surrogates(text) for text in texts], num_threads=1)
        counts = np.array([len(row) for row in rows], dtype=np.int64)
        return Cut(self._ids[flatten(rows, counts)], counts)

    def pieces(self, ids: list[int]) -> list[str]:
        return [self._names[number] for number in ids]

    def has_piece(self, piece: str) -> bool:
        return self._processor.piece_to_id(piece) > 2

    def decode(self, ids: list[int]) -> str:
        return self._processor.decode([0 if number == self.vocabulary.unknown else number - 1 for number in ids])
