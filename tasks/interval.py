"""Losses since the last report: each objective's mean over all its items in all these steps, not in the step that is reported.

What is summed is exact whatever way steps are split, and stays on the device until it is asked for: a step costs two additions.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from .objectives.objective import Loss
from .ranks import sum_over_ranks, world


class Interval:
    """Running sums by objective, and of how many items they are."""

    def __init__(self, names: Iterable[str]):
        """
        Args:
            names: Of the objectives.
        """
        self.names = list(names)
        self.clear()

    def clear(self) -> None:
        """Start anew."""
        self.totals: Float64[Tensor, "N"] = torch.zeros(len(self.names), dtype=torch.float64)  # this rank's
        self.counts: Int64[Tensor, "N"] = torch.zeros(len(self.names), dtype=torch.int64)  # of all ranks

    def add(self, losses: Mapping[str, Loss], counts: Int64[Tensor, "N"]) -> None:
        """Add a step.

        Args:
            losses: This rank's sums by objective.
            counts: Items of each objective, of all ranks.
        """
        zero = torch.zeros((), dtype=torch.float64, device=counts.device)
        totals = [losses[name].total.detach().double() if name in losses else zero for name in self.names]
        self.totals = self.totals.to(counts.device) + torch.stack(totals)
        self.counts = self.counts.to(counts.device) + counts

    def means(self, device: torch.device) -> dict[str, float]:
        """Mean of each objective that had anything to score, over all ranks: a collective."""
        totals = sum_over_ranks(self.totals.to(device)).tolist()
        return {
            name: total / count for name, total, count in zip(self.names, totals, self.counts.tolist(), strict=True) if count
        }

    def state(self, device: torch.device) -> dict[str, Any]:
        """What a checkpoint keeps, so that a resumed run reports what one that was not interrupted does: a collective."""
        return {"names": self.names, "totals": sum_over_ranks(self.totals.to(device)).cpu(), "counts": self.counts.cpu()}

    def load(self, state: Mapping[str, Any]) -> None:
        """The first rank goes on with what all have summed; of a run with other objectives nothing is taken."""
        if list(state.get("names", ())) == self.names:
            self.counts = state["counts"]
            self.totals = state["totals"] if world()[0] == 0 else torch.zeros_like(state["totals"])
