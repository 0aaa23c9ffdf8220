"""Masked language modelling (MLM): read the hidden tokens off the rest. BERT, arXiv:1810.04805, section 3.1."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from ...modalities.batch import Batch
from ...models.encoder import Encoder, States
from .hiding import Scheme, check_hiding
from .objective import Loss, Objective, Sharing
from .pairs import On
from .ranges import check_choice
from .token_prediction import count_hidden, hide_texts, predict_hidden, tally_hidden
from .word_weights import check_counts, load_counts, weigh_entries


class MaskedLanguage(Objective):
    """Cross-entropy over the hidden tokens, given everything that is left to see."""

    def __init__(
        self,
        rate: float = 0.15,
        scheme: Scheme = "token",
        keep: float = 0.1,
        random: float = 0.1,
        fields: Sequence[str] = ("text",),
        alpha: float = 0.0,
        counts: str | None = None,
        on: On = "all",
        weight: float = 1.0,
    ):
        """
        Args:
            rate: Probability with which an ordinary token is hidden.
            scheme: Single tokens, whole words (`word`), or spans of words (`span`: SpanBERT, arXiv:1907.10529, section 3.1).
            keep: Share of hidden tokens that stay visible.
            random: Share of hidden tokens that are replaced by another entry of the vocabulary, never a control token.
            fields: Texts of the batch that are hidden: `text`, `translation`, or both.
            alpha: Exponent by which rare tokens are hidden more often, at the same rate for every text: probability
                proportional to count^-alpha (XLM's paper: 0.5, its released code: 0; see `word_weights`).
            counts: File with the counts of vocabulary entries (`interlingua tokenizer counts`); where `alpha` is not 0, and
                only there.
            on: Rows that are scored: `all` (LXMERT), or those `matched` alone, where others were given another text or
                picture by image-text matching in the same pass (ViLBERT, VOLTA).
            weight: Coefficient of this objective in the summed loss.

        Raises:
            ValueError: A share is outside 0 to 1, a name is unknown, or `alpha` lacks counts or single tokens, or counts
                lack it.
        """
        super().__init__(weight)
        self.hiding = check_hiding("masked language", scheme, rate, keep, random)
        if not fields or set(fields) - {"text", "translation"}:
            raise ValueError(f"masked language: fields is {list(fields)}, expected text, translation, or both")
        check_choice("masked language", "on", on, On)
        self.fields, self.path, self.on = tuple(fields), counts, on
        self.hides = dict.fromkeys(self.fields)
        self.counts = load_counts("masked language", alpha, counts, scheme)
        weights = None if self.counts is None else weigh_entries(torch.from_numpy(self.counts.counts), alpha)
        self.register_buffer("weights", weights, persistent=False)

    @property
    def sharing(self) -> Sharing:
        """A translation that is joined to its text is hidden with it."""
        return "apart" if "translation" in self.fields and super().sharing == "any" else super().sharing

    def connect(self, encoder: Encoder) -> None:
        heads = [encoder.token_head(field) for field in self.fields]  # one serves all; each must be there
        self.vocabulary, self.head = encoder.vocabulary, heads[0]
        check_counts("masked language", self.counts, self.path, self.vocabulary)

    def mark(self, view: Batch, pool: Batch | None = None) -> Batch:
        return hide_texts(view, self.fields, self.key, self.hiding, self.vocabulary, self.weights)

    def count(self, marked: Batch) -> Int[Tensor, ""]:
        return count_hidden(marked, self.fields, self.on)

    def loss(self, states: States, marked: Batch) -> Loss:
        return predict_hidden(self.head, states, marked, self.fields, self.on)

    def tally(self, states: States, marked: Batch) -> Mapping[str, Shaped[Tensor, "2"]]:
        """Of the hidden tokens, how many are told right."""
        return tally_hidden(self.head, states, marked, self.fields, self.on)
