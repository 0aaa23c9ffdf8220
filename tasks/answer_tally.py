"""Answers of a batch in words: what is right of them, as SQuAD and MLQA compare answers."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from ..modalities.batch import Batch
from .answer_scores import normalize_mlqa, normalize_squad, score_answers
from .objectives.span_answering import Found


def tally_answers(found: Found, marked: Batch, data: Any, records: Sequence[Any]) -> Mapping[str, Float64[Tensor, "2"]]:
    """Exact match and F1, over the questions that have an answer: sums, and over how many.

    Args:
        found: The best span of each row.
        marked: All rows of some questions, of one language.
        data: What laid them out: its `layout` turns spans into words, with its `tokenizer` and `max_tokens`.
        records: Questions by `Batch.sample`: `language`, and `answers`, each a text and its place.
    """
    asked = [(number, records[number]) for number in marked.sample.unique().tolist() if records[number].answers]
    samples, span, score = marked.sample.cpu(), found.span.cpu(), found.score.cpu()
    predicted = []
    for number, record in asked:
        rows = samples == number
        predicted.append(data.layout.answer(record, span[rows], score[rows], data.tokenizer, data.max_tokens))
    expected = [[text for text, _ in record.answers] for _, record in asked]
    language = asked[0][1].language if asked else ""
    tally = {}
    for rule, normalize in {"squad": normalize_squad, "mlqa": partial(normalize_mlqa, language=language)}.items():
        sums = score_answers(predicted, expected, normalize).sum(0)
        for name, right in zip(("exact_match", "f1"), sums, strict=True):
            tally[f"{rule}_{name}"] = torch.stack([right, torch.full_like(right, len(asked))])
    return tally
