"""An objective of word contrast over a real tower."""

import costs
import tiny
import torch
from costs import read
from translation_pairs import ids

from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.word_contrast import WordContrast


def connected(vocabulary=tiny.VOCABULARY, factor=None, max_tokens=64, **options):
    torch.manual_seed(0)
    embeddings = tiny.embeddings(vocabulary=vocabulary, factor=factor, max_tokens=max_tokens)
    encoder, objective = TextTower(embeddings, tiny.transformer()), WordContrast(**{"others": 12, **options})
    objective.connect(encoder)
    return encoder, objective


def score(encoder, objective, batch):
    return costs.score(encoder, objective, read(objective, batch))


def words(text, row, vocabulary=tiny.VOCABULARY):
    return set(ids(text, row)) - set(vocabulary.controls)
