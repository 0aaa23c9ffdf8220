"""Pairs of translations, and an objective over a real tower: translation language modelling where no other is named."""

import tiny
import torch

from interlingua.modalities.vocabulary import Vocabulary
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.translation_language import TranslationLanguage

XLM = Vocabulary(100, pad=2, unknown=3, start=1, end=1, mask=5)


def pairs(first=(7, 5, 9, 4), second=(6, 8, 4, 5), left=False, padded=None, vocabulary=tiny.VOCABULARY, **fields):
    """English and German of some lengths in tokens."""
    text = tiny.text(first, padded, left, 1, vocabulary)
    translation = tiny.text(second, padded, left, 2, vocabulary, language=1)
    return tiny.batch(first, source="parallel", **{"text": text, "translation": translation, **fields})


def connected(vocabulary=tiny.VOCABULARY, languages=0, max_tokens=64, layers=2, kind=TranslationLanguage, **options):
    torch.manual_seed(0)
    embeddings = tiny.embeddings(vocabulary=vocabulary, languages=languages, max_tokens=max_tokens)
    encoder, objective = TextTower(embeddings, tiny.transformer(layers)), kind(**options)
    objective.connect(encoder)
    return encoder, objective


def ids(text, row):
    return text.tokens[row][text.present[row]].tolist()
