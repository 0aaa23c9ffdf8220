"""What objectives that hide tokens and read them off the rest have in common: marking, counting and cost."""

from collections.abc import Iterator, Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int, Int64, Shaped
from torch import Tensor

from ...modalities.batch import Batch, Text
from ...modalities.chance import chance, salt
from ...modalities.vocabulary import Vocabulary
from ...models.encoder import States
from ...models.heads import TokenHead
from .hiding import Hiding, hide_tokens
from .objective import Loss, Objective
from .pairs import On


def hide_texts(
    view: Batch, fields: Sequence[str], key: int, hiding: Hiding, vocabulary: Vocabulary, weights: Int64[Tensor, "V"] | None
) -> Batch:
    """Mark what is hidden of some texts of a batch, by draws of each sample, epoch, source and text.

    Args:
        view: Marks that are there are kept.
        fields: Names of the texts; those that the batch lacks are left out.
        key: Of the objective.
        hiding, vocabulary, weights: As of `hide_tokens`.
    """
    for name, text in _texts(view, fields):
        seed = chance(key, salt(view.source), view.epoch, view.sample, salt(name))
        view = view._replace(**{name: hide_tokens(text, seed, hiding, vocabulary, weights)})
    return view


def count_hidden(marked: Batch, fields: Sequence[str], on: On = "all") -> Int[Tensor, ""]:
    """Number of tokens that are to be predicted."""
    counts = [_scored(marked, text, on).sum() for _, text in _texts(marked, fields) if text.hidden is not None]
    return sum(counts, torch.zeros((), dtype=torch.long, device=marked.item.device))


def predict_hidden(head: TokenHead, states: States, marked: Batch, fields: Sequence[str], on: On = "all") -> Loss:
    """Summed cross-entropy of the hidden tokens of some texts."""
    return Loss(head.cross_entropy(*_gather(head, states, marked, fields, on)), count_hidden(marked, fields, on))


def tally_hidden(
    head: TokenHead, states: States, marked: Batch, fields: Sequence[str], on: On = "all"
) -> dict[str, Shaped[Tensor, "2"]]:
    """How many of the hidden tokens score highest, and of how many, as `accuracy`."""
    rows, targets = _gather(head, states, marked, fields, on)
    return {"accuracy": torch.stack([(head.best(rows) == targets).sum(), count_hidden(marked, fields, on)])}


def _gather(
    head: TokenHead, states: States, marked: Batch, fields: Sequence[str], on: On
) -> tuple[Float[Tensor, "N D"], Int[Tensor, "N"]]:
    """States of the hidden tokens, and what they were."""
    rows, targets = [head.bias.new_zeros(0, head.width)], [marked.item.new_zeros(0)]
    for name, text in _texts(marked, fields):
        if text.hidden is not None:
            scored = _scored(marked, text, on)
            rows.append(getattr(states, name)[scored])  # only these rows are worth a V-wide product
            targets.append(text.tokens[scored])
    return torch.cat(rows), torch.cat(targets)


def share_token_heads(objectives: Mapping[str, Objective]) -> None:
    """Give connected objectives whose token heads are of one kind, over one table, the head of the first of them."""
    heads: list[TokenHead] = []
    for objective in objectives.values():
        own = getattr(objective, "head", None)
        if isinstance(own, TokenHead):
            objective.head = next((head for head in heads if own.like(head)), own)
            heads.append(own)


def _scored(marked: Batch, text: Text, on: On) -> Bool[Tensor, "B L"]:
    if on == "all" or marked.matched is None:
        return text.hidden
    return text.hidden & marked.matched[:, None]


def _texts(batch: Batch, fields: Sequence[str]) -> Iterator[tuple[str, Text]]:
    for name in fields:
        text = getattr(batch, name)
        if text is not None:
            yield name, text
