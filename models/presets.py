"""Text towers by family, in the published sizes or any other: the same transformer with other embeddings, norms and heads.

A configuration names a family as a class: `class_path: interlingua.models.presets.xlm_roberta`. Lengths are in tokens, start
and end token included; how many rows of a position table that takes is the family's own affair.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..modalities.vocabulary import Vocabulary
from .embeddings import TextEmbeddings
from .towers import TextTower
from .transformer import Transformer


@dataclass(frozen=True)
class Size:
    """Sizes of a transformer.

    Args:
        width: Width D of the states.
        layers: Number of blocks.
        heads: Attention heads of a block; divides `width`.
        inner: Width of the feed-forward layer; None: 4 x `width`.
    """

    width: int
    layers: int
    heads: int
    inner: int | None = None

    def __post_init__(self):
        for name, least in {"width": 1, "layers": 0, "heads": 1, "inner": 1}.items():
            number = getattr(self, name)
            if number is not None and number < least:
                raise ValueError(f"size: {name} is {number}; expected {least} or more")


BASE, LARGE = Size(768, 12, 12), Size(1024, 24, 16)
XL, XXL = Size(2560, 36, 32), Size(4096, 48, 32)
XLM_15, XLM_100 = Size(1024, 12, 8), Size(1280, 16, 16)


def bert(
    vocabulary: Vocabulary,
    size: Size | Literal["base", "large"] = "base",
    max_tokens: int = 512,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    factor: int | None = None,
    distinct: int | None = None,
    recompute: bool = False,
    epsilon: float = 1e-12,
    segments: int = 2,
    norm: Literal["pre", "post"] = "post",
) -> TextTower:
    """BERT and mBERT (arXiv:1810.04805, section 3, and its released code): segment vectors, norms with epsilon 1e-12.

    Args:
        vocabulary: Size and control ids; those of mBERT cased are 119547 with 0, 100, 101, 102, 103.
        size: `base`, `large`, or any other.
        max_tokens: Longest text, in tokens with start and end.
        dropout: Rate after embeddings, attention and feed-forward.
        attention_dropout: Rate on the attention weights; 0 saves half of attention's time on CPU.
        factor: Width of factorised embeddings, as in ALBERT (see `TextEmbeddings`).
        distinct: Blocks with weights of their own where layers share them, as in ALBERT (see `Transformer`).
        recompute: Activation checkpointing (see `Transformer`).
        epsilon: Of all layer norms; above 0. Published checkpoints have the default.
        segments: Segment vectors; 3 inside VL-BERT, whose regions have the third.
        norm: Where the blocks' norms stand; `pre` inside ViLT, which keeps the norm over the embeddings.
    """
    size = _size(size, {"base": BASE, "large": LARGE})
    tables = {"segments": segments, "dropout": dropout, "epsilon": epsilon, "factor": factor}
    embeddings = TextEmbeddings(vocabulary, size.width, max_tokens, **tables)
    body = {"epsilon": epsilon, "distinct": distinct, "recompute": recompute, "norm": norm}
    return TextTower(embeddings, _transformer(size, dropout, attention_dropout, **body))


def xlm_roberta(
    vocabulary: Vocabulary,
    size: Size | Literal["base", "large"] = "base",
    max_tokens: int = 512,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    recompute: bool = False,
    epsilon: float = 1e-5,
    segments: int = 1,
) -> TextTower:
    """XLM-R, and InfoXLM, XLM-Align, HICTL and XLM-V after it (arXiv:1911.02116, section 3, and its released code).

    Positions start behind the pad id, there is one segment vector and no language vector; norms have epsilon 1e-5.

    Args:
        vocabulary: Size and control ids; those of XLM-R are 250002 with pad 1, unknown 3, start 0, end 2, mask 250001.
        size: `base`, `large`, or any other.
        max_tokens: Longest text, in tokens with start and end: 512 for the published table of 514 rows.
        dropout: Rate after embeddings, attention and feed-forward.
        attention_dropout: Rate on the attention weights; 0 saves half of attention's time on CPU.
        recompute: Activation checkpointing (see `Transformer`).
        epsilon: Of all layer norms; above 0. Published checkpoints have the default.
        segments: Segment vectors; with 1 every token gets it. 2 inside UC2, whose regions have the second.
    """
    size = _size(size, {"base": BASE, "large": LARGE})
    return _xlm_roberta(vocabulary, size, max_tokens, dropout, attention_dropout, "post", recompute, epsilon, segments)


def xlm_roberta_xl(
    vocabulary: Vocabulary,
    size: Size | Literal["xl", "xxl"] = "xl",
    max_tokens: int = 512,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    recompute: bool = False,
    epsilon: float = 1e-5,
) -> TextTower:
    """XLM-R XL and XXL (arXiv:2105.00572, section 2): as XLM-R, but pre-norm, with no norm over the embeddings.

    Args:
        vocabulary: As of `xlm_roberta`.
        size: `xl`, `xxl`, or any other.
        max_tokens: As of `xlm_roberta`.
        dropout: Rate after embeddings, attention and feed-forward.
        attention_dropout: Rate on the attention weights; 0 saves half of attention's time on CPU.
        recompute: Activation checkpointing (see `Transformer`).
        epsilon: Of all layer norms; above 0. Published checkpoints have the default.
    """
    size = _size(size, {"xl": XL, "xxl": XXL})
    return _xlm_roberta(vocabulary, size, max_tokens, dropout, attention_dropout, "pre", recompute, epsilon)


def xlm(
    vocabulary: Vocabulary,
    languages: int,
    size: Size | Literal["xlm-15", "xlm-100"] = "xlm-15",
    max_tokens: int = 512,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    recompute: bool = False,
    epsilon: float = 1e-12,
) -> TextTower:
    """XLM (arXiv:1901.07291, section 3, and its released code): language vectors, a head without a layer of its own.

    Args:
        vocabulary: Size and control ids; those of XLM-15 are 95000 with pad 2, unknown 3, start and end 1, mask 5.
        languages: Number of language vectors, in the order of the tokenizer's languages.
        size: `xlm-15`, `xlm-100` (XLM-17 as well), or any other.
        max_tokens: Longest text, in tokens with start and end; of a pair whose positions restart, of each half.
        dropout: Rate after embeddings, attention and feed-forward.
        attention_dropout: Rate on the attention weights; 0 saves half of attention's time on CPU.
        recompute: Activation checkpointing (see `Transformer`).
        epsilon: Of all layer norms; above 0. Published checkpoints have the default.
    """
    size = _size(size, {"xlm-15": XLM_15, "xlm-100": XLM_100})
    embeddings = TextEmbeddings(
        vocabulary, size.width, max_tokens, languages=languages, dropout=dropout, epsilon=epsilon, head="plain"
    )
    return TextTower(embeddings, _transformer(size, dropout, attention_dropout, epsilon=epsilon, recompute=recompute))


def _size(size: Size | str, published: Mapping[str, Size]) -> Size:
    if isinstance(size, Size):
        return size
    if size not in published:
        raise ValueError(f"size is {size!r}; expected {', '.join(published)}, or width, layers and heads")
    return published[size]


def _xlm_roberta(
    vocabulary: Vocabulary,
    size: Size,
    max_tokens: int,
    dropout: float,
    attention_dropout: float,
    norm: str,
    recompute: bool,
    epsilon: float,
    segments: int = 1,
) -> TextTower:
    options = {
        "segments": segments,
        "position_offset": vocabulary.pad + 1,
        "norm": norm == "post",
        "dropout": dropout,
        "epsilon": epsilon,
    }
    embeddings = TextEmbeddings(vocabulary, size.width, max_tokens, **options)
    return TextTower(
        embeddings, _transformer(size, dropout, attention_dropout, norm=norm, recompute=recompute, epsilon=epsilon)
    )


def _transformer(size: Size, dropout: float, attention_dropout: float, **options) -> Transformer:
    return Transformer(
        size.width, size.layers, size.heads, size.inner, dropout=dropout, attention_dropout=attention_dropout, **options
    )
