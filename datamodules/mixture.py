"""Several sources of which a step reads one: in proportion to their sizes, tempered, and exact in the long run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..modalities.chance import chance, salt
from .draws import Sampling, temper
from .turns import Turns

STEPS = 1 << 10
"""Steps within which each source has had its share."""


@dataclass(frozen=True)
class Mixture:
    """Sources of which each step reads one, drawn in proportion to its size to the power of `exponent`.

    Args:
        sources: Their names, two or more.
        exponent: As of `Sampling`: a number, or numbers by step.
        by: What the size of a source is: its samples or its tokens.
    """

    sources: list[str]
    exponent: int | float | dict[int, int | float] = 0.7
    by: Literal["samples", "tokens"] = "samples"

    def __post_init__(self):
        if len(set(self.sources)) < max(2, len(self.sources)):
            raise ValueError(f"a mixture is of two or more sources, each named once; found {self.sources}")
        Sampling(self.exponent)


class Mixed:
    """A mixture at work: which of its sources each step reads, and how many steps that one has had."""

    def __init__(self, name: str, mixture: Mixture, sizes: Mapping[str, float], seed: int):
        """
        Args:
            name: Name of the mixture.
            mixture: What is mixed.
            sizes: Size of each source.
            seed: Of the order.
        """
        self.names = list(mixture.sources)
        self.sizes = {one: sizes[one] for one in self.names}
        self.mixture, self._exponent = mixture, Sampling(mixture.exponent)
        self.turns = Turns(self._weights, int(chance(seed, salt(f"mixture {name}"))), block=STEPS)

    def _weights(self, first: int) -> np.ndarray:
        return temper(np.array(list(self.sizes.values())), self._exponent.exponent_at(first))

    @property
    def order(self) -> dict[str, str]:
        """All that the order depends on but the seed: to be compared when a run is resumed."""
        sizes = {f"size of {name}": str(size) for name, size in self.sizes.items()}
        return {"sources": str(self.names), "exponent": str(self._exponent.points), "by": self.mixture.by, **sizes}

    def at(self, step: int) -> tuple[str, int]:
        """The source that a step reads, and how many steps had read it before."""
        turn = self.turns.at(step, 1)
        return self.names[int(turn.category)], int(turn.occurrence)

    def steps_before(self, step: int) -> dict[str, int]:
        """How many of the steps before one read each source."""
        return dict(zip(self.names, self.turns.counts(step).tolist(), strict=True))


def check_mixtures(mixtures: Mapping[str, Mixture], sources: Collection[str]) -> None:
    """Refuse a source that is not there, or in two mixtures, and a mixture with the name of a source.

    Raises:
        ValueError: Names the mixture and the source.
    """
    seen: dict[str, str] = {}
    for name, mixture in mixtures.items():
        if name in sources:
            raise ValueError(
                f"mixtures.{name}: a source has this name, too, and they are logged by it; name the mixture otherwise"
            )
        for source in mixture.sources:
            if source not in sources:
                raise ValueError(f"mixtures.{name}: there is no source {source!r}; sources are {', '.join(sources)}")
            if source in seen:
                raise ValueError(f"source {source!r} is in the mixtures {seen[source]!r} and {name!r}; it can be in one")
            seen[source] = name
