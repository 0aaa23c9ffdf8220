"""Answering by a span of the text: where the answer begins and ends. BERT, arXiv:1810.04805, section 4.2; SQuAD, 1606.05250."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Float32, Int, Int64, Shaped
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from ...modalities.batch import Batch
from ...models.encoder import Encoder, States
from ...models.transformer import initialize
from .objective import Loss, Objective


class Found(NamedTuple):
    """The best span of each row."""

    span: Int64[Tensor, "B 2"]
    """First and last token; -1 where the row has no text to answer from."""
    score: Float32[Tensor, "B"]
    """Sum of both scores, comparable between rows; minus infinity where there is no span."""


class SpanAnswering(Objective):
    """Two scores a token by a linear layer, and the mean of two cross-entropies over the row's tokens: for the first and for
    the last token of the answer (`Target.span`). Scores are those of Hugging Face's `XLMRobertaForQuestionAnswering`.

    What is compared are the tokens of the text that the question is about (the second half of the row), and, where rows without
    an answer point at it, the row's first token. Published code compares all positions of the row, question, control tokens and
    padding too, so that a row's cost depends on how far the batch is padded.

    The figure of validation, `exact_span`, is the share of rows with an answer of which the best span is that one: to choose
    by. It is no exact match of SQuAD, which compares answers in words, over all windows of a text (`answer_scores`).
    """

    one_item_a_row = True

    def __init__(self, absent: Literal["first", "skip"] = "first", longest: int = 30, weight: float = 1.0):
        """
        Args:
            absent: What is learnt from a row in which the answer is not (another window has it, or there is none): `first`,
                that both ends are its first token, as in BERT's code and XTREME; `skip`, nothing. A row whose span is -2, of a
                question whose answers have no place, is never learnt from.
            longest: Most tokens of a span that is found; 30 in BERT's code.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: `longest` is below 1.
        """
        super().__init__(weight)
        if longest < 1:
            raise ValueError(f"span answering: longest is {longest}; expected 1 token or more")
        self.absent, self.longest = absent, longest

    def connect(self, encoder: Encoder) -> None:
        if "text" not in encoder.widths:
            raise ValueError(
                f"span answering scores the tokens of a text, but {type(encoder).__name__} reads {', '.join(encoder.widths)}; "
                "use an encoder with a text stream"
            )
        self.head = nn.Linear(encoder.widths["text"], 2)
        initialize(self.head)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """Nothing: what is asked for is no part of what is read.

        Raises:
            ValueError: The source has no spans.
        """
        if view.text is None or view.target is None or view.target.span is None:
            raise ValueError(f"span answering: source {view.source!r} has no spans; let it read questions (SQuAD's JSON)")
        return view

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return self._scored(marked).sum()

    def loss(self, states: States, marked: Batch) -> Loss:
        rows = self._scored(marked)
        scores = self.head(states.text).float().masked_fill(~self._candidates(marked)[..., None], -torch.inf)[rows]
        start, end = self._ends(marked)[rows].unbind(1)
        total = cross_entropy(scores[..., 0], start, reduction="sum") + cross_entropy(scores[..., 1], end, reduction="sum")
        return Loss(total / 2, self.count(marked))

    def find(self, states: States, marked: Batch) -> Found:
        """The best span of each row: first token not behind the last one, `longest` tokens at most, all in the text."""
        scores = self.head(states.text).float()
        return find_best(scores[..., 0], scores[..., 1], context(marked), self.longest)

    def tally(self, states: States, marked: Batch) -> Mapping[str, Shaped[Tensor, "2"]]:
        there = marked.target.span[:, 0] >= 0
        right = (self.find(states, marked).span == marked.target.span).all(1)
        return {"exact_span": torch.stack([(right & there).sum(), there.sum()])}

    def _scored(self, marked: Batch) -> Bool[Tensor, "B"]:
        span = marked.target.span[:, 0]
        return context(marked).any(1) & (span >= (-1 if self.absent == "first" else 0))

    def _candidates(self, marked: Batch) -> Bool[Tensor, "B L"]:
        if self.absent == "skip":
            return context(marked)
        return context(marked) | _is_first(marked.text.present)

    def _ends(self, marked: Batch) -> Int[Tensor, "B 2"]:
        """First and last token of what rows point at."""
        first = marked.text.present.int().argmax(1, keepdim=True)
        return torch.where(marked.target.span >= 0, marked.target.span, first)


def context(marked: Batch) -> Bool[Tensor, "B L"]:
    """Pieces of the text that a question is about: those of the row's second half."""
    text = marked.text
    return text.present & (text.segment == 1) & (text.word >= 0)


def find_best(start: Float[Tensor, "B L"], end: Float[Tensor, "B L"], allowed: Bool[Tensor, "B L"], longest: int) -> Found:
    """The span with the highest sum of scores, of those whose ends are allowed; of equal ones the first, and shortest.

    Args:
        start: Score of each token as the first one.
        end: As the last one.
        allowed: Tokens that may be ends, without a gap between them.
        longest: Most tokens of a span.
    """
    start, end = (one.masked_fill(~allowed, -torch.inf) for one in (start, end))
    ends = pad(end, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)  # [B, L, longest]: from each token on
    score, best = (start[..., None] + ends).flatten(1).max(1)
    first = best // longest
    span = torch.stack([first, first + best % longest], 1)
    return Found(span.masked_fill(score.isneginf()[:, None], -1), score)


def _is_first(present: Bool[Tensor, "B L"]) -> Bool[Tensor, "B L"]:
    return present & (present.cumsum(1) == 1)
