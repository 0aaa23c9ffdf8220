"""The numbers on which a tokenizer and a tower must agree."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Vocabulary:
    """Size and control ids of a vocabulary; the same object describes a tokenizer and an embedding table.

    Args:
        size: Number of rows, control tokens included.
        pad, unknown, start, end, mask: Ids of the control tokens. Our own tokenizers put them at 0 to 4; start and end may
            be one, as in XLM.
    """

    size: int
    pad: int = 0
    unknown: int = 1
    start: int = 2
    end: int = 3
    mask: int = 4

    def __post_init__(self):
        for field in fields(self)[1:]:
            if not 0 <= getattr(self, field.name) < self.size:
                raise ValueError(
                    f"vocabulary: the {field.name} id is {getattr(self, field.name)}, but the vocabulary has "
                    f"{self.size} rows (0 to {self.size - 1}); give the tokenizer's own size and ids"
                )
        if len(self.controls) < len(fields(self)) - 1 - (self.start == self.end):
            raise ValueError(f"vocabulary: control ids must differ from each other, start and end apart, found {self}")

    @property
    def controls(self) -> tuple[int, ...]:
        """Ids of the control tokens, ascending."""
        return tuple(sorted({getattr(self, field.name) for field in fields(self)[1:]}))


def shake_hands(tokenizer: Vocabulary, tower: Vocabulary) -> None:
    """Refuse a tokenizer and a tower that number tokens differently.

    Raises:
        ValueError: Names every number that differs, both values of it.
    """
    differences = [
        f"{field.name}: tokenizer {getattr(tokenizer, field.name)}, tower {getattr(tower, field.name)}"
        for field in fields(Vocabulary)
        if getattr(tokenizer, field.name) != getattr(tower, field.name)
    ]
    if differences:
        raise ValueError(
            f"tokenizer and text tower do not agree ({'; '.join(differences)}); "
            "set the tower's `vocabulary` to the tokenizer's numbers (`interlingua tokenizer show FILE` prints them); "
            "a tower of `interlingua checkpoint import` is imported anew, with --ids"
        )
