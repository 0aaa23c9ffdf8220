"""What a reader leaves out is counted by kind, and told."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..shards.records import NOTED

UNREADABLE = f"{NOTED}word of which nothing can be read"

log = logging.getLogger(__name__)


@contextmanager
def tell_skips(file: Path, skipped: Counter[str] | None) -> Iterator[Counter[str]]:
    """A counter by kind: the one that is given; else a new one, of which a warning tells when the whole file is read.

    Args:
        file: What is read, for the warning.
        skipped: Where the caller wants the counts.
    """
    counts = Counter[str]() if skipped is None else skipped
    yield counts
    if skipped is None and counts.total():
        log.warning("%s: %s", file, ", ".join(f"{kind}: {count}" for kind, count in counts.most_common()))
