"""What every source of shards gives."""

from pathlib import Path
from typing import NamedTuple

from ..sample import Alignment, Caption

NOTED = "noted: "
"""How a count begins that is no skip, among the skips that a source counts by kind."""


class Record(NamedTuple):
    """A sample before it has a key."""

    texts: tuple[Caption, ...]
    item: str | int | None = None
    image: Path | None = None
    document: bool = False
    alignments: tuple[Alignment, ...] = ()
