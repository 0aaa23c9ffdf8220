"""Momentum copies: a module that follows another slowly, for keys and targets that must not change from step to step.

Momentum contrast, arXiv:1911.05722, section 3.2.
"""

from copy import deepcopy
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

Shape = Literal["constant", "linear", "exponential"]


@dataclass(frozen=True)
class Momentum:
    """Share of a copy that stays when it moves: the schedules of InfoXLM's released code.

    Args:
        most: Largest share; all there is to a `constant` one.
        shape: `linear`: from `least` to `most` between the moves `begin` and `end`. `exponential`: 1 - move ** -exponent,
            within both.
        least: Smallest share.
        begin, end: Numbers of moves, from 1.
        exponent: How fast the exponential shape rises.
        refresh: After every so many moves the copy is made anew, whatever the shape; None: never.

    Raises:
        ValueError: An unknown shape, a share outside 0 to 1, or numbers in the wrong order.
    """

    most: float = 0.9999
    shape: Shape = "constant"
    least: float = 0.0
    begin: int = 0
    end: int = 0
    exponent: float = 0.5
    refresh: int | None = None

    def __post_init__(self):
        if self.shape not in get_args(Shape):
            raise ValueError(f"momentum: shape is {self.shape!r}, expected one of {', '.join(get_args(Shape))}")
        if not 0 <= self.least <= self.most <= 1:
            raise ValueError(f"momentum: shares from {self.least} to {self.most}; expected 0 <= least <= most <= 1")
        if not 0 <= self.begin <= self.end or not 0 < self.exponent < inf or (self.refresh is not None and self.refresh < 1):
            raise ValueError(f"momentum: expected 0 <= begin <= end, exponent above 0 and refresh of 1 or more, found {self}")

    def at(self, move: int) -> float:
        """The share that stays at a move, counted from 1."""
        if self.refresh is not None and move % self.refresh == 0:
            return 0.0
        if self.shape == "exponential":
            return min(max(1 - move**-self.exponent, self.least), self.most)
        if self.shape == "linear" and move < self.end:
            way = (move - self.begin) / (self.end - self.begin) if move > self.begin else 0.0
            return self.least + way * (self.most - self.least)
        return self.most


class MomentumCopy(nn.Module):
    """A copy of a module that no optimiser sees: its weights are buffers, saved and moved to devices like any other.

    It is read without gradient and as in evaluation: no dropout, whatever mode it is in.
    """

    def __init__(self, module: nn.Module):
        """
        Args:
            module: Copied as it is now; weights that it loads later are taken over by `follow` with a momentum of 0.
        """
        super().__init__()
        self.module = deepcopy(module)
        kept: dict[nn.Parameter, Tensor] = {}  # what is tied stays tied
        for part in self.module.modules():
            for name, parameter in list(part.named_parameters(recurse=False, remove_duplicate=False)):
                delattr(part, name)
                part.register_buffer(name, kept.setdefault(parameter, parameter.detach()))

    @torch.no_grad()
    def forward(self, *arguments: Any, **options: Any) -> Any:
        """What the module gives, without gradient."""
        # For the time of the reading only: Lightning warns of modules that are in evaluation mode when training starts.
        awake = [part for part in self.module.modules() if part.training]
        self.module.eval()
        try:
            return self.module(*arguments, **options)
        finally:
            for part in awake:
                part.training = True

    @torch.no_grad()
    def follow(self, module: nn.Module, momentum: float) -> None:
        """Move: parameters to momentum * copy + (1 - momentum) * module; the module's own buffers are copied.

        Args:
            module: The one that was copied.
            momentum: Share of the copy that stays; 0 makes it anew.

        Raises:
            ValueError: Weights have half precision, in which a slow copy would stand still.
        """
        parameters = dict(module.named_parameters(remove_duplicate=False))
        buffers = dict(module.named_buffers(remove_duplicate=False))
        for name, own in self.module.named_buffers():
            if name not in parameters:
                own.copy_(buffers[name])
            elif momentum and own.dtype in (torch.bfloat16, torch.float16):
                raise ValueError(
                    f"a momentum copy has weights in {own.dtype}, where steps as small as 1 - {momentum} are lost; train with "
                    "float32 weights (trainer.precision 32-true or bf16-mixed)"
                )
            else:
                own.lerp_(parameters[name], 1 - momentum)
