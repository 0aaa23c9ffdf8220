"""Texts, an objective of back-translation language over a real tower, and what it fills them with."""

import tiny
import torch

from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.back_translation_language import BackTranslationLanguage, places

LENGTHS = (7, 5, 9, 4)


def texts(lengths=LENGTHS, left=False, padded=None, vocabulary=tiny.VOCABULARY, language=0, **fields):
    return tiny.batch(lengths, source="pages", text=tiny.text(lengths, padded, left, 1, vocabulary, language), **fields)


def connected(vocabulary=tiny.VOCABULARY, known=0, dropout=0.0, spread=1.0, **options):
    """A tower of three blocks with `known` languages; `spread` makes what it makes up differ more from place to place."""
    torch.manual_seed(0)
    embeddings = tiny.embeddings(vocabulary=vocabulary, languages=known, dropout=dropout)
    encoder, objective = TextTower(embeddings, tiny.transformer(3, dropout)), BackTranslationLanguage(**options)
    for parameter in encoder.parameters():
        if parameter.ndim > 1:
            parameter.data *= spread
    objective.connect(encoder)
    return encoder, objective


def made_up(encoder, objective, marked):
    """What each row is filled with."""
    text = objective.fill(encoder, marked).text
    return [row[there].tolist() for row, there in zip(text.read, places(text), strict=True)]
