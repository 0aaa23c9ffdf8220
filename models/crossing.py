"""Layers between text and picture: blocks of which each stream has its half, or both one in common."""

from dataclasses import dataclass

from torch import nn

from .plan import ATTENTION, Layout, Weights
from .transformer import Attention, Block, Transformer, initialize


@dataclass(frozen=True)
class Cross:
    """Sizes of the layers between text and picture.

    Args:
        width: Of all heads together; None: the text's.
        heads: Attention heads; None: the text's.
        text_inner, picture_inner: Widths of their feed-forward layers; None: those of the stream's own layers.

    Raises:
        ValueError: A size below 1.
    """

    width: int | None = None
    heads: int | None = None
    text_inner: int | None = None
    picture_inner: int | None = None

    def __post_init__(self):
        for name in ("width", "heads", "text_inner", "picture_inner"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"cross: {name} is {getattr(self, name)}; expected 1 or more")


def make_crossing(
    layout: Layout, text: Transformer, picture: Transformer | None, picture_width: int, sizes: Cross
) -> nn.ModuleList:
    """The blocks between the streams that a plan needs: for each a mapping of `text`, `picture` or `both` to a block.

    Dropout, norms and epsilon are those of the stream's own blocks, of the text's where the picture has none.

    Args:
        layout: The plan.
        text: Blocks of the text tower.
        picture: Blocks of the picture's own.
        picture_width: Of the picture's states.
        sizes: Of the blocks.

    Raises:
        ValueError: Streams of unequal width are to share weights.
    """
    asks, told, fed = set(), set(), set()
    for sublayer, weights in layout.sublayers:
        between = {stream: one for stream, one in weights.items() if one.stack == "cross"}
        if sublayer.kind == ATTENTION:
            asks |= {one for stream, one in between.items() if stream in sublayer.reads}
            sources = {source for reads in sublayer.reads.values() for source in reads}
            told |= {one for stream, one in between.items() if stream in sources}
        else:
            fed |= set(between.values())
    blocks = nn.ModuleList(nn.ModuleDict() for _ in range(layout.layers["cross"]))
    for one in sorted(asks | told):
        blocks[one.number][one.part] = _make_block(
            one, one in asks, one in told, one in fed, text, picture, picture_width, sizes
        )
    return blocks


def _make_block(
    one: Weights,
    asks: bool,
    told: bool,
    fed: bool,
    text: Transformer,
    picture: Transformer | None,
    picture_width: int,
    sizes: Cross,
) -> Block:
    if one.part == "both" and text.width != picture_width:
        raise ValueError(
            f"the plan shares layers between text of width {text.width} and a picture of width {picture_width}; make them equal"
        )
    of_picture = one.part == "picture"
    like = picture if of_picture and picture is not None else text
    width = picture_width if of_picture else text.width
    attention = Attention(width, sizes.heads or text.heads, like.attention_dropout, sizes.width or text.width, asks, told)
    inner = (sizes.picture_inner if of_picture else sizes.text_inner) or like.inner
    block = Block(attention, width, inner if fed else None, like.prenorm, like.dropout, like.epsilon)
    return block.apply(initialize)
