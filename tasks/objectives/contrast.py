"""Contrast of two modalities, such as pictures and texts (ITC), or texts and their translations: a row's two vectors
shall be closer to each other than to those of all other rows. CLIP, arXiv:2103.00020, section 2.3 and figure 3."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ...modalities.batch import Batch
from ...modalities.text import text_identity
from ...models.encoder import Encoder, States, Vectors
from .objective import Embeddings, Loss, Objective, Sharing
from .pairs import pictured
from .ranges import COLDEST, HOTTEST, check_range, check_temperature
from .tiled_contrast import tiled_contrast


class Contrast(Objective):
    """Symmetric InfoNCE over all rows of the step, with a learned temperature.

    Rows of one item, or with the same text on one side, are about the same thing: they leave each other's denominators
    (masked, not made positives). A row's positive is its own other side.
    """

    coupled = True
    one_item_a_row = True

    def __init__(
        self,
        left: str = "text",
        right: str = "image",
        temperature: float = 0.07,
        max_scale: float = 100.0,
        weight: float = 1.0,
    ):
        """
        Args:
            left: What is compared, by its name in `States.vectors`; the `image` may be pixels or regions.
            right: What it is compared with, likewise.
            temperature: At the start; similarities are cosines divided by it.
            max_scale: Most that similarities are multiplied by (1 / temperature). After each step the parameter is put
                back to it, so that, unlike with a clamp in the loss, its gradient is alive at the bound.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: A side is not a modality with vectors, or the temperature is out of its range.
        """
        super().__init__(weight)
        if left == right or {left, right} - set(Vectors._fields):
            raise ValueError(f"contrast: compares two different ones of {', '.join(Vectors._fields)}, found {left} and {right}")
        check_temperature("contrast", temperature)
        check_range("contrast", "max_scale", max_scale, 1 / HOTTEST, 1 / COLDEST, " (CLIP: 100)")
        if not temperature * max_scale >= 1:
            raise ValueError(f"contrast: temperature {temperature} starts above the max_scale of {max_scale}")
        self.sides, self.max_scale = (left, right), max_scale
        self.scale = nn.Parameter(torch.tensor(math.log(1 / temperature)))
        """Logarithm of what cosines are multiplied by."""

    @property
    def sharing(self) -> Sharing:
        """A translation that is joined to its text has no vector of its own."""
        return "apart" if "translation" in self.sides and super().sharing == "any" else super().sharing

    def connect(self, encoder: Encoder) -> None:
        there = {*encoder.widths, *(["image"] if "regions" in encoder.widths else [])}
        missing = [side for side in self.sides if side not in there]
        if encoder.vector_width is None or missing:
            raise ValueError(
                f"contrast compares vectors of {' and '.join(self.sides)}; {type(encoder).__name__} reads "
                f"{', '.join(encoder.widths)} and gives {'no vectors' if encoder.vector_width is None else 'vectors'}; "
                "use an encoder that reads both and gives vectors, such as models.two_towers.TwoTowers (with or without image)"
            )
        self.width = encoder.vector_width

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return self._compared(marked).sum()

    def embed(self, states: States, marked: Batch) -> Embeddings:
        """Rows in which both sides are present and belong together, at length 1.

        Raises:
            ValueError: A vector is not finite.
        """
        rows = self._compared(marked)
        left, right = (self._normalize(states.vectors, side, rows, marked) for side in self.sides)
        texts = [getattr(marked, side) for side in self.sides if side in ("text", "translation")]
        columns = [marked.item, *(text_identity(text) for text in texts if text is not None)]
        columns += [marked.item] * (1 + len(texts) - len(columns))  # a side that is missing has no rows; keep the width
        return Embeddings(left, right, torch.stack(columns, dim=1)[rows])

    def contrast(self, own: Embeddings, every: Embeddings, start: int) -> Loss:
        """Mean of both directions' cross-entropies, summed over the own rows."""
        total = tiled_contrast(own, every, start, self.scale.float().exp())
        return Loss(total, torch.tensor(len(own.left), device=own.left.device))

    @torch.no_grad()
    def after_step(self, encoder: Encoder) -> None:
        self.scale.clamp_(max=math.log(self.max_scale))

    def _compared(self, marked: Batch) -> Bool[Tensor, "B"]:
        there = torch.ones_like(marked.item, dtype=torch.bool) if marked.matched is None else marked.matched
        for side in self.sides:
            if side == "image":
                there = there & pictured(marked)
                continue
            field = getattr(marked, side)
            if field is None:
                return torch.zeros_like(there)
            there = there & (field.present if field.present.ndim == 1 else field.present.any(1))
        return there

    def _normalize(self, vectors: Vectors, side: str, rows: Bool[Tensor, "B"], marked: Batch) -> Float[Tensor, "N E"]:
        found = getattr(vectors, side)
        if found is None:
            return self.scale.new_zeros(0, self.width, dtype=torch.float32)
        found = found[rows].float()
        broken = ~found.isfinite().all(1)
        if bool(broken.any()):
            samples = marked.sample[rows][broken].tolist()
            raise ValueError(
                f"contrast: {len(samples)} {side} vectors of source {marked.source} are not finite (samples {samples[:5]}); "
                "training has diverged or a sample holds broken numbers: lower the learning rate, or check the shards"
            )
        return F.normalize(found, dim=1)
