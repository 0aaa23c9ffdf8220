"""From states to one vector a sample, by what is present and never by index."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from .transformer import initialize

Pooling = Literal["mean", "first"]


def pool(states: Float[Tensor, "B L D"], present: Bool[Tensor, "B L"], how: Pooling = "mean") -> Float[Tensor, "B D"]:
    """Mean over the present positions, or the first present one; zeros for a row with nothing present.

    Args:
        states: Encoder output.
        present: What is there; padding may stand on either side.
        how: `mean` or `first` (the start token of a text).
    """
    if how == "mean":
        weights = present.to(states.dtype)
        return torch.einsum("bld,bl->bd", states, weights) / weights.sum(1, keepdim=True).clamp_min(1)
    if present.shape[1] == 0:
        return states.new_zeros(states.shape[0], states.shape[2])
    first = present.int().argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), first] * present.any(1, keepdim=True)


Joint = Literal["text", "picture", "product", "sum", "none"]


class JointPooler(nn.Module):
    """One vector a sample that has seen both its text and its picture, from the first place of one stream or of both."""

    def __init__(
        self,
        text: int,
        picture: int,
        how: Joint = "text",
        width: int | None = None,
        activation: Literal["tanh", "relu"] = "tanh",
    ):
        """
        Args:
            text, picture: Widths of the states.
            how: `text`: of the first token (UNITER, LXMERT, VisualBERT). `picture`: of the first place of the picture (M3P).
                `product` or `sum`: of both (ViLBERT, arXiv:1908.02265, section 3.1). `none`: there is none.
            width: Of the result; None: that of the states (of the picture's, where both are pooled).
            activation: After each dense layer.

        Raises:
            ValueError: An unknown way or activation.
        """
        super().__init__()
        if how not in get_args(Joint) or activation not in ("tanh", "relu"):
            raise ValueError(
                f"joint pooler: found {how!r}, {activation!r}; expected one of {', '.join(get_args(Joint))}, and tanh or relu"
            )
        self.how, self.activate = how, torch.tanh if activation == "tanh" else torch.relu
        self.width = width or (text if how == "text" else picture)
        self.text = nn.Linear(text, self.width) if how in ("text", "product", "sum") else None
        self.picture = nn.Linear(picture, self.width) if how in ("picture", "product", "sum") else None
        self.apply(initialize)

    def forward(self, text: Float[Tensor, "B T"] | None, picture: Float[Tensor, "B P"] | None) -> Float[Tensor, "B D"] | None:
        """
        Args:
            text, picture: States of the first place; None where the batch has no such stream: what needs it gives None.
        """
        given = [(layer, one) for layer, one in ((self.text, text), (self.picture, picture)) if layer is not None]
        if not given or any(one is None for _, one in given):
            return None
        first, *second = [self.activate(layer(one)) for layer, one in given]
        if not second:
            return first
        return first * second[0] if self.how == "product" else first + second[0]
