"""Image-text matching with hard negatives: the wrong text is one that the vectors find similar. ALBEF, arXiv:2107.07651,
section 3.2 (its text negatives; the similarities are the encoder's own, without momentum)."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from ...modalities.batch import Batch, take
from ...modalities.chance import salt, uniform
from ...models.encoder import Encoder, States
from .borrowing import borrow, differs, warn_alone
from .objective import Loss, Objective
from .pairs import belonging, build_head, match_loss
from .ranges import check_temperature
from .rows import join_rows

CHOICE = salt("hard choice")


class HardImageTextMatching(Objective):
    """Every pair is scored as it is, and once more with another item's text.

    That text is drawn from the micro-batch in proportion to the softmax of its similarity to the picture. So, as in the
    published recipe, the split into micro-batches and ranks decides which texts can be drawn.
    """

    one_item_a_row = True

    def __init__(self, temperature: float = 0.07, weight: float = 1.0):
        """
        Args:
            temperature: What cosines are divided by before the softmax.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: The temperature is out of its range.
        """
        super().__init__(weight)
        check_temperature("hard image-text matching", temperature)
        self.temperature = temperature
        self._warned = False

    def connect(self, encoder: Encoder) -> None:
        self.head = build_head(encoder)
        if encoder.vector_width is None:
            raise ValueError(
                f"hard negatives are drawn by similarity, but {type(encoder).__name__} gives no vectors of text and picture; "
                "use `ImageTextMatching`, whose negatives are random, or an encoder that aligns before it fuses"
            )
        self.pad = 0 if encoder.vocabulary is None else encoder.vocabulary.pad

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        pairs = belonging(marked)
        return pairs.sum() + (pairs & differs(marked, marked).any(1)).sum()

    def read(self, encoder: Encoder, marked: Batch) -> States:
        """A reading without gradient to compare, then one of the pairs as they are, followed by the negatives."""
        pairs = belonging(marked)
        if not bool(pairs.any()):
            return encoder(marked)._replace(joint=None)
        with torch.no_grad():
            vectors = encoder(marked).vectors
        candidate = differs(marked, marked)
        own = marked.epoch[:, None], marked.sample[:, None]
        chances = uniform(self.key, salt(marked.source), *own, CHOICE, marked.epoch, marked.sample)
        choice = draw_negative(compare(vectors.image, vectors.text) / self.temperature, candidate, chances)
        found = pairs & candidate.any(1)
        self._warned = self._warned or warn_alone(pairs & ~found, marked.source)
        mixed = borrow(marked, marked.text, found, choice, self.pad)
        return encoder(join_rows([take(marked, pairs), take(mixed, found)], self.pad))

    def loss(self, states: States, marked: Batch) -> Loss:
        place = torch.arange(int(self.count(marked)), device=marked.item.device)
        return match_loss(self.head, states.joint, place < belonging(marked).sum())


def compare(left: Float[Tensor, "B E"], right: Float[Tensor, "N E"]) -> Float[Tensor, "B N"]:
    """Cosines in float32; 0 where a vector is not finite, which says nothing about the pair."""
    with torch.autocast(left.device.type, enabled=False):
        cosine = F.normalize(left.float(), dim=1) @ F.normalize(right.float(), dim=1).T
    return cosine.nan_to_num(0.0, 0.0, 0.0)


def draw_negative(
    similarity: Float[Tensor, "B N"], candidate: Bool[Tensor, "B N"], chances: Float64[Tensor, "B N"]
) -> Int[Tensor, "B"]:
    """One candidate a row, in proportion to the softmax of the similarities; 0 where a row has none.

    The highest of similarity plus Gumbel noise, which needs no sum of weights that could be 0 or overflow.

    Args:
        similarity: Finite logits.
        candidate: Which may be drawn.
        chances: Uniform numbers in [0, 1), independent of each other.
    """
    noise = -torch.log(-torch.log(chances.clamp_min(1e-300)))
    return (similarity.double() + noise).masked_fill(~candidate, -torch.inf).argmax(1)
