"""Image-text matching (ITM): does this text belong to this picture? UNITER, arXiv:1909.11740, section 3.2; ViLBERT,
arXiv:1908.02265, section 3.2; LXMERT, arXiv:1908.07490, section 3.1."""

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from ...modalities.batch import Batch
from ...modalities.chance import salt, uniform
from ...models.encoder import Encoder, States
from .borrowing import PICTURES, differs, exchange, exchange_pictures, lend_pictures, lend_texts, warn_alone
from .objective import Loss, Objective
from .pairs import belonging, build_head, match_loss, paired, pictured
from .ranges import check_choice

SWAP, WHICH = salt("swap"), salt("which half")
Replaced = Literal["text", "picture", "either"]


class ImageTextMatching(Objective):
    """Two-way cross-entropy on the joint vector, after some samples' texts or pictures gave way to others of the whole step.

    A negative is of another item whose text reads differently; the item decides, never the place in the batch. Other
    objectives of the pass see the mismatched pair. Class 1 means that they match, as in UNITER, LXMERT, ViLT and ALBEF; in
    ViLBERT, VOLTA and VisualBERT it is class 0: swap the head's two rows when such weights are brought in.
    """

    one_item_a_row = True

    def __init__(self, rate: float = 0.5, replaced: Replaced = "text", weight: float = 1.0):
        """
        Args:
            rate: Probability with which a sample is made a negative.
            replaced: What of it gives way: the `text` (LXMERT, VOLTA), the `picture`, as pixels or regions (UNITER), or
                `either`, by a draw of each sample (ViLBERT).
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: The rate is not between 0 and 1, or nothing of that name is replaced.
        """
        super().__init__(weight)
        if not 0 <= rate <= 1:
            raise ValueError(f"image-text matching: rate is {rate}, but a share lies between 0 and 1")
        check_choice("image-text matching", "replaced", replaced, Replaced)
        self.rate, self.replaced = rate, replaced
        self.changes = {"text": ("text",), "picture": PICTURES, "either": ("text", *PICTURES)}[replaced]
        self._warned = False

    def connect(self, encoder: Encoder) -> None:
        self.head = build_head(encoder)
        self.pad = 0 if encoder.vocabulary is None else encoder.vocabulary.pad

    def lend(self, view: Batch) -> Batch | None:
        texts = lend_texts(view, view.text)
        if texts is None or self.replaced == "text":
            return texts
        return lend_pictures(view)._replace(text=texts.text)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """Replace texts or pictures.

        Raises:
            ValueError: Parts of them are hidden already.
        """
        own = self.lend(view)
        if own is None:
            return view
        self._refuse_hidden(view)
        pool = own if pool is None else pool
        keys = salt(view.source), view.epoch, view.sample
        wanted = belonging(view) & (uniform(self.key, *keys, SWAP) < self.rate)
        candidate = differs(view, pool)
        if self.replaced != "text":
            candidate = candidate & pictured(pool)
        self._warned = self._warned or warn_alone(wanted & ~candidate.any(1), view.source)
        texts = torch.zeros_like(wanted)
        if self.replaced != "picture":
            texts = wanted if self.replaced == "text" else wanted & (uniform(self.key, *keys, WHICH) < 0.5)
        return self._replace(view, pool, texts, wanted & ~texts, candidate)

    def _replace(
        self, view: Batch, pool: Batch, texts: Bool[Tensor, "B"], pictures: Bool[Tensor, "B"], candidate: Bool[Tensor, "B N"]
    ) -> Batch:
        if self.replaced != "picture":
            view = exchange(view, pool, texts, candidate, self.key, self.pad)
        return view if self.replaced == "text" else exchange_pictures(view, pool, pictures, candidate, self.key)

    def _refuse_hidden(self, view: Batch) -> None:
        fields = [name for name in self.changes if getattr(view, name) is not None and getattr(view, name).hidden is not None]
        if fields:
            kind = "tokens are" if fields == ["text"] else "parts are"
            first = "masked language modelling" if fields == ["text"] else "those that hide them"
            raise ValueError(
                f"source {view.source}: image-text matching changes {fields[0]}{'' if fields[0] == 'regions' else 's'} whose "
                f"{kind} hidden already; name it before {first} in its pass"
            )

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return paired(marked).sum()

    def loss(self, states: States, marked: Batch) -> Loss:
        scored = paired(marked)
        positive = torch.ones_like(scored) if marked.matched is None else marked.matched
        return match_loss(self.head, None if states.joint is None else states.joint[scored], positive[scored])

    def tally(self, states: States, marked: Batch) -> Mapping[str, Shaped[Tensor, "2"]]:
        """Of the pairs, how many are told right."""
        scored = paired(marked)
        if states.joint is None:
            return {"accuracy": torch.zeros(2, dtype=torch.long, device=scored.device)}
        positive = torch.ones_like(scored) if marked.matched is None else marked.matched
        right = self.head(states.joint[scored]).argmax(1) == positive[scored]
        return {"accuracy": torch.stack([right.sum(), scored.sum()])}
