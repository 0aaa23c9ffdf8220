"""Optimisation: AdamW with decay only where it belongs, parts that are frozen or learn at their own rate, clipping.

AdamW: arXiv:1711.05101. Decay is decided by what a parameter is, not by its name: see `decays`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from .schedules import Schedule, Shape, rate_at

NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _NormBase)
WEIGHTED = (nn.Linear, nn.Bilinear, nn.Embedding, nn.EmbeddingBag, _ConvNd)


@dataclass(frozen=True)
class Optimization:
    """How parameters move. Prefixes are dotted names of modules or parameters, such as `encoder.text`.

    Args:
        learning_rate: Peak rate, reached at the end of the warm-up.
        warmup_steps: Optimiser steps of linear warm-up; step 0 has rate 0 (unless there is no warm-up).
        schedule: What follows the warm-up (see `schedules.rate_at`).
        steps: Optimiser steps at which `linear` and `cosine` end; None: the trainer's `max_steps`.
        final_fraction: Fraction of the peak rate at which `linear` and `cosine` end.
        weight_decay: Decoupled decay of matrices and embedding tables, position tables included; never of norms, biases,
            temperatures and single vectors such as class tokens.
        betas, epsilon: AdamW's.
        max_gradient_norm: Gradients are scaled down to this norm over all parameters and ranks; None: never.
        rates: Factor on the learning rate by prefix; the longest prefix that fits a parameter decides.
        frozen: Prefixes of what does not learn. A frozen module is also in evaluation mode (no dropout).
    """

    learning_rate: float
    warmup_steps: int = 0
    schedule: Shape = "linear"
    steps: int | None = None
    final_fraction: float = 0.0
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    max_gradient_norm: float | None = None
    rates: dict[str, float] = field(default_factory=dict)
    frozen: list[str] = field(default_factory=list)

    def __post_init__(self):
        if self.schedule not in get_args(Shape):
            raise ValueError(f"optimization.schedule is {self.schedule!r}; choose one of {', '.join(get_args(Shape))}")
        if self.final_fraction and self.schedule not in ("linear", "cosine"):
            raise ValueError(
                f"optimization.final_fraction is {self.final_fraction}, but the {self.schedule} schedule has no end; remove it"
            )
        for name in ("learning_rate", "epsilon"):
            _require(name, getattr(self, name), 0 < getattr(self, name) < math.inf, "above 0, and finite")
        for name in ("warmup_steps", "weight_decay"):
            _require(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        _require("steps", self.steps, self.steps is None or self.steps > 0, "above 0, or null")
        _require("final_fraction", self.final_fraction, 0 <= self.final_fraction <= 1, "from 0 to 1")
        _require("betas", self.betas, all(0 <= beta < 1 for beta in self.betas), "from 0 to below 1")
        limit = self.max_gradient_norm
        _require("max_gradient_norm", limit, limit is None or limit > 0, "above 0, or null")
        for prefix, factor in self.rates.items():
            _require(f"rates.{prefix}", factor, factor > 0, "above 0 (name it in `frozen` to stop it)")

    def stop_gradients(self, module: nn.Module) -> None:
        """Stop the gradients of what is named in `frozen`; call it before the module is wrapped for several ranks.

        Raises:
            ValueError: If a prefix of `frozen` or `rates` names nothing; lists the nearest names.
        """
        names = _prefixes(module)
        for option, prefixes in (("frozen", self.frozen), ("rates", self.rates)):
            for prefix in prefixes:
                if prefix not in names:
                    near = get_close_matches(prefix, names, n=5, cutoff=0.4) or [n for n, _ in module.named_children()]
                    raise ValueError(f"optimization.{option}: no parameter under {prefix!r}; nearest: {', '.join(near)}")
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if any(_under(name, prefix) for prefix in self.frozen):
                parameter.requires_grad_(False)

    def freeze(self, module: nn.Module) -> None:
        """Stop the gradients of what is named in `frozen`, and put it in evaluation mode; call it again after `.train()`."""
        self.stop_gradients(module)
        for name, child in module.named_modules(remove_duplicate=False):
            if name in self.frozen:
                child.eval()

    def configure(self, module: nn.Module, steps: int | None = None) -> tuple[list[torch.optim.AdamW], list[dict[str, Any]]]:
        """The optimiser of everything that learns and its schedule, as Lightning's `configure_optimizers` returns them.

        Args:
            module: Whatever the prefixes are names in; gradients of what is named in `frozen` are stopped here at the latest.
            steps: Optimiser steps of the run (the trainer's `max_steps`), unless `steps` is an option of its own.

        Raises:
            ValueError: If a prefix names nothing, nothing is left to learn, or the schedule needs an end and has none.
        """
        self.stop_gradients(module)
        end = self.steps if self.steps is not None else steps
        if self.schedule in ("linear", "cosine") and (end is None or end <= 0):
            raise ValueError(
                f"the {self.schedule} schedule needs an end, found {end}: set trainer.max_steps, or optimization.steps"
            )
        groups = list(self._groups(module))
        if not groups:
            raise ValueError(f"nothing is left to learn: optimization.frozen is {self.frozen}")
        parameters = [parameter for group in groups for _, parameter in group["params"]]
        optimizer = torch.optim.AdamW(
            groups, lr=self.learning_rate, betas=self.betas, eps=self.epsilon, fused=_can_fuse(parameters)
        )
        optimizer.register_load_state_dict_pre_hook(_check_names)
        curve = (self.schedule, self.warmup_steps, end, self.final_fraction)
        return [optimizer], [{"scheduler": Schedule(optimizer, lambda step: rate_at(step, *curve)), "interval": "step"}]

    def _groups(self, module: nn.Module) -> Iterator[dict]:
        """Parameters by (prefix of their rate, decayed or not), each with its names, tied ones once."""
        names: dict[nn.Parameter, list[str]] = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            names.setdefault(parameter, []).append(name)
        decayed = decayed_parameters(module)
        groups: dict[tuple[str, bool], list[tuple[str, nn.Parameter]]] = {}
        for parameter, own in names.items():
            if parameter.requires_grad:
                fitting = [prefix for prefix in self.rates if any(_under(name, prefix) for name in own)]
                prefix = max(fitting, key=len, default="")
                groups.setdefault((prefix, parameter in decayed), []).append((own[0], parameter))
        for (prefix, decay), members in groups.items():
            yield {
                "params": members,
                "name": f"{prefix or 'all'}/{'decayed' if decay else 'not decayed'}",
                "lr": self.learning_rate * self.rates.get(prefix, 1.0),
                "weight_decay": self.weight_decay if decay else 0.0,
            }


def decayed_parameters(module: nn.Module) -> set[nn.Parameter]:
    """Parameters that weight decay may shrink: weights of linear, convolution and embedding layers (token, position and
    language tables alike), and other parameters with at least two axes longer than 1 (a bare position table). Not: whatever
    belongs to a norm, biases, scalars (temperatures), and single vectors of any shape (class and mask tokens). A tied
    parameter is decayed only if each of its owners says so."""
    verdicts: dict[nn.Parameter, bool] = {}
    for owner in module.modules():
        for parameter in owner.parameters(recurse=False):
            verdicts[parameter] = verdicts.get(parameter, True) and decays(owner, parameter)
    return {parameter for parameter, verdict in verdicts.items() if verdict}


def decays(owner: nn.Module, parameter: nn.Parameter) -> bool:
    """Whether weight decay may shrink a parameter of this module (see `decayed_parameters`)."""
    if isinstance(owner, NORMS) or parameter.ndim < 2:
        return False
    return isinstance(owner, WEIGHTED) or sum(size > 1 for size in parameter.shape) > 1


def clip_gradients(parameters: Iterable[tuple[str, nn.Parameter]], max_norm: float | None) -> Float[Tensor, ""]:
    """Scale all gradients so that their common norm is at most `max_norm`. Call it after gradients are summed over ranks.

    Works with any optimiser and precision without a loss scale (Lightning's own refuses fused optimisers under bf16-mixed).

    Args:
        parameters: Names and parameters (`module.named_parameters()`); those without gradient are passed over.
        max_norm: None only measures.

    Returns:
        The norm before clipping.

    Raises:
        FloatingPointError: If the norm is not finite, on all ranks alike, before any parameter has moved; names the first
            parameters at fault, or, where each is finite, those with the largest gradients.
    """
    graded = [(name, parameter) for name, parameter in parameters if parameter.grad is not None]
    gradients = {name: parameter.grad for name, parameter in graded if parameter.grad is not None}
    norm = torch.as_tensor(nn.utils.get_total_norm(list(gradients.values())))
    if not torch.isfinite(norm):
        raise FloatingPointError(f"the gradient norm is {norm.item()}: {_describe_overflow(gradients)}")
    if max_norm is not None:
        nn.utils.clip_grads_with_norm_([parameter for _, parameter in graded], max_norm, norm)
    return norm


def _describe_overflow(gradients: Mapping[str, Tensor]) -> str:
    """Which gradients are at fault for a norm that is not finite, and what may be done."""
    wrong = [name for name, gradient in gradients.items() if not torch.isfinite(gradient).all()]
    kept = "weights are as they were before this step"
    if wrong:
        return (
            f"{len(wrong)} of {len(gradients)} gradients are not finite, the first of them {', '.join(wrong[:5])}; {kept}. "
            "Lower the learning rate, lengthen the warm-up, or look for bad samples"
        )
    largest = {name: gradient.abs().max().item() for name, gradient in gradients.items() if gradient.numel()}
    first = sorted(largest, key=lambda name: -largest[name])[:5]
    return (
        f"each of the {len(gradients)} gradients is finite, but together they are too large for a number of their kind, "
        f"above all {', '.join(f'{name} (up to {largest[name]:.1e})' for name in first)}; {kept}. "
        "Look for an objective whose weight is too high or whose temperature is too low, or for bad samples"
    )


def _can_fuse(parameters: Sequence[nn.Parameter]) -> bool | None:
    """Fused where CPU or CUDA have a kernel (four to ten times faster on CPU); elsewhere torch chooses."""
    return all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters) or None


def _under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def _prefixes(module: nn.Module) -> dict[str, None]:
    """Everything that a prefix may say: each parameter's name and the names of the modules above it."""
    names: dict[str, None] = {}
    for name, _ in module.named_parameters(remove_duplicate=False):
        parts = name.split(".")
        names.update(dict.fromkeys(".".join(parts[:end]) for end in range(1, len(parts) + 1)))
    return names


def _check_names(optimizer: torch.optim.Optimizer, state: dict) -> None:
    """Refuse a checkpoint whose moments belong to other parameters: torch would match them by position alone."""
    saved = [name for group in state["param_groups"] for name in group.get("param_names", [])]
    own = [name for group in optimizer.param_groups for name in group["param_names"]]
    if saved != own:
        only_saved, only_own = sorted(set(saved) - set(own)), sorted(set(own) - set(saved))
        raise ValueError(
            f"the checkpoint's optimiser state is for other parameters (only there: {only_saved[:5]}; only here: "
            f"{only_own[:5]}; {len(saved)} there, {len(own)} here, or in another order); resume with the run's own model, "
            "objectives, `frozen` and `rates`, or start anew from its weights"
        )


def _require(name: str, found: object, good: bool, expected: str) -> None:
    if not good:
        raise ValueError(f"optimization.{name} is {found}; it must be {expected}")
