"""The quick start's data: emoji pictures, and their names in twelve languages, split by concept."""

from .write import Dropped, write_quickstart

__all__ = ["Dropped", "write_quickstart"]
