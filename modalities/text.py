"""Texts to the batch's `Text`: `<s> pieces </s>`, padded on the right to the longest row."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from .batch import Text, number_positions
from .chance import chance
from .tokenizer import Tokenizer


def collate_text(texts: Sequence[str | None], languages: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> Text:
    """Tokenise one text a sample.

    Args:
        texts: `None`, or a text that is empty after normalisation, gives a row in which nothing is present.
        languages: Code of each text's language; not looked at where nothing is present.
        max_tokens: Longest row, start and end token included. A longer text loses pieces, never its end token.

    Returns:
        Ids as int64, B = `len(texts)`, L = the longest row (at least 1).

    Raises:
        ValueError: `max_tokens` leaves no room for a piece, the lists differ in length, or a language is unknown.
    """
    if max_tokens < 3:
        raise ValueError(f"max_tokens is {max_tokens}; at least 3 are needed for start token, one piece and end token")
    if len(texts) != len(languages):
        raise ValueError(f"{len(texts)} texts, but {len(languages)} languages: every text needs its language code")
    pieces = tokenizer.encode([text or "" for text in texts])
    there = pieces.counts > 0
    kept = np.minimum(pieces.counts, max_tokens - 2)
    lengths = np.where(there, kept + 2, 0)
    column = np.arange(max(1, lengths.max(initial=0)))[None]
    present = column < lengths[:, None]
    inside = (column > 0) & (column <= kept[:, None])
    source = ((np.cumsum(pieces.counts) - pieces.counts)[:, None] + column - 1)[inside]
    tokens = np.full(present.shape, tokenizer.vocabulary.pad, dtype=np.int64)
    tokens[there, 0] = tokenizer.vocabulary.start
    tokens[there, kept[there] + 1] = tokenizer.vocabulary.end
    tokens[inside] = pieces.ids[source]
    word = np.full(present.shape, -1, dtype=np.int64)
    word[inside] = pieces.words[source]
    known = [tokenizer.language_id(code) if here else 0 for code, here in zip(languages, there, strict=True)]
    filled = torch.from_numpy(present)
    return Text(
        tokens=torch.from_numpy(tokens),
        present=filled,
        language=torch.tensor(known, dtype=torch.int64)[:, None].repeat(1, present.shape[1]),
        word=torch.from_numpy(word),
        segment=torch.zeros(present.shape, dtype=torch.int64),
        document=torch.zeros(present.shape, dtype=torch.int64),
        position=number_positions(filled),
    )


def text_identity(text: Text) -> Int[Tensor, "B"]:
    """A hash of the present tokens in their order: equal texts have equal identities, whatever their padding.

    Two languages that spell a text alike have one identity. Rows in which nothing is present share one, too: whoever
    compares rows leaves those out.
    """
    terms = chance(text.tokens, number_positions(text.present))
    return chance((terms * text.present).sum(1), text.present.sum(1))
