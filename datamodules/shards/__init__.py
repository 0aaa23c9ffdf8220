"""Shards: plain tars that `webdataset` reads too, written, indexed, read at random, checked and shown."""

from .fields import FieldMap, TextField
from .reader import ShardSet, TextTable
from .writer import ShardWriter

__all__ = ["FieldMap", "ShardSet", "ShardWriter", "TextField", "TextTable"]
