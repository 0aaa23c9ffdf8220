"""That something learns: its cost halves on one batch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor


def reach_half(cost: Callable[[], Tensor], *parts: torch.nn.Module, rate: float = 5e-3) -> None:
    """Train on one batch until it costs less than half of what it cost at first, at most sixty steps.

    Args:
        cost: Reads the batch anew.
        parts: What is trained.
        rate: Learning rate.
    """
    optimizer = torch.optim.Adam([parameter for part in parts for parameter in part.parameters()], lr=rate)
    costs = []
    for _ in range(60):
        loss = cost()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        costs.append(loss.item())
        if costs[-1] < costs[0] / 2:
            return
    pytest.fail(f"from {costs[0]} to {costs[-1]}")
