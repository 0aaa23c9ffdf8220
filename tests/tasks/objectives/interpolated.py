"""Vectors for interpolated contrast, and its loss written out."""

import torch
import torch.nn.functional as F

from interlingua.tasks.objectives.objective import Embeddings


def remember(objective, certainty):
    """As if one step had had this likelihood."""
    objective.likelihoods[0] = certainty
    objective.steps.fill_(1)
    return objective


def embeddings(rows=7, width=5, items=None, dtype=torch.float32, shift=0.0):
    """Translations are near each other, and texts of one language far off the origin, as states are."""
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    right = left + 0.7 * torch.randn(rows, width, generator=generator, dtype=torch.float64)
    left, right = ((side + shift).to(dtype).requires_grad_() for side in (left, right))
    item = torch.arange(rows) if items is None else torch.tensor(items)
    return Embeddings(left, right, torch.stack([item, torch.arange(rows) + 100, torch.arange(rows) + 200], dim=1))


def part(every, start, end):
    return Embeddings(*(field[start:end] for field in every))


def draw(x, y, z, exponent):
    """The paper's rule for one negative, as it is written, with a share without gradient."""
    near, far = (x - y).norm().detach(), (x - z).norm().detach()
    return x + (near / far) ** exponent * (z - x) if far > near else z


def by_hand(every, exponent, temperature=1.0, exclude=True, draw=draw):
    """The sum over rows of half of both directions' costs, one negative at a time."""
    total, item = 0.0, every.identity[:, 0].tolist()
    for here, there in ((every.left, every.right), (every.right, every.left)):
        for row, x in enumerate(here):
            others = [other for other in range(len(here)) if other != row and not (exclude and item[other] == item[row])]
            scores = [F.cosine_similarity(x, draw(x, there[row], there[other], exponent), dim=0) for other in others]
            scores = torch.stack([F.cosine_similarity(x, there[row], dim=0), *scores]) / temperature
            total = total + (scores.logsumexp(0) - scores[0]) / 2
    return total
