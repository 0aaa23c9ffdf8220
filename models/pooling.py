"""From states to one vector a sample, by what is present and never by index."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

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
