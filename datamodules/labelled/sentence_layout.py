"""Rows of classified sentences: one a record, two sentences joined as the encoder's family joins them."""

from collections import Counter
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

    def count_cut(self, records: Sequence[Sentences], tokenizer: Tokenizer, max_tokens: int) -> Counter[str]:
        """Those whose pieces and control tokens are more than `max_tokens`."""
        languages = [record.language for record in records]
        first = tokenizer.count_tokens([record.first for record in records], languages)
        second = tokenizer.count_tokens([record.second or "" for record in records], languages)
        both = (first > 0) & (second > 0)
        lengths = first + second + both * (self.form.controls - 4)  # start and end token of each are counted
        return Counter(language for language, length in zip(languages, lengths, strict=True) if length > max_tokens)

    def lay(self, records: Sequence[Sentences], classes: Mapping[str, int], tokenizer: Tokenizer, max_tokens: int) -> Laid:
        """One row a record."""
        languages = [record.language for record in records]
        text = collate_text([record.first for record in records], languages, tokenizer, max_tokens)
        if any(record.second is not None for record in records):
            second = collate_text([record.second for record in records], languages, tokenizer, max_tokens)
            text = join_texts(text, second, self.form, tokenizer.vocabulary, max_tokens)
        label = torch.tensor([classes[record.label] for record in records])
        return Laid(torch.arange(len(records)), text, Target(label=label))
