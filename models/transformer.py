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

Mask = Bool[Tensor, "rows 1 length keys"] | None


class Attention(nn.Module):
    """Multi-head attention by `scaled_dot_product_attention`: of a stream to itself, or half of what two streams do."""

    def __init__(
        self, width: int, heads: int, dropout: float = 0.0, inner: int | None = None, asks: bool = True, told: bool = True
    ):
        """
        Args:
            width: Width D of the states.
            heads: Number of heads; divides `inner`.
            dropout: Rate on the attention weights. It doubles the cost of attention on CPU, so towers leave it at 0.
            inner: Width of all heads together; `width` where not given.
            asks: Whether these states attend to any: queries, and the way back to `width`.
            told: Whether they are attended to: keys and values.
        """
        super().__init__()
        inner = width if inner is None else inner
        if width < 1 or heads < 1:
            raise ValueError(f"attention: width is {width} and heads is {heads}; expected 1 or more of each")
        if inner % heads:
            raise ValueError(f"attention: width {inner} is not divisible by {heads} heads")
        self.heads, self.dropout, self.inner, self.asks, self.told = heads, dropout, inner, asks, told
        self.inward = nn.Linear(width, (asks + 2 * told) * inner)  # query, key, value
        if asks:
            self.outward = nn.Linear(inner, width)

    def project(self, states: Float[Tensor, "rows length D"]) -> list[Float[Tensor, "rows heads length width"]]:
        """Query, key and value, those of them that there are."""
        joined = self.inward(states).unflatten(2, (-1, self.heads, self.inner // self.heads))
        return list(joined.permute(2, 0, 3, 1, 4))

    def mix(
        self,
        query: Float[Tensor, "rows heads length width"],
        key: Float[Tensor, "rows heads keys width"],
        value: Float[Tensor, "rows heads keys width"],
        mask: Mask,
    ) -> Float[Tensor, "rows length D"]:
        """What the queries find, led back to the width of their states."""
        mixed = F.scaled_dot_product_attention(query, key, value, mask, self.dropout if self.training else 0.0)
        return self.outward(mixed.transpose(1, 2).flatten(2))

    def forward(self, states: Float[Tensor, "rows length D"], mask: Mask) -> Float[Tensor, "rows length D"]:
        return self.mix(*self.project(states), mask)


class FeedForward(nn.Module):
    """Two linear layers with an exact GELU between (the tanh form is another function, and slower on CPU)."""

    def __init__(self, width: int, inner: int):
        super().__init__()
        self.inward, self.outward = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, states: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        return self.outward(F.gelu(self.inward(states)))


class Block(nn.Module):
    """Attention, then feed-forward, each with its residual sum and norm."""

    def __init__(self, attention: Attention, width: int, inner: int | None, prenorm: bool, dropout: float, epsilon: float):
        """
        Args:
            attention: One that is only told has no norm: others attend to the states as they are.
            width: Width D of the states.
            inner: Width of the feed-forward layer; None: there is none.
            prenorm: Whether norms stand before both halves, not behind their sums.
            dropout: Rate before the sums.
            epsilon: Of the norms.
        """
        super().__init__()
        self.prenorm, self.attention = prenorm, attention
        self.attention_norm = nn.LayerNorm(width, epsilon) if attention.asks else None
        self.feed_forward = None if inner is None else FeedForward(width, inner)
        self.feed_forward_norm = None if inner is None else nn.LayerNorm(width, epsilon)
        self.dropout = nn.Dropout(dropout)

    def before(self, states: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """What attention reads."""
        return self.attention_norm(states) if self.prenorm and self.attention_norm is not None else states

    def after(self, states: Float[Tensor, "*rows D"], found: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """States with what attention found."""
        states = states + self.dropout(found)
        return states if self.prenorm else self.attention_norm(states)

    def feed(self, states: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """The feed-forward half."""
        if self.prenorm:
            return states + self.dropout(self.feed_forward(self.feed_forward_norm(states)))
        return self.feed_forward_norm(states + self.dropout(self.feed_forward(states)))

    def forward(self, states: Float[Tensor, "rows length D"], mask: Mask) -> Float[Tensor, "rows length D"]:
        return self.feed(self.after(states, self.attention(self.before(states), mask)))


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
        self.width, self.layers, self.heads, self.recompute = width, layers, heads, recompute
        self.inner = inner = 4 * width if inner is None else inner
        self.dropout, self.attention_dropout, self.epsilon, self.prenorm = dropout, attention_dropout, epsilon, norm == "pre"
        self.blocks = nn.ModuleList(
            Block(Attention(width, heads, attention_dropout), width, inner, self.prenorm, dropout, epsilon)
            for _ in range(layers if distinct is None else distinct)
        )
        self.norm = nn.LayerNorm(width, epsilon) if norm == "pre" else nn.Identity()
        self.apply(initialize)

    def block(self, number: int) -> Block:
        """The block that is layer `number`, from 1."""
        return self.blocks[(number - 1) * len(self.blocks) // self.layers]

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
            block = self.block(number)
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
