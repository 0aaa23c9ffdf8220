"""Translation language modelling (TLM): read the hidden tokens of a text and its translation off both, joined in one row.

XLM, arXiv:1901.07291, section 3.3; InfoXLM, arXiv:2007.07834, section 3.2.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from ...modalities.batch import Batch, Text
from ...modalities.text import text_identity
from ...models.encoder import Encoder, States
from .halves import Joining, Orders, check_orders, check_pair, languages, order_texts
from .hiding import Scheme, check_hiding
from .objective import Loss, Objective
from .rows import refuse_packed, refuse_single
from .token_prediction import count_hidden, hide_texts, predict_hidden, tally_hidden
from .word_weights import check_counts, load_counts, weigh_entries

log = logging.getLogger(__name__)

WHO = "translation language"


class TranslationLanguage(Objective):
    """Masked language modelling over pairs: a hidden token can be read off its translation.

    Tokens of both halves are hidden, control tokens never (XLM's released code hides end tokens, too). A sample that lacks one
    of its texts, in a source that reads both, is read as a single text: there, this is masked language modelling.
    """

    one_item_a_row = True
    hides = MappingProxyType({"text": None})

    def __init__(
        self,
        pair: str = "xlm-roberta",
        max_tokens: int | None = None,
        orders: Orders = "given",
        rate: float = 0.15,
        scheme: Scheme = "token",
        keep: float = 0.1,
        random: float = 0.1,
        alpha: float = 0.0,
        counts: str | None = None,
        weight: float = 1.0,
    ):
        """
        Args:
            pair: Form of the row, one of `PAIR_FORMS`: `xlm` has positions that restart (and its towers languages that switch),
                `infoxlm` one end token between the halves.
            max_tokens: Longest row; in a longer one the longer half loses pieces first. None: the encoder's longest text,
                or twice that where positions restart. A half is never longer than the encoder's longest text.
            orders: `given`: the text first, as the source chooses it. `drawn`: text or translation, by a draw of each sample
                and epoch, so that over the epochs both orders are read, where InfoXLM's data hold each pair twice.
            rate, scheme, keep, random, alpha, counts: As of `MaskedLanguage`, over the pair as one text.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: An option is unknown or out of range; see `MaskedLanguage`.
        """
        super().__init__(weight)
        check_pair(pair, max_tokens, WHO)
        check_orders(orders, WHO)
        self.pair, self.max_tokens, self.orders, self.path = pair, max_tokens, orders, counts
        self.hiding = check_hiding(WHO, scheme, rate, keep, random)
        self.counts = load_counts(WHO, alpha, counts, scheme)
        weights = None if self.counts is None else weigh_entries(torch.from_numpy(self.counts.counts), alpha)
        self.register_buffer("weights", weights, persistent=False)
        self._warned: set[str] = set()

    def connect(self, encoder: Encoder) -> None:
        """Build the head.

        Raises:
            ValueError: The encoder reads no text, none as long as `max_tokens`, too short ones for a pair, or has another
                vocabulary than the counts.
        """
        self.head, self.vocabulary = encoder.token_head("text"), encoder.vocabulary
        check_counts(WHO, self.counts, self.path, self.vocabulary)
        self.joining = Joining.of(encoder, self.pair, WHO, self.max_tokens)

    def view(self, batch: Batch) -> Batch:
        """The batch with text and translation joined in `text`, in the order asked for, and no `translation`; word alignments,
        which speak of two texts, are left out.

        Raises:
            ValueError: The source reads no translation, or rows are packed.
        """
        refuse_single(batch, WHO)
        refuse_packed(batch, WHO)
        self._warn(batch.source, batch.text, batch.translation)
        halves = order_texts(self.orders, batch, batch.text, batch.translation, self.key)
        return self.joining.join_halves(batch, *halves)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        return hide_texts(view, ("text",), self.key, self.hiding, self.vocabulary, self.weights)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return count_hidden(marked, ("text",))

    def loss(self, states: States, marked: Batch) -> Loss:
        return predict_hidden(self.head, states, marked, ("text",))

    def tally(self, states: States, marked: Batch) -> Mapping[str, Shaped[Tensor, "2"]]:
        """Of the hidden tokens, how many are told right."""
        return tally_hidden(self.head, states, marked, ("text",))

    def _warn(self, source: str, text: Text, translation: Text) -> None:
        """Say once for each source that its pairs are none: one language on both sides, or mostly the same words."""
        if source in self._warned:
            return
        pairs = text.present.any(1) & translation.present.any(1)
        one_language = pairs & (languages(text) == languages(translation))
        alike = pairs & (text_identity(text) == text_identity(translation))
        same, equal, count = torch.stack([one_language.sum(), alike.sum(), pairs.sum()]).tolist()
        if same or 2 * equal > count:
            self._warned.add(source)
            log.warning(
                "source %s: of %d pairs of a micro-batch, %d are of one language on both sides and %d read the same on both; "
                "this is said once. Nothing is translated there: check which texts the source chooses as text and translation, "
                "or give it masked language modelling instead",
                source,
                count,
                same,
                equal,
            )
