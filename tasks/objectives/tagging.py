"""Tagging: the class of each word from the state of its first piece. BERT, arXiv:1810.04805, section 5.3, on fine-tuning."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Bool, Int, Int64, Shaped
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...modalities.batch import Batch
from ...models.encoder import Encoder, States
from ...models.transformer import initialize
from ..span_scores import ACCURACY, POS_SEQEVAL_F1, SPAN_F1, Span, count_spans, find_runs, find_spans
from .objective import Loss, Objective

Find = Callable[[Sequence[str]], list[Span]]


class Tagging(Objective):
    """Cross-entropy over the words that have a tag (`Target.tags`), by dropout and a linear layer, as in Hugging Face's
    `XLMRobertaForTokenClassification`.

    Figures of validation are `accuracy`, of words, and the F1 that the names allow, which is another number: of entities where
    classes are IOB2 (`span_f1`), of runs of equal parts of speech, as XTREME reports these, where they are universal ones
    (`pos_seqeval_f1@0.0.12`). The rows of a long sentence count as one sentence where a batch holds them together; what is cut
    between two batches counts as two spans.
    """

    def __init__(self, classes: Sequence[str], dropout: float = 0.1, weight: float = 1.0):
        """
        Args:
            classes: Names of the tags, in the order of their numbers: those of the data.
            dropout: Rate on the states that are scored.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: There are fewer than two classes, one stands there twice, or dropout is no share.
        """
        super().__init__(weight)
        if len(classes) < 2 or len(set(classes)) != len(classes):
            raise ValueError(f"tagging: classes are {list(classes)}; expected two names or more, each once")
        if not 0 <= dropout < 1:
            raise ValueError(f"tagging: dropout is {dropout}, but a share lies from 0 to below 1")
        self.classes, self.names = len(classes), tuple(classes)
        self.dropout = nn.Dropout(dropout)
        self.figure, self.find = find_figure(self.names)

    def connect(self, encoder: Encoder) -> None:
        if "text" not in encoder.widths:
            raise ValueError(
                f"tagging scores the tokens of a text, but {type(encoder).__name__} reads {', '.join(encoder.widths)}; use an "
                "encoder with a text stream"
            )
        self.head = nn.Linear(encoder.widths["text"], self.classes)
        initialize(self.head)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        """Nothing: what is asked for is no part of what is read.

        Raises:
            ValueError: The source has no tags.
        """
        if view.text is None or view.target is None or view.target.tags is None:
            raise ValueError(f"tagging: source {view.source!r} has no tags; let it read tagged words (CoNLL-U, WikiANN)")
        return view

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return (marked.target.tags >= 0).sum()

    def loss(self, states: States, marked: Batch) -> Loss:
        tags = marked.target.tags
        scores = self.head(self.dropout(states.text[tags >= 0]))
        return Loss(cross_entropy(scores.float(), tags[tags >= 0], reduction="sum"), self.count(marked))

    def predict(self, states: States) -> Int64[Tensor, "B L"]:
        """Class of each position of the text: that of a word stands at its first piece (see `first_pieces`)."""
        return self.head(states.text).argmax(2)

    def tally(self, states: States, marked: Batch) -> Mapping[str, Shaped[Tensor, "2"]]:
        tags = marked.target.tags
        scored = tags >= 0
        found = self.head(states.text[scored]).argmax(1)
        figures = {ACCURACY: torch.stack([(found == tags[scored]).sum(), scored.sum()])}
        if self.find is not None:
            order, lengths = group_words(marked, scored)
            expected, predicted = (self._name(one[order], lengths) for one in (tags[scored], found))
            right, guessed, true = count_spans(expected, predicted, self.find).sum(0).tolist()
            figures[self.figure] = torch.tensor([2 * right, guessed + true], device=tags.device)
        return figures

    def _name(self, numbers: Int[Tensor, "N"], lengths: list[int]) -> list[list[str]]:
        """Tags of each sentence."""
        return [[self.names[number] for number in one] for one in map(Tensor.tolist, numbers.split(lengths))]


def find_figure(classes: Sequence[str]) -> tuple[str, Find | None]:
    """The figure of spans that names of tags allow, and what is a span; none where they are neither IOB2 nor universal."""
    for figure, find in ((SPAN_F1, find_spans), (POS_SEQEVAL_F1, find_runs)):
        try:
            find(classes)
        except ValueError:
            continue
        return figure, find
    return "", None


def first_pieces(marked: Batch) -> Bool[Tensor, "B L"]:
    """Where the first piece of each word is: one place a word, in all rows of a sentence together (`TaggedLayout`)."""
    word = marked.text.word.masked_fill(~marked.text.present, -1)
    before = torch.cat([torch.full_like(word[:, :1], -1), word[:, :-1]], 1)
    return (word >= 0) & (word != before)


def group_words(marked: Batch, scored: Bool[Tensor, "B L"]) -> tuple[Int64[Tensor, "N"], list[int]]:
    """Words of sentences, the rows of each joined.

    Args:
        marked: Rows in any order.
        scored: Where N words are, one place each.

    Returns:
        The order in which the words stand sentence by sentence, and how many each has. Words that follow each other in a
        sentence are of one only if none is missing between them.
    """
    rows = [one[:, None].expand_as(scored)[scored] for one in (marked.epoch, marked.sample)]
    keys = torch.stack([*rows, marked.text.word[scored]])
    order = torch.arange(keys.shape[1], device=keys.device)
    for key in keys.flip(0):  # the last decides among equals: stable sorts, the weakest key first
        order = order[key[order].argsort(stable=True)]
    step = keys[:, order].diff(dim=1)
    begins = torch.ones_like(order, dtype=torch.bool)
    begins[1:] = (step[:2] != 0).any(0) | (step[2] != 1)
    return order, (begins.cumsum(0) - 1).bincount().tolist()
