"""Names of weights by family: ours, Hugging Face's and fairseq's. One table each, read in both directions.

In the tables `#` stands for the number of a block, a last `*` for `weight` and `bias`, and `query|key|value` for three
weights of theirs that are one of ours, joined along its rows. Our names are those of a file of `pretrained`: `encoder.`
(a text tower), `head.` (its token head), `pooler.` and `next_sentence.` (BERT's dense layer over the first state, and its
classifier of pairs).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .soundness import refuse_unsound

PREFIXES = ("module.", "model.")
"""What wrappers put before all names."""
BUFFERS = ("position_ids", "token_type_ids", "version", "_float_tensor")
"""Last parts of names that are no weights; older files hold them."""


@dataclass(frozen=True)
class Layout:
    """How another library names the weights of a family.

    Args:
        bodies: What stands before the names of the tower, and not of the heads, in its models with heads; the first is
            written.
        names: Theirs by ours.
        tied: Names of copies that a head shares with another weight, and of that weight; never written.
        optional: Ours that the family's towers may lack.
        old: Parts of names in older files, and what they became.
    """

    bodies: tuple[str, ...]
    names: Mapping[str, str]
    tied: Mapping[str, str]
    optional: tuple[str, ...] = ()
    old: Mapping[str, str] | None = None

    def expand(self, layers: int) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Names of single weights, ours and theirs, of a tower of so many blocks."""
        for ours, theirs in self.names.items():
            for number in map(str, range(layers)) if "#" in ours else ("",):
                for end in ("weight", "bias") if ours.endswith("*") else ("",):
                    filled = [name.replace("#", number).replace("*", end) for name in (ours, theirs)]
                    yield filled[0], split_choices(filled[1])


class Translation(NamedTuple):
    """Weights under our names, and what became of the others.

    Attributes:
        weights: By our names.
        matched: How many of their weights these are.
        missing: Names of theirs that are lacking.
        unexpected: Names of theirs that have no place.
        absent: Parts of ours (`head`, `pooler`, `next_sentence`) of which there is nothing.
    """

    weights: dict[str, Tensor]
    matched: int
    missing: list[str]
    unexpected: list[str]
    absent: list[str]


def split_choices(name: str) -> tuple[str, ...]:
    """`a.b|c.d` as `a.b.d` and `a.c.d`."""
    if "|" not in name:
        return (name,)
    choices = next(part for part in name.split(".") if "|" in part)
    return tuple(name.replace(choices, choice) for choice in choices.split("|"))


_BLOCK = {
    "encoder.transformer.blocks.#.attention.inward.*": "encoder.layer.#.attention.self.query|key|value.*",
    "encoder.transformer.blocks.#.attention.outward.*": "encoder.layer.#.attention.output.dense.*",
    "encoder.transformer.blocks.#.feed_forward.inward.*": "encoder.layer.#.intermediate.dense.*",
    "encoder.transformer.blocks.#.feed_forward.outward.*": "encoder.layer.#.output.dense.*",
}
_BODY = {
    "encoder.embeddings.tokens.weight": "embeddings.word_embeddings.weight",
    "encoder.embeddings.positions.weight": "embeddings.position_embeddings.weight",
    "encoder.embeddings.segments.weight": "embeddings.token_type_embeddings.weight",
    **_BLOCK,
    "pooler.*": "pooler.dense.*",
}
_POST_NORM = {
    "encoder.embeddings.norm.*": "embeddings.LayerNorm.*",
    "encoder.transformer.blocks.#.attention_norm.*": "encoder.layer.#.attention.output.LayerNorm.*",
    "encoder.transformer.blocks.#.feed_forward_norm.*": "encoder.layer.#.output.LayerNorm.*",
}
_PRE_NORM = {
    "encoder.transformer.blocks.#.attention_norm.*": "encoder.layer.#.attention.self_attn_layer_norm.*",
    "encoder.transformer.blocks.#.feed_forward_norm.*": "encoder.layer.#.LayerNorm.*",
    "encoder.transformer.norm.*": "encoder.LayerNorm.*",
}
_LM_HEAD = {"head.dense.*": "lm_head.dense.*", "head.norm.*": "lm_head.layer_norm.*", "head.bias": "lm_head.bias"}
_LM_TIED = {"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"}
_FAIRSEQ = {
    "encoder.embeddings.tokens.weight": "embed_tokens.weight",
    "encoder.embeddings.positions.weight": "embed_positions.weight",
    "encoder.transformer.blocks.#.attention.inward.*": "layers.#.self_attn.q_proj|k_proj|v_proj.*",
    "encoder.transformer.blocks.#.attention.outward.*": "layers.#.self_attn.out_proj.*",
    "encoder.transformer.blocks.#.attention_norm.*": "layers.#.self_attn_layer_norm.*",
    "encoder.transformer.blocks.#.feed_forward.inward.*": "layers.#.fc1.*",
    "encoder.transformer.blocks.#.feed_forward.outward.*": "layers.#.fc2.*",
    "encoder.transformer.blocks.#.feed_forward_norm.*": "layers.#.final_layer_norm.*",
    **_LM_HEAD,
}
_FAIRSEQ_BODIES = ("encoder.sentence_encoder.", "decoder.sentence_encoder.", "encoder.", "decoder.")
_FAIRSEQ_TIED = {"lm_head.weight": "embed_tokens.weight"}
_FAIRSEQ_OLD = {"emb_layer_norm": "layernorm_embedding"}

BERT = Layout(
    ("bert.",),
    {
        **_BODY,
        **_POST_NORM,
        "head.dense.*": "cls.predictions.transform.dense.*",
        "head.norm.*": "cls.predictions.transform.LayerNorm.*",
        "head.bias": "cls.predictions.bias",
        "next_sentence.*": "cls.seq_relationship.*",
    },
    {
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    old={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
)
XLM_ROBERTA = Layout(("roberta.",), {**_BODY, **_POST_NORM, **_LM_HEAD}, _LM_TIED, old=BERT.old)
XLM_ROBERTA_XL = Layout(("roberta.",), {**_BODY, **_PRE_NORM, **_LM_HEAD}, _LM_TIED)
XLM = Layout(
    ("transformer.",),
    {
        "encoder.embeddings.tokens.weight": "embeddings.weight",
        "encoder.embeddings.positions.weight": "position_embeddings.weight",
        "encoder.embeddings.languages.weight": "lang_embeddings.weight",
        "encoder.embeddings.norm.*": "layer_norm_emb.*",
        "encoder.transformer.blocks.#.attention.inward.*": "attentions.#.q_lin|k_lin|v_lin.*",
        "encoder.transformer.blocks.#.attention.outward.*": "attentions.#.out_lin.*",
        "encoder.transformer.blocks.#.attention_norm.*": "layer_norm1.#.*",
        "encoder.transformer.blocks.#.feed_forward.inward.*": "ffns.#.lin1.*",
        "encoder.transformer.blocks.#.feed_forward.outward.*": "ffns.#.lin2.*",
        "encoder.transformer.blocks.#.feed_forward_norm.*": "layer_norm2.#.*",
        "head.bias": "pred_layer.proj.bias",
    },
    {"pred_layer.proj.weight": "embeddings.weight"},
    optional=("encoder.embeddings.languages.weight",),
)
FAIRSEQ_XLM_ROBERTA = Layout(
    _FAIRSEQ_BODIES,
    {**_FAIRSEQ, "encoder.embeddings.norm.*": "layernorm_embedding.*"},
    _FAIRSEQ_TIED,
    old=_FAIRSEQ_OLD,
)
FAIRSEQ_XLM_ROBERTA_XL = Layout(
    _FAIRSEQ_BODIES, {**_FAIRSEQ, "encoder.transformer.norm.*": "layer_norm.*"}, _FAIRSEQ_TIED, old=_FAIRSEQ_OLD
)


def strip_prefixes(weights: Mapping[str, Tensor], layout: Layout) -> dict[str, Tensor]:
    """Weights under the layout's bare names: without wrappers, the body's own name, old names and buffers.

    Raises:
        ValueError: Two weights have one bare name; names both.
    """
    bare: dict[str, Tensor] = {}
    origin: dict[str, str] = {}
    for name, weight in weights.items():
        if name.rpartition(".")[2] in BUFFERS:
            continue
        for short, part in _bare(name, weight, layout):
            if short in bare:
                raise ValueError(f"the weights {origin[short]} and {name} are both {short}; give a file of one model")
            bare[short], origin[short] = part, name
    return bare


def _bare(name: str, weight: Tensor, layout: Layout) -> Iterator[tuple[str, Tensor]]:
    while name.startswith(PREFIXES):
        name = name.partition(".")[2]
    name = name.removeprefix(next(filter(name.startswith, layout.bodies), ""))
    for old, new in (layout.old or {}).items():
        name = name.replace(old, new)
    before, joined, end = name.partition("self_attn.in_proj_")  # fairseq of 2019
    if not joined:
        yield name, weight
        return
    for one, part in zip(("q_proj", "k_proj", "v_proj"), weight.chunk(3), strict=True):
        yield f"{before}self_attn.{one}.{end}", part


def translate(bare: Mapping[str, Tensor], layout: Layout) -> Translation:
    """Weights under our names.

    Args:
        bare: Weights by the layout's bare names (see `strip_prefixes`).
        layout: Whose names they are.

    Raises:
        ValueError: A copy that a head should share differs from its weight: our heads are tied. Or a weight is no floating
            point, or not finite.
    """
    rest = dict(bare)
    refuse_unsound({name: rest[name] for name in _known(rest, layout) if name in rest}, "the weights")
    for copy, source in layout.tied.items():
        if copy in rest:
            _untie(rest, copy, source)
    names = dict(layout.expand(_count_blocks(rest, layout)))
    found = {ours: theirs for ours, theirs in names.items() if any(name in rest for name in theirs)}
    parts = {ours.partition(".")[0] for ours in found} | {"encoder"}
    wanted = {ours: theirs for ours, theirs in names.items() if ours.partition(".")[0] in parts}
    missing = [
        name
        for ours, theirs in wanted.items()
        for name in theirs
        if name not in rest and not (ours in layout.optional and ours not in found)
    ]
    whole = {ours: [rest[name] for name in theirs] for ours, theirs in found.items() if all(name in rest for name in theirs)}
    read = {name for ours in whole for name in names[ours]}
    return Translation(
        {ours: torch.cat(several) if len(several) > 1 else several[0] for ours, several in whole.items()},
        len(read),
        missing,
        [name for name in rest if name not in read],
        sorted({ours.partition(".")[0] for ours in names} - parts),
    )


def _known(bare: Mapping[str, Tensor], layout: Layout) -> list[str]:
    """All names that have a place, copies included."""
    names = [name for _, theirs in layout.expand(_count_blocks(bare, layout)) for name in theirs]
    return [*names, *layout.tied]


def _untie(rest: dict[str, Tensor], copy: str, source: str) -> None:
    """Take out a copy; where its source is missing, the copy is it."""
    weight = rest.pop(copy)
    if source not in rest:
        rest[source] = weight
    elif rest[source].shape != weight.shape or not torch.equal(rest[source], weight):
        raise ValueError(
            f"{copy} {tuple(weight.shape)} is not {source} {tuple(rest[source].shape)} again, but our heads share it; "
            "a head of its own cannot be taken over: remove it from the file to go without"
        )


def _count_blocks(bare: Mapping[str, Tensor], layout: Layout) -> int:
    starts = {theirs.partition("#")[0] for theirs in layout.names.values() if "#" in theirs}
    numbers = [name.removeprefix(start).partition(".")[0] for name in bare for start in starts if name.startswith(start)]
    return 1 + max((int(number) for number in numbers if number.isdigit()), default=-1)


def give_back(weights: Mapping[str, Tensor], layout: Layout) -> dict[str, Tensor]:
    """Weights under the layout's names, as its models with heads have them where there is a head, else bare.

    Args:
        weights: By our names; all have a place in the layout.
        layout: Whose names to give.

    Raises:
        ValueError: A weight has no place; names it.
    """
    start = "encoder.transformer.blocks."
    layers = 1 + max((int(name[len(start) :].partition(".")[0]) for name in weights if name.startswith(start)), default=-1)
    names = dict(layout.expand(layers))
    strange = [name for name in weights if name not in names]
    if strange:
        raise ValueError(f"this layout has no place for {', '.join(strange[:3])} (of {len(strange)})")
    body = layout.bodies[0] if any(name.startswith("head.") for name in weights) else ""
    given = {}
    for ours, weight in weights.items():
        prefix = body if ours.startswith(("encoder.", "pooler.")) else ""
        several = len(names[ours]) > 1
        for name, part in zip(names[ours], weight.chunk(len(names[ours])), strict=True):
            given[prefix + name] = part.clone() if several else part  # files hold no two views of one tensor
    return given
