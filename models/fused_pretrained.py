"""Files of fused encoders (see `pretrained`), and encoders filled with them."""

from torch import nn

from .encoder import Encoder
from .fused import Fused
from .fused_families import FUSED, fused_differences, sketch_fused
from .heads import TokenHead
from .loading import load_whole
from .pretrained import Pretrained
from .soundness import refuse_unsound


def is_fused(pretrained: Pretrained) -> bool:
    """Whether a file holds a fused encoder, and no text tower alone."""
    return pretrained.family in FUSED


def make_fused(pretrained: Pretrained) -> Fused:
    """The encoder of a file, in evaluation mode."""
    encoder = sketch_fused(pretrained.family, pretrained.arguments)
    load_whole(encoder, pretrained.part("encoder"), f"{pretrained.family} encoder")
    return encoder.eval()


def make_heads(pretrained: Pretrained, encoder: Fused) -> tuple[TokenHead | None, nn.Linear | None]:
    """The token head of a file, tied to the encoder's table, and its head of matching; None where it has none."""
    head, matching, dtype = None, None, encoder.tokens.weight.dtype
    if weights := pretrained.part("head"):
        head = encoder.token_head("text").to(dtype).eval()
        load_whole(head, weights, f"{pretrained.family} head")
    if weights := pretrained.part("matching"):
        matching = nn.Linear(encoder.widths["joint"], 2).to(dtype)
        load_whole(matching, weights, f"{pretrained.family} head of matching")
    return head, matching


def fill_fused(encoder: Encoder, pretrained: Pretrained, name: str) -> int:
    """Give a fused encoder the weights of a file; returns how many there are.

    Args:
        encoder: What to fill.
        pretrained: What to give it.
        name: The file's, for messages.

    Raises:
        ValueError: The encoder would compute something else with these weights; names every difference, both values. Or a
            weight is not finite.
    """
    again = f"set `model.encoder` as the file has it (`interlingua checkpoint show {name}`)"
    if not isinstance(encoder, Fused):
        kind = type(encoder).__name__
        raise ValueError(f"{name} holds a fused encoder ({pretrained.family}), but this one is a {kind}; {again}")
    found = fused_differences("file", sketch_fused(pretrained.family, pretrained.arguments), "encoder", encoder)
    if found:
        raise ValueError(f"{name} ({pretrained.family}) is not of this encoder; {'; '.join(found)}; {again}")
    refuse_unsound(pretrained.weights, name)
    weights = pretrained.part("encoder")
    load_whole(encoder, weights, "fused encoder")
    return len(weights)
