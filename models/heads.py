"""Output heads that share a table with the encoder."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .linear_cross_entropy import linear_cross_entropy
from .transformer import initialize


class TokenHead(nn.Module):
    """Scores of vocabulary entries: dense layer, GELU, norm, then the embedding table and a bias (BERT's released code);
    or, plain, the table and the bias alone (XLM's released code).

    The table stays the encoder's: the head looks it up in the embedding when it is used, and neither owns, saves nor
    lists it, so the tie outlives moves, copies and loads of a model that holds both.
    """

    def __init__(self, tokens: nn.Embedding, width: int, epsilon: float = 1e-5, plain: bool = False):
        """
        Args:
            tokens: The encoder's token embedding, V entries of width E.
            width: Width D of the states that are scored.
            epsilon: Of the norm.
            plain: Whether dense layer, GELU and norm are left out; E must then be D.
        """
        super().__init__()
        self._tied = (tokens,)  # in a tuple, where the module's registry does not look
        self.width = width
        self.dense = None if plain else nn.Linear(width, tokens.embedding_dim)
        self.norm = None if plain else nn.LayerNorm(tokens.embedding_dim, epsilon)
        self.bias = nn.Parameter(torch.zeros(tokens.num_embeddings))
        if self.dense is not None:
            initialize(self.dense)

    def like(self, other: "TokenHead") -> bool:
        """Whether both score states of one width against one table in the same way."""
        return self.table is other.table and self.width == other.width and (self.dense is None) == (other.dense is None)

    @property
    def table(self) -> Tensor:
        """The embedding table `[V, E]`."""
        return self._tied[0].weight

    def transform(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N E"]:
        if self.dense is None:
            return states
        return self.norm(nn.functional.gelu(self.dense(states)))

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        return nn.functional.linear(self.transform(states), self.table, self.bias)

    def best(self, states: Float[Tensor, "N D"], rows: int = 64) -> Int[Tensor, "N"]:
        """The entry that each row scores highest, with the scores of a few rows at a time."""
        parts = [self(part).argmax(1) for part in states.split(rows)]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.long, device=states.device)

    def cross_entropy(self, states: Float[Tensor, "N D"], targets: Int[Tensor, "N"]) -> Float[Tensor, ""]:
        """Summed cross-entropy of the scores, which are never all held at once."""
        return linear_cross_entropy(self.transform(states), self.table, self.bias, targets)
