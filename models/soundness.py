"""Weights that no tower can compute with: not of floating point, or with values that are not finite."""

from collections.abc import Mapping

import torch
from torch import Tensor

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def refuse_unsound(weights: Mapping[str, Tensor], where: str) -> None:
    """Refuse weights before they are taken over, written or trained from.

    Args:
        weights: By any names.
        where: Whose they are, for the message.

    Raises:
        ValueError: A weight is of another type than `FLOATS`, or holds infinity or NaN; names it, and how many values do.
    """
    for name, weight in weights.items():
        if weight.dtype not in FLOATS:
            kinds = ", ".join(_short(kind) for kind in FLOATS)
            raise ValueError(f"{where}: {name} is of {_short(weight.dtype)}; expected {kinds}, not quantized")
    refuse_infinite(weights, where)


def refuse_infinite(weights: Mapping[str, Tensor], where: str) -> None:
    """Refuse values that are not finite; what is no number of floating point is left alone.

    Raises:
        ValueError: A weight holds infinity or NaN; names it, and how many values do.
    """
    for name, weight in weights.items():
        if not weight.is_floating_point():
            continue
        finite = int(weight.isfinite().sum())
        if finite < weight.numel():
            raise ValueError(
                f"{where}: {name} holds {weight.numel() - finite:,} values of {weight.numel():,} that are infinite or NaN; "
                "expected finite weights: take a file from before the training diverged"
            )


def _short(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")
