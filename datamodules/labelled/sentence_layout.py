"""Rows of classified sentences: one a record, two sentences joined as the encoder's family joins them."""

from collections.abc import Mapping, Sequence

import torch

from ...modalities.batch import Target
from ...modalities.pair import join_texts, pair_form
from ...modalities.text import collate_text
from ...modalities.tokenizer import Tokenizer
from .examples import Sentences
from .layout import Laid, Layout


class SentenceLayout(Layout):
    """A sentence, or two in one row; `Target.label` is its class.

    Of a pair that is too long the longer sentence loses pieces first.
    """

    kind = Sentences

    def __init__(self, pair: str = "xlm-roberta"):
        """
        Args:
            pair: Form of the row where there are two sentences, one of `PAIR_FORMS`.

        Raises:
            ValueError: There is no such form.
        """
        self.pair, self.form = pair, pair_form(pair, "data.layout")

    def names(self, record: Sentences) -> tuple[str]:
        """Its class."""
        return (record.label,)

    def lay(self, records: Sequence[Sentences], classes: Mapping[str, int], tokenizer: Tokenizer, max_tokens: int) -> Laid:
        """One row a record."""
        languages = [record.language for record in records]
        text = collate_text([record.first for record in records], languages, tokenizer, max_tokens)
        if any(record.second is not None for record in records):
            second = collate_text([record.second for record in records], languages, tokenizer, max_tokens)
            text = join_texts(text, second, self.form, tokenizer.vocabulary, max_tokens)
        label = torch.tensor([classes[record.label] for record in records])
        return Laid(torch.arange(len(records)), text, Target(label=label))
