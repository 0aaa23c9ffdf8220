"""The head over states of regions: dense layer, GELU, norm, then scores of classes or a feature (the released code of ViLBERT,
LXMERT and UNITER alike)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from .transformer import initialize


class RegionHead(nn.Module):
    """From states to numbers: by an output layer of its own, or by the transpose of the layer that led features inward.

    That layer stays the encoder's: the head looks it up when it is used, and neither owns, saves nor lists it.
    """

    def __init__(self, width: int, outputs: int, epsilon: float = 1e-12, tied: nn.Linear | None = None):
        """
        Args:
            width: Width D of the states.
            outputs: Numbers O that come out.
            epsilon: Of the norm.
            tied: The encoder's layer from features (O wide) to its width (UNITER, released code); None: a layer of its own.

        Raises:
            ValueError: The layer to be tied reads another number of features.
        """
        super().__init__()
        if tied is not None and tied.in_features != outputs:
            raise ValueError(f"a tied head gives {outputs} numbers, but the encoder's layer reads {tied.in_features}")
        inner = width if tied is None else tied.out_features
        self.width, self._tied = width, () if tied is None else (tied,)  # in a tuple, where the module's registry does not look
        self.dense, self.norm = nn.Linear(width, inner), nn.LayerNorm(inner, epsilon)
        self.output = nn.Linear(inner, outputs) if tied is None else None
        self.bias = None if tied is None else nn.Parameter(torch.zeros(outputs))
        self.apply(initialize)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N O"]:
        inner = self.norm(gelu(self.dense(states)))
        return linear(inner, self._tied[0].weight.t(), self.bias) if self.output is None else self.output(inner)
