"""Weights of others: Hugging Face's layout of BERT, which XLM-R shares below its head, read into our modules.

A plain state dict is enough; neither `transformers` nor a configuration is needed. What a state dict does not tell must be
right in the tower already: epsilon of the norms (1e-12 in BERT, 1e-5 in XLM-R), number of heads, and the offset of positions.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from .heads import TokenHead
from .towers import TextTower

Names = Mapping[str, Sequence[str]]
"""Their names by ours; several are joined along their rows, in this order."""

EMBEDDINGS = {"tokens": "word_embeddings", "positions": "position_embeddings", "segments": "token_type_embeddings"}
BLOCK = {
    "attention.inward": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.outward": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "feed_forward.inward": ("intermediate.dense",),
    "feed_forward.outward": ("output.dense",),
    "feed_forward_norm": ("output.LayerNorm",),
}
HEAD = {"dense": "transform.dense", "norm": "transform.LayerNorm"}
ENDS = ("weight", "bias")


def load_bert(tower: TextTower, weights: Mapping[str, Tensor], prefix: str = "") -> None:
    """Give a post-norm text tower the weights of a `BertModel` or `XLMRobertaModel`, all of them or none.

    Args:
        tower: Of the same sizes; without language vectors, with as many segment vectors.
        weights: State dict in Hugging Face's layout; poolers and heads are left aside.
        prefix: What stands before the names of the model in it: `bert.` or `roberta.` below a head.

    Raises:
        ValueError: The tower has weights that the state dict lacks or holds in other shapes, or the state dict has embeddings
            or layers that the tower lacks; names them.
    """
    names = {f"embeddings.{ours}.weight": [f"{prefix}embeddings.{theirs}.weight"] for ours, theirs in EMBEDDINGS.items()}
    names |= {f"embeddings.norm.{end}": [f"{prefix}embeddings.LayerNorm.{end}"] for end in ENDS}
    for number in range(len(tower.transformer.blocks)):
        for ours, several in BLOCK.items():
            for end in ENDS:
                theirs = [f"{prefix}encoder.layer.{number}.{one}.{end}" for one in several]
                names[f"transformer.blocks.{number}.{ours}.{end}"] = theirs
    found = gather(tower, weights, names)
    read = {theirs for ours in found for theirs in names[ours]}
    parts = (f"{prefix}embeddings.", f"{prefix}encoder.")
    unread = [name for name, weight in weights.items() if name.startswith(parts) and weight.is_floating_point()]
    unread = [name for name in unread if name not in read]
    if unread:
        raise ValueError(f"the text tower has no place for {_some(unread)}; build it with as many layers and segments")
    tower.load_state_dict(found)


def load_bert_head(head: TokenHead, weights: Mapping[str, Tensor], prefix: str = "cls.predictions.") -> None:
    """Give an output head the weights of a `BertForMaskedLM`'s; the table stays the encoder's, as it is tied in both.

    Raises:
        ValueError: Weights are missing or of other shapes; names them.
    """
    names = {f"{ours}.{end}": [f"{prefix}{theirs}.{end}"] for ours, theirs in HEAD.items() for end in ENDS}
    head.load_state_dict(gather(head, weights, names | {"bias": [f"{prefix}bias"]}))


def gather(module: nn.Module, weights: Mapping[str, Tensor], names: Names) -> dict[str, Tensor]:
    """The weights of another layout for every parameter of a module, under its own names.

    Raises:
        ValueError: A parameter has no counterpart, or one that is missing or of another shape; names it.
    """
    found, missing = {}, []
    for ours, parameter in module.named_parameters():
        absent = [theirs for theirs in names.get(ours, ["no counterpart"]) if theirs not in weights]
        if absent:
            missing.append(f"{ours} ({', '.join(absent)})")
            continue
        parts = [weights[theirs] for theirs in names[ours]]
        found[ours] = torch.cat(parts) if len(parts) > 1 else parts[0]
        if found[ours].shape != parameter.shape:
            raise ValueError(
                f"{ours}: the weights {', '.join(names[ours])} give {tuple(found[ours].shape)}, but {type(module).__name__} "
                f"has {tuple(parameter.shape)}; build it with the sizes of the weights"
            )
    if missing:
        raise ValueError(
            f"{type(module).__name__} has parameters that the weights lack: {_some(missing)}; "
            "check the prefix, or build it without what the weights do not have"
        )
    return found


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
