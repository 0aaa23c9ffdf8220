"""Bootstrap intervals over clusters: what is drawn again is an item, with all its texts.

Field and Welsh 2007, doi:10.1111/j.1467-9868.2007.00593.x, section 3 (the cluster bootstrap); percentile intervals.

Draws are shared by every figure over the same items, so means over languages have an interval as well: their replicates are
averaged draw by draw. Where every value is the same, as with a recall of 0 or 1, the interval is a point.
"""

from functools import lru_cache

import torch
from jaxtyping import Float, Float32, Float64, Int
from torch import Tensor

ENTRIES = 2**20  # weights handled at a time by the median


@lru_cache(maxsize=8)
def draw(clusters: int, times: int = 1000, seed: int = 0) -> Float32[Tensor, "R C"]:
    """How often each of C clusters is drawn in each of R resamples, with replacement; every row sums to C."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(clusters, (times, clusters), generator=generator)
    return torch.zeros(times, clusters).scatter_add_(1, drawn, torch.ones(times, clusters))


def means(values: Float[Tensor, "Q M"], cluster: Int[Tensor, "Q"], draws: Float32[Tensor, "R C"]) -> Float64[Tensor, "R M"]:
    """Mean of each of M columns in every resample; NaN in a resample that draws no query at all."""
    terms = torch.cat([values.double(), values.new_ones(len(values), 1, dtype=torch.float64)], dim=1)
    sums = terms.new_zeros(draws.shape[1], terms.shape[1]).index_add_(0, cluster, terms)
    drawn = draws.double() @ sums
    return drawn[:, :-1] / drawn[:, -1:]


def medians(values: Float[Tensor, "Q"], cluster: Int[Tensor, "Q"], draws: Float32[Tensor, "R C"]) -> Float64[Tensor, "R"]:
    """Median in every resample; NaN in a resample that draws no query at all."""
    order = values.argsort()
    ordered = values[order].double()
    found = []
    for part in draws.split(max(1, ENTRIES // len(values))):
        below = part[:, cluster[order]].cumsum(1)
        half = below[:, -1:] / 2
        low, high = torch.searchsorted(below, half), torch.searchsorted(below, half, right=True)
        middle = (ordered[low.clamp_max(len(values) - 1)] + ordered[high.clamp_max(len(values) - 1)]) / 2
        found.append(torch.where(half > 0, middle, torch.nan)[:, 0])
    return torch.cat(found)


def median(values: Float[Tensor, "Q"]) -> float:
    """The median, halfway between the middle two of an even number."""
    return float(values.double().quantile(0.5))


def interval(replicates: Float64[Tensor, "R"], level: float = 0.95) -> tuple[float, float]:
    """The middle part of the replicates (percentile interval)."""
    outside = (1 - level) / 2
    low, high = torch.nanquantile(replicates, torch.tensor([outside, 1 - outside], dtype=torch.float64)).tolist()
    return low, high
