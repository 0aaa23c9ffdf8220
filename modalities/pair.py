"""Pairs of texts in one row, in the forms that checkpoints were trained on: `<s> a </s> </s> b </s>` and its kin."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from .batch import Text
from .vocabulary import Vocabulary


@dataclass(frozen=True)
class PairForm:
    """How two texts stand in one row: start token, first text, end tokens, perhaps a start token, second text, end token.

    Args:
        ends: End tokens between the texts: 1, which is of the first half, or 2, the other of which is the first token of the
            second half. XLM's `</s> a </s> </s> b </s>` has 2, as its start token is its end token.
        positions: `continue` through the row, or `restart` from 0 with the first token of the second half.
        again: Whether the second half begins with a start token of its own.
    """

    ends: Literal[1, 2]
    positions: Literal["continue", "restart"]
    again: bool = False

    @property
    def between(self) -> int:
        """Control tokens between the texts."""
        return self.ends + self.again

    @property
    def controls(self) -> int:
        """Tokens of a pair that are no pieces."""
        return 2 + self.between


PAIR_FORMS: dict[str, PairForm] = {
    "bert": PairForm(1, "continue"),  # [CLS] a [SEP] b [SEP]: arXiv:1810.04805, figure 2
    "xlm-roberta": PairForm(2, "continue"),  # its fine-tuning form, as RoBERTa's released code has it
    "infoxlm": PairForm(1, "continue"),  # TLM of its released code; its fine-tuning form is xlm-roberta
    "xlm": PairForm(2, "restart"),  # TLM: arXiv:1901.07291, section 3.3
    "xlm-classification": PairForm(1, "continue"),  # XNLI in the released code: positions are not reset
    "ernie-m": PairForm(2, "continue"),  # released code of arXiv:2012.15674
    "uc2": PairForm(1, "restart", again=True),  # VTLM of the released code of arXiv:2104.00332
}


def pair_form(name: str, who: str) -> PairForm:
    """The form of that name.

    Args:
        name: One of `PAIR_FORMS`.
        who: Whose option it is, for the message.

    Raises:
        ValueError: There is none.
    """
    if name not in PAIR_FORMS:
        raise ValueError(f"{who}: pair is {name!r}, expected one of {', '.join(PAIR_FORMS)}")
    return PAIR_FORMS[name]


def join_texts(
    first: Text, second: Text, form: PairForm, vocabulary: Vocabulary, max_tokens: int, max_half: int | None = None
) -> Text:
    """One row a sample, padded on the right, however the texts are padded.

    `segment` and `language` are those of the half: they switch at the first token of the second. Its words are numbered on
    from the last one of the first. Of a pair that is too long, the longer half loses its last pieces until both are equal,
    then both do, the second first; each keeps a piece. A text without a piece is as good as absent: the row is then the other
    one alone, a single text, and absent if there is none.

    Args:
        first, second: Texts of the same samples, `<s> pieces </s>` each; their control tokens are replaced by the form's.
        form: Of the row.
        vocabulary: Start, end and pad id.
        max_tokens: Longest row.
        max_half: Longest half, as a text of its own with start and end token, where the rows of a position table bound each
            half; None: only the row is bounded.

    Raises:
        ValueError: A text is marked, packed or a pair already, or a limit leaves no room for a piece of each.
    """
    _check(first, second, form, max_tokens, max_half)
    pieces, more = ((text.present.sum(1) - 2).clamp_min(0) for text in (first, second))
    whole, rest = first.present.sum(1), second.present.sum(1)
    both = (pieces > 0) & (more > 0)
    lead, tail = _cut(pieces, more, form, max_tokens, max_half)
    length = torch.where(lead > 0, lead + 2, 0) + torch.where(both, tail + form.between, 0)

    slot = torch.arange(max(1, int(length.max())) if len(length) else 1, device=length.device)[None]  # [1, L]
    present = slot < length[:, None]
    slot = torch.minimum(slot, (length[:, None] - 1).clamp_min(0))  # what stands in the padding is of the last token
    lead, tail, both = lead[:, None], tail[:, None], both[:, None]
    half = both & (slot >= lead + 2)
    ordinal = torch.where(half, slot - lead - form.between, slot)  # place in its text, from 0
    last = torch.where(half, ordinal > tail, ordinal > lead)
    piece = present & ~last & (ordinal > 0)

    late = half | (pieces == 0)[:, None]  # stands in the second text
    ordinal = torch.where(last, (torch.where(late, rest[:, None], whole[:, None]) - 1).clamp_min(0), ordinal)
    columns = torch.cat([_columns(first), first.tokens.shape[1] + _columns(second)], 1)
    column = columns.gather(1, ordinal + late * first.tokens.shape[1])

    def field(name: str) -> Int[Tensor, "B L"]:
        return torch.cat([getattr(first, name), getattr(second, name)], 1).gather(1, column)

    starts = (slot == 0) | (both & (slot == lead + 2) & form.again)
    control = torch.where(starts, vocabulary.start, vocabulary.end)
    word = field("word").masked_fill(~piece, -1)
    words = word.masked_fill(half, -1).amax(1, keepdim=True) + 1
    return Text(
        tokens=torch.where(piece, field("tokens"), control).masked_fill(~present, vocabulary.pad),
        present=present,
        language=field("language"),
        word=torch.where(half & piece, word + words, word),
        segment=half.to(first.segment.dtype),
        document=torch.zeros_like(column),
        position=torch.where(half, slot - lead - 2, slot) if form.positions == "restart" else slot.expand_as(column),
    )


def swap_texts(first: Text, second: Text, swapped: Bool[Tensor, "B"]) -> tuple[Text, Text]:
    """Both texts, exchanged in some rows; the narrower one is padded on the right.

    Args:
        first, second: Unmarked texts of the same samples.
        swapped: Rows in which they are exchanged.
    """
    width = max(first.tokens.shape[1], second.tokens.shape[1])
    first, second = (Text(*(pad(field, (0, width - field.shape[1])) for field in text[:7])) for text in (first, second))
    fields = list(zip(first[:7], second[:7], strict=True))
    rows = swapped[:, None]
    return Text(*(torch.where(rows, b, a) for a, b in fields)), Text(*(torch.where(rows, a, b) for a, b in fields))


def _cut(
    pieces: Int[Tensor, "B"], more: Int[Tensor, "B"], form: PairForm, max_tokens: int, max_half: int | None
) -> tuple[Int[Tensor, "B"], Int[Tensor, "B"]]:
    """Pieces that are kept of the row's first text, which is the second one where that stands alone, and of the other."""
    half = max_tokens - 2 if max_half is None else min(max_half, max_tokens) - 2
    pieces, more = pieces.clamp_max(half), more.clamp_max(half)
    room = max_tokens - form.controls
    kept = torch.minimum(pieces, (room - more).clamp_min((room + 1) // 2))
    others = torch.minimum(more, (room - pieces).clamp_min(room // 2))
    both = (pieces > 0) & (more > 0)
    return torch.where(both, kept, pieces + more), torch.where(both, others, 0)


def _columns(text: Text) -> Int[Tensor, "B L"]:
    """Where the present tokens of each row stand, in their order, wherever the padding is."""
    return torch.argsort((~text.present).to(torch.int8), dim=1, stable=True)


def _check(first: Text, second: Text, form: PairForm, max_tokens: int, max_half: int | None) -> None:
    for name, limit, least in (("max_tokens", max_tokens, form.controls + 2), ("max_half", max_half, 3)):
        if limit is not None and limit < least:
            raise ValueError(
                f"joining texts: {name} is {limit}; at least {least} are needed for the control tokens and a piece of each text"
            )
    for text in (first, second):
        if text.shown is not None or text.hidden is not None:
            raise ValueError("joining texts: one of them is marked already; join first (`view`), then mark")
        if bool((((text.document != 0) | (text.segment != 0)) & text.present).any()):
            raise ValueError(
                "joining texts: a row holds several documents (packed) or is a pair already, but one text a row can be joined; "
                "leave packing out of this source"
            )
