"""Two halves of a pair of sentences in one row: how they are joined, which rows have both, and what it costs to tell them."""

import logging
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...modalities.batch import Batch, Text
from ...modalities.chance import salt, uniform
from ...modalities.pair import PairForm, join_texts, pair_form, swap_texts
from ...modalities.vocabulary import Vocabulary
from ...models.encoder import Encoder, States
from ...models.pair_head import PairHead
from .borrowing import differs
from .objective import Loss
from .rows import refuse_packed

log = logging.getLogger(__name__)

Orders = Literal["given", "drawn"]
"""Which of two texts comes first: the text, as the source chooses it, or either, by a draw of each sample and epoch."""

ORDER = salt("order")

FORMS_OF_LANGUAGE_TOWERS = ("xlm", "xlm-classification")
"""Forms of XLM's towers, the only ones with language vectors."""


@dataclass(frozen=True)
class Joining:
    """How two texts are joined for one encoder.

    Args:
        form: Of the row.
        vocabulary: Of the encoder.
        row: Longest row.
        half: Longest half, as a text of its own.
    """

    form: PairForm
    vocabulary: Vocabulary
    row: int
    half: int

    @classmethod
    def of(cls, encoder: Encoder, pair: str, who: str, max_tokens: int | None = None) -> "Joining":
        """For the texts of an encoder. A form that is not of its kind of tower is said in the log.

        Args:
            encoder: Whose texts they are.
            pair: Form of the row, one of `PAIR_FORMS`.
            who: Whose options these are, for the messages.
            max_tokens: Longest row; None: the encoder's longest text, or twice that where positions restart.

        Raises:
            ValueError: It reads no texts, or none so long, or too short ones for a pair.
        """
        if "text" not in encoder.widths or encoder.vocabulary is None or encoder.max_tokens is None:
            raise ValueError(
                f"{who} reads two halves as one text, but {type(encoder).__name__} reads {', '.join(encoder.widths)}; "
                "use an encoder with a text stream"
            )
        form, longest = check_pair(pair, max_tokens, who), encoder.max_tokens
        limit = longest * 2 if form.positions == "restart" else longest
        if limit < least_row(form):
            raise ValueError(
                f"{who}: the encoder's max_tokens is {longest}, but pairs of the form {pair} need rows of at least "
                f"{least_row(form)}: control tokens and a piece of each text; build the encoder with more"
            )
        if max_tokens is not None and max_tokens > limit:
            raise ValueError(
                f"{who}: max_tokens is {max_tokens}, but the encoder reads at most {longest} positions, that is rows "
                f"of {limit} tokens in this form; lower it, or build the encoder with more"
            )
        _warn_misfit(encoder, pair, form, who)
        return cls(form, encoder.vocabulary, max_tokens or limit, longest)

    def join(self, first: Text, second: Text) -> Text:
        """Both texts in one row a sample."""
        return join_texts(first, second, self.form, self.vocabulary, self.row, self.half)

    def join_halves(self, batch: Batch, first: Text, second: Text) -> Batch:
        """The batch with both texts in `text`, and no `translation`, nor word alignments, which speak of two texts."""
        return batch._replace(text=self.join(first, second), translation=None, alignment=None)


def least_row(form: PairForm) -> int:
    """Tokens of the shortest pair: a piece of each text."""
    return form.controls + 2


def check_pair(pair: str, max_tokens: int | None, who: str) -> PairForm:
    """The form of that name, which rows of `max_tokens` have room for.

    Raises:
        ValueError: There is none, or they have not.
    """
    form = pair_form(pair, who)
    if max_tokens is not None and max_tokens < least_row(form):
        raise ValueError(f"{who}: max_tokens is {max_tokens}; pairs of the form {pair} need at least {least_row(form)}")
    return form


def check_orders(orders: str, who: str) -> None:
    """Raise ValueError if there are no such orders."""
    if orders not in get_args(Orders):
        raise ValueError(f"{who}: orders is {orders!r}, expected {' or '.join(get_args(Orders))}")


def order_texts(orders: Orders, batch: Batch, first: Text, second: Text, key: int) -> tuple[Text, Text]:
    """Two texts of each row of a batch in the order asked for.

    Args:
        orders: As `Orders` says.
        batch: Whose texts they are.
        first, second: The texts, in the order given.
        key: Random key of the objective.
    """
    return (first, second) if orders == "given" else swap_texts(first, second, turned(orders, batch, key))


def turned(orders: Orders, batch: Batch, key: int) -> Bool[Tensor, "B"]:
    """Rows of a batch that `order_texts` gives the other way round."""
    if orders == "given":
        return torch.zeros_like(batch.item, dtype=torch.bool)
    return uniform(key, salt(batch.source), batch.epoch, batch.sample, ORDER) < 0.5


def _warn_misfit(encoder: Encoder, pair: str, form: PairForm, who: str) -> None:
    """Say of a form that it is not one of the encoder's kind of tower, with language vectors or without."""
    if encoder.languages and pair not in FORMS_OF_LANGUAGE_TOWERS:
        forms = " or ".join(FORMS_OF_LANGUAGE_TOWERS)
        log.warning("%s: pair is %s, but the encoder has language vectors; such towers (XLM) have pair %s", who, pair, forms)
    if not encoder.languages and form.positions == "restart" and not form.again:
        log.warning(
            "%s: pair is %s, whose positions restart in the second half, but the encoder has no language vectors to tell "
            "the halves apart; such towers have pair bert, xlm-roberta or infoxlm",
            who,
            pair,
        )


def check_halves(batch: Batch, who: str) -> None:
    """Raise ValueError if a batch has no second text, or packed rows."""
    if batch.text is None or batch.translation is None:
        raise ValueError(
            f"{who}: source {batch.source!r} has no second text; let it read what follows a sentence in its document "
            "(`text: {}` and `following: 1`)"
        )
    refuse_packed(batch, who)


def readable(text: Text) -> Bool[Tensor, "B"]:
    """Rows that have a piece of a text, control tokens apart."""
    return (text.word >= 0).any(1)


def languages(text: Text) -> Int[Tensor, "B"]:
    """Language of each text; -1 where nothing is present."""
    return text.language.masked_fill(~text.present, -1).amax(1)


def replacements(own: Batch, pool: Batch) -> Bool[Tensor, "B N"]:
    """Which texts of the pool may stand in the place of each row's: of another item, with other words, and in the same
    language, which would else give them away."""
    same_language = languages(own.text)[:, None] == languages(pool.text)
    return differs(own, pool) & same_language & readable(pool.text)


def joined(batch: Batch) -> Bool[Tensor, "B"]:
    """Rows in which two halves stand."""
    if batch.text is None:
        return torch.zeros_like(batch.item, dtype=torch.bool)
    return (batch.text.present & (batch.text.segment == 1)).any(1)


def half_loss(head: PairHead, states: States, marked: Batch, second: Bool[Tensor, "B"]) -> Loss:
    """Summed two-way cross-entropy of the rows in which two halves stand.

    Args:
        head: What scores them.
        states: Of the encoder.
        marked: What it read.
        second: Rows of class 1.
    """
    rows = joined(marked)
    scores = head(states.text, marked.text.present)[rows]
    return Loss(cross_entropy(scores.float(), second[rows].long(), reduction="sum"), rows.sum())
