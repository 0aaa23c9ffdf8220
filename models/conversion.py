"""Checkpoints of others made into ours and back, with an account of every name."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import layouts
from .control_ids import read_control_ids
from .families import Family
from .foreign_configuration import check_kind, list_assumed, read_arguments, read_languages, write_configuration
from .foreign_weights import Foreign
from .layouts import Translation, give_back
from .loading import is_fairseq, translate_all
from .pretrained import Pretrained, make_tower
from .soundness import refuse_unsound

SEGMENTS = "encoder.embeddings.segments.weight"
ONE_SEGMENT = (layouts.XLM_ROBERTA, layouts.XLM_ROBERTA_XL)


class Conversion(NamedTuple):
    """A checkpoint of others, converted.

    Attributes:
        pretrained: As ours.
        translation: What became of the names.
        notes: What else to say about it, one line each.
        facts: What others say about it, as far as it was taken over.
    """

    pretrained: Pretrained
    translation: Translation
    notes: list[str]
    facts: dict[str, Any]


class Export(NamedTuple):
    """A checkpoint of ours as Hugging Face's.

    Attributes:
        architecture: Name of the class that loads it.
        configuration: Of `config.json`.
        weights: By its names, without tied copies.
        notes: What else to say about it, one line each.
    """

    architecture: str
    configuration: dict[str, Any]
    weights: dict[str, Tensor]
    notes: list[str]


def convert(
    foreign: Foreign,
    family: Family,
    heads: int | None = None,
    ids: Mapping[str, int] | None = None,
    languages: Sequence[str] | None = None,
) -> Conversion:
    """Make a checkpoint of others ours.

    Args:
        foreign: What its files hold.
        family: What it is to be read as.
        heads: Of attention, where the files do not say.
        ids: Control ids that are neither said nor the published ones.
        languages: Codes of the language vectors in order, where the files do not say.

    Raises:
        ValueError: Weights are missing, or of other sizes than is said, or none are of this family.
    """
    check_kind(family, foreign.facts)
    translation = translate_all(foreign.weights, family)
    weights, notes = dict(translation.weights), []
    if SEGMENTS not in weights and any(map(is_fairseq, foreign.weights)):
        table = weights["encoder.embeddings.tokens.weight"]
        weights[SEGMENTS] = torch.zeros(1, table.shape[1], dtype=table.dtype)
        notes.append("segment vector: fairseq has none, zeros are written")
    facts = dict(foreign.facts)
    table = weights.get(SEGMENTS, torch.empty(0))
    if family.layout in ONE_SEGMENT and len(table) > 1 and facts.get("type_vocab_size", len(table)) == len(table):
        notes.append(f"segment vectors: {len(table)}; {family.name}'s texts have the first, the rest is left out")
        weights[SEGMENTS], facts["type_vocab_size"] = table[:1].clone(), 1
    found, files = ({}, "") if foreign.folder is None else read_control_ids(family, foreign.folder)
    said_in = foreign.facts_from or "their configuration"
    arguments = read_arguments(family, weights, facts, heads, ids, said_in, found)
    assumed = list_assumed(family, foreign.facts, {**found, **(ids or {})})
    if found.keys() - (ids or {}).keys():
        notes.append(f"control ids of {', '.join(found)}: as in {files}")
    if assumed:
        numbers = ", ".join(f"{name} {arguments['vocabulary'][name]}" for name in assumed)
        notes.append(f"control ids assumed, as published: {numbers}; no file says them: give --ids if the tokenizer has others")
    names = _choose_languages(read_languages(foreign.facts), languages, arguments.get("languages", 0))
    pretrained = Pretrained(family.name, arguments, weights, names, dict(foreign.sources))
    make_tower(pretrained)  # says what does not fit, both sizes
    if arguments.get("languages") and names is None:
        notes.append("languages: the files do not name them; give --languages in the order of the vectors")
    return Conversion(pretrained, translation, notes, facts)


def _choose_languages(said: list[str] | None, given: Sequence[str] | None, count: int) -> list[str] | None:
    if given is None:
        if said is not None and count and len(said) != count:
            raise ValueError(f"the files name {len(said)} languages, but have {count} language vectors")
        return said
    if said is not None and list(given) != said:
        raise ValueError(f"--languages is {','.join(given)}, but the files say {','.join(said)}; leave it out")
    if len(given) != count:
        raise ValueError(f"--languages names {len(given)}, but there are {count} language vectors")
    return list(given)


def export(pretrained: Pretrained) -> Export:
    """A checkpoint of ours as Hugging Face's own class saves it.

    Raises:
        ValueError: A weight is not finite.
    """
    refuse_unsound(pretrained.weights, pretrained.family)
    family, weights, notes = pretrained.kind, dict(pretrained.weights), []
    with_head, base, with_pairs = family.classes
    parts = {name.partition(".")[0] for name in weights}
    if "head" not in parts:
        architecture = base
        if "pooler" not in parts and family.layout.names.get("pooler.*"):
            notes.append(f"no pooler is written: load it by {base}.from_pretrained(DIR, add_pooling_layer=False)")
        left = parts & {"next_sentence"}
    elif with_pairs is not None and parts >= {"pooler", "next_sentence"}:
        architecture, left = with_pairs, set()
    else:
        architecture, left = with_head, parts & {"pooler", "next_sentence"}
    if left:
        notes.append(f"left out, since {architecture} has none: {', '.join(sorted(left))}")
        weights = {name: weight for name, weight in weights.items() if name.partition(".")[0] not in left}
    return Export(architecture, write_configuration(pretrained, architecture), give_back(weights, family.layout), notes)


def write_folder(exported: Export, folder: str | Path) -> None:
    """Write `config.json` and `model.safetensors`."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        save_file(exported.weights, folder / "model.safetensors", {"format": "pt"})
    except SafetensorError as error:
        raise OSError(f"{folder / 'model.safetensors'} cannot be written: {error}") from None
    described = json.dumps(exported.configuration, indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(described + "\n", encoding="utf-8")
