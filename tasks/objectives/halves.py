"""Two halves of a pair of sentences in one row: how they are joined, which rows have both, and what it costs to tell them."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...modalities.batch import Batch, Text
from ...modalities.pair import PairForm, join_texts
from ...modalities.vocabulary import Vocabulary
from ...models.encoder import Encoder, States
from ...models.pair_head import PairHead
from .objective import Loss
from .rows import refuse_packed


@dataclass(frozen=True)
class Joining:
    """How halves are joined for one encoder.

    Args:
        form: Of the row.
        vocabulary: Of the encoder.
        longest: Longest text that the encoder reads: of a row, or of each half where positions restart.
    """

    form: PairForm
    vocabulary: Vocabulary
    longest: int

    @classmethod
    def of(cls, encoder: Encoder, form: PairForm, who: str) -> "Joining":
        """For the texts of an encoder.

        Raises:
            ValueError: It reads no texts.
        """
        if "text" not in encoder.widths or encoder.vocabulary is None or encoder.max_tokens is None:
            raise ValueError(
                f"{who} reads two halves as one text, but {type(encoder).__name__} reads {', '.join(encoder.widths)}; "
                "use an encoder with a text stream"
            )
        return cls(form, encoder.vocabulary, encoder.max_tokens)

    def join(self, batch: Batch, first: Text, second: Text) -> Batch:
        """The batch with both halves in `text`, and no `translation`."""
        row = self.longest * 2 if self.form.positions == "restart" else self.longest
        text = join_texts(first, second, self.form, self.vocabulary, row, self.longest)
        return batch._replace(text=text, translation=None, alignment=None)


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
