"""Names of weights of fused encoders: ours, Hugging Face's, VOLTA's, and those of the released code of ViLBERT and UNITER.

A table is made for an encoder, since where a weight stands in theirs depends on the plan (see `layouts` for how it is read).
Our names are those of a file of `pretrained`: `encoder.` (a `Fused`), `head.` (its token head), `matching.` (two scores of the
joint vector).
"""

from collections.abc import Mapping

from .fused import Fused
from .layouts import BERT, Layout
from .plan import parse_plan

_HEAD = {"head.dense.*": "transform.dense.*", "head.norm.*": "transform.LayerNorm.*", "head.bias": "bias"}
TIED = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
_FEED = {"feed_forward.inward.*": "intermediate.dense.*", "feed_forward.outward.*": "output.dense.*"}
_LAYER = {  # a block of BERT
    "attention.inward.*": "attention.self.{}.*",
    "attention.outward.*": "attention.output.dense.*",
    "attention_norm.*": "attention.output.LayerNorm.*",
    **_FEED,
    "feed_forward_norm.*": "output.LayerNorm.*",
}
JOINED = {"feature.*": "visual_projection.*", "types.weight": "visual_token_type_embeddings.weight"}
JOINED |= {"positions.weight": "visual_position_embeddings.weight"}
AVERAGED = {"feature.*": "visn_fc.*", "feature_norm.*": "visn_layer_norm.*"}
AVERAGED |= {"box.*": "box_fc.*", "box_norm.*": "box_layer_norm.*"}
LXMERT_PART = "(shared cross attention, own attention, own feed-forward)"


def visualbert(encoder: Fused) -> Layout:
    """Hugging Face's VisualBERT."""
    names = {
        **text_names(encoder),
        **_stack("text.transformer", "encoder.layer", encoder.layout.layers["text"], _LAYER),
        **below("encoder.picture.", "embeddings.", JOINED),
        "encoder.pooler.text.*": "pooler.dense.*",
    }
    return Layout(("visual_bert.", "bert."), {**names, **head_names("cls.seq_relationship.*")}, TIED, old=BERT.old)


def lxmert(encoder: Fused) -> Layout:
    """Hugging Face's LXMERT, which has the names of the released code.

    Raises:
        ValueError: The encoder's plan is another.
    """
    text, picture, cross = (encoder.layout.layers[name] for name in ("text", "picture", "cross"))
    expected = f"{text - cross} text, {picture - cross} picture, {cross} x {LXMERT_PART}"
    if min(text, picture) <= cross or not cross or per_stream(encoder.plan) != per_stream(expected):
        raise ValueError(f"plan {encoder.plan!r} is none of LXMERT's; expected L text, R picture, X x {LXMERT_PART}")
    names = text_names(encoder)
    names |= _stack("text.transformer", "encoder.layer", text - cross, _LAYER)
    names |= _stack("picture_layers", "encoder.r_layers", picture - cross, _LAYER)
    for number in range(cross):
        theirs = f"encoder.x_layers.{number}."
        for stack, before, short in (("text.transformer", text, "lang"), ("picture_layers", picture, "visn")):
            parts = {
                "attention.inward.*": f"{short}_self_att.self.{{}}.*",
                "attention.outward.*": f"{short}_self_att.output.dense.*",
                "attention_norm.*": f"{short}_self_att.output.LayerNorm.*",
                "feed_forward.inward.*": f"{short}_inter.dense.*",
                "feed_forward.outward.*": f"{short}_output.dense.*",
                "feed_forward_norm.*": f"{short}_output.LayerNorm.*",
            }
            names |= below(f"encoder.{stack}.blocks.{before - cross + number}.", theirs, parts)
        parts = {
            "attention.inward.*": "visual_attention.att.{}.*",
            "attention.outward.*": "visual_attention.output.dense.*",
            "attention_norm.*": "visual_attention.output.LayerNorm.*",
        }
        names |= below(f"encoder.cross.{number}.both.", theirs, parts)
    names |= below("encoder.picture.", "encoder.visn_fc.", AVERAGED) | {"encoder.pooler.text.*": "pooler.dense.*"}
    return Layout(("lxmert.", "bert."), {**names, **head_names("cls.seq_relationship.*")}, TIED, old=BERT.old)


def uniter(encoder: Fused) -> Layout:
    """UNITER's released code; its vector for masked regions is the second row of a table."""
    picture = {
        "feature.*": "img_linear.*",
        "box.*": "pos_linear.*",
        "feature_norm.*": "img_layer_norm.*",
        "box_norm.*": "pos_layer_norm.*",
        "norm.*": "LayerNorm.*",
        "mask": "mask_embedding.weight",
    }
    names = {
        **text_names(encoder),
        **_stack("text.transformer", "encoder.layer", encoder.layout.layers["text"], _LAYER),
        **below("encoder.picture.", "img_embeddings.", picture),
        "encoder.pooler.text.*": "pooler.dense.*",
    }
    return Layout(("uniter.", "bert."), {**names, **head_names("itm_output.*")}, TIED, old=BERT.old)


def vilbert(encoder: Fused) -> Layout:
    """ViLBERT's released code, in which 1 is the picture and 2 the text.

    Raises:
        ValueError: The encoder's plan is another.
    """
    text, picture, cross = (encoder.layout.layers[name] for name in ("text", "picture", "cross"))
    expected = f"{text - picture} text, {cross} x (cross, own)"
    if text <= picture or picture != cross or per_stream(encoder.plan) != per_stream(expected):
        raise ValueError(f"plan {encoder.plan!r} is none of ViLBERT's; expected L text, X x (cross, own)")
    names = text_names(encoder)
    names |= _stack("text.transformer", "encoder.layer", text, _LAYER)
    names |= _stack("picture_layers", "encoder.v_layer", picture, _LAYER)
    for number in range(cross):
        for part, mark, short in (("picture", "1", "v"), ("text", "2", "t")):
            parts = {
                "attention.inward.*": f"biattention.query{mark}|key{mark}|value{mark}.*",
                "attention.outward.*": f"biOutput.dense{mark}.*",
                "attention_norm.*": f"biOutput.LayerNorm{mark}.*",
                "feed_forward.inward.*": f"{short}_intermediate.dense.*",
                "feed_forward.outward.*": f"{short}_output.dense.*",
                "feed_forward_norm.*": f"{short}_output.LayerNorm.*",
            }
            names |= below(f"encoder.cross.{number}.{part}.", f"encoder.c_layer.{number}.", parts)
    picture = {"feature.*": "image_embeddings.*", "box.*": "image_location_embeddings.*", "norm.*": "LayerNorm.*"}
    names |= below("encoder.picture.", "v_embeddings.", picture)
    names |= {"encoder.pooler.text.*": "t_pooler.dense.*", "encoder.pooler.picture.*": "v_pooler.dense.*"}
    return Layout(("bert.",), {**names, **head_names("cls.bi_seq_relationship.*")}, TIED, old=BERT.old)


def per_stream(plan: str) -> dict[str, list[tuple[str, tuple[str, ...], bool]]]:
    """What each stream passes, in order: plans that differ only in which stream goes first between two meetings are alike."""
    passed: dict[str, list[tuple[str, tuple[str, ...], bool]]] = {"text": [], "picture": []}
    for one in parse_plan(plan):
        for stream, sources in one.reads.items():
            passed[stream].append((one.kind, sources, one.shared))
    return passed


def text_names(encoder: Fused) -> dict[str, str]:
    ours = {"tokens.weight": "word_embeddings.weight", "positions.weight": "position_embeddings.weight"}
    if encoder.text.embeddings.segments is not None:
        ours["segments.weight"] = "token_type_embeddings.weight"
    return below("encoder.text.embeddings.", "embeddings.", {**ours, "norm.*": "LayerNorm.*"})


def head_names(matching: str) -> dict[str, str]:
    return {**below("", "cls.predictions.", _HEAD), "matching.*": matching}


def _stack(ours: str, theirs: str, count: int, parts: Mapping[str, str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for number in range(count):
        names |= below(f"encoder.{ours}.blocks.{number}.", f"{theirs}.{number}.", parts)
    return names


def below(ours: str, theirs: str, parts: Mapping[str, str]) -> dict[str, str]:
    return {ours + one: theirs + other.format("query|key|value") for one, other in parts.items()}
