"""Validation sums: each objective's loss by source and language, exact over batches and ranks."""

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as distributed

from ..modalities.batch import Batch, Text
from .objectives.objective import Loss

Key = tuple[str, str, tuple[int, ...]]
"""Objective, source, language ids of the texts."""


class Sums:
    """Running sums of losses and counts. Nothing is communicated until the end, so ranks may hold unequal shares."""

    def __init__(self):
        self.sums: dict[Key, tuple[float, int]] = {}

    def add(self, objective: str, batch: Batch, loss: Loss) -> None:
        """Add a batch's loss. Validation batches hold one language a text; the first present token tells which."""
        texts = [text for text in (batch.text, batch.translation) if text is not None]
        key = (objective, batch.source, tuple(language for text in texts for language in _language(text)))
        total, count = self.sums.get(key, (0.0, 0))
        self.sums[key] = (total + loss.total.item(), count + int(loss.count))

    def means(self, languages: Sequence[str] | None = None) -> dict[str, float]:
        """Mean of each objective by source and language over all ranks: `{"captions/en/mlm": 3.2}`.

        Args:
            languages: Names by language id; the ids themselves where not given.
        """
        merged = self._merge()

        def name(ids: tuple[int, ...]) -> str:
            return "-".join(str(number) if languages is None else languages[number] for number in ids)

        return {
            "/".join(filter(None, (source, name(ids), objective))): total / count
            for (objective, source, ids), (total, count) in sorted(merged.items())
            if count
        }

    def overall(self, weights: Mapping[str, float]) -> float:
        """Weighted sum over objectives of the mean over all items: what a run is judged by."""
        merged, loss = self._merge(), 0.0
        for objective, weight in weights.items():
            parts = [value for key, value in merged.items() if key[0] == objective]
            loss += weight * sum(total for total, _ in parts) / max(1, sum(count for _, count in parts))
        return loss

    def _merge(self) -> dict[Key, tuple[float, int]]:
        if not (distributed.is_available() and distributed.is_initialized()):
            return self.sums
        every: list[dict] = [{} for _ in range(distributed.get_world_size())]
        distributed.all_gather_object(every, self.sums)
        merged: dict[Key, tuple[float, int]] = {}
        for sums in every:
            for key, (total, count) in sums.items():
                before = merged.get(key, (0.0, 0))
                merged[key] = (before[0] + total, before[1] + count)
        return merged


def _language(text: Text) -> list[int]:
    """The language id of a batch's texts, as a list of one; empty where no text is present."""
    ids = torch.unique(text.language[text.present])
    return ids.tolist()[:1]
