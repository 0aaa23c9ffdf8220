"""Image-text matching (ITM): does this text belong to this picture? UNITER, arXiv:1909.11740, section 3.2; with hard
negatives as in ALBEF, arXiv:2107.07651, section 3.2."""

import logging
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ...modalities.batch import Batch, Text, take
from ...modalities.chance import chance, salt, uniform
from ...modalities.text import text_identity
from ...models.encoder import Encoder, States
from ...models.transformer import initialize
from .objective import Loss, Objective
from .rows import join_rows

SWAP, CHOICE = salt("swap"), salt("choice")

log = logging.getLogger(__name__)


class ImageTextMatching(Objective):
    """Two-way cross-entropy on the joint vector; class 1 means that they match.

    A negative is a text of another item that reads differently; the item decides, never the place in the batch.
    """

    def __init__(
        self,
        negatives: Literal["random", "hard"] = "random",
        rate: float = 0.5,
        temperature: float = 0.07,
        weight: float = 1.0,
    ):
        """
        Args:
            negatives: `random`: with probability `rate` a sample's text gives way to one drawn from the whole step, so
                that other objectives of the pass see the mismatched pair. `hard`: every pair is scored as it is, and
                again with a text of its micro-batch drawn in proportion to the softmax of its similarity to the
                picture; needs a reading of its own and an encoder that gives vectors beside the joint one.
            rate: Share of random negatives.
            temperature: Of that softmax over cosines.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An argument is out of its range.
        """
        super().__init__(weight)
        if negatives not in ("random", "hard"):
            raise ValueError(f"image-text matching: negatives is {negatives!r}, expected 'random' or 'hard'")
        if not 0 <= rate <= 1 or temperature <= 0:
            raise ValueError(
                f"image-text matching: rate lies between 0 and 1 and temperature above 0, found {rate} and {temperature}"
            )
        self.negatives, self.rate, self.temperature = negatives, rate, temperature
        self._told = False

    def connect(self, encoder: Encoder) -> None:
        name = type(encoder).__name__
        if "joint" not in encoder.widths:
            raise ValueError(
                f"image-text matching scores one vector that has seen text and picture, but {name} reads "
                f"{', '.join(encoder.widths)} and fuses nothing; use a fused encoder, or the `Contrast` objective"
            )
        if self.negatives == "hard" and encoder.vector_width is None:
            raise ValueError(
                f"hard negatives are drawn by similarity, but {name} gives no vectors of text and picture; "
                "use `negatives: random`, or an encoder that aligns before it fuses"
            )
        self.pad = 0 if encoder.vocabulary is None else encoder.vocabulary.pad
        self.head = nn.Linear(encoder.widths["joint"], 2)
        initialize(self.head)

    def lend(self, view: Batch) -> Batch | None:
        """The texts, for random negatives."""
        if self.negatives == "hard" or view.text is None:
            return None
        text = view.text._replace(shown=None, hidden=None)
        return Batch(view.source, view.item, view.sample, view.epoch, text)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """Put texts of other items in the place of some samples' own.

        Raises:
            ValueError: Tokens of the text are hidden already.
        """
        if self.negatives == "hard" or view.text is None:
            return view
        if view.text.hidden is not None:
            raise ValueError(
                f"source {view.source}: image-text matching changes texts whose tokens are hidden already; "
                "name it before masked language modelling in its pass"
            )
        own = self.lend(view)
        pool = own if pool is None else pool
        keys = (self.key, salt(view.source), view.epoch, view.sample)
        wanted = belonging(view) & (uniform(*keys, SWAP) < self.rate)
        candidate = differs(view, pool)
        found = candidate.any(1)
        self._tell(wanted & ~found, view.source)
        # The highest of one draw a candidate: the same one in whatever order the candidates come.
        draw = chance(*(key[:, None] if isinstance(key, Tensor) else key for key in keys), CHOICE, pool.epoch, pool.sample)
        choice = draw.masked_fill(~candidate, torch.iinfo(draw.dtype).min).argmax(1) if pool.size else view.sample
        swapped = wanted & found
        return borrow(view, join_rows([own, pool], self.pad).text, swapped, view.size + choice, self.pad)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        if self.negatives == "random":
            return paired(marked).sum()
        pairs = belonging(marked)
        return pairs.sum() + (pairs & differs(marked, marked).any(1)).sum()

    def read(self, encoder: Encoder, marked: Batch) -> States:
        """For hard negatives: a first reading without gradient to compare, then the pairs as they are and the negatives."""
        if self.negatives == "random":
            return encoder(marked)
        pairs = belonging(marked)
        if not bool(pairs.any()):
            return encoder(marked)
        with torch.no_grad():
            vectors = encoder(marked).vectors
        similarity = compare(vectors.image, vectors.text) / self.temperature
        candidate = differs(marked, marked)
        keys = (self.key, salt(marked.source), marked.epoch[:, None], marked.sample[:, None], CHOICE)
        choice = draw_negative(similarity, candidate, uniform(*keys, marked.epoch, marked.sample))
        found = pairs & candidate.any(1)
        self._tell(pairs & ~found, marked.source)
        mixed = borrow(marked, marked.text, found, choice, self.pad)
        matched = take(marked._replace(matched=torch.ones_like(pairs)), pairs)
        return encoder(join_rows([matched, take(mixed, found)], self.pad))

    def loss(self, states: States, marked: Batch) -> Loss:
        count = self.count(marked)
        if not bool(count):
            return Loss(self.head(self.head.weight.new_zeros(0, self.head.in_features)).float().sum(), count)
        if self.negatives == "hard":  # `read` put the matching pairs first
            rows = states.joint
            positive = torch.arange(len(rows), device=rows.device) < belonging(marked).sum()
        else:
            scored = paired(marked)
            rows = states.joint[scored]
            positive = torch.ones_like(scored)[scored] if marked.matched is None else marked.matched[scored]
        return Loss(F.cross_entropy(self.head(rows).float(), positive.long(), reduction="sum"), count)

    def _tell(self, alone: Bool[Tensor, "B"], source: str) -> None:
        """Say once that samples have no negative."""
        if not self._told and bool(alone.any()):
            self._told = True
            log.warning(
                "source %s: %d samples of a step have no text of another item beside them and are scored as matching pairs "
                "only; this is said once. Larger steps, with several items each, have negatives",
                source,
                int(alone.sum()),
            )


def pictured(batch: Batch) -> Bool[Tensor, "B"]:
    """Rows that have a picture, as pixels or as regions."""
    there = torch.zeros_like(batch.item, dtype=torch.bool)
    if batch.image is not None:
        there = there | batch.image.present
    return there if batch.regions is None else there | batch.regions.present.any(1)


def paired(batch: Batch) -> Bool[Tensor, "B"]:
    """Rows that have a picture and a text."""
    there = pictured(batch)
    return there & batch.text.present.any(1) if batch.text is not None else torch.zeros_like(there)


def belonging(batch: Batch) -> Bool[Tensor, "B"]:
    """Rows that have a picture and a text of their own."""
    return paired(batch) if batch.matched is None else paired(batch) & batch.matched


def differs(batch: Batch, pool: Batch) -> Bool[Tensor, "B N"]:
    """Which texts of the pool are negatives of each row: of another item, present, and not the same words."""
    if batch.text is None or pool.text is None:
        return torch.zeros(batch.size, pool.size, dtype=torch.bool, device=batch.item.device)
    other = batch.item[:, None] != pool.item
    unlike = text_identity(batch.text)[:, None] != text_identity(pool.text)
    return other & unlike & pool.text.present.any(1)


def borrow(view: Batch, texts: Text, swapped: Bool[Tensor, "B"], choice: Int[Tensor, "B"], pad: int) -> Batch:
    """Put text `choice` of `texts`, whose first rows are the view's own, in the place of the text of `swapped` rows."""
    own = torch.arange(view.size, device=choice.device)
    text = take(texts, torch.where(swapped, choice, own))
    text = text._replace(tokens=text.tokens.masked_fill(~text.present, pad))
    matched = ~swapped if view.matched is None else view.matched & ~swapped
    alignment = view.alignment
    if alignment is not None:  # words of the text that left
        alignment = alignment.masked_fill(swapped[:, None, None], -1)
    return view._replace(text=text, matched=matched, alignment=alignment)


def compare(left: Float[Tensor, "B E"], right: Float[Tensor, "N E"]) -> Float[Tensor, "B N"]:
    """Cosines in float32; 0 where a vector is not finite, which says nothing about the pair."""
    with torch.autocast(left.device.type, enabled=False):
        cosine = F.normalize(left.float(), dim=1) @ F.normalize(right.float(), dim=1).T
    return cosine.nan_to_num(0.0, 0.0, 0.0)


def draw_negative(
    similarity: Float[Tensor, "B N"], candidate: Bool[Tensor, "B N"], chances: Float[Tensor, "B N"]
) -> Int[Tensor, "B"]:
    """One candidate a row, in proportion to the softmax of the similarities; 0 where a row has none.

    The highest of similarity plus Gumbel noise, which needs no sum of weights that could be 0 or overflow.

    Args:
        similarity: Finite logits.
        candidate: Which may be drawn.
        chances: Uniform numbers in [0, 1), independent of each other.
    """
    noise = -torch.log(-torch.log(chances.double().clamp_min(1e-300)))
    return (similarity.double() + noise).masked_fill(~candidate, -torch.inf).argmax(1)
