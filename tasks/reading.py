"""One optimiser step's readings: exact sums over a global denominator, whatever the split.

A step of the rank is a list of micro-batches. Everything is marked and counted first; the counts are summed over ranks;
then every micro-batch is read, scored and sent backward with weight / global count. So one process with 8 samples, two
ranks with 4 and four micro-batches of 2 give the same gradients. Objectives whose rows are compared with each other
stay exact over micro-batches by gradient caching (Gao et al., arXiv:2101.06983): all micro-batches are embedded without
gradient, the contrast is differentiated once with respect to the embeddings, and each micro-batch is read again, with the
same dropout, to carry its share on. (DESIGN section 4.)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..modalities.batch import Batch
from ..modalities.chance import chance
from ..models.encoder import Encoder
from ..models.table_gradients import in_place_table_gradients
from .objectives.objective import Embeddings, Loss, Objective
from .objectives.rows import join_rows, refuse_packed
from .passes import Pass
from .ranks import gather_batch, gather_rows

Objectives = Mapping[str, Objective] | nn.ModuleDict


class Reading(NamedTuple):
    """The marked micro-batches of one pass."""

    source: str
    names: tuple[str, ...]
    marked: tuple[Batch, ...]


def mark_pass(one: Pass, batches: Sequence[Batch], objectives: Objectives, share: bool = True) -> Reading:
    """View and mark the micro-batches of a pass's source; objectives mark in the order in which the pass names them.

    Args:
        one: The pass.
        batches: Micro-batches of any sources; others than the pass's are left out.
        objectives: By name.
        share: Whether samples may borrow from all micro-batches and ranks, which all ranks then do together.
    """
    viewer = next((name for name in one.names if type(objectives[name]).view is not Objective.view), one.names[0])
    views = [objectives[viewer].view(batch) for batch in batches if batch.source == one.source]
    for name in one.names:
        objective = objectives[name]
        for view in views if objective.one_item_a_row else ():
            refuse_packed(view, name)
        loans = [loan for view in views if share and (loan := objective.lend(view)) is not None]
        pool = gather_batch(join_rows(loans))[0] if loans else None
        views = [objective.mark(view, pool) for view in views]
    return Reading(one.source, one.names, tuple(views))


def count_readings(readings: Sequence[Reading], objectives: Objectives, device: torch.device) -> Tensor:
    """Items that each objective will score on this rank, `[objectives]`, in their order."""
    order = {name: number for number, name in enumerate(objectives)}
    counts = torch.zeros(len(order), dtype=torch.long, device=device)
    for reading in readings:
        for name in reading.names:
            for marked in reading.marked:
                counts[order[name]] += objectives[name].count(marked)
    return counts


class Scales(NamedTuple):
    """What a summed loss is multiplied by before it goes backward, and which objectives have anything to score anywhere."""

    factor: Mapping[str, float]
    active: frozenset[str]


@in_place_table_gradients()
def read_backward(
    reading: Reading, encoder: Encoder, objectives: Objectives, scales: Scales, backward: Callable[[Tensor], None], *keys: int
) -> dict[str, Loss]:
    """Read a pass's micro-batches, score them and send their gradients backward.

    Args:
        reading: Marked micro-batches.
        encoder: What is trained.
        objectives: By name.
        scales: Factor of each objective's sum.
        backward: Called with each scalar to differentiate.
        keys: Seed of dropout, to which the micro-batch's number is added: (seed, step, pass, rank).

    Returns:
        Summed loss of each active objective over this rank's micro-batches, without gradient.
    """
    active = [name for name in reading.names if name in scales.active]
    coupled = [name for name in active if objectives[name].coupled]
    first = objectives[reading.names[0]]
    losses: dict[str, Loss] = {}

    def read(number: int):
        torch.manual_seed(int(chance(*keys, number)))
        return first.read(encoder, reading.marked[number])

    cached: dict[str, list[Embeddings]] = {}
    if coupled and len(reading.marked) > 1:
        with torch.no_grad():
            states = [read(number) for number in range(len(reading.marked))]
            rows = {
                name: [objectives[name].embed(*pair) for pair in zip(states, reading.marked, strict=True)] for name in coupled
            }
        torch.clear_autocast_cache()  # weights cast without gradient must not serve the second reading
        for name in coupled:
            losses[name], cached[name] = _differentiate(objectives[name], rows[name], scales.factor[name], backward)

    for number, marked in enumerate(reading.marked):
        alone = [name for name in active if not objectives[name].coupled]
        if not coupled and not any(int(objectives[name].count(marked)) for name in alone):
            continue  # nothing hidden here; no other rank waits for this reading
        states = read(number)
        total = 0.0
        for name in alone:
            loss = objectives[name].loss(states, marked)
            losses[name] = _add(losses.get(name), loss)
            total = total + loss.total * scales.factor[name]
        for name in coupled:
            own = objectives[name].embed(states, marked)
            if name in cached:
                gradient = cached[name][number]
                total = total + (own.left * gradient.left).sum() + (own.right * gradient.right).sum()
            else:
                loss = _contrast(objectives[name], own)
                losses[name] = _add(losses.get(name), loss)
                total = total + loss.total * scales.factor[name]
        if isinstance(total, Tensor) and total.requires_grad:
            backward(total)
    return losses


def _differentiate(
    objective: Objective, rows: list[Embeddings], factor: float, backward: Callable[[Tensor], None]
) -> tuple[Loss, list[Embeddings]]:
    """The contrast of all micro-batches, and its gradient with respect to the embeddings of each."""
    left = torch.cat([one.left for one in rows]).requires_grad_()
    right = torch.cat([one.right for one in rows]).requires_grad_()
    loss = _contrast(objective, Embeddings(left, right, torch.cat([one.identity for one in rows])))
    backward(loss.total * factor)
    sizes = [len(one.left) for one in rows]
    gradients = zip(left.grad.split(sizes), right.grad.split(sizes), (one.identity for one in rows), strict=True)
    return Loss(loss.total.detach(), loss.count), [Embeddings(*one) for one in gradients]


def _contrast(objective: Objective, own: Embeddings) -> Loss:
    """A coupled objective's loss of this rank's rows against the rows of all ranks."""
    both, start = gather_rows(torch.cat([own.left, own.right], dim=1))  # at once: one order of backward on all ranks
    left, right = both.split([own.left.shape[1], own.right.shape[1]], dim=1)
    return objective.contrast(own, Embeddings(left, right, gather_rows(own.identity)[0]), start)


def _add(before: Loss | None, loss: Loss) -> Loss:
    total, count = loss.total.detach(), loss.count
    return Loss(total, count) if before is None else Loss(before.total + total, before.count + count)
