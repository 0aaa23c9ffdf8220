"""Sentences, their translations, and an objective of paraphrase classification over a real tower."""

import torch
from halves import LENGTHS, OTHERS, connected
from translation_pairs import pairs

from interlingua.tasks.objectives.paraphrase import Paraphrase

NEGATIVES = ["random", "mined"]


def objective(negatives="mined", encoder=None, pair="xlm-roberta", **options):
    return connected(Paraphrase(negatives, pair=pair, **options), encoder)


def translations(lengths=LENGTHS, others=OTHERS, items=None, languages=None, **options):
    """English, and what it is in some languages: German where none are given."""
    batch = pairs(lengths, others, **options)
    if languages is not None:
        ids = torch.tensor(languages)[:, None].expand_as(batch.translation.language)
        batch = batch._replace(translation=batch.translation._replace(language=ids))
    return batch if items is None else batch._replace(item=torch.tensor(items))
