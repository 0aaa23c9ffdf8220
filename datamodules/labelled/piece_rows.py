"""Pieces that a layout has put together itself, as rows of a `Text`: `<s> pieces </s>`, padded on the right."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor

from ...modalities.batch import Text, number_positions
from ...modalities.tokenizer import Pieces
from ...modalities.vocabulary import Vocabulary


class PieceRow(NamedTuple):
    """What stands between the start and the end token of a row."""

    ids: Int64[np.ndarray, "T"]
    """At least one."""
    words: Int64[np.ndarray, "T"]
    """Word of each."""
    language: int
    """Id of the language of all."""


def fill_rows(rows: Sequence[PieceRow], vocabulary: Vocabulary) -> Text:
    """Rows as a text.

    Args:
        rows: At least one.
        vocabulary: Start, end and pad id.

    Returns:
        B = `len(rows)`, L = the longest row with its control tokens; a row is one document.
    """
    counts = torch.tensor([len(row.ids) for row in rows])
    present = torch.arange(int(counts.max()) + 2) < counts[:, None] + 2
    tokens = spread([row.ids for row in rows], vocabulary.pad)
    tokens[:, 0] = vocabulary.start
    tokens[torch.arange(len(rows)), counts + 1] = vocabulary.end
    language = torch.tensor([row.language for row in rows])[:, None].expand_as(tokens).contiguous()
    zeros = torch.zeros_like(tokens)
    return Text(tokens, present, language, spread([row.words for row in rows], -1), zeros, zeros, number_positions(present))


def spread(values: Sequence[Int64[np.ndarray, "_"]], padding: int) -> Int[Tensor, "B L"]:
    """Values of the pieces of rows at their places, behind the start token.

    Args:
        values: Of each row, one a piece.
        padding: What stands at all other places.
    """
    counts = torch.tensor([len(one) for one in values])
    column = torch.arange(int(counts.max()) + 2)
    grid = torch.full((len(values), len(column)), padding)
    grid[(column > 0) & (column <= counts[:, None])] = torch.from_numpy(np.concatenate(values))
    return grid


def replace_nothing(pieces: Pieces, vocabulary: Vocabulary) -> Pieces:
    """The unknown token in the place of each text of which nothing is left after normalisation."""
    places = np.cumsum(pieces.counts)[pieces.counts == 0]
    ids, words = np.insert(pieces.ids, places, vocabulary.unknown), np.insert(pieces.words, places, 0)
    return Pieces(ids, words, np.maximum(pieces.counts, 1))
