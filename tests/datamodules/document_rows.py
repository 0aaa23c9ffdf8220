"""Documents as the index has them, and what was read of them."""

from collections.abc import Sequence

import numpy as np

from interlingua.datamodules.filtering import TextRows
from interlingua.modalities.batch import Batch


def table(*samples: Sequence[str], document: bool | Sequence[bool] = True) -> TextRows:
    """Texts of samples, each given by its language, or as `language role`."""
    texts = [tuple([*text.split(), "sentence"][:2]) for sample in samples for text in sample]
    languages, roles = (sorted({text[part] for text in texts}) for part in (0, 1))
    language = np.array([languages.index(code) for code, _ in texts], np.uint16)
    role = np.array([roles.index(name) for _, name in texts], np.uint16)
    flags = np.full(len(samples), document) if isinstance(document, bool) else np.array(document)
    start = np.cumsum([0, *map(len, samples)])
    return TextRows(len(samples), start, language, role, languages, roles, None, flags)


def identify(batches: Sequence[Batch]) -> list[tuple]:
    """Sample, epoch and tokens of all rows, in an order that does not depend on batches."""
    return sorted(
        (batch.source, int(batch.sample[row]), int(batch.epoch[row]), *texts)
        for batch in batches
        for row in range(batch.size)
        for both in [[text for text in (batch.text, batch.translation) if text is not None]]
        for texts in [tuple(tuple(text.tokens[row][text.present[row]].tolist()) for text in both)]
    )
