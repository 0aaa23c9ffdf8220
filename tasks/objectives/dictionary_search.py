"""Words of a batch looked up in a bilingual dictionary, on the device, by a hash of their pieces.

The hash of a run of pieces is a polynomial over random numbers of its pieces, modulo 2^64 (Karp and Rabin 1987,
doi:10.1147/rd.312.0249): those of all runs of a row are differences of one running sum.
"""

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor, nn

from ...modalities.batch import Text
from ...modalities.chance import chance, pick, salt
from ...modalities.dictionary import Dictionary
from .phrases import Phrases, Words, find_words, windows
from .replacing import Pool, in_order

PIECE, ENTRY, TRANSLATION = salt("piece"), salt("dictionary entry"), salt("translation drawn")
BASE = 6364136223846793005
"""Odd, so that it has an inverse modulo 2^64."""
ANY = -1
"""In the place of a translation's language: any."""


class DictionarySearch(nn.Module):
    """A dictionary as tables that are searched by keys: hashes of a word, its language, and that of its translations."""

    def __init__(self, found: Dictionary, most: int):
        """
        Args:
            found: The dictionary.
            most: Longest phrase on either side, in words.
        """
        super().__init__()
        self.most = most
        short = found.word[found.start[1:] - 1] < most
        source, target = found.pairs[short[found.pairs[:, 1]]].T
        order = np.lexsort((target, found.language[target], source))  # translations into one language stand together
        source, target = (torch.from_numpy(side[order]) for side in (source, target))
        language, start = torch.from_numpy(found.language), torch.from_numpy(found.start)
        pieces = torch.from_numpy(found.pieces)
        codes = hash_runs(pieces[None], start[None, :-1], start[None, 1:])[0]
        wanted = torch.cat([torch.full_like(target, ANY), language[target]])
        keys = chance(ENTRY, codes[source].repeat(2), language[source].repeat(2), wanted)
        keys, count = torch.unique_consecutive(keys, return_counts=True)
        begin = (count.cumsum(0) - count) % max(1, len(target))
        order = keys.argsort()
        tables = {
            "keys": keys[order],
            "begin": begin[order],
            "count": count[order],
            "first": start[target],
            "last": start[target + 1],
            "pieces": pieces,
            "language": torch.repeat_interleave(language, start.diff()),
            "word": torch.from_numpy(found.word),
            "punctuation": torch.from_numpy(found.punctuation),
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    @property
    def pool(self) -> Pool:
        """The pieces of all words of the dictionary."""
        return Pool(self.pieces, self.language, self.word)

    def find_words(self, text: Text) -> Words:
        """Places of a text's words, as the dictionary has them: without the punctuation behind them."""
        return find_words(text, self.punctuation[text.tokens])

    def search(self, text: Text, words: Words, wanted: Int[Tensor, "B"], seed: Int64[Tensor, "B"]) -> Phrases:
        """Runs of words that the dictionary has, each with a translation drawn from its own.

        Args:
            text: One text a row.
            words: Of it, by `find_words`.
            wanted: Language of the translations, of each row; `ANY`: any but the word's own.
            seed: Random key of each row.
        """
        columns, most = in_order(text), self.most
        tokens, language = text.tokens.gather(1, columns), text.language.gather(1, columns)
        first = words.first[..., None].expand(*words.first.shape, most).flatten(1)
        end = windows(words.end, most, 0).flatten(1)
        codes = hash_runs(tokens, first, end)
        spoken = language.gather(1, first.clamp_max(tokens.shape[1] - 1))
        keys = chance(ENTRY, codes, spoken, wanted[:, None])
        if not len(self.keys):
            nothing = torch.zeros_like(first).view(*words.first.shape, most)
            return Phrases(nothing.bool(), nothing, nothing)
        at = torch.searchsorted(self.keys, keys).clamp_max(len(self.keys) - 1)
        valid = self.keys[at] == keys  # no word of the dictionary is empty
        drawn = self.begin[at] + pick(self.count[at], seed[:, None], TRANSLATION, first, end - first)
        return Phrases(*(one.view(*words.first.shape, most) for one in (valid, self.first[drawn], self.last[drawn])))


def hash_runs(tokens: Int[Tensor, "B L"], begin: Int[Tensor, "B N"], end: Int[Tensor, "B N"]) -> Int64[Tensor, "B N"]:
    """Hashes of the tokens from `begin` to before `end` of each row: the same wherever they stand."""
    powers, inverse = _powers(tokens.shape[1] + 1, str(tokens.device))
    terms = chance(tokens, PIECE) * powers[:-1]
    sums = torch.cat([terms.new_zeros(len(terms), 1), terms.cumsum(1)], 1)  # wraps around
    return (sums.gather(1, end) - sums.gather(1, begin)) * inverse[begin]


@lru_cache(maxsize=8)
def _powers(count: int, device: str) -> tuple[Int64[Tensor, "N"], Int64[Tensor, "N"]]:
    """Powers of the base from 0 on, and their inverses modulo 2^64."""
    ladder = []
    for base in (BASE, pow(BASE, -1, 2**64)):
        signed = base - 2**64 if base >= 2**63 else base
        steps = torch.full((count,), signed, dtype=torch.int64, device=device)
        steps[0] = 1
        ladder.append(steps.cumprod(0))
    return ladder[0], ladder[1]
