"""Word-region alignment (WRA): words move to the regions they are about, by optimal transport.

UNITER, arXiv:1909.11740, section 3.2; over patches, ViLT, arXiv:2102.03334, section 3.2. The plan is that of IPOT (Xie et al.,
arXiv:1802.04307, algorithm 1).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...modalities.batch import Batch
from ...models.encoder import Encoder, States
from .objective import Loss, Objective
from .pairs import paired
from .ranges import check_range

WHO = "word-region alignment"
NEVER = -1e9
"""Logarithm of no mass: finite, so that rows of nothing stay finite."""


class WordRegionAlignment(Objective):
    """Cost of moving the words of a text to what is in its picture: small where they belong together, large where not.

    It has no parameters: it moves the encoder's states. Which pairs belong is told by image-text matching in the same pass,
    named before or after; without, all do. The mean is over pairs, (sum over matched - sum over mismatched) / all.
    """

    def __init__(self, controls: bool = True, beta: float = 0.5, iterations: int = 50, inner: int = 1, weight: float = 0.1):
        """
        Args:
            controls: Whether start and end tokens are words, too (UNITER); False: pieces of words alone (ViLT).
            beta: Step of the proximal point method: the larger, the slower, and the smoother each step.
            iterations: Steps of it.
            inner: Scalings of rows and columns in each step.
            weight: Coefficient of this objective in the summed loss: UNITER's, for costs between 0 and 2.

        Raises:
            ValueError: A number is out of its range.
        """
        super().__init__(weight)
        check_range(WHO, "beta", beta, 1e-2, 1e2, " (published: 0.5)")
        check_range(WHO, "iterations", iterations, 1, 1000, " (published: 50)")
        check_range(WHO, "inner", inner, 1, 100, " (published: 1)")
        self.controls, self.beta, self.iterations, self.inner = controls, beta, iterations, inner

    def connect(self, encoder: Encoder) -> None:
        """Find the stream of the picture.

        Raises:
            ValueError: The encoder reads no text, no picture, or gives them different widths.
        """
        self.stream = "regions" if "regions" in encoder.widths else "image"
        widths = [encoder.widths.get(name) for name in ("text", self.stream)]
        if None in widths or widths[0] != widths[1]:
            found = ", ".join(f"{name} ({width})" for name, width in encoder.widths.items())
            raise ValueError(
                f"{WHO} compares words with regions or patches of one width; {type(encoder).__name__} reads {found}: use a "
                "fused encoder whose streams are as wide"
            )

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return self._scored(marked).sum()

    def loss(self, states: States, marked: Batch) -> Loss:
        text, picture = states.text, getattr(states, self.stream)
        if text is None or picture is None:
            return Loss(self._nothing(states, marked), self.count(marked))
        rows = self._scored(marked)
        words, places = self._words(marked)[rows], self._places(marked, picture)[rows]
        cost = transport_cost(text[rows], picture[rows], words, places, self.beta, self.iterations, self.inner)
        matched = torch.ones_like(rows) if marked.matched is None else marked.matched
        return Loss(torch.where(matched[rows], cost, -cost).sum(), self.count(marked))

    def _scored(self, marked: Batch) -> Bool[Tensor, "B"]:
        pairs = paired(marked)
        if marked.text is None or getattr(marked, self.stream) is None:
            return torch.zeros_like(pairs)
        return pairs & self._words(marked).any(1) & self._places(marked).any(1)

    def _words(self, marked: Batch) -> Bool[Tensor, "B L"]:
        text = marked.text
        return text.present if self.controls else text.present & (text.word >= 0)

    def _places(self, marked: Batch, states: Float[Tensor, "B P D"] | None = None) -> Bool[Tensor, "B P"]:
        """What there is of each picture; of one in pixels all places are, as many as its states."""
        present = getattr(marked, self.stream).present
        if present.ndim == 2:
            return present
        return present[:, None] if states is None else present[:, None].expand(states.shape[:2])

    def _nothing(self, states: States, marked: Batch) -> Float[Tensor, ""]:
        given = states.text if states.text is not None else getattr(states, self.stream)
        return torch.zeros((), device=marked.item.device) if given is None else 0 * given.float().sum()


def transport_cost(
    words: Float[Tensor, "N L D"],
    places: Float[Tensor, "N P D"],
    some: Bool[Tensor, "N L"],
    others: Bool[Tensor, "N P"],
    beta: float,
    iterations: int,
    inner: int,
) -> Float[Tensor, "N"]:
    """Cost of the plan that moves the words of each pair to its places, each word and each place as heavy as any other; a unit
    of mass moved costs 1 less the cosine. In float32; the plan has no gradient.

    Args:
        words, places: States.
        some, others: Which of them are there; at least one of each in every pair.
        beta, iterations, inner: As of `plan_transport`.
    """
    with torch.autocast(words.device.type, enabled=False):
        left, right = F.normalize(words.float(), dim=2), F.normalize(places.float(), dim=2)
        there = some[:, :, None] & others[:, None, :]
        cost = (1 - left @ right.transpose(1, 2)).masked_fill(~there, 0)
        return (cost * plan_transport(cost.detach(), some, others, beta, iterations, inner)).sum((1, 2))


@torch.no_grad()
def plan_transport(
    cost: Float[Tensor, "N L P"],
    some: Bool[Tensor, "N L"],
    others: Bool[Tensor, "N P"],
    beta: float = 0.5,
    iterations: int = 50,
    inner: int = 1,
) -> Float[Tensor, "N L P"]:
    """The plan of least cost, by IPOT: each step multiplies it by exp(-cost / beta), then scales its rows and columns.

    In logarithms, so that no number of steps is too many for float32.

    Args:
        cost: Of moving from each place to each.
        some, others: Which places there are on either side, all of one weight; nothing is moved from or to the rest.
        beta: Step size.
        iterations: Steps.
        inner: Scalings in each.
    """
    pull = (-cost / beta).masked_fill(~(some[:, :, None] & others[:, None, :]), NEVER)
    rows, columns = (one.sum(1, keepdim=True).clamp_min(1).to(cost.dtype).log() for one in (some, others))
    plan = torch.zeros_like(cost)
    scale = -columns.expand(others.shape)  # of the columns, as a logarithm
    for _ in range(iterations):
        moved = plan + pull
        for _ in range(inner):
            of_rows = (-rows - (moved + scale[:, None, :]).logsumexp(2)).masked_fill(~some, 0)
            scale = (-columns - (moved + of_rows[:, :, None]).logsumexp(1)).masked_fill(~others, 0)
        plan = moved + of_rows[:, :, None] + scale[:, None, :]
    return plan.exp()
