"""Cross-lingual word recovery (CLWR): tell the tokens of a sentence from what attention makes of its translation.

Unicoder, arXiv:1909.00964, section 3. No code of it was ever released; what the paper leaves open is said below.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ...modalities.batch import Batch
from ...models.encoder import Encoder, States
from ...models.towers import TextTower
from ...models.transformer import initialize
from ...models.two_towers import TwoTowers
from .halves import Orders, check_orders, order_texts
from .mixed_pairs import translated
from .objective import Loss, Objective
from .rows import refuse_packed, refuse_single
from .token_prediction import count_hidden, predict_hidden

WHO = "word recovery"


class WordRecovery(Objective):
    """Cross-entropy over all tokens of a text, of which the encoder reads only mixtures of its translation's vectors.

    With x_i and y_j the input vectors of text and translation (token, position, language, as the encoder's embeddings make
    them), A_ij = W^T [x_i; y_j; x_i * y_j], and the encoder reads sum_j softmax_j(A_ij) y_j in the place of x_i. Position and
    language of what it reads are the translation's. The part of W that weighs x_i adds the same to all j and cancels.

    Ours: control tokens of the text are mixed as all others are, for the encoder is to see nothing but the translation; they
    are not predicted, as they are the same in every sentence. Those of the translation may be attended to: a word
    without a counterpart has them to look at. Scores and mixtures are in float32 under autocast.
    """

    one_item_a_row = True

    def __init__(self, orders: Orders = "given", weight: float = 1.0):
        """
        Args:
            orders: Which of the two is recovered from the other. `given`: the text, as the source chooses it. `drawn`: text or
                translation, by a draw of each sample and epoch, so that over the epochs both are. The paper does not say.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown or out of range.
        """
        super().__init__(weight)
        check_orders(orders, WHO)
        self.orders = orders

    def connect(self, encoder: Encoder) -> None:
        """Build attention and head.

        Raises:
            ValueError: The encoder has no text tower that can be read from vectors.
        """
        self.attention = nn.Linear(3 * find_tower(encoder).embeddings.width, 1, bias=False)  # W
        initialize(self.attention)
        self.head = encoder.token_head("text")

    def view(self, batch: Batch) -> Batch:
        """The batch with `text` to be recovered from `translation`, and without word alignments, whose sides may have changed.

        Raises:
            ValueError: The source reads no translation, or rows are packed.
        """
        refuse_single(batch, WHO)
        refuse_packed(batch, WHO)
        text, translation = order_texts(self.orders, batch, batch.text, batch.translation, self.key)
        return batch._replace(text=text, translation=translation, alignment=None)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """The rows that have both texts, with every ordinary token of the text hidden."""
        pairs = translated(view)
        return pairs._replace(text=pairs.text._replace(hidden=pairs.text.word >= 0))

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return count_hidden(marked, ("text",))

    def read(self, encoder: Encoder, marked: Batch) -> States:
        """One reading of the mixtures."""
        tower, there = find_tower(encoder), marked.text.present
        own, others = (_spread(tower.embeddings(text), text.present) for text in (marked.text, marked.translation))
        mixtures = self.mix(own, others, marked.translation.present)
        return States(text=tower.encode_vectors(marked.text, mixtures[there])[0])

    def mix(
        self, own: Float[Tensor, "B L D"], others: Float[Tensor, "B M D"], present: Bool[Tensor, "B M"]
    ) -> Float[Tensor, "B L D"]:
        """What is read in the place of each vector.

        Args:
            own: Vectors of the text.
            others: Vectors of its translation.
            present: Where the translation has any: once a row, at least.
        """
        with torch.autocast(own.device.type, enabled=False):
            weight = self.attention.weight
            own, others = own.to(weight.dtype), others.to(weight.dtype)
            left, right, both = weight.view(3, -1)
            scores = (own @ left)[:, :, None] + (others @ right)[:, None] + (own * both) @ others.mT  # [B, L, M]
            return scores.masked_fill(~present[:, None], -torch.inf).softmax(2) @ others

    def loss(self, states: States, marked: Batch) -> Loss:
        return predict_hidden(self.head, states, marked, ("text",))


def find_tower(encoder: Encoder) -> TextTower:
    """The text tower that reads the encoder's texts.

    Raises:
        ValueError: There is none, or it reads texts together with something else.
    """
    tower = encoder.text if isinstance(encoder, TwoTowers) else encoder
    if not isinstance(tower, TextTower):
        raise ValueError(
            f"{WHO} reads vectors that it has mixed in the place of a text's own, which needs a text tower, alone or beside "
            f"others in two towers; {type(encoder).__name__} reads {', '.join(encoder.widths)} in another way"
        )
    return tower


def _spread(vectors: Float[Tensor, "tokens D"], present: Bool[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
    """Vectors of the present tokens in the batch's shape, zeros elsewhere."""
    return vectors.new_zeros(*present.shape, vectors.shape[1]).index_put((present,), vectors)
