"""What a modality is worth to another: losses of hidden parts, and how many are told right, with the rest as it is, without
it, and with another sample's.

(Cross-modal input ablation, Frank et al., arXiv:2109.04448, section 3: a model that uses both modalities does worse at the one
when the other is taken away.)
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from ..modalities.batch import Batch, take
from ..models.encoder import States
from .objectives.objective import Objective
from .passes import Pass
from .pretraining import Pretraining
from .reading import mark_pass

PICTURE, TEXT = ("image", "regions"), ("text", "translation")


class Ablation(NamedTuple):
    """One figure of one objective on one source."""

    source: str
    objective: str
    taken: str
    """What was taken away: `picture` or `text`."""
    figure: str
    """`loss`, the mean, or one of the objective's `tally`, such as `accuracy`."""
    whole: float
    without: float
    swapped: float
    """With that of another sample; not a number where there was none."""
    count: int
    """Items that were scored."""


@torch.no_grad()
def measure_ablation(module: Pretraining, batches: Iterable[Batch]) -> list[Ablation]:
    """Figures of all objectives that hide parts of a text or of a picture, with and without the other.

    Marks are those of validation. Objectives that replace texts or pictures are left out of the reading, so that all belong
    together. Swapped ones are taken from the next samples of the batch whose item is another.

    Args:
        module: In evaluation mode.
        batches: Of any sources; those with both a text and a picture are read.
    """
    sums: dict[tuple[str, str, str, str], Tensor] = {}
    for batch in batches:
        if batch.text is None or not any(getattr(batch, name) is not None for name in PICTURE) or not batch.size:
            continue
        for one in module.plan:
            hiding = tuple(name for name in one.names if module.objectives[name].hides)
            if one.source == batch.source and hiding:
                _add(sums, module, Pass(one.source, hiding), batch)
    found = []
    for key, (whole, count, without, some, swapped, others) in ((key, one.tolist()) for key, one in sums.items()):
        if count:
            found.append(
                Ablation(*key, whole / count, without / some, swapped / others if others else float("nan"), int(count))
            )
    return found


def _add(sums: dict[tuple[str, str, str, str], Tensor], module: Pretraining, one: Pass, batch: Batch) -> None:
    marked = mark_pass(one, [batch], module.objectives, share=False).marked[0]
    read = module.objectives[one.names[0]].read
    whole = read(module.encoder, marked)
    for taken, fields, hidden in (("picture", PICTURE, TEXT), ("text", TEXT, PICTURE)):
        names = [name for name in one.names if set(module.objectives[name].hides) & set(hidden)]
        if not names:
            continue
        blank = _blank(marked, fields)
        rows, other = _swap(marked, fields)
        states = [(whole, marked), (read(module.encoder, blank), blank)]
        states += [(read(module.encoder, other), other)] if len(rows) else []
        for name in names:
            scores = [_score(module.objectives[name], *pair) for pair in states]
            for figure in scores[0]:
                found = [score[figure] for score in scores] + [torch.zeros(2, dtype=torch.float64)]
                key = (one.source, name, taken, figure)
                sums[key] = sums.get(key, torch.zeros(6, dtype=torch.float64)) + torch.cat(found[:3])


def _score(objective: Objective, states: States, marked: Batch) -> dict[str, Tensor]:
    """Total and count by figure."""
    loss = objective.loss(states, marked)
    figures = {"loss": torch.stack([loss.total.double(), loss.count.double()]), **objective.tally(states, marked)}
    return {name: pair.double().cpu() for name, pair in figures.items()}


def _blank(marked: Batch, fields: tuple[str, ...]) -> Batch:
    """Without some modalities: nothing of them is present, but they are not left out."""
    given = {name: getattr(marked, name) for name in fields if getattr(marked, name) is not None}
    return marked._replace(**{name: one._replace(present=torch.zeros_like(one.present)) for name, one in given.items()})


def _swap(marked: Batch, fields: tuple[str, ...]) -> tuple[Tensor, Batch]:
    """Rows that have a partner of another item, with that partner's modalities; as many positions down as most have one."""
    size = marked.size
    order = torch.arange(size, device=marked.item.device)
    shifts = [marked.item.roll(-shift) != marked.item for shift in range(1, size)]
    if not shifts:
        return order[:0], marked
    best = max(range(len(shifts)), key=lambda number: int(shifts[number].sum()))
    partner, rows = order.roll(-best - 1), order[shifts[best]]
    given = {name: take(getattr(marked, name), partner) for name in fields if getattr(marked, name) is not None}
    return rows, take(marked._replace(**given), rows)
