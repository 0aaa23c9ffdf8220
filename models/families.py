"""The families of text towers that have checkpoints: what their configurations say, and what a tower of ours is."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from ..modalities.vocabulary import Vocabulary
from . import layouts, presets
from .layouts import Layout
from .presets import Size
from .towers import TextTower


@dataclass(frozen=True)
class Family:
    """One family of checkpoints.

    Args:
        name: As the command line has it, and as Hugging Face's `model_type`.
        preset: Builds its towers.
        layout: Hugging Face's names.
        fairseq: Its names, where there are such checkpoints.
        keys: Keys of `config.json` by the fields and properties of `Traits`, and by `dropout` and `attention_dropout`.
        ids: Keys of `config.json` by control id.
        published: Control ids of the published vocabularies; negative ones count from the end.
        classes: Hugging Face's classes: with a token head, without, and with a classifier of pairs too.
    """

    name: str
    preset: Callable[..., TextTower]
    layout: Layout
    fairseq: Layout | None
    keys: Mapping[str, str]
    ids: Mapping[str, str]
    published: Mapping[str, int]
    classes: tuple[str, str, str | None]

    @property
    def class_path(self) -> str:
        """How a configuration names the preset."""
        return f"interlingua.models.presets.{self.preset.__name__}"


_KEYS = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "rows": "max_position_embeddings",
    "segments": "type_vocab_size",
    "epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
_XLM_KEYS = {
    "vocabulary": "vocab_size",
    "width": "emb_dim",
    "layers": "n_layers",
    "heads": "n_heads",
    "rows": "max_position_embeddings",
    "epsilon": "layer_norm_eps",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
}
_BERT_IDS = {
    "pad": "pad_token_id",
    "unknown": "unk_token_id",
    "start": "cls_token_id",
    "end": "sep_token_id",
    "mask": "mask_token_id",
}
_XLMR_IDS = {**_BERT_IDS, "start": "bos_token_id", "end": "eos_token_id"}
_XLM_IDS = {
    "pad": "pad_token_id",
    "unknown": "unk_index",
    "start": "eos_token_id",  # its bos is never read in training
    "end": "eos_token_id",
    "mask": "mask_index",  # its mask_token_id is another number, and wrong
}
_XLMR_PUBLISHED = {"pad": 1, "unknown": 3, "start": 0, "end": 2, "mask": -1}

FAMILIES = {
    family.name: family
    for family in (
        Family(
            "bert",
            presets.bert,
            layouts.BERT,
            None,
            _KEYS,
            _BERT_IDS,
            {"pad": 0, "unknown": 100, "start": 101, "end": 102, "mask": 103},
            ("BertForMaskedLM", "BertModel", "BertForPreTraining"),
        ),
        Family(
            "xlm-roberta",
            presets.xlm_roberta,
            layouts.XLM_ROBERTA,
            layouts.FAIRSEQ_XLM_ROBERTA,
            _KEYS,
            _XLMR_IDS,
            _XLMR_PUBLISHED,
            ("XLMRobertaForMaskedLM", "XLMRobertaModel", None),
        ),
        Family(
            "xlm-roberta-xl",
            presets.xlm_roberta_xl,
            layouts.XLM_ROBERTA_XL,
            layouts.FAIRSEQ_XLM_ROBERTA_XL,
            _KEYS,
            _XLMR_IDS,
            _XLMR_PUBLISHED,
            ("XLMRobertaXLForMaskedLM", "XLMRobertaXLModel", None),
        ),
        Family(
            "xlm",
            presets.xlm,
            layouts.XLM,
            None,
            _XLM_KEYS,
            _XLM_IDS,
            {"pad": 2, "unknown": 3, "start": 1, "end": 1, "mask": 5},
            ("XLMWithLMHeadModel", "XLMModel", None),
        ),
    )
}


@dataclass(frozen=True)
class Traits:
    """All that decides what a text tower computes, but for its weights and dropout."""

    vocabulary: Vocabulary
    width: int
    layers: int
    heads: int
    inner: int
    max_tokens: int
    position_offset: int
    languages: int
    segments: int
    factor: int | None
    distinct: int
    """Blocks with weights of their own."""
    norm: str
    epsilon: float
    head: str

    @property
    def rows(self) -> int:
        """Of the position table, as others count it."""
        return self.max_tokens + self.position_offset


def describe(tower: TextTower) -> Traits:
    """What a tower is.

    Raises:
        ValueError: It has no blocks, and so no heads or epsilon to compare.
    """
    if not tower.transformer.layers:
        raise ValueError("a text tower without layers is of no family")
    embeddings, block = tower.embeddings, tower.transformer.blocks[0]
    return Traits(
        vocabulary=embeddings.vocabulary,
        width=embeddings.width,
        layers=tower.transformer.layers,
        heads=block.attention.heads,
        inner=block.feed_forward.inward.out_features,
        max_tokens=embeddings.max_tokens,
        position_offset=embeddings.position_offset,
        languages=tower.languages,
        segments=_rows(embeddings.segments),
        factor=None if isinstance(embeddings.outward, nn.Identity) else embeddings.tokens.embedding_dim,
        distinct=len(tower.transformer.blocks),
        norm="pre" if block.prenorm else "post",
        epsilon=block.attention_norm.eps,
        head=embeddings.head,
    )


def _rows(table: nn.Embedding | None) -> int:
    return 0 if table is None else table.num_embeddings


def differences(one: str, left: Traits, other: str, right: Traits) -> list[str]:
    """What two towers differ in, with both values, each under its name."""
    pairs = [(field.name, getattr(left, field.name), getattr(right, field.name)) for field in fields(Traits)]
    return [f"{name}: {one} {mine}, {other} {theirs}" for name, mine, theirs in pairs if mine != theirs]


def count_sizes(weights: Mapping[str, Tensor]) -> dict[str, int]:
    """What the shapes of a tower's weights tell of its `Traits`, by field; `vocabulary` is its size, `rows` those of positions.

    Args:
        weights: By our names.
    """
    tables = ("tokens", "positions", "languages", "segments")
    rows = {name: len(weights.get(f"encoder.embeddings.{name}.weight", ())) for name in tables}
    layers = len({name.split(".")[3] for name in weights if ".blocks." in name})
    return {
        "vocabulary": rows["tokens"],
        "width": weights["encoder.embeddings.tokens.weight"].shape[1],
        "layers": layers,
        "inner": len(weights["encoder.transformer.blocks.0.feed_forward.inward.weight"]) if layers else 0,
        "rows": rows["positions"],
        "languages": rows["languages"],
        "segments": rows["segments"],
    }


def position_offset(family: Family, vocabulary: Vocabulary) -> int:
    """Rows of the position table before position 0: some families count positions from behind the pad id."""
    return vocabulary.pad + 1 if family.preset in (presets.xlm_roberta, presets.xlm_roberta_xl) else 0


def make_arguments(
    family: Family,
    sizes: Mapping[str, Any],
    vocabulary: Vocabulary,
    dropout: Mapping[str, float],
) -> dict[str, Any]:
    """Arguments of a family's preset, plain as a configuration has them.

    Args:
        family: Whose preset.
        sizes: Width, layers, heads, inner, max_tokens, languages, epsilon and segments (else the usual), by the fields of
            `Traits`.
        vocabulary: Size and control ids.
        dropout: `dropout` and `attention_dropout`.
    """
    told = signature(family.preset).parameters
    given = {name: sizes[name] for name in ("epsilon", "segments") if name in sizes and name in told}
    unusual = {name: value for name, value in given.items() if value != told[name].default}
    return {
        "vocabulary": asdict(vocabulary),
        **({"languages": sizes["languages"]} if family.preset is presets.xlm else {}),
        "size": asdict(Size(sizes["width"], sizes["layers"], sizes["heads"], sizes["inner"])),
        "max_tokens": sizes["max_tokens"],
        **dropout,
        **unusual,
    }


def sketch_tower(family: Family, arguments: Mapping[str, Any]) -> TextTower:
    """The tower that a preset's plain arguments describe, on the meta device: without weights.

    Args:
        family: Whose preset.
        arguments: As of `make_arguments`.
    """
    built = {"vocabulary": Vocabulary(**arguments["vocabulary"]), "size": Size(**arguments["size"])}
    with torch.device("meta"):
        return family.preset(**{**arguments, **built})


def check_family(tower: TextTower, family: Family) -> None:
    """Refuse a tower that the family's own code would compute otherwise.

    Raises:
        ValueError: Names what differs, with both values.
    """
    traits = describe(tower)
    sizes = {name: value for name, value in asdict(traits).items() if name != "segments"}  # as many as the family has
    expected = describe(sketch_tower(family, make_arguments(family, sizes, traits.vocabulary, {})))
    found = differences("it has", traits, f"{family.name} has", expected)
    if family.preset is presets.xlm and traits.inner != 4 * traits.width:
        found.append(f"inner: it has {traits.inner}, xlm has 4 x width, {4 * traits.width}")
    if family.preset is presets.xlm and traits.languages == 1:
        found.append("languages: it has 1, xlm has none or more than one")
    if tower.embeddings.epsilon != traits.epsilon:
        found.append(f"epsilon: its embeddings have {tower.embeddings.epsilon}, its blocks {traits.epsilon}")
    if found:
        raise ValueError(f"the tower is not {family.name}; {'; '.join(found)}")
