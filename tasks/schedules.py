"""Learning-rate schedules: the rate as a closed form of the step, and a scheduler that keeps nothing but the step."""

import math
from collections.abc import Callable
from typing import Literal

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

Shape = Literal["linear", "cosine", "constant", "inverse_sqrt"]


def rate_at(step: int, shape: Shape, warmup_steps: int, steps: int | None, final_fraction: float = 0.0) -> float:
    """Fraction of the peak rate that is used in optimiser step `step` (counted from 0).

    Grows linearly from 0 in step 0 to 1 in step `warmup_steps`; then `linear` and `cosine` fall to `final_fraction`, which
    is reached `steps` steps after the start and kept; `inverse_sqrt` falls as sqrt(warmup_steps / step) ("Attention Is All You
    Need", arXiv:1706.03762, section 5.3). A run shorter than its warm-up ends within it.
    """
    if step < warmup_steps:
        return step / warmup_steps
    if shape == "constant":
        return 1.0
    if shape == "inverse_sqrt":
        return math.sqrt(max(1, warmup_steps) / max(1, step))
    assert steps is not None
    if step >= steps:
        return final_fraction
    done = (step - warmup_steps) / (steps - warmup_steps)
    left = 1.0 - done if shape == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return final_fraction + (1.0 - final_fraction) * left


class Schedule(LRScheduler):
    """Sets each group's rate to its peak times a function of the step.

    A checkpoint keeps the step alone. On resume every option is the configuration's, not the checkpoint's: with the same
    options the rates are those of the uninterrupted run to the last bit; with a longer run, another peak rate or another
    decay, those hold from the next step on (the rate jumps to the new curve's value at that step).
    """

    def __init__(self, optimizer: Optimizer, fraction: Callable[[int], float]):
        """
        Args:
            optimizer: Its groups' `lr` are the peak rates.
            fraction: Fraction of the peak rate in each step.
        """
        self.fraction = fraction
        super().__init__(optimizer)
        kept = ("params", "param_names")
        self.options = [{k: v for k, v in group.items() if k not in kept} for group in optimizer.param_groups]

    def get_lr(self) -> list[float | Tensor]:
        return [peak * self.fraction(self.last_epoch) for peak in self.base_lrs]

    def state_dict(self) -> dict[str, int]:
        return {"step": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go to the checkpoint's step, with this configuration's options; call it after the optimiser's own."""
        self.last_epoch = state_dict["step"]
        self._last_lr = self.get_lr()
        for group, options, rate in zip(self.optimizer.param_groups, self.options, self._last_lr, strict=True):
            group.update({**options, "lr": rate})
