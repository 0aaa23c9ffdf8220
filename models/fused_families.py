"""Fused encoders that have checkpoints: what their plain arguments build, and what an encoder of ours is."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from . import fused_layouts, fused_presets, volta_layout
from .crossing import Cross
from .families import FAMILIES, Family, describe, sketch_tower
from .fused import Fused
from .fused_layouts import per_stream
from .fused_presets import Pool
from .layouts import Layout


@dataclass(frozen=True)
class FusedFamily:
    """One preset whose encoders are kept in files.

    Args:
        preset: Builds them.
    """

    preset: Callable[..., Fused]

    @property
    def name(self) -> str:
        return self.preset.__name__

    @property
    def class_path(self) -> str:
        """How a configuration names the preset."""
        return f"interlingua.models.fused_presets.{self.name}"


@dataclass(frozen=True)
class Foreign:
    """Names of weights in which fused encoders of others come.

    Args:
        layout: Of an encoder.
        matches: The class, 0 or 1, that means that text and picture belong together; ours is 1.
        classes: Hugging Face's classes with heads and without, where it has them: only then is it written.
    """

    layout: Callable[[Fused], Layout]
    matches: int
    classes: tuple[str, str] | None = None


FUSED = {
    family.name: family
    for family in map(
        FusedFamily,
        (
            fused_presets.vilbert,
            fused_presets.lxmert,
            fused_presets.uniter,
            fused_presets.visualbert,
            fused_presets.vl_bert,
        ),
    )
}
"""By the preset's name."""
LAYOUTS = {
    "visualbert": Foreign(fused_layouts.visualbert, 0, ("VisualBertForPreTraining", "VisualBertModel")),
    "lxmert": Foreign(fused_layouts.lxmert, 1, ("LxmertForPreTraining", "LxmertModel")),
    "uniter": Foreign(fused_layouts.uniter, 1),
    "vilbert": Foreign(fused_layouts.vilbert, 0),
    "volta": Foreign(volta_layout.volta, 0),
}
"""By the name of the command line."""


def text_family(arguments: Mapping[str, Any]) -> Family:
    """The family of the text tower in a fused encoder's plain arguments."""
    return next(family for family in FAMILIES.values() if family.class_path == arguments["text"]["class_path"])


def sketch_fused(name: str, arguments: Mapping[str, Any]) -> Fused:
    """The encoder that a preset's plain arguments describe, on the meta device: without weights.

    Args:
        name: The preset's.
        arguments: As a configuration has them.
    """
    built: dict[str, Any] = dict(arguments)
    for key, kind in (("cross", Cross), ("pool", Pool)):
        if key in built:
            built[key] = kind(**built[key])
    built["text"] = sketch_tower(text_family(arguments), arguments["text"]["init_args"])
    with torch.device("meta"):
        return FUSED[name].preset(**built)


def describe_fused(encoder: Fused) -> dict[str, Any]:
    """All that decides what a fused encoder computes, but for its weights and dropout."""
    picture, pooler, layers = encoder.picture, encoder.pooler, encoder.picture_layers
    traits = {f"text {name}": value for name, value in asdict(describe(encoder.text)).items()}
    traits |= {"plan": encoder.plan, "pictures": type(picture).__name__, "vector_width": encoder.vector_width}
    traits |= {name: getattr(picture, name, None) for name in ("features", "width", "values", "whole", "unit", "waves")}
    traits |= {f"own {name}": getattr(picture, name, None) is not None for name in ("mask", "mask_word", "kind")}
    traits["epsilon"] = sorted({one.eps for one in encoder.modules() if isinstance(one, nn.LayerNorm)})
    traits |= {name: getattr(layers, name, None) for name in ("layers", "heads", "inner", "prenorm")}
    attentions = [half.attention for block in encoder.cross for half in block.values()]
    traits["cross"] = sorted({(one.inner, one.heads) for one in attentions})
    return traits | {"pool": pooler.how, "pooled": pooler.width, "activation": pooler.activate.__name__}


def fused_differences(one: str, left: Fused, other: str, right: Fused) -> list[str]:
    """What two encoders differ in, with both values, each under its name; plans that compute the same do not."""
    mine, theirs = describe_fused(left), describe_fused(right)
    if per_stream(left.plan) == per_stream(right.plan):
        theirs["plan"] = mine["plan"]
    return [f"{name}: {one} {mine[name]}, {other} {theirs[name]}" for name in mine if mine[name] != theirs[name]]
