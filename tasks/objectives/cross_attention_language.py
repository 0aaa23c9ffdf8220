"""Cross-attention masked language modelling (CAMLM): read the hidden tokens of a text off its translation alone, and the other
way round. ERNIE-M, arXiv:2012.15674, section 3.

Neither the paper's code nor its numbers for this objective were released: the defaults are BERT's and ours.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...modalities.batch import Batch
from ...models.encoder import Encoder, States
from ...models.packing import Slots, same_document
from .halves import Joining, Orders, check_orders, check_pair, joined, order_texts
from .hiding import Scheme, check_hiding
from .objective import Loss, Objective
from .rows import refuse_packed, refuse_single
from .token_prediction import count_hidden, hide_texts, predict_hidden

WHO = "cross-attention language"


def across_halves(slots: Slots) -> Bool[Tensor, "rows queries keys"]:
    """Attention rule: a hidden token sees itself and the other half's visible tokens, a visible one those of its own half.

    If visible tokens saw the other half, too, hidden ones would be told of their own half in the second layer, by way of them.
    """
    hidden, segment = slots.hidden, slots.segment
    other = segment[:, :, None] != segment[:, None, :]
    itself = torch.eye(hidden.shape[1], dtype=torch.bool, device=hidden.device)
    sees = (other == hidden[:, :, None]) & ~hidden[:, None, :]
    return same_document(slots) & (sees | itself)


class CrossAttentionLanguage(Objective):
    """Cross-entropy of the hidden tokens of both halves of a pair, each given the visible tokens of the other half.

    A sample that lacks one of its texts has nothing to be read off, so nothing of it is hidden. Each hidden token of a step
    weighs the same. The paper's formula adds the means of the two sides, over |M_x| and over |M_y|: about twice this (a weight
    of 2 has its scale), and in it the only hidden token of a short sentence weighs as much as ten of a long one together.
    """

    one_item_a_row = True

    def __init__(
        self,
        pair: str = "ernie-m",
        max_tokens: int | None = None,
        orders: Orders = "given",
        rate: float = 0.15,
        scheme: Scheme = "token",
        keep: float = 0.1,
        random: float = 0.1,
        weight: float = 1.0,
    ):
        """
        Args:
            pair: Form of the row, one of `PAIR_FORMS`.
            max_tokens: Longest row; in a longer one the longer half loses pieces first. None: the encoder's longest text,
                or twice that where positions restart. A half is never longer than the encoder's longest text.
            orders: Which half is first: `given`: the text, as the source chooses it; `drawn`: text or translation, by a draw
                of each sample and epoch.
            rate, scheme, keep, random: As of `MaskedLanguage`, over the pair as one text. The paper states none of them; the
                defaults are BERT's. A hidden token that stays visible, or its replacement, is seen by itself alone.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown or out of range; see `MaskedLanguage`.
        """
        super().__init__(weight)
        check_pair(pair, max_tokens, WHO)
        check_orders(orders, WHO)
        self.pair, self.max_tokens, self.orders = pair, max_tokens, orders
        self.hiding = check_hiding(WHO, scheme, rate, keep, random)

    def connect(self, encoder: Encoder) -> None:
        """Build the head.

        Raises:
            ValueError: The encoder reads no text, none as long as `max_tokens`, or too short ones for a pair.
        """
        self.head, self.vocabulary = encoder.token_head("text"), encoder.vocabulary
        self.joining = Joining.of(encoder, self.pair, WHO, self.max_tokens)

    def view(self, batch: Batch) -> Batch:
        """The batch with text and translation joined in `text`, in the order asked for, and no `translation` nor alignment.

        Raises:
            ValueError: The source reads no translation, or rows are packed.
        """
        refuse_single(batch, WHO)
        refuse_packed(batch, WHO)
        halves = order_texts(self.orders, batch, batch.text, batch.translation, self.key)
        return self.joining.join_halves(batch, *halves)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        marked = hide_texts(view, ("text",), self.key, self.hiding, self.vocabulary, None)
        both, text = joined(view)[:, None], marked.text
        shown = torch.where(both, text.shown, view.text.read)
        return marked._replace(text=text._replace(shown=shown, hidden=text.hidden & both))

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return count_hidden(marked, ("text",))

    def read(self, encoder: Encoder, marked: Batch) -> States:
        """One reading, in which hidden tokens attend across the halves only."""
        return encoder(marked, allow=across_halves)

    def loss(self, states: States, marked: Batch) -> Loss:
        return predict_hidden(self.head, states, marked, ("text",))
