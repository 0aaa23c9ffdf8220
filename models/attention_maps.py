"""What the words of a text attend to in its picture, layer by layer: the weights that attention computes and throws away."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor

from ..modalities.batch import Batch
from .fused import Fused
from .plan import ATTENTION
from .transformer import Attention


@torch.no_grad()
def attention_to_picture(encoder: Fused, one: Batch) -> dict[int, Float[Tensor, "heads tokens places"]]:
    """Attention of each present token to each place of the picture, by layer.

    Where a layer attends to text and picture in one softmax, the weights of the picture's places sum to less than 1: the rest
    is on the text.

    Args:
        encoder: In evaluation mode.
        one: A batch of a single sample with text and picture. Places that the embeddings add, such as a global region, come
            before and behind those of the batch.

    Returns:
        By the number of the text's layer, from 1, in which (or, for layers between the streams, before the end of which) it
        attends to the picture.

    Raises:
        ValueError: There is not one sample, or it has no text or no picture.
    """
    picture = getattr(one, encoder.picture.stream)
    if one.size != 1 or one.text is None or picture is None:
        raise ValueError("attention is shown of one sample with a text and a picture")
    tokens, places = int(one.text.present.sum()), int(encoder.picture.places(one).present.sum())
    if not tokens or not places:
        raise ValueError(f"attention is shown of a text and a picture, but this sample has {tokens} tokens and {places} places")
    with _watched(encoder) as seen:
        encoder(one._replace(translation=None))
    found: dict[int, Tensor] = {}
    passed = 0
    weights = iter(seen)
    for sublayer, _ in encoder.layout.sublayers:
        if sublayer.kind != ATTENTION:
            passed += "text" in sublayer.reads
            continue
        if encoder.layout.joint:
            found[passed + 1] = next(weights)[:, :tokens, tokens:]
            continue
        for stream, sources in sublayer.reads.items():
            own = next(weights)
            if stream == "text" and "picture" in sources:
                found[passed + 1] = own[:, :, -places:]
    return found


@contextmanager
def _watched(encoder: Fused) -> Iterator[list[Float[Tensor, "heads queries keys"]]]:
    """The weights of every attention of one sample, in the order in which they are computed."""
    seen: list[Tensor] = []
    attentions = [module for module in encoder.modules() if isinstance(module, Attention) and module.asks]

    def watch(attention: Attention):
        def mix(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
            scores = query.float() @ key.float().transpose(2, 3) / query.shape[3] ** 0.5
            if mask is not None:
                scores = scores.masked_fill(~mask, -torch.inf)
            seen.append(scores.softmax(3)[0])
            return type(attention).mix(attention, query, key, value, mask)

        return mix

    try:
        for attention in attentions:
            attention.__dict__["mix"] = watch(attention)
        yield seen
    finally:
        for attention in attentions:
            attention.__dict__.pop("mix", None)
