"""Fused checkpoints of others made into ours, and VisualBERT and LXMERT of ours into Hugging Face's."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .control_ids import read_control_ids
from .conversion import Conversion, Export
from .families import describe
from .foreign_weights import Foreign
from .fused import Fused
from .fused_facts import Told, read_fused
from .fused_families import LAYOUTS, sketch_fused, text_family
from .fused_pretrained import make_fused
from .layouts import BERT, Layout, give_back, strip_prefixes
from .loading import translate_whole
from .pretrained import Pretrained
from .region_embeddings import AveragedRegions, JoinedRegions
from .soundness import refuse_unsound

IDLE = ("q_dense1", "q_dense2")
"""Layers of ViLBERT's released code that it makes and never uses."""
BODIES = Layout(("visual_bert.", "lxmert.", "uniter.", "bert."), {}, {}, old={**BERT.old, "new_token_type": "token_type"})
"""What stands before names in any of these layouts."""


def convert_fused(
    foreign: Foreign,
    kind: str,
    ids: Mapping[str, int] | None = None,
    configuration: tuple[Mapping[str, Any], str] | None = None,
) -> Conversion:
    """Make a fused checkpoint of others ours.

    Args:
        foreign: What its files hold.
        kind: One of `LAYOUTS`.
        ids: Control ids that the tokenizer's files do not tell and that are not the published ones.
        configuration: What another file says about the model, and that file's name; None: what `foreign` has.

    Raises:
        ValueError: Weights are missing, or of other sizes than is said, or none are of this kind.
    """
    facts, said_in = configuration or (foreign.facts, foreign.facts_from or "their configuration")
    weights = {name: one for name, one in foreign.weights.items() if not any(f".{idle}." in name for idle in IDLE)}
    rows = _count_rows(strip_prefixes(weights, BODIES), kind)
    told = Told(facts, said_in, rows, ids or {}, foreign.folder)
    preset, arguments = read_fused(told, kind)
    encoder = sketch_fused(preset, arguments)
    layout = LAYOUTS[kind].layout(encoder)
    bare = _pick_rows(strip_prefixes(weights, layout), layout, encoder)
    translation = translate_whole(bare, layout, kind)
    own = dict(translation.weights)
    notes = []
    if len(weights) < len(foreign.weights):
        notes.append(f"set aside, since their code makes and never uses them: {', '.join(IDLE)}")
    notes += _tell_ids(told, arguments)
    if LAYOUTS[kind].matches == 0 and "matching.weight" in own:
        own |= _turn(own)
        notes.append("head of matching: its two rows are turned round; theirs tells of matching first, ours second")
    pretrained = Pretrained(preset, arguments, own, None, dict(foreign.sources))
    make_fused(pretrained)  # says what does not fit, both sizes
    return Conversion(pretrained, translation, notes, dict(facts))


def _tell_ids(told: Told, arguments: Mapping[str, Any]) -> list[str]:
    """Where control ids are from, if they are not given."""
    family, notes = text_family(arguments), []
    found, files = ({}, "") if told.folder is None else read_control_ids(family, told.folder)
    if said := found.keys() - told.ids.keys():
        notes.append(f"control ids of {', '.join(name for name in found if name in said)}: as in {files}")
    if assumed := [name for name in family.published if name not in found and name not in told.ids]:
        vocabulary = arguments["text"]["init_args"]["vocabulary"]
        numbers = ", ".join(f"{name} {vocabulary[name]}" for name in assumed)
        notes.append(f"control ids assumed, as published: {numbers}; no file says them: give --ids if the tokenizer has others")
    return notes


def _count_rows(bare: Mapping[str, Tensor], kind: str) -> dict[str, int]:
    """Rows of the tables of the text, and the width of a region's feature."""
    tables = {"tokens": "word_embeddings", "positions": "position_embeddings", "segments": "token_type_embeddings"}
    missing = [name for name in tables.values() if f"embeddings.{name}.weight" not in bare]
    if missing:
        raise ValueError(
            f"the weights are not a whole {kind}: embeddings.{missing[0]}.weight is missing; found {', '.join(list(bare)[:3])}"
        )
    rows = {ours: len(bare[f"embeddings.{theirs}.weight"]) for ours, theirs in tables.items()}
    features = bare.get("img_embeddings.img_linear.weight")
    return rows | ({} if features is None else {"features": features.shape[1]})


def _pick_rows(bare: Mapping[str, Tensor], layout: Layout, encoder: Fused) -> dict[str, Tensor]:
    """A vector of ours is the last row of a table of theirs."""
    vectors = {name for name, parameter in encoder.named_parameters() if parameter.ndim == 1}
    tables = {theirs for ours, theirs in layout.names.items() if ours.removeprefix("encoder.") in vectors}
    return {name: one[-1].clone() if name in tables and one.ndim > 1 else one for name, one in bare.items()}


def _turn(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The head of matching with its classes changed for each other."""
    return {name: one.flip(0) for name, one in weights.items() if name.startswith("matching.")}


def export_fused(encoder: Fused, weights: Mapping[str, Tensor], kind: str) -> Export:
    """A fused encoder as Hugging Face's own class saves it.

    Args:
        encoder: What it is; on the meta device or not.
        weights: Of the encoder and of its heads, by our names.
        kind: `visualbert` or `lxmert`.

    Raises:
        ValueError: Their class would compute something else, or a weight is not finite; names what.
    """
    refuse_unsound(weights, kind)
    found = list_obstacles(encoder, kind)
    if found:
        raise ValueError(f"the encoder is no {kind} of Hugging Face's; {'; '.join(found)}")
    layout, (with_heads, base) = LAYOUTS[kind].layout(encoder), LAYOUTS[kind].classes
    own, notes = dict(weights), []
    parts = {name.partition(".")[0] for name in own}
    architecture = with_heads if parts >= {"head", "matching"} else base
    left = parts - {"encoder"} if architecture == base else parts - {"encoder", "head", "matching"}
    if left:
        notes.append(f"left out, since {architecture} has not all heads that there would have to be: {', '.join(sorted(left))}")
        own = {name: one for name, one in own.items() if name.partition(".")[0] not in left}
    if LAYOUTS[kind].matches == 0 and "matching.weight" in own:
        own |= _turn(own)
    return Export(architecture, _write_facts(encoder, kind, architecture), give_back(own, layout), notes)


def list_obstacles(encoder: Fused, kind: str) -> list[str]:
    """Why Hugging Face's class of that kind does not compute what an encoder does."""
    text, picture = describe(encoder.text), encoder.picture
    wanted = AveragedRegions if kind == "lxmert" else JoinedRegions
    if not isinstance(picture, wanted):
        return [f"regions are embedded by {type(picture).__name__}, theirs by {wanted.__name__}"]
    facts: dict[str, tuple[Any, Any]] = {
        "whole": (picture.whole, None),
        "mask": (picture.mask is not None, False),
        "pool": (encoder.pooler.how, "text"),
        "pooled": (encoder.pooler.width, text.width),
        "activation": (encoder.pooler.activate.__name__, "tanh"),
        "vector_width": (encoder.vector_width, None),
        "norm": (text.norm, "post"),
        "factor": (text.factor, None),
        "distinct": (text.distinct, text.layers),
        "languages": (text.languages, 0),
        "position_offset": (text.position_offset, 0),
        "head": (text.head, "transform"),
        "epsilons": (sorted({one.eps for one in encoder.modules() if isinstance(one, torch.nn.LayerNorm)}), [text.epsilon]),
    }
    if kind == "lxmert":
        layers = encoder.picture_layers
        facts["epsilon"] = (text.epsilon, 1e-12)  # written into their code
        if layers is not None:
            facts["layers"] = ((layers.width, layers.heads, layers.inner), (text.width, text.heads, text.inner))
        halves = [half.attention for block in encoder.cross for half in block.values()]
        facts["cross"] = (sorted({(one.inner, one.heads) for one in halves}), [(text.width, text.heads)])
    else:
        facts["joint layers alone"] = (encoder.layout.joint, True)
        facts["positions"] = (picture.positions.num_embeddings, text.rows)
        facts["types"] = (picture.types.num_embeddings, text.segments)
    return [f"{name}: it has {ours}, theirs {theirs}" for name, (ours, theirs) in facts.items() if ours != theirs]


def _write_facts(encoder: Fused, kind: str, architecture: str) -> dict[str, Any]:
    """`config.json` for Hugging Face's class of that name."""
    text, body = describe(encoder.text), encoder.text.transformer
    written: dict[str, Any] = {
        "model_type": "visual_bert" if kind == "visualbert" else kind,
        "architectures": [architecture],
        "tie_word_embeddings": True,
        "vocab_size": text.vocabulary.size,
        "hidden_size": text.width,
        "num_attention_heads": text.heads,
        "intermediate_size": text.inner,
        "hidden_act": "gelu",
        "max_position_embeddings": text.rows,
        "type_vocab_size": text.segments,
        "hidden_dropout_prob": encoder.text.embeddings.dropout.p,
        "attention_probs_dropout_prob": body.attention_dropout,
        "pad_token_id": text.vocabulary.pad,
    }
    if kind == "visualbert":
        return written | {
            "num_hidden_layers": text.layers,
            "layer_norm_eps": text.epsilon,
            "visual_embedding_dim": encoder.picture.features,
            "bypass_transformer": False,
        }
    layers = encoder.layout.layers
    return written | {
        "l_layers": layers["text"] - layers["cross"],
        "r_layers": layers["picture"] - layers["cross"],
        "x_layers": layers["cross"],
        "visual_feat_dim": encoder.picture.features,
        "visual_pos_dim": encoder.picture.values,
        "task_obj_predict": False,  # heads that are not in the file
        "task_qa": False,
    }
