"""Pairs, an objective of cross-lingual contrast over a real tower, and its loss written out."""

import math

import tiny
import torch

from interlingua.tasks.objectives.cross_lingual_contrast import CrossLingualContrast

LENGTHS = [7, 5, 9, 4, 6, 8]


def pairs(lengths=LENGTHS, left=False, **options):
    texts = {"text": tiny.text(lengths, left=left), "translation": tiny.text(lengths[::-1], left=left, seed=1, language=1)}
    return tiny.batch(lengths, **options)._replace(**texts)


def connected(queue=20, warm=True, **options):
    """A tower of two blocks and an objective over it whose queue is full of random keys about nothing in the batch."""
    torch.manual_seed(0)
    encoder, objective = tiny.text_tower(), CrossLingualContrast(**{"layer": 1, "queue": queue, "rate": 0.0, **options})
    objective.connect(encoder)
    if warm:
        fill(objective)
    return encoder, objective


def fill(objective, seed=1):
    generator = torch.Generator().manual_seed(seed)
    size, columns = objective.queue.identity.shape
    keys = torch.randn(size, tiny.WIDTH, generator=generator)
    objective.queue.push(keys, torch.arange(size * columns).view(size, columns))


def score(encoder, objective, batch):
    marked = objective.mark(batch)
    return objective.loss(objective.read(encoder, marked), marked)


def by_hand(states, keys, temperature):
    """The loss, written out."""
    total = 0.0
    for query, key in zip(states.query.detach().double(), states.key.double(), strict=True):
        products = [float(query @ other) / temperature for other in [key, *keys.double()]]
        total += math.log(sum(map(math.exp, products))) - products[0]
    return total
