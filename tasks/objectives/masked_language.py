"""Masked language modelling (MLM): read the hidden tokens off the rest. BERT, arXiv:1810.04805, section 3.1."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from ...modalities.batch import Batch, Text
from ...modalities.chance import chance, salt
from ...models.encoder import Encoder, States
from .hiding import SCHEMES, Hiding, Scheme, hide_tokens
from .objective import Loss, Objective


class MaskedLanguage(Objective):
    """Cross-entropy over the hidden tokens, given everything that is left to see."""

    def __init__(
        self,
        rate: float = 0.15,
        scheme: Scheme = "token",
        keep: float = 0.1,
        random: float = 0.1,
        fields: Sequence[str] = ("text",),
        weight: float = 1.0,
    ):
        """
        Args:
            rate: Probability with which an ordinary token is hidden.
            scheme: Single tokens, whole words (`word`), or spans of words (`span`: SpanBERT, arXiv:1907.10529, section 3.1).
            keep: Share of hidden tokens that stay visible.
            random: Share of hidden tokens that are replaced by another entry of the vocabulary, never a control token.
            fields: Texts of the batch that are hidden: `text`, `translation`, or both.
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: A share is outside 0 to 1, or a scheme or field is unknown.
        """
        super().__init__(weight)
        for name, share in {"rate": rate, "keep": keep, "random": random, "keep + random": keep + random}.items():
            if not 0 <= share <= 1:
                raise ValueError(f"masked language: {name} is {share}, but a share lies between 0 and 1")
        if scheme not in SCHEMES:
            raise ValueError(f"masked language: scheme is {scheme!r}, expected one of {', '.join(SCHEMES)}")
        if not fields or set(fields) - {"text", "translation"}:
            raise ValueError(f"masked language: fields is {list(fields)}, expected text, translation, or both")
        self.hiding = Hiding(scheme, rate, keep, random)
        self.fields = tuple(fields)

    def connect(self, encoder: Encoder) -> None:
        heads = [encoder.token_head(field) for field in self.fields]  # one serves all; each must be there
        self.vocabulary, self.head = encoder.vocabulary, heads[0]

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        for name, text in self._texts(view):
            seed = chance(self.key, salt(view.source), view.epoch, view.sample, salt(name))
            view = view._replace(**{name: hide_tokens(text, seed, self.hiding, self.vocabulary)})
        return view

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        counts = [text.hidden.sum() for _, text in self._texts(marked) if text.hidden is not None]
        return sum(counts, torch.zeros((), dtype=torch.long, device=marked.item.device))

    def loss(self, states: States, marked: Batch) -> Loss:
        rows, targets = [self.head.bias.new_zeros(0, self.head.width)], [marked.item.new_zeros(0)]
        for name, text in self._texts(marked):
            if text.hidden is not None:
                rows.append(getattr(states, name)[text.hidden])  # only these rows are worth a V-wide product
                targets.append(text.tokens[text.hidden])
        return Loss(self.head.cross_entropy(torch.cat(rows), torch.cat(targets)), self.count(marked))

    def _texts(self, batch: Batch) -> Iterator[tuple[str, Text]]:
        """The batch's texts that are hidden and predicted, by the name of their field."""
        for name in self.fields:
            text = getattr(batch, name)
            if text is not None:
                yield name, text
