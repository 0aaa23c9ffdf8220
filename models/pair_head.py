"""The head that says how the two halves of a pair belong together."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from .pooling import pool
from .transformer import initialize


class PairHead(nn.Module):
    """Two scores of a row, from its first token after a dense layer and tanh (BERT's released code, where `pooler` is
    `bert.pooler.dense` and `head` is `cls.seq_relationship`; no dropout between the two)."""

    def __init__(self, width: int):
        """
        Args:
            width: Width D of the states.
        """
        super().__init__()
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, 2)
        for layer in (self.pooler, self.head):
            initialize(layer)

    def forward(self, states: Float[Tensor, "B L D"], present: Bool[Tensor, "B L"]) -> Float[Tensor, "B 2"]:
        return self.head(torch.tanh(self.pooler(pool(states, present, "first"))))
