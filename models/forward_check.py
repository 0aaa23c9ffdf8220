"""A converted tower against Hugging Face's own class with the same weights: proof by outputs, not by names."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..modalities.batch import Text, number_positions
from .conversion import Export
from .families import Family
from .pretrained import Pretrained, make_head, make_tower

TOLERANCE = 1e-4
"""Largest difference of states and scores in float32, as a share of the largest value. Deep towers differ by some 1e-6; a GELU
in its tanh form by some 1e-3."""

POOLED = ("BertModel", "XLMRobertaModel", "XLMRobertaXLModel")
"""Classes that make a pooler if they are not told otherwise."""


class Agreement(NamedTuple):
    """Largest differences, as a share of the largest value; `scores` is None without a head."""

    states: float
    scores: float | None


def has_transformers() -> bool:
    """Whether Hugging Face's library is installed."""
    return find_spec("transformers") is not None


def build_theirs(exported: Export, configuration: dict[str, Any] | None = None) -> nn.Module:
    """Hugging Face's model with exported weights.

    Args:
        exported: What to load.
        configuration: The `config.json` that the weights came with; None: ours.

    Raises:
        ValueError: Names do not fit.
    """
    import transformers

    model_class = getattr(transformers, exported.architecture)
    config = model_class.config_class.from_dict(dict(configuration or exported.configuration))
    model = model_class(config, **_without_pooler(exported))
    found = model.load_state_dict(exported.weights, strict=False)
    model.tie_weights()
    missing = [name for name in found.missing_keys if name not in (model_class._tied_weights_keys or {})]
    if missing or found.unexpected_keys:
        raise ValueError(f"{exported.architecture}: missing {missing[:3]}, unexpected {found.unexpected_keys[:3]}")
    return model.eval()


def load_theirs(exported: Export, folder: str | Path) -> nn.Module:
    """Hugging Face's model from a folder, as a user loads it.

    Raises:
        ValueError: It misses a weight, or finds one that it does not know.
    """
    import transformers

    model_class = getattr(transformers, exported.architecture)
    model, told = model_class.from_pretrained(folder, output_loading_info=True, **_without_pooler(exported))
    faults = {name: sorted(told[name]) for name in ("missing_keys", "unexpected_keys", "mismatched_keys") if told[name]}
    if faults:
        raise ValueError(f"{exported.architecture} does not load {folder} whole: {faults}")
    return model.eval()


def _without_pooler(exported: Export) -> dict[str, bool]:
    """A base class makes a random pooler where the weights have none."""
    has_pooler = any("pooler" in name for name in exported.weights)
    return {"add_pooling_layer": False} if exported.architecture in POOLED and not has_pooler else {}


@torch.no_grad()
def compare(pretrained: Pretrained, theirs: nn.Module) -> Agreement:
    """Read the same random tokens by both, in float32 and without dropout, with padding on the right.

    Raises:
        ValueError: They differ by more than `TOLERANCE`.
    """
    tower = make_tower(pretrained).float()
    head = make_head(pretrained, tower)
    text = _draw(pretrained)
    given, states = make_inputs(pretrained.kind, text), tower.encode(text)[0][text.present]
    theirs = theirs.float()
    agreement = Agreement(
        _difference(states, theirs.base_model(**given).last_hidden_state[text.present]),
        None if head is None else _difference(head.float()(states), _scores(theirs(**given))[text.present]),
    )
    if not all(apart < TOLERANCE for apart in (agreement.states, agreement.scores or 0.0)):  # so that NaN does not agree
        raise ValueError(
            f"the converted tower does not compute what {type(theirs).__name__} does: states differ by {agreement.states:.1e} "
            f"of the largest, scores by {agreement.scores or 0:.1e}, expected less than {TOLERANCE:.0e}"
        )
    return agreement


def make_inputs(family: Family, text: Text) -> dict[str, Tensor]:
    """What Hugging Face's class of a family must be given to read a text as our towers do."""
    given = {"input_ids": text.tokens, "attention_mask": text.present.long()}
    if family.name == "xlm":  # its token_type_ids would add vectors of words
        return {**given, "langs": text.language, "position_ids": text.position}
    if family.name == "bert":
        return {**given, "token_type_ids": text.segment, "position_ids": text.position}
    return given  # positions are counted from the pads


def _draw(pretrained: Pretrained) -> Text:
    arguments = pretrained.arguments
    ids = arguments["vocabulary"]
    generator = torch.Generator().manual_seed(0)
    longest = min(24, arguments["max_tokens"])
    present = torch.arange(longest)[None] < torch.tensor([[longest], [1 + longest // 2]])
    tokens = torch.randint(ids["size"] - 1, present.shape, generator=generator)
    tokens = (tokens + (tokens >= ids["pad"]).long()).where(present, torch.tensor(ids["pad"]))
    languages = torch.randint(max(1, arguments.get("languages", 0)), present.shape, generator=generator)
    segment = torch.randint(2 if pretrained.family == "bert" else 1, present.shape, generator=generator)
    word, document = torch.full_like(tokens, -1), torch.zeros_like(tokens)
    return Text(tokens, present, languages, word, segment, document, number_positions(present))


def _scores(read: Any) -> Tensor:
    return read.prediction_logits if "prediction_logits" in read else read.logits


def _difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())
