"""Rows of several batches as one batch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...modalities.batch import Batch
from ..ranks import EMPTY

TRUTH = {"shown": ("tokens", "features", "ids")}
"""Fields of the truth that a missing mark stands for."""


def join_rows(batches: Sequence[Batch], pad: int = 0) -> Batch:
    """Concatenate the rows of batches of one source, in their order.

    Positions, regions, sound and codes are padded on the right to the longest. A modality that only some batches have
    is absent from the rows of the others; a mark that only some have says of the others that nothing is hidden and
    that all belong.

    Args:
        batches: At least one; pictures must have equal sizes.
        pad: Token id where no text is present.

    Raises:
        ValueError: The batches are of different sources, their pictures differ in size, or their sound in rate.
    """
    sources = sorted({batch.source for batch in batches})
    if len(sources) != 1:
        raise ValueError(f"only rows of one source can be joined, found {sources}: items are numbered by their source")
    return batches[0] if len(batches) == 1 else _join(list(batches), [batch.size for batch in batches], pad)


def refuse_packed(batch: Batch, objective: str) -> None:
    """Raise ValueError if a row holds several documents, for an objective that scores rows as a whole."""
    for name in ("text", "translation"):
        text = getattr(batch, name)
        if text is not None and bool((text.document[text.present] != 0).any()):
            raise ValueError(
                f"{objective} scores one item a row, but rows of source {batch.source!r} are packed: several documents share "
                f"a {name}; leave packing out of this source, or give {objective} a source of its own"
            )


def refuse_single(batch: Batch, objective: str) -> None:
    """Raise ValueError if a source reads no translations, for an objective that would have nothing to learn from them."""
    if batch.text is None or batch.translation is None:
        raise ValueError(
            f"{objective}: source {batch.source!r} has no translation; let it read texts and their translations "
            "(`text: {}` and `translation: {}`), or give it masked language modelling instead"
        )


def _join(parts: list, sizes: list[int], pad: int):
    """Join NamedTuples of one kind; `sizes` are their numbers of rows, one of a `None` part too."""
    like = next(part for part in parts if part is not None)
    fields = {name: [None if part is None else getattr(part, name) for part in parts] for name in like._fields}
    fills = {**EMPTY, "pad": pad, **(dict.fromkeys(("tokens", "shown"), pad) if "tokens" in fields else {})}
    return type(like)(**{name: _join_field(name, parts, values, sizes, fills) for name, values in fields.items()})


def _join_field(name: str, parts: list, values: list, sizes: list[int], fills: dict[str, int]):
    like = next((value for value in values if value is not None), None)
    if isinstance(like, tuple):
        return _join(values, sizes, fills["pad"])
    if not isinstance(like, Tensor):
        found = {value for value in values if value is not None}
        if len(found) > 1:
            raise ValueError(f"only rows of one {name} can be joined, found {sorted(found)}")
        return like
    fill = fills.get(name, 0)
    filled = []
    for part, value, size in zip(parts, values, sizes, strict=True):
        if value is None:
            value = _missing(name, part, like, size, fill)
        filled.append(value)
    widths = [max(value.shape[axis] for value in filled) for axis in range(1, like.ndim)]
    if name == "pixels" and any(list(value.shape[1:]) != widths for value in filled):
        raise ValueError(f"pictures of one batch must have equal sizes, found {sorted({tuple(v.shape[1:]) for v in filled})}")
    return torch.cat([_widen(value, widths, fill) for value in filled])


def _missing(name: str, part, like: Tensor, size: int, fill: int) -> Tensor:
    """What a field that is `None` stands for."""
    if name == "matched":
        return like.new_ones(size)
    if name == "shown" and part is not None:
        return next(getattr(part, truth) for truth in TRUTH[name] if truth in part._fields)
    return like.new_full((size, *like.shape[1:]), fill)


def _widen(value: Tensor, widths: list[int], fill: int) -> Tensor:
    if list(value.shape[1:]) == widths:
        return value
    wide = value.new_full((len(value), *widths), fill)
    wide[tuple(slice(length) for length in value.shape)] = value
    return wide
