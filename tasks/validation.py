"""Validation sums: each objective's loss and figures by source and language, exact over batches and ranks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.distributed as distributed
from jaxtyping import Shaped
from torch import Tensor

from ..modalities.batch import Batch, Text
from .objectives.objective import Loss


class Key(NamedTuple):
    """What is summed alone."""

    objective: str
    source: str
    languages: tuple[int, ...]
    """Language ids of the texts."""
    figure: str = ""
    """`""`: the loss."""


class Sums:
    """Running sums, and of how many they are. Nothing is communicated until the end, so ranks may hold unequal shares."""

    def __init__(self):
        self.sums: dict[Key, tuple[float | int, float | int]] = {}

    def add(self, objective: str, batch: Batch, loss: Loss, tally: Mapping[str, Shaped[Tensor, "2"]] | None = None) -> None:
        """Add what came of a batch. Validation batches hold one language a text; the first present token tells which.

        Args:
            objective: Its name.
            batch: What it read.
            loss: Its loss.
            tally: By the name of each figure, what was right and of how many.
        """
        texts = [text for text in (batch.text, batch.translation) if text is not None]
        key = Key(objective, batch.source, tuple(language for text in texts for language in _language(text)))
        self._add(key, loss.total.item(), int(loss.count))
        for figure, sums in (tally or {}).items():
            self._add(key._replace(figure=figure), *sums.tolist())

    def _add(self, key: Key, total: float | int, count: float | int) -> None:
        before = self.sums.get(key, (0.0, 0))
        self.sums[key] = (before[0] + total, before[1] + count)

    def means(self, languages: Sequence[str] | None = None) -> dict[str, float]:
        """Mean of each objective by source and language over all ranks, and what was right: `{"captions/en/mlm": 3.2,
        "labelled/en/accuracy": 0.75}`. Where objectives that read one source have a figure of the same name, it stands behind
        theirs: `labelled/en/intents/accuracy`.

        Args:
            languages: Names by language id; the ids themselves where not given.
        """
        merged = self._merge()
        having = Counter((source, figure) for _, source, figure in {(key.objective, key.source, key.figure) for key in merged})

        def name(key: Key) -> str:
            code = "-".join(str(number) if languages is None else languages[number] for number in key.languages)
            alone = key.figure and having[key.source, key.figure] == 1
            return "/".join(filter(None, (key.source, code, "" if alone else key.objective, key.figure)))

        return {name(key): total / count for key, (total, count) in sorted(merged.items()) if count}

    def overall(self, weights: Mapping[str, float]) -> float:
        """Weighted sum over objectives of the mean over all items: what a run is judged by."""
        merged, loss = self._merge(), 0.0
        for objective, weight in weights.items():
            parts = [value for key, value in merged.items() if key.objective == objective and not key.figure]
            loss += weight * sum(total for total, _ in parts) / max(1, sum(count for _, count in parts))
        return loss

    def _merge(self) -> dict[Key, tuple[float | int, float | int]]:
        if not (distributed.is_available() and distributed.is_initialized()):
            return self.sums
        every: list[dict] = [{} for _ in range(distributed.get_world_size())]
        distributed.all_gather_object(every, self.sums)
        merged = Sums()
        for sums in every:
            for key, (total, count) in sums.items():
                merged._add(key, total, count)
        return merged.sums


def _language(text: Text) -> list[int]:
    """The language id of a batch's texts, as a list of one; empty where no text is present."""
    ids = torch.unique(text.language[text.present])
    return ids.tolist()[:1]
