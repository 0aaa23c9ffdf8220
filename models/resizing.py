"""Pretrained text towers with another vocabulary, other layers or more segment vectors."""

from collections.abc import Sequence
from dataclasses import asdict, replace

import torch
from torch import Tensor

from ..modalities.vocabulary import Vocabulary
from .families import make_arguments, position_offset
from .pretrained import Pretrained
from .soundness import refuse_unsound

LARGEST = 2_000_000
"""Entries of a vocabulary, twice those of the largest published one (XLM-V): beyond is a slip of the hand, not a language."""
TABLES = ("encoder.embeddings.tokens.weight", "head.bias")
"""Weights with a row for each vocabulary entry."""
BLOCKS, SEGMENTS = "encoder.transformer.blocks.", "encoder.embeddings.segments.weight"
DEVIATION = 0.02
"""Of new weights, as BERT has it (arXiv:1810.04805, released code)."""


def resize_vocabulary(pretrained: Pretrained, keep: Sequence[int] | None = None, add: int = 0) -> Pretrained:
    """The same tower with another vocabulary: kept entries keep their rows, in embedding and head alike.

    Args:
        pretrained: Whose vocabulary to change.
        keep: Old ids of the entries that stay, in their new order; None: all.
        add: How many entries to put behind them. Their rows are the mean of the kept ones, and so is their bias in the head:
            a new entry is then neither likelier nor less likely than the old ones are on average (Hewitt 2021).

    Raises:
        ValueError: An id is unknown, named twice, a control entry is left out, or the pad moves where positions are counted
            from its id, or a weight is not finite.
    """
    kind = pretrained.kind
    refuse_unsound(pretrained.weights, pretrained.family)
    old = Vocabulary(**pretrained.arguments["vocabulary"])
    kept = list(range(old.size)) if keep is None else list(keep)
    new = {number: row for row, number in enumerate(kept)}
    strange = [number for number in kept if not 0 <= number < old.size]
    if add < 0:
        raise ValueError(f"add is {add}; expected 0 or more new entries")
    if len(kept) + add > LARGEST:
        raise ValueError(
            f"{len(kept):,} entries and {add:,} new ones are {len(kept) + add:,}; a vocabulary may have up to {LARGEST:,}"
        )
    if strange or len(new) < len(kept):
        raise ValueError(
            f"cannot keep {len(kept)} entries and add {add}: unknown ids {strange[:3]}, {len(kept) - len(new)} named twice; "
            f"the vocabulary has ids 0 to {old.size - 1}"
        )
    controls = {name: number for name, number in asdict(old).items() if name != "size"}
    lost = [f"{name} {number}" for name, number in controls.items() if number not in new]
    if lost:
        raise ValueError(f"the control entries must be kept; missing: {', '.join(lost)}")
    vocabulary = Vocabulary(len(kept) + add, **{name: new[number] for name, number in controls.items()})
    if position_offset(kind, vocabulary) != position_offset(kind, old):
        raise ValueError(
            f"the id of pad must stay {old.pad}: {pretrained.family} counts positions from it; found {vocabulary.pad}"
        )
    rows = torch.tensor(kept)
    weights = dict(pretrained.weights)
    for name in TABLES:
        if name in weights:
            weights[name] = _grow(weights[name][rows], add)
    return replace(pretrained, arguments={**pretrained.arguments, "vocabulary": asdict(vocabulary)}, weights=weights)


def _grow(rows: Tensor, add: int) -> Tensor:
    mean = rows.float().mean(0, keepdim=True).to(rows.dtype)
    return torch.cat([rows, mean.expand(add, *rows.shape[1:])])


def resize_layers(pretrained: Pretrained, keep: Sequence[int], add: int = 0, seed: int = 0) -> Pretrained:
    """The same tower with some of its layers, in order, and new ones behind them, at random.

    A stream of a fused encoder may have other layers than the file (LXMERT's 14 begin as BERT's 12; CCLM's 12 are every second
    one of 24).

    Args:
        pretrained: Whose layers to change.
        keep: Numbers of the layers that stay, from 1, rising.
        add: How many new ones to put behind them: weights normal, biases 0, norms 1.
        seed: Of the new ones.

    Raises:
        ValueError: There is no such layer, numbers do not rise, or layers would share weights.
    """
    size = pretrained.arguments["size"] if pretrained.kind else {}
    if pretrained.arguments.get("distinct") is not None:
        raise ValueError("layers that share weights cannot be chosen one by one")
    if add < 0 or not keep or list(keep) != sorted(set(keep)) or not 1 <= keep[0] <= keep[-1] <= size["layers"]:
        wanted = ", ".join(map(str, keep)) or "none"
        raise ValueError(
            f"cannot keep layers {wanted} and add {add}: there are 1 to {size['layers']}; expected some of them, in order, and "
            "0 or more new ones"
        )
    generator = torch.Generator().manual_seed(seed)
    weights = {name: weight for name, weight in pretrained.weights.items() if not name.startswith(BLOCKS)}
    for after, before in enumerate([number - 1 for number in keep] + add * [0]):
        start = f"{BLOCKS}{before}."
        for name, weight in pretrained.weights.items():
            if name.startswith(start):
                is_new = after >= len(keep)
                weights[f"{BLOCKS}{after}.{name.removeprefix(start)}"] = (
                    _draw_like(name, weight, generator) if is_new else weight
                )
    arguments = {**pretrained.arguments, "size": {**size, "layers": len(keep) + add}}
    return replace(pretrained, arguments=arguments, weights=weights)


def _draw_like(name: str, weight: Tensor, generator: torch.Generator) -> Tensor:
    if name.endswith("bias"):
        return torch.zeros_like(weight)
    if "norm" in name:
        return torch.ones_like(weight)
    return (torch.randn(weight.shape, generator=generator) * DEVIATION).to(weight.dtype)


def resize_segments(pretrained: Pretrained, count: int, seed: int = 0) -> Pretrained:
    """The same tower with so many segment vectors: the first ones, and new ones at random (UC2's second, VL-BERT's third).

    Args:
        pretrained: Whose segment vectors to change.
        count: How many there are to be.
        seed: Of the new ones.

    Raises:
        ValueError: The family has none, or there would be none.
    """
    if pretrained.kind.name not in ("bert", "xlm-roberta") or count < 1:
        raise ValueError(
            f"cannot have {count} segment vectors in {pretrained.family}; expected 1 or more, in bert or xlm-roberta"
        )
    table = pretrained.weights[SEGMENTS]
    new = torch.randn(max(0, count - len(table)), table.shape[1], generator=torch.Generator().manual_seed(seed)) * DEVIATION
    weights = {**pretrained.weights, SEGMENTS: torch.cat([table[:count], new.to(table.dtype)])}
    size = {**pretrained.arguments["size"], "max_tokens": pretrained.arguments["max_tokens"], "segments": count}
    told = make_arguments(pretrained.kind, size, Vocabulary(**pretrained.arguments["vocabulary"]), {})
    arguments = {name: value for name, value in pretrained.arguments.items() if name != "segments"}
    arguments |= {"segments": told["segments"]} if "segments" in told else {}
    return replace(pretrained, arguments=arguments, weights=weights)
