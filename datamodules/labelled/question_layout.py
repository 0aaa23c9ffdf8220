"""Rows of questions on texts: a question and a window of its text, with the tokens of the answer.

As SQuAD is read in BERT's released code (arXiv:1810.04805, section 4.2) and XTREME's (arXiv:2003.11080): rows of 384 tokens,
windows that begin 128 tokens apart, questions of at most 64.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from ...modalities.batch import Target
from ...modalities.pair import join_texts, pair_form
from ...modalities.piece_places import PiecePlacer, PlacedPieces
from ...modalities.tokenizer import Tokenizer
from .examples import Question
from .layout import Laid, Layout
from .piece_rows import PieceRow, fill_rows, replace_nothing

NOWHERE = -1
"""Span of a row in which no answer stands."""
UNTOLD = -2
"""Span of a row of a question of whose answers no place is known: nothing can be learnt from it, nor that there is none."""

Cut = tuple[int, int]
"""First piece of a window, and one past its last."""


class Window(NamedTuple):
    """What a row holds of a text."""

    first: int
    """Token of the row at which the text begins."""
    starts: Int64[np.ndarray, "T"]
    """First character of each of its tokens from there on, in the text, in code points."""
    stops: Int64[np.ndarray, "T"]
    """One past its last character."""

    def locate(self, first: int, last: int) -> tuple[int, int]:
        """First character of a span, and one past the last; the text between is the answer, as it is written there.

        Args:
            first, last: Tokens of the row.

        Raises:
            ValueError: They are not in the text, in this order.
        """
        if not self.first <= first <= last < self.first + len(self.starts):
            raise ValueError(
                f"a span from token {first} to {last}; this row's text is from {self.first} to "
                f"{self.first + len(self.starts) - 1}"
            )
        return int(self.starts[first - self.first]), int(self.stops[last - self.first])


class QuestionLayout(Layout):
    """A question and its text in one row, or in several where the text is longer: windows that overlap.

    `Target.span` is of the first answer that has a place, where it stands whole in the window: `NOWHERE` where it does not, or
    none is told, `UNTOLD` where answers are told but not their place. Tokens are found by characters (see `piece_places`), and
    turned back into them by `windows`, and into words by `answer`.
    """

    kind = Question
    classifies = False
    bound = "data.layout.max_question"

    def __init__(self, pair: str = "xlm-roberta", stride: int = 128, max_question: int = 64):
        """
        Args:
            pair: Form of the row, one of `PAIR_FORMS`.
            stride: Tokens from the start of a window to that of the next, as `doc_stride` in BERT's code (Hugging Face's
                `stride` is what windows share). Windows follow each other without a gap where they are shorter.
            max_question: Longest question, in pieces; of a longer one the rest is not read.

        Raises:
            ValueError: There is no such form, or a number is below 1.
        """
        for name, number in {"stride": stride, "max_question": max_question}.items():
            if number < 1:
                raise ValueError(f"data.layout: {name} is {number}; expected 1 or more")
        self.pair, self.form = pair, pair_form(pair, "data.layout")
        self.stride, self.max_question = stride, max_question
        self._placer: PiecePlacer | None = None

    def is_labelled(self, record: Question) -> bool:
        """Whether it has an answer."""
        return bool(record.answers)

    def count_cut(self, records: Sequence[Question], tokenizer: Tokenizer, max_tokens: int) -> Counter[str]:
        """Those whose question is longer than `max_question`; texts are read whole, in windows."""
        languages = [record.language for record in records]
        pieces = tokenizer.count_tokens([record.question for record in records], languages) - 2
        return Counter(language for language, count in zip(languages, pieces, strict=True) if count > self.max_question)

    def lay(self, records: Sequence[Question], classes: Mapping[str, int], tokenizer: Tokenizer, max_tokens: int) -> Laid:
        """A row a window.

        Raises:
            ValueError: `max_tokens` leaves no room for a question of `max_question` pieces and a window of one.
        """
        questions, contexts, spans, owners = [], [], [], []
        for number, record in enumerate(records):
            question, text, cuts = self._read(record, tokenizer, max_tokens)
            language = tokenizer.language_id(record.language)
            answer = find_answer(record, text)
            for start, stop in cuts:
                questions.append(question)
                contexts.append(PieceRow(text.ids[start:stop], text.words[start:stop] - text.words[start], language))
                spans.append(_shift(answer, start, stop, len(question.ids) + self.form.controls - 1))
                owners.append(number)
        joined = join_texts(
            fill_rows(questions, tokenizer.vocabulary),
            fill_rows(contexts, tokenizer.vocabulary),
            self.form,
            tokenizer.vocabulary,
            max_tokens,
        )
        return Laid(torch.tensor(owners), joined, Target(span=torch.tensor(spans)))

    def windows(self, record: Question, tokenizer: Tokenizer, max_tokens: int) -> list[Window]:
        """What the rows of a record hold of its text, in the order of its rows.

        Args:
            record: As of `lay`.
            tokenizer, max_tokens: Those of `lay`.
        """
        question, text, cuts = self._read(record, tokenizer, max_tokens)
        first = len(question.ids) + self.form.controls - 1
        return [Window(first, text.starts[start:stop], text.stops[start:stop]) for start, stop in cuts]

    def answer(
        self,
        record: Question,
        spans: Int[Tensor, "rows 2"],
        scores: Float[Tensor, "rows"],
        tokenizer: Tokenizer,
        max_tokens: int,
    ) -> str:
        """The answer as it is written in the text: of its rows' spans the one with the highest score.

        BERT's code asks of a window only spans that begin where no other window shows more around them; here each may answer.

        Args:
            record: As of `lay`.
            spans: First and last token, of each of the record's rows in their order; -1 where there is none.
            scores: Of the spans; comparable between rows.
            tokenizer, max_tokens: Those of `lay`.

        Returns:
            `""` where no row has a span.

        Raises:
            ValueError: There are other numbers of rows, or a span is not in the text.
        """
        windows = self.windows(record, tokenizer, max_tokens)
        if len(spans) != len(windows):
            raise ValueError(f"question {record.key}: spans of {len(spans)} rows, expected {len(windows)}, one a window")
        best = int(scores.masked_fill(spans[:, 0] < 0, -torch.inf).argmax())
        first, last = spans[best].tolist()
        if first < 0:
            return ""
        start, stop = windows[best].locate(first, last)
        return record.context[start:stop]

    def _read(self, record: Question, tokenizer: Tokenizer, max_tokens: int) -> tuple[PieceRow, PlacedPieces, list[Cut]]:
        """The question, the pieces of its text, and what of them stands in each row."""
        least = self.max_question + self.form.controls + 1
        if max_tokens < least:
            raise ValueError(
                f"data.max_tokens is {max_tokens}; questions of {self.max_question} pieces (data.layout: max_question), "
                f"{self.form.controls} control tokens and a piece of the text need at least {least}"
            )
        if self._placer is None or self._placer.tokenizer is not tokenizer:
            self._placer = PiecePlacer(tokenizer)
        pieces = replace_nothing(tokenizer.encode([record.question], [record.language]), tokenizer.vocabulary)
        most = self.max_question
        question = PieceRow(pieces.ids[:most], pieces.words[:most], tokenizer.language_id(record.language))
        text = self._placer(record.context, record.language)
        if not len(text.ids):
            text = PlacedPieces(*np.array([[tokenizer.vocabulary.unknown], [0], [0], [len(record.context)]]))
        room = max_tokens - self.form.controls - len(question.ids)
        return question, text, list(cut_windows(len(text.ids), room, self.stride))

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_placer": None}


def cut_windows(pieces: int, room: int, stride: int) -> Iterator[Cut]:
    """What each window holds; the last one reaches the end.

    Args:
        pieces: Of the whole text.
        room: Of a window.
        stride: From the start of one to that of the next.
    """
    start = 0
    while start + room < pieces:
        yield start, start + room
        start += min(stride, room)
    yield start, pieces


def find_answer(record: Question, text: PlacedPieces) -> tuple[int, int]:
    """First and last piece of the first answer that has a place; else `NOWHERE` or `UNTOLD`, twice."""
    for answer, start in record.answers:
        found = text.find(start, start + len(answer)) if start >= 0 else None
        if found is not None:
            return found
    return (UNTOLD, UNTOLD) if record.answers else (NOWHERE, NOWHERE)


def _shift(answer: tuple[int, int], start: int, stop: int, offset: int) -> tuple[int, int]:
    """An answer's tokens in the row of a window."""
    first, last = answer
    if first == UNTOLD:
        return answer
    return (first - start + offset, last - start + offset) if start <= first and last < stop else (NOWHERE, NOWHERE)
