"""What others say about their fused models (JSON of Hugging Face, UNITER, ViLBERT, VOLTA), read into our presets' arguments."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..modalities.vocabulary import Vocabulary
from .control_ids import read_control_ids
from .families import FAMILIES, make_arguments, position_offset
from .foreign_configuration import choose_ids
from .fused_layouts import LXMERT_PART
from .plan import ATTENTION, lay_out
from .sublayers import read_sublayers, write_plan

NEEDED = {"hidden_act": "gelu", "v_hidden_act": "gelu", "bypass_transformer": False, "position_embedding_type": "absolute"}
"""What our encoders compute, under the keys by which others say so."""
KINDS = {"visualbert": "visual_bert", "lxmert": "lxmert"}
"""Hugging Face's `model_type`."""


class Told(NamedTuple):
    """What files say.

    Attributes:
        facts: By their keys.
        said_in: Where, for messages.
        rows: Rows of their tables of tokens, positions and segments, as the weights have them.
        ids: Control ids that are given; those left out are as a tokenizer's files have them, or the published ones.
        folder: Where a tokenizer's files may lie.
    """

    facts: Mapping[str, Any]
    said_in: str
    rows: Mapping[str, int]
    ids: Mapping[str, int]
    folder: Any

    def get(self, key: str, kind: type = int) -> Any:
        """What stands under a key.

        Raises:
            ValueError: Nothing does, or something of another type.
        """
        if key not in self.facts:
            raise ValueError(f"{self.said_in} does not say {key}; give their own configuration by --config FILE.json")
        found = self.facts[key]
        if isinstance(found, bool) or not isinstance(found, (int, float) if kind is float else kind):
            raise ValueError(f"{self.said_in}: {key} is {found!r:.60}, expected {kind.__name__}: give their own configuration")
        return found

    def maybe(self, key: str, usual: Any, kind: type = int) -> Any:
        """As `get`, or the usual where nothing is said."""
        return usual if self.facts.get(key) is None else self.get(key, kind)


def read_fused(told: Told, kind: str) -> tuple[str, dict[str, Any]]:
    """Name of a preset, and its arguments as a configuration has them.

    Args:
        told: What their files say.
        kind: As the command line names it.

    Raises:
        ValueError: Something needed is not said, or is what our encoders do not compute; names it.
    """
    if not told.facts:
        raise ValueError(f"the weights do not tell what {kind} they are of; give their own configuration by --config FILE.json")
    said, expected = told.facts.get("model_type"), KINDS.get(kind)
    if said is not None and said != expected:
        known = {theirs: ours for ours, theirs in KINDS.items()}.get(said)
        raise ValueError(f"model_type is {said!r}, but it is to be read as {kind}; give --as {known or 'what it is'}")
    for key, ours in NEEDED.items():
        if told.facts.get(key, ours) != ours:
            raise ValueError(f"{told.said_in}: {key} is {told.facts[key]!r}, but our encoders compute {ours!r}")
    return _READERS[kind](told)


def _visualbert(told: Told) -> tuple[str, dict[str, Any]]:
    layers = told.get("num_hidden_layers")
    features = {"features": told.get("visual_embedding_dim"), "plan": f"{layers} joint"}
    return "visualbert", {"text": _text(told, layers), **features}


def _lxmert(told: Told) -> tuple[str, dict[str, Any]]:
    text, picture, cross = (told.get(f"{one}_layers") for one in "lrx")
    sizes = {"features": told.get("visual_feat_dim"), "values": told.maybe("visual_pos_dim", 4)}
    plan = f"{text} text, {picture} picture, {cross} x {LXMERT_PART}"
    return "lxmert", {"text": _text(told, text + cross, epsilon=1e-12), "plan": plan, **sizes}  # written into their code


def _uniter(told: Told) -> tuple[str, dict[str, Any]]:
    layers = told.get("num_hidden_layers")
    return "uniter", {"text": _text(told, layers), "features": told.rows["features"], "plan": f"{layers} joint"}


def _vilbert(told: Told) -> tuple[str, dict[str, Any]]:
    text, cross = told.get("num_hidden_layers"), told.get("v_num_hidden_layers")
    for key, first in (("t_biattention_id", text - cross), ("v_biattention_id", 0)):
        found, expected = told.maybe(key, list(range(first, first + cross)), list), list(range(first, first + cross))
        if found != expected:
            raise ValueError(f"{told.said_in}: {key} is {found}, but {cross} of {text} layers would be {expected}")
    how = {"mul": "product", "sum": "sum"}.get(told.maybe("fusion_method", "mul", str))
    if how is None:
        raise ValueError(f"{told.said_in}: fusion_method is {told.facts['fusion_method']!r}; expected mul or sum")
    pool = {"how": how, "width": told.get("bi_hidden_size"), "activation": "relu"}
    sizes = {"width": told.get("v_hidden_size"), "heads": told.get("v_num_attention_heads")}
    sizes |= {"inner": told.get("v_intermediate_size"), "features": told.get("v_feature_size")}
    between = {"width": told.get("bi_hidden_size"), "heads": told.get("bi_num_attention_heads")}
    plan = f"{text - cross} text, {cross} x (cross, own)"
    return "vilbert", {"text": _text(told, text), "plan": plan, **sizes, "cross": between, "pool": pool}


def _volta(told: Told) -> tuple[str, dict[str, Any]]:
    sublayers = read_sublayers(told.facts, told.said_in)
    plan = write_plan(sublayers)
    try:
        layers = lay_out(plan).layers["text"]
    except ValueError as error:
        raise ValueError(f"{told.said_in}: its sub-layers are none that our encoders compute: {error}") from None
    kind = told.maybe("image_embeddings", "vilbert", str)
    if kind not in _VOLTA:
        raise ValueError(f"{told.said_in}: image_embeddings is {kind!r}; expected one of {', '.join(_VOLTA)}")
    preset, read = _VOLTA[kind]
    whole = told.maybe("add_global_imgfeat", None, str)
    arguments = {"text": _text(told, layers), "features": told.get("v_feature_size"), "plan": plan}
    arguments |= {"whole": whole, "pool": _volta_pool(told)}
    if kind not in ("visualbert", "vl-bert"):  # of which the one reads no box, the other always four numbers
        arguments["values"] = told.get("num_locs")
    return preset, arguments | read(told, sublayers)


def _volta_pool(told: Told) -> dict[str, Any]:
    method = told.maybe("fusion_method", "mul", str)
    how = {"mul": "product", "sum": "sum", "text": "text", "none": "none"}.get(method)
    if how is None:
        raise ValueError(f"{told.said_in}: fusion_method is {method!r}; expected mul, sum, text or none")
    activation = told.maybe("fusion_act", "relu", str)  # what VOLTA does, whatever the originals do
    if activation not in ("relu", "tanh"):
        raise ValueError(f"{told.said_in}: fusion_act is {activation!r}; expected relu or tanh")
    return {"how": how, "width": None if how == "none" else told.maybe("pooler_size", 768), "activation": activation}


def _volta_dual(told: Told, sublayers: list) -> dict[str, Any]:
    sizes = {"width": told.get("v_hidden_size"), "heads": told.get("v_num_attention_heads")}
    return {**sizes, "inner": told.get("v_intermediate_size"), "cross": _volta_cross(told, sublayers)}


def _volta_cross(told: Told, sublayers: list) -> dict[str, Any]:
    """Sizes of the attention between streams: those of single sub-layers, which must be the same in all that cross."""
    crosses = {
        str(number)
        for number, one in enumerate(sublayers)
        if one.kind == ATTENTION and any(stream not in sources for stream, sources in one.reads.items())
    }
    sizes: dict[str, Any] = {}
    for key, ours in (("sublayer2attn_hidden_size", "width"), ("sublayer2num_attention_heads", "heads")):
        found = told.maybe(key, {}, dict)
        if found and (set(found) != crosses or len(set(found.values())) > 1):
            raise ValueError(
                f"{told.said_in}: {key} is {found}; expected one size, for all of the sub-layers in which a stream attends to "
                f"the other alone ({', '.join(sorted(crosses, key=int)) or 'none'}), or none"
            )
        if found:
            sizes[ours] = next(iter(found.values()))
    return sizes


def _volta_single(told: Told, sublayers: list) -> dict[str, Any]:
    if told.get("v_hidden_size") != told.get("hidden_size"):
        raise ValueError(
            f"{told.said_in}: v_hidden_size is {told.get('v_hidden_size')} and hidden_size {told.get('hidden_size')}; these "
            "embeddings have one width"
        )
    return {}


def _volta_uniter(told: Told, sublayers: list) -> dict[str, Any]:
    own = told.maybe("model", "bert", str) == "roberta" and told.maybe("image_embeddings", "", str) == "uniter"
    return {"mask": False, "shared_type": not own} | _volta_single(told, sublayers)


def _volta_vl_bert(told: Told, sublayers: list) -> dict[str, Any]:
    targets = told.maybe("visual_target_weights", {"0": 1}, dict)
    for key, expected in (("v_coordinate_embeddings_dim", 256), ("v_feature_size", 2048)):
        if told.maybe(key, expected) != expected:
            raise ValueError(f"{told.said_in}: {key} is {told.facts[key]}; expected {expected}, for VOLTA's layer over both")
    return {"mask_word": targets.get("6", 0) > 0} | _volta_single(told, sublayers)


_VOLTA: dict[str, tuple[str, Callable[[Told, list], dict[str, Any]]]] = {
    "vilbert": ("vilbert", _volta_dual),
    "lxmert": ("lxmert", _volta_single),
    "uniter": ("uniter", _volta_uniter),
    "uc2": ("uniter", _volta_uniter),
    "visualbert": ("visualbert", _volta_single),
    "vl-bert": ("vl_bert", _volta_vl_bert),
}
_READERS = {"visualbert": _visualbert, "lxmert": _lxmert, "uniter": _uniter, "vilbert": _vilbert, "volta": _volta}


def _text(told: Told, layers: int, epsilon: float | None = None) -> dict[str, Any]:
    """The text tower's node: BERT, or XLM-R where they say so."""
    named = f"{told.facts.get('bert_model', '')} {told.facts.get('model', '')}"
    family = FAMILIES["xlm-roberta" if "roberta" in named else "bert"]
    found, _ = ({}, "") if told.folder is None else read_control_ids(family, told.folder)
    vocabulary: Vocabulary = choose_ids(family, {}, told.rows["tokens"], found, told.ids)
    sizes = {
        "width": told.get("hidden_size"),
        "layers": layers,
        "heads": told.get("num_attention_heads"),
        "inner": told.get("intermediate_size"),
        "max_tokens": told.rows["positions"] - position_offset(family, vocabulary),
        "segments": told.rows["segments"],
        "epsilon": epsilon or told.maybe("layer_norm_eps", 1e-12, float),
    }
    rates = {ours: told.maybe(family.keys[ours], 0.1, float) for ours in ("dropout", "attention_dropout")}
    return {"class_path": family.class_path, "init_args": make_arguments(family, sizes, vocabulary, rates)}
