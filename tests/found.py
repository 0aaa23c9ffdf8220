"""Regions as detectors find them, made by hand."""

import numpy as np

from interlingua.modalities.region import FoundRegions


def find(number: int, count: int = 3, size: tuple[int, int] = (640, 480), width: int = 4, classes: int = 0, **arrays):
    """Regions of one picture: each picture's and region's features differ.

    Args:
        number: Of the picture.
        count: How many.
        size: Width and height of the picture.
        width: Of features.
        classes: How many class probabilities a region has; 0: none.
        arrays: In the place of others.
    """
    random = np.random.default_rng(number)
    corner = random.uniform(0, 0.5, (count, 2))
    boxes = np.concatenate([corner, corner + random.uniform(0.1, 0.5, (count, 2))], 1) * np.array([*size, *size])
    features = random.normal(size=(count, width)) + number
    found = FoundRegions(boxes.astype(np.float32), size, features.astype(np.float16))
    if classes:
        found = found._replace(classes=random.dirichlet(np.ones(classes), count).astype(np.float16))
    return found._replace(**arrays)
