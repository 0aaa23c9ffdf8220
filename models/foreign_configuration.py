"""What others say about their models (`config.json` and its kin), read into our presets' arguments and written out of them."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..modalities.vocabulary import Vocabulary
from . import presets
from .families import FAMILIES, Family, Traits, count_sizes, describe, make_arguments, position_offset, sketch_tower
from .pretrained import Pretrained

NEEDED = {
    "hidden_act": "gelu",
    "activation_fn": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "gelu_activation": True,
    "causal": False,
    "asm": False,
    "is_encoder": True,
}
"""What our towers compute, under the keys by which others say so."""

ALIKE = {"roberta": "xlm-roberta"}
"""Other names of `model_type` for what one of our families computes."""

OLD = {
    "n_words": "vocab_size",
    "pad_index": "pad_token_id",
    "eos_index": "eos_token_id",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_embed_dim": "hidden_size",
    "encoder_ffn_embed_dim": "intermediate_size",
    "encoder_layers": "num_hidden_layers",
}
"""Keys of XLM's and of fairseq's files, and Hugging Face's."""


def read_arguments(
    family: Family,
    weights: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    heads: int | None = None,
    ids: Mapping[str, int] | None = None,
    said_in: str = "their configuration",
    found: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Arguments of the family's preset: sizes as the weights have them, the rest as others say.

    Args:
        family: Whose preset.
        weights: By our names.
        facts: What is said about the model.
        heads: Of attention; None: as said.
        ids: Control ids; those left out are as found, as said, or the published ones.
        said_in: The file that says so, for messages.
        found: Control ids in the tokenizer's files.

    Raises:
        ValueError: What is said is not what the weights or the family have, or nobody says how many heads; names both.
    """
    said = _normalize(facts)
    _check_kinds(family, said, said_in)
    sizes = count_sizes(weights)
    sizes["heads"] = _choose_heads(family, said, heads)
    _check_said(family, said, sizes)
    vocabulary = choose_ids(family, said, sizes["vocabulary"], found or {}, ids or {})
    if family.keys["epsilon"] in said:
        sizes["epsilon"] = said[family.keys["epsilon"]]
    sizes["max_tokens"] = sizes["rows"] - position_offset(family, vocabulary)
    sizes.pop("segments")  # as many as the family has
    rates = {name: said[family.keys[name]] for name in ("dropout", "attention_dropout") if family.keys[name] in said}
    arguments = make_arguments(family, sizes, vocabulary, rates)
    _check_traits(family, said, describe(sketch_tower(family, arguments)))
    return arguments


def check_kind(family: Family, facts: Mapping[str, Any]) -> None:
    """Refuse a model that says it is of another family."""
    kind = facts.get("model_type")
    kind, named = ALIKE.get(kind, kind), kind
    if kind is not None and kind != family.name:
        known = f"--as {kind}" if kind in FAMILIES else f"one of {', '.join(FAMILIES)}"
        raise ValueError(f"model_type is {named!r}, but it is to be read as {family.name}; give {known}")


def read_languages(facts: Mapping[str, Any]) -> list[str] | None:
    """Codes of the languages in the order of their vectors, where they are said (`lang2id`)."""
    numbers = facts.get("lang2id")
    return sorted(numbers, key=numbers.get) if isinstance(numbers, Mapping) and numbers else None


def _normalize(facts: Mapping[str, Any]) -> dict[str, Any]:
    said = {OLD[key]: value for key, value in facts.items() if key in OLD}
    return {**said, **facts}


def _check_kinds(family: Family, said: Mapping[str, Any], said_in: str) -> None:
    for field, key in family.keys.items():
        value, decimal = said.get(key, 1), field in ("epsilon", "dropout", "attention_dropout")
        if isinstance(value, bool) or not isinstance(value, (int, float) if decimal else int):
            kind = "number" if decimal else "whole number"
            raise ValueError(f"{said_in}: {key} is {value!r}; expected a {kind}: give their own configuration")


def _choose_heads(family: Family, said: Mapping[str, Any], heads: int | None) -> int:
    key = family.keys["heads"]
    found = said.get(key)
    if heads is None and found is None:
        raise ValueError(f"weights do not tell the number of attention heads, and no {key} is said; give --heads")
    if heads is not None and heads < 1:
        raise ValueError(f"--heads is {heads}; expected 1 or more")
    if found is not None and found < 1:
        raise ValueError(f"{key} is {found}; expected 1 or more: give their own configuration")
    if heads is not None and found is not None and heads != found:
        raise ValueError(f"--heads is {heads}, but {key} is {found}; leave --heads out")
    return int(found if heads is None else heads)


def _check_said(family: Family, said: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    for key, ours in NEEDED.items():
        if said.get(key, ours) != ours:
            raise ValueError(f"{key} is {said[key]!r}, but our {family.name} computes {ours!r}: its weights would mean nothing")
    for field, key in family.keys.items():
        if field in sizes and key in said and said[key] != sizes[field]:
            raise ValueError(f"{key} is {said[key]}, but the weights have {sizes[field]}; give their own configuration")
    if family.preset is presets.xlm:
        number = said.get("n_langs", 1)
        expected = number if number > 1 and said.get("use_lang_emb", True) else 0
        if "n_langs" in said and expected != sizes["languages"]:
            raise ValueError(
                f"n_langs {number} with use_lang_emb {said.get('use_lang_emb', True)} asks for {expected} language vectors, "
                f"but the weights have {sizes['languages']}; give their own configuration"
            )


def _check_traits(family: Family, said: Mapping[str, Any], traits: Traits) -> None:
    key = family.keys.get("segments")
    if key in said and said[key] != traits.segments:
        raise ValueError(f"{key} is {said[key]}, but {family.name} has {traits.segments}: it is another model")


def choose_ids(
    family: Family, said: Mapping[str, Any], size: int, found: Mapping[str, int], given: Mapping[str, int]
) -> Vocabulary:
    """Control ids: given, else as a tokenizer's files have them, else as is said, else the published ones.

    Args:
        family: Whose ids.
        said: What is said about the model.
        size: Of the vocabulary.
        found: Those in the tokenizer's files.
        given: Those that are given.

    Raises:
        ValueError: Two that are not given differ, or they are none of the vocabulary.
    """
    chosen = {name: number if number >= 0 else size + number for name, number in family.published.items()}
    told = _said_ids(family, said)
    for name in told.keys() & found.keys() - given.keys():
        if told[name] != found[name]:
            raise ValueError(
                f"the {name} id is {found[name]} in the tokenizer's files, but {family.ids[name]} is {told[name]}; say "
                "which is right: --ids PAD,UNKNOWN,START,END,MASK"
            )
    chosen |= {**told, **found, **given}
    try:
        return Vocabulary(size, **chosen)
    except ValueError as error:
        raise ValueError(f"{error} (--ids PAD,UNKNOWN,START,END,MASK)") from None


def _said_ids(family: Family, said: Mapping[str, Any]) -> dict[str, int]:
    return {name: said[key] for name, key in family.ids.items() if isinstance(said.get(key), int)}


def list_assumed(family: Family, facts: Mapping[str, Any], told: Mapping[str, int]) -> list[str]:
    """Control ids that are neither given, found nor said, and so are the published ones.

    Args:
        family: Whose ids.
        facts: What is said about the model.
        told: Ids that are given or found.
    """
    said = _said_ids(family, _normalize(facts))
    return [name for name in family.published if name not in told and name not in said]


def write_configuration(pretrained: Pretrained, architecture: str) -> dict[str, Any]:
    """`config.json` for Hugging Face's class of that name."""
    family = pretrained.kind
    traits = describe(sketch_tower(family, pretrained.arguments))
    vocabulary = traits.vocabulary
    written: dict[str, Any] = {"model_type": family.name, "architectures": [architecture], "tie_word_embeddings": True}
    for field, key in family.keys.items():
        value = pretrained.arguments.get(field, 0.1) if "dropout" in field else getattr(traits, field)
        written[key] = value.size if field == "vocabulary" else value
    if family.preset is presets.xlm:
        known = pretrained.languages or []
        written |= {"n_langs": traits.languages or max(1, len(known)), "use_lang_emb": traits.languages > 1}
        written |= {"gelu_activation": True, "sinusoidal_embeddings": False, "causal": False, "asm": False, "bos_token_id": 0}
        if known:
            written |= {"lang2id": {code: number for number, code in enumerate(known)}}
            written |= {"id2lang": {str(number): code for number, code in enumerate(known)}}
    else:
        written |= {"hidden_act": "gelu"}
    return written | {key: getattr(vocabulary, name) for name, key in family.ids.items()}
