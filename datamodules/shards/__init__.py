"""Shards: plain tars that `webdataset` reads too, written, indexed, read at random, checked and shown."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .fields import FieldMap, TextField

if TYPE_CHECKING:
    from .reader import ShardSet, TextTable
    from .writer import ShardWriter

__all__ = ["FieldMap", "ShardSet", "ShardWriter", "TextField", "TextTable"]


def __getattr__(name: str) -> Any:
    """Readers and writers are imported when they are asked for: `interlingua shards --help` needs no torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".writer" if name == "ShardWriter" else ".reader", __name__), name)
