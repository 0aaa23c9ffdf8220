"""Shards: plain tars that `webdataset` reads too, written, indexed, read at random, checked and shown."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .fields import FieldMap, TextField

if TYPE_CHECKING:
    from .reader import ShardSet
    from .text_table import TextTable
    from .writer import ShardWriter

__all__ = ["FieldMap", "ShardSet", "ShardWriter", "TextField", "TextTable"]
_LATER = {"ShardSet": ".reader", "ShardWriter": ".writer", "TextTable": ".text_table"}


def __getattr__(name: str) -> Any:
    """Readers and writers are imported when they are asked for: `interlingua shards --help` needs no torch."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name], __name__), name)
