"""Next sentence prediction (NSP): does the second half follow the first? BERT, arXiv:1810.04805, section 3.1, task 2."""

import torch
from jaxtyping import Int
from torch import Tensor

from ...modalities.batch import Batch
from ...modalities.chance import salt, uniform
from ...models.encoder import Encoder, States
from ...models.pair_head import PairHead
from .borrowing import exchange, lend_texts, warn_alone
from .halves import Joining, check_halves, check_pair, half_loss, joined, readable, replacements
from .objective import Loss, Objective

SWAP = salt("next sentence")
NEGATIVE = "text of another item in their language"


class NextSentence(Objective):
    """Two-way cross-entropy on the first token of both halves in one row, after some second halves gave way to others.

    A sample's text is the first half, its second text the second one (`following` of a source). The half that comes instead is
    the second half of another sample of the step, of another item (document) and in the same language, which would else give
    it away; the item decides, never the place in the batch. Class 0 says that the second half is next, class 1 that it is
    not, as in BERT's released code. A sample that lacks a half is read as a single text and not scored. Other objectives of the
    pass read the joined row; name this one first.

    Documents that were cut when shards were written (`shards write documents --max-sentences`) are several items.
    """

    one_item_a_row = True
    changes = ("text",)

    def __init__(self, rate: float = 0.5, pair: str = "bert", max_tokens: int | None = None, weight: float = 1.0):
        """
        Args:
            rate: Probability with which a sample's second half is replaced.
            pair: Form of the row, one of `PAIR_FORMS`.
            max_tokens: Longest row; in a longer one the longer half loses pieces first. None: the encoder's longest text,
                or twice that where positions restart. (The data's `max_tokens` bounds each half.)
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: The rate is not between 0 and 1, there is no such form, or rows are too short for it.
        """
        super().__init__(weight)
        if not 0 <= rate <= 1:
            raise ValueError(f"next sentence: rate is {rate}, but a share lies between 0 and 1")
        check_pair(pair, max_tokens, "next sentence")
        self.rate, self.pair, self.max_tokens = rate, pair, max_tokens
        self._warned = False

    def connect(self, encoder: Encoder) -> None:
        self.joining = Joining.of(encoder, self.pair, "next sentence", self.max_tokens)
        self.pair_head = PairHead(encoder.widths["text"])

    def view(self, batch: Batch) -> Batch:
        """The batch with both halves apart: which second halves are read is known when all of the step have been lent, and a
        row is cut to its length after that, so that lengths do not tell."""
        check_halves(batch, "next sentence")
        return batch

    def lend(self, view: Batch) -> Batch | None:
        return lend_texts(view, view.translation)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """Replace second halves, then join.

        Raises:
            ValueError: Tokens are hidden already.
        """
        own = self.lend(view)
        if view.text.hidden is not None or view.translation.hidden is not None:
            raise ValueError(
                f"source {view.source}: next sentence prediction joins texts whose tokens are hidden already; "
                "name it before masked language modelling in its pass"
            )
        pool = own if pool is None else pool
        pairs = readable(view.text) & readable(view.translation)
        pairs = pairs if view.matched is None else pairs & view.matched
        wanted = pairs & (uniform(self.key, salt(view.source), view.epoch, view.sample, SWAP) < self.rate)
        candidate = replacements(own, pool)
        self._warned = self._warned or warn_alone(wanted & ~candidate.any(1), view.source, NEGATIVE)
        other = exchange(own._replace(matched=view.matched), pool, wanted, candidate, self.key, self.joining.vocabulary.pad)
        return self.joining.join_halves(view._replace(matched=other.matched), view.text, other.text)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return joined(marked).sum()

    def loss(self, states: States, marked: Batch) -> Loss:
        replaced = torch.zeros_like(marked.item, dtype=torch.bool) if marked.matched is None else ~marked.matched
        return half_loss(self.pair_head, states, marked, replaced)
