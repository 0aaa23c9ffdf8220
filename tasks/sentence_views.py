"""Where a sentence's vector is taken from: which layer's states, and how they become one vector."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from ..modalities.batch import Text
from ..models.encoder import Encoder, States
from ..models.pooling import Pooling, pool

UNTRAINED = ", untrained"
"""Stands behind the name of a view of random weights."""


class View(NamedTuple):
    """One way to a vector."""

    layer: int | None
    """Block after which the states are taken; None: what the encoder gives last."""
    pooling: Pooling | None
    """None: the encoder makes the vector itself."""
    untrained: bool = False
    """Of the same encoder with random weights."""

    @property
    def name(self) -> str:
        """For people, and for the records."""
        layer = "last layer" if self.layer is None else f"layer {self.layer}"
        name = "projected vectors" if self.pooling is None else f"{layer}, {self.pooling}"
        return name + UNTRAINED if self.untrained else name

    def look(self, states: States, text: Text) -> Float[Tensor, "B E"]:
        """The vectors of a batch's texts."""
        if self.pooling is None:
            return states.vectors.text
        own = states if self.layer is None else states.layers[self.layer]
        return pool(own.text, text.present, self.pooling)


def list_views(encoder: Encoder, layers: Sequence[int | None], poolings: Sequence[Pooling]) -> list[View]:
    """Every layer with every pooling, in the order given.

    Args:
        encoder: Whose states; one that makes vectors is looked at through those where the layer is None.
        layers: Blocks; None: what the encoder gives last.
        poolings: `mean` or `first`, or both.

    Raises:
        ValueError: The encoder reads no text, something stands twice or nowhere, or a pooling would have nothing to pool.
    """
    if "text" not in encoder.widths:
        raise ValueError(f"sentence retrieval reads text, and {type(encoder).__name__} reads {', '.join(encoder.widths)}")
    for name, given in (("layers", layers), ("poolings", poolings)):
        if not given or len(set(given)) < len(given):
            raise ValueError(f"{name} is {list(given)}; expected one or more, each once")
    own = encoder.vector_width is not None
    if own and list(layers) == [None] and list(poolings) != ["mean"]:
        raise ValueError(
            f"poolings is {list(poolings)}, but {type(encoder).__name__} pools and projects by itself; name `layers` to look "
            "at its states"
        )
    last = max((layer for layer in layers if layer is not None), default=0) if encoder.layers is None else encoder.layers
    beyond = [layer for layer in layers if layer is not None and not 0 <= layer <= last]
    if beyond:
        raise ValueError(
            f"layers names {beyond}, but {type(encoder).__name__} has {encoder.layers} blocks (0: before the first)"
        )
    views = []
    for layer in layers:
        views += [View(None, None)] if own and layer is None else [View(layer, pooling) for pooling in poolings]
    return views
