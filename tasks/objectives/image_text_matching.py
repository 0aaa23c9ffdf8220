"""Image-text matching (ITM): does this text belong to this picture? UNITER, arXiv:1909.11740, section 3.2."""

import torch
from jaxtyping import Int
from torch import Tensor

from ...modalities.batch import Batch
from ...modalities.chance import salt, uniform
from ...models.encoder import Encoder, States
from .borrowing import differs, exchange, lend_texts, warn_alone
from .objective import Loss, Objective
from .pairs import belonging, build_head, match_loss, paired

SWAP = salt("swap")


class ImageTextMatching(Objective):
    """Two-way cross-entropy on the joint vector, after some samples' texts gave way to texts drawn from the whole step.

    A negative is a text of another item that reads differently; the item decides, never the place in the batch. Other
    objectives of the pass see the mismatched pair.
    """

    one_item_a_row = True

    def __init__(self, rate: float = 0.5, weight: float = 1.0):
        """
        Args:
            rate: Probability with which a sample's text is replaced.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: The rate is not between 0 and 1.
        """
        super().__init__(weight)
        if not 0 <= rate <= 1:
            raise ValueError(f"image-text matching: rate is {rate}, but a share lies between 0 and 1")
        self.rate = rate
        self._warned = False

    def connect(self, encoder: Encoder) -> None:
        self.head = build_head(encoder)
        self.pad = 0 if encoder.vocabulary is None else encoder.vocabulary.pad

    def lend(self, view: Batch) -> Batch | None:
        return lend_texts(view, view.text)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """Replace texts.

        Raises:
            ValueError: Tokens of the texts are hidden already.
        """
        own = self.lend(view)
        if own is None:
            return view
        if view.text.hidden is not None:
            raise ValueError(
                f"source {view.source}: image-text matching changes texts whose tokens are hidden already; "
                "name it before masked language modelling in its pass"
            )
        pool = own if pool is None else pool
        wanted = belonging(view) & (uniform(self.key, salt(view.source), view.epoch, view.sample, SWAP) < self.rate)
        candidate = differs(view, pool)
        self._warned = self._warned or warn_alone(wanted & ~candidate.any(1), view.source)
        return exchange(view, pool, wanted, candidate, self.key, self.pad)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return paired(marked).sum()

    def loss(self, states: States, marked: Batch) -> Loss:
        scored = paired(marked)
        positive = torch.ones_like(scored) if marked.matched is None else marked.matched
        return match_loss(self.head, None if states.joint is None else states.joint[scored], positive[scored])
