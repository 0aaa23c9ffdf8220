"""Fused encoders of detectors' regions by name, in the published sizes or any other: one implementation, by its plan.

A configuration names one as a class, and the text tower inside it: `class_path: interlingua.models.fused_presets.uniter` with
`text: {class_path: interlingua.models.presets.bert, init_args: ...}`. mUNITER, xUNITER and UC2 are `uniter` around mBERT or
XLM-R. Dropout, epsilon and activation checkpointing are the text tower's throughout. Those of pixels are in `pixel_presets`.
"""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from .crossing import Cross
from .fused import Fused
from .picture_embeddings import PictureEmbeddings
from .plan import lay_out
from .pooling import Joint, JointPooler
from .region_embeddings import AveragedRegions, JoinedRegions, SummedRegions, TypedRegions
from .towers import TextTower
from .transformer import Transformer
from .worded_regions import LeadingRegions, SpokenRegions

VILBERT = "6 text, 6 x (cross, own)"
LXMERT = "9 text, 5 picture, 5 x (shared cross attention, own attention, own feed-forward)"
SINGLE = "12 joint"
Whole = Literal["first", "last"] | None


@dataclass(frozen=True)
class Pool:
    """How one vector of both comes about (see `JointPooler`).

    Args:
        how: Of which stream's first place, or both.
        width: Of the vector; None: the states'.
        activation: After each dense layer.
    """

    how: Joint = "text"
    width: int | None = None
    activation: Literal["tanh", "relu"] = "tanh"


_REACHING = (TypedRegions, JoinedRegions, SpokenRegions, LeadingRegions)
"""Embeddings that reach into those of the text."""
TEXT, PRODUCT = Pool(), Pool("product", 1024, "relu")


def vilbert(
    text: TextTower,
    features: int = 2048,
    plan: str = VILBERT,
    width: int | None = 1024,
    heads: int | None = 8,
    inner: int | None = 1024,
    cross: Cross = Cross(1024, 8),  # noqa: B008  (frozen)
    values: Literal[4, 5, 7] = 5,
    whole: Whole = "first",
    pool: Pool = PRODUCT,
    vector_width: int | None = None,
) -> Fused:
    """ViLBERT (arXiv:1908.02265, section 3.1, and its released code): a wider stream of regions with a global one before them,
    co-attention of a width of its own, and the product of both first places.

    Args:
        text: BERT of 12 layers in the published plan.
        features: Width of a region's feature.
        plan: What attends to what (see `plan`).
        width, heads, inner: Sizes of the picture's own layers; None: the text's. VOLTA's controlled set-up has the text's.
        cross: Sizes of the layers between them; their feed-forward layers have those of the streams.
        values: Numbers that say where a box is.
        whole: Where a global region stands; None: there is none.
        pool: How the joint vector comes about.
        vector_width: Of the vectors of text and picture before they meet, for contrast; None: there are none. Where the plan
            lets them never meet (`4 text, 4 picture`), these are two towers.
    """
    body = text.transformer
    picture = SummedRegions(features, width or body.width, values, whole, **_rates(text))
    return fuse(plan, text, picture, pool, heads, inner, cross, vector_width=vector_width)


def lxmert(
    text: TextTower,
    features: int = 2048,
    plan: str = LXMERT,
    values: Literal[4, 5, 7] = 4,
    whole: Whole = None,
    pool: Pool = TEXT,
) -> Fused:
    """LXMERT (arXiv:1908.07490, section 2, and its released code): cross attention by one set of weights in both directions.

    Args:
        text: BERT of 14 layers in the published plan, 9 before the streams meet and 5 between.
        features, plan, values, whole, pool: As of `vilbert`.
    """
    return fuse(plan, text, AveragedRegions(features, text.transformer.width, values, whole, **_rates(text)), pool)


def uniter(
    text: TextTower,
    features: int = 2048,
    plan: str = SINGLE,
    values: Literal[4, 5, 7] = 7,
    whole: Whole = None,
    mask: bool = True,
    shared_type: bool = True,
    pool: Pool = TEXT,
) -> Fused:
    """UNITER (arXiv:1909.11740, section 3.1, and its released code): one stream. With another text tower mUNITER and xUNITER
    (arXiv:2109.13238, section 4.1: `values: 5`, `whole: first`, no mask, the product) and UC2 (arXiv:2104.00332, section 3.1).

    Args:
        text: BERT (mBERT: mUNITER), or XLM-R: with `segments: 2` UC2, without and `shared_type: false` xUNITER.
        features, plan, values, whole, pool: As of `vilbert`.
        mask: Whether masked regions have a learned feature in the place of zeros (not in VOLTA).
        shared_type: Whether regions have the text's second segment vector; False: one of their own.
    """
    width, rates = text.transformer.width, _rates(text)
    return fuse(plan, text, TypedRegions(features, width, values, whole, mask, shared_type, **rates), pool)


def visualbert(text: TextTower, features: int = 2048, plan: str = SINGLE, whole: Whole = None, pool: Pool = TEXT) -> Fused:
    """VisualBERT (arXiv:1908.03557, section 3.2, and its released code): one stream; boxes are not read.

    Args:
        text: BERT.
        features, plan, whole, pool: As of `vilbert`.
    """
    embeddings = text.embeddings
    types = 0 if embeddings.segments is None else embeddings.segments.num_embeddings
    rows = embeddings.positions.num_embeddings
    return fuse(plan, text, JoinedRegions(features, embeddings.width, whole, types=max(types, 1), positions=rows), pool)


def vl_bert(
    text: TextTower,
    features: int = 2048,
    plan: str = SINGLE,
    whole: Literal["first", "last"] = "last",
    mask_word: bool = True,
    pool: Pool = Pool("none"),
) -> Fused:
    """VL-BERT (arXiv:1908.08530, section 3, and VOLTA's code): one stream in which a region has a word, and a word the picture.

    Args:
        text: BERT with `segments: 3`, the third of which is the regions'.
        features, plan, pool: As of `vilbert`.
        whole: Where the global region stands (`first` in VOLTA's controlled set-up; see `SpokenRegions`).
        mask_word: Whether a masked region has a word of its own (only where its class is predicted, in VOLTA's code).
    """
    picture = SpokenRegions(features, text.transformer.width, whole=whole, mask_word=mask_word, **_rates(text))
    return fuse(plan, text, picture, pool)


def m3p(
    text: TextTower,
    features: int = 2048,
    plan: str = SINGLE,
    values: Literal[4, 5, 7] = 5,
    pool: Pool = Pool("picture"),
) -> Fused:
    """M3P (arXiv:2006.02635, section 3.1, and its released code): one stream in which regions stand before the words.

    Args:
        text: XLM-R; its positions, which stay those from behind the pad id (from 0 in the released code), must do for regions
            and words together.
        features, plan, values, pool: As of `vilbert`; the first place of all is the picture's.
    """
    return fuse(plan, text, LeadingRegions(features, text.transformer.width, values, **_rates(text)), pool)


def fuse(
    plan: str,
    text: TextTower,
    picture: PictureEmbeddings,
    pool: Pool,
    heads: int | None = None,
    inner: int | None = None,
    cross: Cross | None = None,
    **options,
) -> Fused:
    """An encoder whose layers are like the text tower's.

    Args:
        plan, text, picture, cross: As of `Fused`.
        pool: How the joint vector comes about.
        heads, inner: Of the picture's own layers; None: the text's.
        options: Others of `Fused`.
    """
    body, count = text.transformer, lay_out(plan).layers["picture"]
    if isinstance(picture, _REACHING) and not isinstance(text.embeddings.outward, nn.Identity):
        raise ValueError(
            f"{type(picture).__name__} takes vectors of the text's tables, which must be as wide as its states: leave `factor` "
            "of the text tower out"
        )
    layers = Transformer(
        picture.width,
        count,
        heads or body.heads,
        inner or body.inner,
        norm="pre" if body.prenorm else "post",
        dropout=body.dropout,
        attention_dropout=body.attention_dropout,
        epsilon=body.epsilon,
    )
    pooler = JointPooler(body.width, picture.width, pool.how, pool.width, pool.activation)
    return Fused(plan, text, picture, layers if count else None, cross, pooler, **options)


def _rates(text: TextTower) -> dict[str, float]:
    return {"dropout": text.embeddings.dropout.p, "epsilon": text.embeddings.epsilon}
