"""How labelled records become rows of a batch: the joint between readers of files and the data module `Labelled`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Int64
from torch import Tensor

from ...modalities.batch import Target, Text
from ...modalities.tokenizer import Tokenizer
from .examples import Question, Sentences, Tagged


@runtime_checkable
class ReadsSentences(Protocol):
    """A file format of classified sentences; a format is known by the annotations of `read`."""

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Sentences]: ...


@runtime_checkable
class ReadsTagged(Protocol):
    """A file format of tagged words."""

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Tagged]: ...


@runtime_checkable
class ReadsQuestions(Protocol):
    """A file format of questions on texts."""

    def read(self, file: Path, language: str | None = None, skipped: Counter[str] | None = None) -> Iterator[Question]: ...


Format = ReadsSentences | ReadsTagged | ReadsQuestions


class Laid(NamedTuple):
    """Rows of some records."""

    record: Int64[Tensor, "B"]
    """Which of the records each row is of: ascending, each at least once."""
    text: Text
    """Unpacked; padded on the right."""
    target: Target
    """Of one layout, the same fields are there in every batch."""


class Layout:
    """How records of one kind stand in rows. Options are fixed when it is built, and it pickles, for workers.

    `Labelled` gives all rows of a record the same `Batch.sample`, `item` and `epoch`, in the order in which they are laid; what
    the target holds belongs to the row. Rows of a record depend on that record alone, but for padding.

    Attributes:
        kind: Type of the records (of `examples.py`) that it lays out.
        classifies: Whether targets are classes, whose names must then be told (`Labelled.labels`).
        bound: Option by which records lose pieces (`count_cut`).
    """

    kind: type
    classifies: bool = True
    bound: str = "data.max_tokens"

    def names(self, record: Any) -> Iterable[str]:
        """Names of classes in a record, as the file has them; `""` where there is none. Unknown ones are refused at start."""
        return ()

    def is_labelled(self, record: Any) -> bool:
        """Whether anything in a record can be right or wrong; where `names` tells nothing, all are taken to be."""
        names = tuple(self.names(record))
        return not names or any(names)

    def count_cut(self, records: Sequence[Any], tokenizer: Tokenizer, max_tokens: int) -> Counter[str]:
        """How many records lose pieces, by language; nothing where none ever does.

        Args:
            records, tokenizer, max_tokens: As of `lay`.
        """
        return Counter()

    def lay(self, records: Sequence[Any], classes: Mapping[str, int], tokenizer: Tokenizer, max_tokens: int) -> Laid:
        """Tokenise records, and say what is right in each row.

        Args:
            records: At least one, of `kind`, in any languages that the tokenizer knows.
            classes: Number of each class by its name; -1 of `""`.
            tokenizer: What cuts words into pieces.
            max_tokens: Longest row, control tokens included.

        Returns:
            One row a record, or more.

        Raises:
            ValueError: `max_tokens` leaves no room; names the option. Asked of the first record before training starts.
        """
        raise NotImplementedError
