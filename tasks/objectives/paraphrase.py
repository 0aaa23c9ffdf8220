"""Cross-lingual paraphrase classification (CLPC): do a text and its translation, in one row, mean the same? Unicoder,
arXiv:1909.00964, section 3. No code of it was ever released; what the paper leaves open is said below."""

from typing import Literal

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from ...modalities.batch import Batch, Text
from ...modalities.chance import salt, uniform
from ...models.encoder import Encoder, States
from ...models.pair_head import PairHead
from .borrowing import exchange, lend_texts, warn_alone
from .halves import Joining, Orders, check_orders, check_pair, half_loss, joined, order_texts, readable, replacements
from .objective import Loss, Objective
from .rows import refuse_packed, refuse_single

SWAP = salt("paraphrase")
WHO = "paraphrase"
NEGATIVE = "translation of another item in their language"
FINE, UNIT = 2.0**14, 2.0**20
"""Steps to 1 in which entries of the table, and of vectors of length 1, are rounded."""


class Paraphrase(Objective):
    """Two-way cross-entropy on the first token of a text and its translation in one row, after some translations gave way to
    others.

    What comes instead is the translation of another sample of the step, of another item, with other words, and in the same
    language, which would else give it away. Class 0 says that the two belong together, class 1 that they do not. A sample
    that lacks one of its texts is read as a single text and not scored. Other objectives of the pass read the joined row, and
    `matched` says which rows are pairs; name this one first. Scored by a dense layer, tanh and two scores, as BERT's pairs.

    Negatives are drawn (`random`), or the most similar there is (`mined`). Unicoder mines with a small averaging network (DAN)
    over all of its data, trained before on random negatives. Ours is lighter: the cosine between the means of the encoder's
    own token vectors, as they are at the step, over text and candidate without their control tokens; of candidates equally
    similar one is drawn. Such a network without a layer has nothing to be trained, and finds what shares names,
    numbers and, as the encoder learns, meaning. It mines what the step lent, so larger steps have harder negatives; and
    which they are in a validation changes as the encoder does.
    """

    one_item_a_row = True
    changes = ("text",)

    def __init__(
        self,
        negatives: Literal["random", "mined"] = "mined",
        rate: float = 0.5,
        pair: str = "xlm",
        max_tokens: int | None = None,
        orders: Orders = "given",
        weight: float = 1.0,
    ):
        """
        Args:
            negatives: `mined`, as published, or `random`.
            rate: Probability with which a sample's translation is replaced.
            pair: Form of the row, one of `PAIR_FORMS`. Unicoder's tower is XLM's.
            max_tokens: Longest row; in a longer one the longer half loses pieces first. None: the encoder's longest text,
                or twice that where positions restart.
            orders: `given`: the text first, as the source chooses it. `drawn`: text or (perhaps replaced) translation, by a
                draw of each sample and epoch. The paper does not say.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown or out of range, or rows are too short for the form.
        """
        super().__init__(weight)
        if negatives not in ("random", "mined"):
            raise ValueError(f"{WHO}: negatives is {negatives!r}, expected random or mined")
        check_orders(orders, WHO)
        if not 0 <= rate <= 1:
            raise ValueError(f"{WHO}: rate is {rate}, but a share lies between 0 and 1")
        check_pair(pair, max_tokens, WHO)
        self.negatives, self.rate, self.pair, self.max_tokens, self.orders = negatives, rate, pair, max_tokens, orders
        self._warned = False

    def connect(self, encoder: Encoder) -> None:
        """Build the head.

        Raises:
            ValueError: The encoder reads no text, none as long as `max_tokens`, or too short ones for a pair.
        """
        self.joining = Joining.of(encoder, self.pair, WHO, self.max_tokens)
        self.pair_head = PairHead(encoder.widths["text"])
        self._tokens = (encoder.tokens,)  # in a tuple, where the module's registry does not look: the table stays the encoder's

    def view(self, batch: Batch) -> Batch:
        """The batch with both texts apart: which translations are read is known when all of the step have been lent.

        Raises:
            ValueError: The source reads no translation, or rows are packed.
        """
        refuse_single(batch, WHO)
        refuse_packed(batch, WHO)
        return batch

    def lend(self, view: Batch) -> Batch | None:
        return lend_texts(view, view.translation)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """Replace translations, then join.

        Raises:
            ValueError: Tokens are hidden already.
        """
        if view.text.hidden is not None or view.translation.hidden is not None:
            raise ValueError(
                f"source {view.source}: {WHO} classification joins texts whose tokens are hidden already; "
                "name it before masked language modelling in its pass"
            )
        own = self.lend(view)
        other = self._exchange(view, own, own if pool is None else pool)
        halves = order_texts(self.orders, view, view.text, other.text, self.key)
        return self.joining.join_halves(view._replace(matched=other.matched), *halves)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return joined(marked).sum()

    def loss(self, states: States, marked: Batch) -> Loss:
        replaced = torch.zeros_like(marked.item, dtype=torch.bool) if marked.matched is None else ~marked.matched
        return half_loss(self.pair_head, states, marked, replaced)

    def _exchange(self, view: Batch, own: Batch, pool: Batch) -> Batch:
        """The translations that are read, with what is matched."""
        pairs = readable(view.text) & readable(view.translation)
        pairs = pairs if view.matched is None else pairs & view.matched
        wanted = pairs & (uniform(self.key, salt(view.source), view.epoch, view.sample, SWAP) < self.rate)
        candidate = replacements(own, pool)
        self._warned = self._warned or warn_alone(wanted & ~candidate.any(1), view.source, NEGATIVE)
        if self.negatives == "mined":
            candidate = nearest(compare_texts(view.text, pool.text, self._tokens[0].weight), candidate)
        return exchange(own._replace(matched=view.matched), pool, wanted, candidate, self.key, self.joining.vocabulary.pad)


def nearest(similarity: Float64[Tensor, "B N"], candidate: Bool[Tensor, "B N"]) -> Bool[Tensor, "B N"]:
    """The candidates of each row than which none is more similar."""
    if candidate.shape[1] == 0:
        return candidate
    similarity = similarity.masked_fill(~candidate, -torch.inf)
    return candidate & (similarity == similarity.amax(1, keepdim=True))


def compare_texts(left: Text, right: Text, table: Tensor) -> Float64[Tensor, "B N"]:
    """Cosine of the means of token vectors, times `UNIT` squared and to some six digits.

    Sums are of whole numbers, small enough that float64 holds them without error, in whatever order they are added up: what
    is most similar depends neither on batch-mates nor on padding or device.

    Args:
        left, right: Any texts; control tokens are left out.
        table: Token vectors `[V, E]`.
    """
    with torch.no_grad(), torch.autocast(table.device.type, enabled=False):
        return _average(left, table) @ _average(right, table).T


def _average(text: Text, table: Tensor) -> Float64[Tensor, "B E"]:
    """Sum of the vectors of each text, at the length `UNIT`, in whole numbers; zeros where a text has no piece."""
    ordinary = text.present & (text.word >= 0)
    ids, places = torch.unique(text.tokens[ordinary], return_inverse=True)
    counts = ordinary.sum(1)
    vectors = (table[ids].double() * FINE).round()
    if len(ids):
        sums = embedding_bag(places, vectors, counts.cumsum(0) - counts, mode="sum")
    else:
        sums = vectors.new_zeros(len(counts), table.shape[1])
    length = sums.square().sum(1, keepdim=True).sqrt().clamp_min(1)
    return (sums / length * UNIT).round()
