"""Names of VOLTA's weights: halves of layers are numbered, a stream's weights stand beside the text's under `v_`, and weights
that both streams share are there twice."""

from .fused import Fused
from .fused_layouts import TIED, below, head_names, text_names
from .layouts import BERT, Layout, split_choices
from .plan import ATTENTION, Weights
from .region_embeddings import AveragedRegions, JoinedRegions, SummedRegions, TypedRegions
from .worded_regions import SpokenRegions

_ATTENTION = {
    "attention.inward.*": "attention_self.{0}query|{0}key|{0}value.*",
    "attention.outward.*": "attention_output.{0}dense.*",
    "attention_norm.*": "attention_output.{0}LayerNorm.*",
}
_FEED = {
    "feed_forward.inward.*": "intermediate.{0}dense.*",
    "feed_forward.outward.*": "output.{0}dense.*",
    "feed_forward_norm.*": "output.{0}LayerNorm.*",
}
_LINEAR = {"feature.*": "image_embeddings.*", "box.*": "image_location_embeddings.*"}
_PICTURES = {
    SummedRegions: ("v_embeddings.", {**_LINEAR, "norm.*": "LayerNorm.*"}),
    AveragedRegions: ("v_embeddings.", {**_LINEAR, "feature_norm.*": "ImgLayerNorm.*", "box_norm.*": "LocLayerNorm.*"}),
    TypedRegions: (
        "embeddings.",
        {
            **_LINEAR,
            "feature_norm.*": "image_layer_norm.*",
            "box_norm.*": "image_location_layer_norm.*",
            "norm.*": "v_LayerNorm.*",
            "kind": "image_token_type_embeddings.weight",
        },
    ),
    JoinedRegions: (
        "embeddings.",
        {
            "feature.*": "projection.*",
            "types.weight": "token_type_embeddings_visual.weight",
            "positions.weight": "position_embeddings_visual.weight",
        },
    ),
    SpokenRegions: (
        "embeddings.",
        {
            "inward.*": "obj_downsample.1.*",
            "words.weight": "object_linguistic_embeddings|end_embedding.weight",
            "mask": "object_mask_visual_embedding.weight",
            "mask_word": "object_mask_word_embedding.weight",
            "text_norm.*": "visual_ln_text.*",
            "region_norm.*": "visual_ln_object.*",
        },
    ),
}


def volta(encoder: Fused) -> Layout:
    """VOLTA's names for the weights of an encoder."""
    start, parts = _PICTURES[type(encoder.picture)]
    there = {name.partition(".")[0] for name in encoder.picture.state_dict()}
    names = text_names(encoder)
    names |= below("encoder.picture.", start, {one: other for one, other in parts.items() if one.partition(".")[0] in there})
    tied = dict(TIED)
    if isinstance(encoder.picture, TypedRegions) and encoder.picture.kind is None:
        tied["embeddings.image_token_type_embeddings.weight"] = "embeddings.token_type_embeddings.weight"
    for number, (sublayer, weights) in enumerate(encoder.layout.sublayers):
        before = f"encoder.layer.{number}."
        parts = _ATTENTION if sublayer.kind == ATTENTION else _FEED
        for stream in sublayer.reads:
            mark = "v_" if stream == "picture" else ""
            if mark and sublayer.shared:
                tied |= {f"{before}{copy}": f"{before}{name}" for name, copy in _copies(parts).items()}
            else:
                ours = _find_block(weights[stream])
                names |= {f"{ours}.{one}": before + other.format(mark) for one, other in parts.items()}
    pooler = {"text": "t_pooler.dense.*", "picture": "v_pooler.dense.*"}
    names |= {f"encoder.pooler.{one}.*": theirs for one, theirs in pooler.items() if getattr(encoder.pooler, one) is not None}
    old = {**BERT.old, "new_token_type_embeddings": "token_type_embeddings"}  # UC2
    return Layout(("bert.",), {**names, **head_names("cls.bi_seq_relationship.*")}, tied, old=old)


def _copies(parts: dict[str, str]) -> dict[str, str]:
    """Names of weights, and of the same weights once more."""
    plain, marked = ([one for other in parts.values() for one in split_choices(other.format(mark))] for mark in ("", "v_"))
    ends = ("weight", "bias")
    return {one.replace("*", end): other.replace("*", end) for one, other in zip(plain, marked, strict=True) for end in ends}


def _find_block(weights: Weights) -> str:
    if weights.stack == "cross":
        return f"encoder.cross.{weights.number}.{weights.part}"
    stack = "text.transformer" if weights.stack == "text" else "picture_layers"
    return f"encoder.{stack}.blocks.{weights.number}"
