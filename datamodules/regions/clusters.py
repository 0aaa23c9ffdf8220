"""Classes for regions that no detector named: clusters of their features, by k-means with a seed.

k-means++ (Arthur and Vassilvitskii, 2007) and Lloyd's steps. The probability of a cluster is the softmax of negative squared
distances, in units of the mean gap between the nearest and the second nearest centre: so the nearest is e times as probable as
the next, on average, whatever the scale and width of features.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

STEPS = 100
AT_ONCE = 8192
"""Features whose distances are held together."""


class Clusters(NamedTuple):
    """What was learnt, and of what."""

    centres: Float[Tensor, "K F"]
    gap: float
    """Mean difference between the squared distances to the second nearest centre and to the nearest."""
    about: dict[str, Any]
    """Description of what made the features."""

    def classify(self, features: np.ndarray) -> np.ndarray:
        """Probabilities `[R, K]` of features `[R, F]`.

        Raises:
            ValueError: Features are of another width.
        """
        if features.shape[1] != self.centres.shape[1]:
            raise ValueError(
                f"features of {features.shape[1]} numbers, and clusters of {self.centres.shape[1]}: of other features"
            )
        return (-_distances(torch.from_numpy(features).double(), self.centres.double()) / self.gap).softmax(1).float().numpy()


def learn_clusters(features: Float[Tensor, "N F"], count: int, seed: int, about: dict[str, Any]) -> Clusters:
    """k-means, on the CPU: the same features, count and seed give the same centres.

    Raises:
        ValueError: There are not so many different features.
    """
    if count < 2:
        raise ValueError(f"--clusters: found {count}, expected 2 or more")
    generator = torch.Generator().manual_seed(seed)
    centres = _start(features, count, generator)
    before = torch.full((len(features),), -1)
    for _ in range(STEPS):
        nearest = _nearest(features, centres)
        if nearest.centres[:, 0].equal(before):
            break
        before = nearest.centres[:, 0]
        centres = _move(features, before, nearest.distances[:, 0], centres)
    distances = _nearest(features, centres).distances
    return Clusters(centres, max(float((distances[:, 1] - distances[:, 0]).mean()), 1e-12), about)


def _start(features: Float[Tensor, "N F"], count: int, generator: torch.Generator) -> Float[Tensor, "K F"]:
    """Centres far from each other: each next one is drawn in proportion to the squared distance from those there are."""
    chosen = [int(torch.randint(len(features), (), generator=generator))]
    distance = _distances(features, features[chosen])[:, 0]
    while len(chosen) < count:
        ends = distance.double().cumsum(0)
        if not ends[-1] > 0:
            raise ValueError(f"--clusters is {count}, and there are {len(chosen)} different features; ask for fewer")
        drawn = torch.rand((), generator=generator, dtype=torch.float64) * ends[-1]
        chosen.append(int(torch.searchsorted(ends, drawn, right=True).clamp_max(len(features) - 1)))
        distance = torch.minimum(distance, _distances(features, features[chosen[-1:]])[:, 0])
        distance[chosen] = 0
    return features[chosen].clone()


def _move(
    features: Float[Tensor, "N F"], nearest: Tensor, distance: Float[Tensor, "N"], centres: Float[Tensor, "K F"]
) -> Float[Tensor, "K F"]:
    """Means of what is nearest; a centre that nothing is nearest to goes to what lies farthest from its own."""
    counts = torch.bincount(nearest, minlength=len(centres))
    sums = torch.zeros_like(centres, dtype=torch.float64).index_add_(0, nearest, features.double())
    moved = (sums / counts.clamp_min(1)[:, None]).float()
    empty = (counts == 0).nonzero()[:, 0]
    moved[empty] = features[distance.argsort(descending=True, stable=True)[: len(empty)]]
    return moved


class _Nearest(NamedTuple):
    """The two nearest centres of each feature."""

    distances: Float[Tensor, "N 2"]
    centres: Int[Tensor, "N 2"]


def _nearest(features: Float[Tensor, "N F"], centres: Float[Tensor, "K F"]) -> _Nearest:
    parts = [_distances(part, centres).topk(2, largest=False) for part in features.split(AT_ONCE)]
    return _Nearest(*(torch.cat([part[place] for part in parts]) for place in (0, 1)))


def _distances(features: Float[Tensor, "N F"], centres: Float[Tensor, "K F"]) -> Float[Tensor, "N K"]:
    """Squared distances, as products of what differs from the mean centre, so that little cancels."""
    middle = centres.mean(0)
    features, centres = features - middle, centres - middle
    squares = features.square().sum(1, keepdim=True) + centres.square().sum(1)
    return (squares - 2 * features @ centres.T).clamp_min(0)


def write_clusters(clusters: Clusters, path: Path) -> None:
    """Save clusters, for validation and test data to be classified alike."""
    about = np.array(json.dumps(clusters.about, sort_keys=True))
    with open(path, "wb") as file:
        np.savez(file, centres=clusters.centres.numpy(), gap=np.float64(clusters.gap), about=about)


def read_clusters(path: Path) -> Clusters:
    """Clusters that `write_clusters` saved.

    Raises:
        FileNotFoundError: It is not there.
        ValueError: It is something else.
    """
    if not path.is_file():
        raise FileNotFoundError(f"--clusters-from {path}: there is no such file; expected the clusters.npz of other shards")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            return Clusters(torch.from_numpy(arrays["centres"]).float(), float(arrays["gap"]), about)
    except Exception as error:  # whatever NumPy makes of another file
        raise ValueError(f"--clusters-from {path}: no clusters.npz of `regions extract` ({error})") from None
