"""An encoder's weights out of a pretraining checkpoint."""

from collections.abc import Callable
from pathlib import Path

import torch

from ..models.encoder import Encoder

PREFIX = "encoder."


def load_encoder(encoder: Encoder, path: str | Path, tell: Callable[[str], None] = print) -> None:
    """Load all weights of an encoder from a Lightning checkpoint of a module that holds it as `encoder`.

    Heads, optimiser and everything else in the checkpoint are left alone. Nothing is unpickled but tensors and plain values.

    Args:
        encoder: Filled in place.
        path: A checkpoint of `Pretraining`.
        tell: Given one line: how many weights matched, are missing, and were not expected.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no such checkpoint, or its encoder is not this encoder: a weight is missing, left over, or of
            another shape.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"checkpoint {path} does not exist; give the .ckpt that `interlingua fit` wrote")
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise ValueError(f"{path} has no `state_dict`: give the .ckpt that `interlingua fit` wrote")
    stored = {name[len(PREFIX) :]: value for name, value in checkpoint["state_dict"].items() if name.startswith(PREFIX)}
    wanted = encoder.state_dict()
    missing, unexpected = sorted(wanted.keys() - stored.keys()), sorted(stored.keys() - wanted.keys())
    shared = wanted.keys() & stored.keys()
    tell(f"{path}: {len(shared)} weights matched, {len(missing)} missing, {len(unexpected)} unexpected")
    shapes = [
        f"{name}: checkpoint {tuple(stored[name].shape)}, encoder {tuple(wanted[name].shape)}"
        for name in sorted(shared)
        if stored[name].shape != wanted[name].shape
    ]
    if not shared or missing or unexpected or shapes:
        raise ValueError(
            f"{path} is not of this encoder; {len(shared)} weights matched, missing: {_some(missing)}, unexpected: "
            f"{_some(unexpected)}, other shapes: {_some(shapes)}; set `model.encoder` as in the run's own config"
        )
    encoder.load_state_dict(stored)


def _some(names: list[str]) -> str:
    return (", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")) or "none"
