"""Classification of sentences and of pairs of them, the fine-tuning of BERT (arXiv:1810.04805, section 4.1) and XLM-R
(arXiv:1911.02116, section 4): inference, paraphrases, intents."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...modalities.batch import Batch, Target
from ...models.encoder import Encoder, States
from ...models.pooling import Pooling, pool
from ...models.transformer import initialize
from .objective import Loss, Objective


class SentenceClassification(Objective):
    """Cross-entropy of each labelled row, read off one vector of it: dropout, dense layer, tanh, dropout, linear layer.

    With the first token this is the head of XLM-R's released code (`classifier.dense` and `classifier.out_proj` of Hugging
    Face's XLMRobertaForSequenceClassification). BERT's is the same but for the first dropout: its pooler is the dense layer.
    A row whose label is -1 is read and not scored. The figure is accuracy.
    """

    one_item_a_row = True

    def __init__(self, classes: int, pooling: Pooling = "first", dropout: float = 0.1, weight: float = 1.0):
        """
        Args:
            classes: How many classes there are; labels are numbers below it.
            pooling: The vector of a row: the state of its `first` token, or the `mean` of all.
            dropout: Share of values that are dropped before either layer.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: There are fewer than two classes, no such pooling, or dropout is no share.
        """
        super().__init__(weight)
        if classes < 2:
            raise ValueError(f"sentence classification: classes is {classes}; give 2 or more, the number of labels")
        if pooling not in ("first", "mean"):
            raise ValueError(f"sentence classification: pooling is {pooling!r}, expected 'first' or 'mean'")
        if not 0 <= dropout < 1:
            raise ValueError(f"sentence classification: dropout is {dropout}, but a share lies from 0 to below 1")
        self.classes, self.pooling = classes, pooling
        self.dropout = nn.Dropout(dropout)

    def connect(self, encoder: Encoder) -> None:
        """Build the head.

        Raises:
            ValueError: The encoder reads no texts.
        """
        if "text" not in encoder.widths:
            raise ValueError(
                f"sentence classification needs an encoder that reads text; {type(encoder).__name__} reads "
                f"{', '.join(encoder.widths)}"
            )
        width = encoder.widths["text"]
        self.dense, self.head = nn.Linear(width, width), nn.Linear(width, self.classes)
        for layer in (self.dense, self.head):
            initialize(layer)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return self._labelled(marked).sum()

    def scores(self, states: States, batch: Batch) -> Float[Tensor, "B classes"]:
        """Score of each class, before the softmax."""
        vectors = self.dropout(pool(states.text, batch.text.present, self.pooling))
        return self.head(self.dropout(torch.tanh(self.dense(vectors))))

    def loss(self, states: States, marked: Batch) -> Loss:
        rows = self._labelled(marked)
        scores = self.scores(states, marked)[rows]
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return Loss(cross_entropy(scores, marked.target.label[rows], reduction="sum"), rows.sum())

    def tally(self, states: States, marked: Batch) -> Mapping[str, Shaped[Tensor, "2"]]:
        rows = self._labelled(marked)
        right = (self.scores(states, marked).argmax(1) == marked.target.label) & rows
        return {"accuracy": torch.stack([right.sum(), rows.sum()])}

    def _labelled(self, batch: Batch) -> Bool[Tensor, "B"]:
        label = (batch.target or Target()).label
        if label is None or batch.text is None:
            raise ValueError(
                f"sentence classification: source {batch.source!r} has no labelled text; let the data module be "
                "interlingua.datamodules.labelled.data.Labelled, with a layout of sentences"
            )
        return label >= 0
