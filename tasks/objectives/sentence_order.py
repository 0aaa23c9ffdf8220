"""Sentence order prediction (SOP): do two halves stand in their order? ALBERT, arXiv:1909.11942, section 3.1."""

from jaxtyping import Bool, Int
from torch import Tensor

from ...modalities.batch import Batch
from ...modalities.chance import salt, uniform
from ...modalities.pair import swap_texts
from ...models.encoder import Encoder, States
from ...models.pair_head import PairHead
from .halves import Joining, check_halves, check_pair, half_loss, joined
from .objective import Loss, Objective

ORDER = salt("sentence order")


class SentenceOrder(Objective):
    """Two-way cross-entropy on the first token of both halves in one row, exchanged in half of the samples.

    A sample's text is the first half, its second text the second one (`following` of a source). Class 0 says that they stand
    in their order, class 1 that they are exchanged, as in ALBERT's released code. A sample that lacks a half is read as a
    single text and not scored. Other objectives of the pass read the joined row.
    """

    one_item_a_row = True

    def __init__(self, pair: str = "bert", max_tokens: int | None = None, weight: float = 1.0):
        """
        Args:
            pair: Form of the row, one of `PAIR_FORMS`.
            max_tokens: Longest row; in a longer one the longer half loses pieces first. None: the encoder's longest text,
                or twice that where positions restart. (The data's `max_tokens` bounds each half.)
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: There is no such form, or rows are too short for it.
        """
        super().__init__(weight)
        check_pair(pair, max_tokens, "sentence order")
        self.pair, self.max_tokens = pair, max_tokens

    def connect(self, encoder: Encoder) -> None:
        self.joining = Joining.of(encoder, self.pair, "sentence order", self.max_tokens)
        self.pair_head = PairHead(encoder.widths["text"])

    def view(self, batch: Batch) -> Batch:
        """The batch with both halves in `text`, in the order drawn of each sample and epoch, and no `translation`."""
        check_halves(batch, "sentence order")
        return self.joining.join_halves(batch, *swap_texts(batch.text, batch.translation, self._exchanged(batch)))

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return joined(marked).sum()

    def loss(self, states: States, marked: Batch) -> Loss:
        return half_loss(self.pair_head, states, marked, self._exchanged(marked))

    def _exchanged(self, batch: Batch) -> Bool[Tensor, "B"]:
        return uniform(self.key, salt(batch.source), batch.epoch, batch.sample, ORDER) < 0.5
