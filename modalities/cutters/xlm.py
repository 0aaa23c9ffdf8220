"""XLM's byte-pair codes (arXiv:1901.07291, section 3.1), as fastBPE learns them, through Hugging Face's `tokenizers`.

Ids: 0 `<s>`, 1 `</s>`, 2 `<pad>`, 3 `<unk>`, 4 to 13 `<special0>` to `<special9>`, of which the second is the mask, then pieces
by frequency. A piece at a word's end carries `</w>`, as Hugging Face writes it; XLM's own files mark all others with `@@`, and
`import_tokenizer` turns those into these.

What texts start with differs between the code that trained the checkpoints and Hugging Face's (transformers#3791): XLM's
own data start and end with `</s>`, and `<s>` was never trained (XLM#43, #130). Presets: `xlm_original`, and `xlm_hf`.
"""

import json
from collections.abc import Sequence

import numpy as np

from ..normalization import mend_surrogates
from ..vocabulary import Vocabulary
from ..words import WordFinder
from .cutter import ORDINARY, Cut
from .known_words import KnownWords, import_tokenizers
from .moses import DEFAULT_LANGUAGE, MosesWords

SPECIAL = ("<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10)))
PRESETS = {"xlm_original": 1, "xlm_hf": 0}
"""Id of the start token."""
END = "</w>"
_UNKNOWN = 3


class XLMCutter:
    """Cuts by a `vocab.json` and `merges.txt`.

    Args:
        vocabulary: Contents of `vocab.json`: number of each piece.
        merges: Contents of `merges.txt`: two pieces a line (and, maybe, how often they stood together), in the order in which
            they are joined.
        path: Where they are from, for messages.
        lower_case: Whether texts are lower-cased and lose their accents.
        preset: One of `PRESETS`.

    Raises:
        ImportError: `tokenizers` or `sacremoses` is not installed.
        ValueError: The files are not XLM's.
    """

    keeps_spaces = False

    def __init__(self, vocabulary: bytes, merges: bytes, path: str, lower_case: bool, preset: str):
        tokenizers = import_tokenizers(path)
        if preset not in PRESETS:
            raise ValueError(f"{path}: the preset is {preset!r}; expected one of {', '.join(PRESETS)}")
        self._ids = read_ids(vocabulary, path)
        self._names = [""] * (max(self._ids.values()) + 1)
        for piece, number in self._ids.items():
            self._names[number] = piece
        self.vocabulary = Vocabulary(len(self._names), pad=2, unknown=_UNKNOWN, start=PRESETS[preset], end=1, mask=5)
        self.byte_pieces = np.zeros(len(self._names), dtype=bool)
        bodies = [ORDINARY if number < len(SPECIAL) else piece.removesuffix(END) for number, piece in enumerate(self._names)]
        self.find_words = WordFinder(bodies, [-1] * len(bodies))
        self._moses = MosesWords(lower_case, preset == "xlm_hf", path)
        controls = "dropped" if preset == "xlm_hf" else "spaces"
        cases = "lower case without accents" if lower_case else "cased"
        self.normalization = f"Moses, {cases}, control characters {controls}"
        pairs = read_merges(merges, path)
        # Pieces that are joined further need no row of their own; those without one are unknown.
        known = dict(self._ids)
        extra = (piece for pair in pairs for piece in (*pair, "".join(pair)) if piece not in self._ids)
        known.update({piece: self.vocabulary.size + number for number, piece in enumerate(dict.fromkeys(extra))})
        rows = np.arange(max(known.values()) + 1)
        self._rows = np.where(rows < self.vocabulary.size, rows, _UNKNOWN)
        self._rows[list(set(range(len(SPECIAL))) - {_UNKNOWN})] = _UNKNOWN  # whatever codes say, text is no control token
        codes = tokenizers.models.BPE(known, pairs, unk_token=SPECIAL[_UNKNOWN], end_of_word_suffix=END, fuse_unk=False)
        self._words = KnownWords(tokenizers.Tokenizer(codes))

    def normalize(self, text: str, language: str | None = None) -> str:
        return self._moses.fold(self._moses.normalize(mend_surrogates(text), language or DEFAULT_LANGUAGE))

    def cut(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> Cut:
        languages = [DEFAULT_LANGUAGE] * len(texts) if languages is None else languages
        split = [self._moses.split(mend_surrogates(text), code) for text, code in zip(texts, languages, strict=True)]
        cut = self._words.cut([words for words, _ in split], [places for _, places in split])
        return cut._replace(ids=self._rows[cut.ids])

    def pieces(self, ids: list[int]) -> list[str]:
        return [self._names[number] for number in ids]

    def has_piece(self, piece: str) -> bool:
        return piece in self._ids or piece + END in self._ids

    def decode(self, ids: list[int]) -> str:
        return "".join(self.pieces(ids)).replace(END, " ").strip()


def read_ids(vocabulary: bytes, path: str) -> dict[str, int]:
    """Number of each piece.

    Numbers may be missing: where Hugging Face's file spells two of XLM's pieces alike, one number is left over.

    Raises:
        ValueError: It is no such file, two pieces have one number, or the first are not XLM's.
    """
    try:
        ids = json.loads(vocabulary)
        names = {number: piece for piece, number in ids.items()}
        whole = all(type(number) is int and number >= 0 for number in names) and len(names) == len(ids)
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"{path}: not a JSON object of pieces and their numbers; give XLM's vocab.json") from None
    if not whole:
        raise ValueError(f"{path}: the numbers of the pieces are not all different and 0 or more; copy the file anew")
    first = tuple(names.get(number, "?") for number in range(len(SPECIAL)))
    if first != SPECIAL:
        raise ValueError(
            f"{path}: the first pieces are {' '.join(first)}; XLM's are {' '.join(SPECIAL)}: give the vocabulary of an XLM "
            "checkpoint"
        )
    return ids


def read_merges(merges: bytes, path: str) -> list[tuple[str, str]]:
    """Pairs of pieces in the order in which they are joined.

    Raises:
        ValueError: A line has fewer than two.
    """
    pairs = []
    for number, line in enumerate(merges.decode("utf-8").split("\n"), 1):
        if line.startswith("#version") or not line.strip():
            continue
        first, *rest = line.rstrip("\r").split(" ")
        if not (first and rest and rest[0]):
            raise ValueError(
                f"{path}, line {number}: {line!r}; expected two pieces that are joined, as in XLM's merges or codes"
            )
        pairs.append((first, rest[0]))
    return pairs


def write_ids(ids: dict[str, int]) -> bytes:
    """`vocab.json`, in one way."""
    ordered = sorted(ids.items(), key=lambda item: item[1])
    return (json.dumps(dict(ordered), ensure_ascii=False, indent=0) + "\n").encode()


def write_merges(pairs: Sequence[tuple[str, str]]) -> bytes:
    """`merges.txt`, in one way."""
    return "".join(f"{first} {second}\n" for first, second in pairs).encode()
