"""How long a text is read, where nobody says: as long as the encoder can, where that is less than the data's own default."""

import inspect
from collections.abc import Iterator
from typing import Any

from .checking import import_class

NAME = "max_tokens"


def fit_length(configuration: dict[str, Any]) -> str | None:
    """Write the encoder's longest text into the data's arguments, in place, where these would read longer ones by default.

    Args:
        configuration: Merged, with the encoder of the checkpoint that is measured.

    Returns:
        What was set, in words; None: nothing.
    """
    model, data = configuration.get("model") or {}, configuration.get("data") or {}
    own = data.get("init_args") or {}
    found = list(_lengths((model.get("init_args") or {}).get("encoder")))
    if "class_path" not in data or own.get(NAME) is not None or not found:
        return None
    option = inspect.signature(import_class("data.class_path", data["class_path"])).parameters.get(NAME)
    usual = None if option is None else option.default
    if not isinstance(usual, int) or usual <= min(found):
        return None
    data["init_args"] = {**own, NAME: min(found)}
    return f"data.{NAME} is {min(found)}, as the encoder reads no longer texts (by default {usual})"


def _lengths(node: Any) -> Iterator[int]:
    """All lengths that a node names, at any depth."""
    for key, value in node.items() if isinstance(node, dict) else ():
        if key == NAME and isinstance(value, int):
            yield value
        else:
            yield from _lengths(value)
