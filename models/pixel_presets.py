"""Fused encoders of pixels by name: patches or a backbone's grid in the place of a detector's regions (see `fused_presets`)."""

from torch import nn

from ..modalities.image_front_ends import Patches
from .fused import Fused
from .fused_presets import SINGLE, TEXT, Pool, fuse
from .picture_embeddings import ImageEmbeddings
from .plan import lay_out
from .pooling import JointPooler, Pooling
from .towers import TextTower
from .transformer import Transformer

ALBEF = "12 picture, 6 text, 6 x (text attention, text from picture attention, text feed-forward)"


def vilt(text: TextTower, front_end: nn.Module | None = None, plan: str = SINGLE, pool: Pool = TEXT) -> Fused:
    """ViLT (arXiv:2102.03334, section 3.1): one stream of words and patches; with a backbone as the front end Pixel-BERT
    (arXiv:2004.00849, section 3.2).

    Of the released code there is no class vector before the patches, and no type vector of the text: its norm has a bias.

    Args:
        text: As ViLT has it `presets.bert` with `norm: pre`; as Pixel-BERT has it post-norm.
        front_end: Of pictures (see `modalities.image_front_ends`); None: ViLT's patches of 32 pixels, of pictures of 384.
        plan: What attends to what (see `plan`).
        pool: How the joint vector comes about.
    """
    body, embeddings = text.transformer, text.embeddings
    front_end = Patches(body.width, 32, 384) if front_end is None else front_end
    picture = ImageEmbeddings(front_end, body.width, not body.prenorm, embeddings.dropout.p, embeddings.epsilon)
    return fuse(plan, text, picture, pool)


def albef(
    text: TextTower,
    front_end: nn.Module | None = None,
    plan: str = ALBEF,
    width: int = 768,
    heads: int = 12,
    vector_width: int | None = 256,
    pool: Pool = TEXT,
    pooling: Pooling = "first",
) -> Fused:
    """ALBEF (arXiv:2107.07651, section 3.1): text and picture each by itself, aligned there, then text that looks at the
    picture; around XLM-R, CCLM (arXiv:2206.00621, section 3.1).

    Of the released code there is no class vector before the patches: `pooling: mean` makes the picture's vector of all of them.

    Args:
        text: BERT of 12 layers in the published plan.
        front_end: Of pictures (see `modalities.image_front_ends`); None: patches of 16 pixels, of pictures of 256. A whole
            backbone goes with a plan that has no picture layers.
        plan: What attends to what (see `plan`).
        width, heads: Of the picture's own layers, which are pre-norm with epsilon 1e-6 and without dropout, as a ViT
            (arXiv:2010.11929).
        vector_width: Width of the vectors before they meet; None: there are none.
        pool: How the joint vector comes about.
        pooling: How states become these vectors.
    """
    body, embeddings = text.transformer, text.embeddings
    count = lay_out(plan).layers["picture"]
    front_end = Patches(width, 16, 256) if front_end is None else front_end
    picture = ImageEmbeddings(front_end, width, norm=not count, dropout=0.0, epsilon=embeddings.epsilon)
    layers = Transformer(width, count, heads, norm="pre", dropout=0.0, epsilon=1e-6) if count else None
    pooler = JointPooler(body.width, width, pool.how, pool.width, pool.activation)
    return Fused(plan, text, picture, layers, pooler=pooler, vector_width=vector_width, pooling=pooling)
