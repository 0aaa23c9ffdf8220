"""The transformer, written once: every tower and every stream is made of these blocks.

Attention and feed-forward after Vaswani et al. 2017 (arXiv:1706.03762, section 3); the norm stands after each residual
sum (post-norm, as in BERT and XLM-R) or before each sub-layer with one more at the end (pre-norm, Xiong et al.
arXiv:2002.04745). Blocks work on packed rows (see `packing`): they know nothing of padding.
"""

from collections.abc import Collection
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Mask = Bool[Tensor, "rows 1 length length"] | None


class Attention(nn.Module):
    """Multi-head self-attention by `scaled_dot_product_attention`."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0):
        """
        Args:
            width: Width of the states.
            heads: Number of heads; divides `width`.
            dropout: Rate on the attention weights. It doubles the cost of attention on CPU, so towers leave it at 0.
        """
        super().__init__()
        if width < 1 or heads < 1:
            raise ValueError(f"attention: width is {width} and heads is {heads}; expected 1 or more of each")
        if width % heads:
            raise ValueError(f"attention: width {width} is not divisible by {heads} heads")
        self.heads, self.dropout = heads, dropout
        self.inward = nn.Linear(width, 3 * width)  # query, key, value
        self.outward = nn.Linear(width, width)

    def forward(self, states: Float[Tensor, "rows length D"], mask: Mask) -> Float[Tensor, "rows length D"]:
        rows, length, width = states.shape
        joined = self.inward(states).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = joined.permute(2, 0, 3, 1, 4)  # each [rows, heads, length, width of a head]
        mixed = F.scaled_dot_product_attention(query, key, value, mask, self.dropout if self.training else 0.0)
        return self.outward(mixed.transpose(1, 2).reshape(rows, length, width))


class FeedForward(nn.Module):
    """Two linear layers with an exact GELU between (the tanh form is another function, and slower on CPU)."""

    def __init__(self, width: int, inner: int):
        super().__init__()
        self.inward, self.outward = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, states: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        return self.outward(F.gelu(self.inward(states)))


class Block(nn.Module):
    """Self-attention, then feed-forward, each with its residual sum and norm."""

    def __init__(
        self, width: int, heads: int, inner: int, prenorm: bool, dropout: float, attention_dropout: float, epsilon: float
    ):
        super().__init__()
        self.prenorm = prenorm
        self.attention = Attention(width, heads, attention_dropout)
        self.attention_norm = nn.LayerNorm(width, epsilon)
        self.feed_forward = FeedForward(width, inner)
        self.feed_forward_norm = nn.LayerNorm(width, epsilon)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "rows length D"], mask: Mask) -> Float[Tensor, "rows length D"]:
        if self.prenorm:
            states = states + self.dropout(self.attention(self.attention_norm(states), mask))
            return states + self.dropout(self.feed_forward(self.feed_forward_norm(states)))
        states = self.attention_norm(states + self.dropout(self.attention(states, mask)))
        return self.feed_forward_norm(states + self.dropout(self.feed_forward(states)))


class Transformer(nn.Module):
    """A stack of blocks over packed rows."""

    def __init__(
        self,
        width: int,
        layers: int,
        heads: int,
        inner: int | None = None,
        norm: Literal["pre", "post"] = "post",
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        epsilon: float = 1e-5,
        recompute: bool = False,
        distinct: int | None = None,
    ):
        """
        Args:
            width: Width D of the states.
            layers: Number of blocks that the states pass through.
            heads: Attention heads of a block; divides `width`.
            inner: Width of the feed-forward layer; 4 x `width` where not given.
            norm: `post` (BERT, XLM-R) or `pre`, which ends with one more norm.
            dropout: Rate after attention and after feed-forward, before each residual sum.
            attention_dropout: Rate on the attention weights.
            epsilon: Of the layer norms.
            recompute: Activation checkpointing: keep only the blocks' inputs and compute the rest again in the backward
                pass; about a third more time for much less memory.
            distinct: Blocks with weights of their own, each serving as many neighbouring layers as the next: 1 is ALBERT
                (arXiv:1909.11942, section 3.1); divides `layers`. None: every layer has its own.
        """
        super().__init__()
        if norm not in ("pre", "post"):
            raise ValueError(f"transformer: norm must be 'pre' or 'post', found {norm!r}")
        if layers < 0:
            raise ValueError(f"transformer: layers is {layers}; expected 0 (embeddings alone) or more")
        for name, number in {"width": width, "heads": heads, "inner": inner}.items():
            if number is not None and number < 1:
                raise ValueError(f"transformer: {name} is {number}; expected 1 or more")
        if not epsilon > 0:
            raise ValueError(f"transformer: epsilon is {epsilon}; expected a number above 0")
        if distinct is not None and (distinct < 1 or layers % distinct):
            raise ValueError(f"transformer: distinct is {distinct}; expected a number that divides the {layers} layers")
        self.width, self.layers, self.recompute = width, layers, recompute
        self.blocks = nn.ModuleList(
            Block(width, heads, 4 * width if inner is None else inner, norm == "pre", dropout, attention_dropout, epsilon)
            for _ in range(layers if distinct is None else distinct)
        )
        self.norm = nn.LayerNorm(width, epsilon) if norm == "pre" else nn.Identity()
        self.apply(initialize)

    def forward(
        self, states: Float[Tensor, "rows length D"], mask: Mask = None, keep: Collection[int] = ()
    ) -> tuple[Float[Tensor, "rows length D"], dict[int, Float[Tensor, "rows length D"]]]:
        """
        Args:
            states: Packed rows.
            mask: True where the second position may be attended to from the first; None: all see all in their row.
            keep: Numbers of blocks after which the states are wanted too; 0: what comes in.

        Returns:
            The last states, normed in a pre-norm stack, and the kept ones, as they are between blocks.

        Raises:
            ValueError: A number in `keep` is beyond the last block.
        """
        if any(not 0 <= number <= self.layers for number in keep):
            raise ValueError(f"states after blocks {sorted(keep)} are asked for, but there are {self.layers} blocks")
        kept = {0: states} if 0 in keep else {}
        for number in range(1, self.layers + 1):
            block = self.blocks[(number - 1) * len(self.blocks) // self.layers]
            if self.recompute and torch.is_grad_enabled():
                states = checkpoint(block, states, mask, use_reentrant=False)
            else:
                states = block(states, mask)
            if number in keep:
                kept[number] = states
        return self.norm(states), kept


def initialize(module: nn.Module) -> None:
    """BERT's initialisation: weights normal with deviation 0.02, biases 0 (arXiv:1810.04805, released code)."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
