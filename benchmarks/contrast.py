"""Contrast of many pairs: our loss, forward and backward, against open_clip's, on the same vectors.

    python benchmarks/contrast.py

Vectors of 512 numbers, one thread. Losses and gradients are compared first. Time with 4,096 pairs; memory with 8,192, in
fresh processes: the peak above the vectors (their gradients belong to it), after both have run once on 64 pairs.
"""

import argparse
import json
from collections.abc import Callable

import torch
from measure import interleave, memory_of, ratio, resident, tune_allocator
from open_clip.loss import ClipLoss
from torch import Tensor

from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.objective import Embeddings

WIDTH = 512


class Pairs:
    """Vectors of length 1, of which the two of a pair are closer than others, and the learned temperature."""

    def __init__(self, count: int):
        generator = torch.Generator().manual_seed(0)
        self.left = torch.randn(count, WIDTH, generator=generator)
        self.right = torch.randn(count, WIDTH, generator=generator).add_(self.left, alpha=0.5)
        for side in (self.left, self.right):
            side /= torch.linalg.vector_norm(side, dim=1, keepdim=True)  # in place: no peak before the one to be measured
        self.objective = Contrast()
        self.leaves = [self.left.requires_grad_(), self.right.requires_grad_(), self.objective.scale]
        self.identity = torch.arange(count)[:, None].repeat(1, 2)  # of an item and of a text, as `Contrast.embed` gives

    def peer(self) -> Tensor:
        return ClipLoss()(self.left, self.right, self.objective.scale.exp())

    def ours(self) -> Tensor:
        rows = Embeddings(self.left, self.right, self.identity)
        loss = self.objective.contrast(rows, rows, 0)
        return loss.total / loss.count

    def step(self, loss: Callable[[], Tensor]) -> list[Tensor]:
        """The loss and its gradients."""
        total = loss()
        return [total.detach(), *torch.autograd.grad(total, self.leaves)]


def check(pairs: Pairs) -> float:
    """The greatest difference of the losses and of their gradients; ends the run where it is more than 1e-6."""
    two = zip(pairs.step(pairs.peer), pairs.step(pairs.ours), strict=True)
    differences = [float((one - other).abs().max()) for one, other in two]
    if max(differences) > 1e-6:
        raise SystemExit(f"losses or gradients differ, so the figures would mean nothing: {differences}")
    return max(differences)


def measure_memory(count: int, contender: str) -> float:
    """MiB that one contender takes above its vectors; in a process of its own."""
    small = Pairs(64)
    small.step(getattr(small, contender))
    pairs = Pairs(count)
    before = resident()
    pairs.step(getattr(pairs, contender))
    return resident() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4096, help="of the comparison of time")
    parser.add_argument("--pairs-held", type=int, default=8192, help="of the comparison of memory")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; ratios are medians over them")
    parser.add_argument("--tuned", action="store_true", help="tune glibc's allocator, on both sides alike")
    parser.add_argument("--memory-of", choices=("peer", "ours"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.memory_of:
        print(json.dumps({"memory": measure_memory(arguments.pairs_held, arguments.memory_of)}))
        return
    if arguments.tuned:
        tune_allocator()
    pairs = Pairs(arguments.pairs)
    found = {"greatest difference": check(pairs)}
    contenders = {name: lambda name=name: pairs.step(getattr(pairs, name)) for name in ("peer", "ours")}
    seconds = interleave(contenders, arguments.rounds)
    found["time against peer"] = ratio(seconds["peer"], seconds["ours"])
    for contender in ("peer", "ours"):
        found[f"MiB, {contender}"] = memory_of(__file__, "--pairs-held", str(arguments.pairs_held), "--memory-of", contender)
    found["memory against peer"] = found["MiB, peer"] / found["MiB, ours"]
    print(
        f"contrast of {arguments.pairs} pairs (memory: {arguments.pairs_held}){', allocator tuned' if arguments.tuned else ''}"
    )
    for key, value in found.items():
        print(f"  {key:22} {value:10.4g}")


if __name__ == "__main__":
    main()
