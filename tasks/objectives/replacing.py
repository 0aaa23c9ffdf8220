"""Phrases of texts replaced by other pieces: all tokens of a batch sorted anew by row and place."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...modalities.batch import Text, number_positions
from .phrases import Chosen, ordinary


class Pool(NamedTuple):
    """Pieces that may be put in, one after the other."""

    tokens: Int[Tensor, "N"]
    language: Int[Tensor, "N"]
    word: Int[Tensor, "N"]
    """Pieces that follow each other are of one word where these are equal."""


def in_order(text: Text) -> Int[Tensor, "B L"]:
    """Columns of the present tokens of each row, in their order, wherever the padding is; the absent ones follow."""
    return torch.argsort((~text.present).to(torch.int8), dim=1, stable=True)


def pool_text(text: Text) -> Pool:
    """The pieces of a text: place p of row r is number r * L + p."""
    columns = in_order(text)
    return Pool(*(field.gather(1, columns).flatten() for field in (text.tokens, text.language, text.word)))


def replace_phrases(text: Text, chosen: Chosen, pool: Pool, pad: int) -> Text:
    """The text with pieces of the pool in the place of the phrases, padded on the right; words are numbered anew.

    A piece that is put in is shown and is not hidden; the others keep their marks, and every piece its language. What is
    left of a word at its end (its punctuation) is of the word that is put in before it.

    Args:
        text: One text a row.
        chosen: Phrases, and where in the pool to find what replaces them.
        pool: Of pieces.
        pad: Token id of the padding.
    """
    flat = _sort(text, chosen, pool)
    rows = text.tokens.shape[0]
    length = torch.bincount(flat["row"], minlength=rows)
    before = length.cumsum(0) - length
    words = torch.cat([length.new_zeros(1), flat["starts"].cumsum(0)])
    word = torch.where(flat["ordinary"], words[1:] - words[before[flat["row"]]] - 1, -1)

    slot = torch.arange(max(1, int(length.max())) if rows else 1, device=length.device)[None]
    present = slot < length[:, None]
    # What stands in the padding is of the row's last token; an empty row has that of an element behind all others.
    at = torch.where(length[:, None] > 0, before[:, None] + torch.minimum(slot, length[:, None] - 1), len(word))

    def grid(values: Tensor, empty: int | None = None) -> Tensor:
        laid = torch.cat([values, values.new_zeros(1)])[at]
        return laid if empty is None else laid.masked_fill(~present, empty)

    marked = text.hidden is not None or text.shown is not None
    return Text(
        tokens=grid(flat["tokens"], pad),
        present=present,
        language=grid(flat["language"]),
        word=grid(word, -1),
        segment=torch.zeros_like(at),
        document=torch.zeros_like(at),
        position=slot.expand_as(at),
        shown=grid(flat["shown"], pad) if marked else None,
        hidden=grid(flat["hidden"], False) if marked else None,
    )


def _sort(text: Text, chosen: Chosen, pool: Pool) -> dict[str, Tensor]:
    """What stays and what is put in, by row and place, with `starts`: whether a word begins."""
    stays, place = text.present & ~_taken_out(text, chosen), number_positions(text.present)
    size = chosen.stop - chosen.begin
    phrase = torch.repeat_interleave(size)
    within = torch.arange(len(phrase), device=size.device) - (size.cumsum(0) - size)[phrase]
    put = chosen.begin[phrase] + within
    kept = stays.nonzero(as_tuple=True)
    none, all_of = torch.zeros_like(kept[0]), torch.ones_like(put, dtype=torch.bool)
    hidden = torch.zeros_like(text.present) if text.hidden is None else text.hidden
    inside = ordinary(text)
    fields = {
        "row": (kept[0], chosen.row[phrase]),
        "place": (place[kept], chosen.first[phrase]),
        "within": (none, within + 1),
        "tokens": (text.tokens[kept], pool.tokens[put]),
        "language": (text.language[kept], pool.language[put]),
        "shown": (text.read[kept], pool.tokens[put]),
        "hidden": (hidden[kept], ~all_of),
        "ordinary": (inside[kept], all_of),
        "phrase": (none, phrase + 1),
        "word": (text.word[kept], pool.word[put]),
        "rest": (_rest(text, stays)[kept], ~all_of),
    }
    joined = {name: torch.cat(pair) for name, pair in fields.items()}
    key = (joined["row"] * (text.tokens.shape[1] + 1) + joined["place"]) * (len(pool.tokens) + 1) + joined["within"]
    order = key.argsort()
    flat = {name: values[order] for name, values in joined.items()}
    begins = torch.ones_like(flat["ordinary"])
    begins[1:] = torch.stack([flat[name][1:] != flat[name][:-1] for name in ("row", "phrase", "word", "ordinary")]).any(0)
    flat["starts"] = flat["ordinary"] & ~flat["rest"] & begins
    return flat


def _taken_out(text: Text, chosen: Chosen) -> Bool[Tensor, "B L"]:
    """Pieces of the phrases."""
    rows, width = text.tokens.shape
    edges = torch.zeros(rows, width + 1, dtype=torch.int64, device=text.tokens.device)
    one = torch.ones_like(chosen.row)
    edges = edges.index_put((chosen.row, chosen.first), one, accumulate=True)
    edges = edges.index_put((chosen.row, chosen.end), -one, accumulate=True)
    return (edges.cumsum(1) > 0).gather(1, number_positions(text.present)) & text.present


def _rest(text: Text, stays: Bool[Tensor, "B L"]) -> Bool[Tensor, "B L"]:
    """Pieces that stay of words of which others go."""
    inside, width = ordinary(text), text.tokens.shape[1]
    word = torch.where(inside, text.word, width).clamp_max(width)
    gone = torch.zeros(len(word), width + 1, dtype=torch.int64, device=word.device)
    gone = gone.scatter_reduce(1, word, (inside & ~stays).long(), "amax")
    return inside & stays & (gone.gather(1, word) > 0)
