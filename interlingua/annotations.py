"""What a value may be, in the words of who writes a configuration: no annotation of Python is shown."""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

_PLAIN = {
    str: ("a text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    Path: ("a path", "paths"),
    NoneType: ("null", "null"),
    dict: ("a mapping", "mappings"),
    list: ("a list", "lists"),
}

_CLASS = "class_path of "


def describe(annotation: Any) -> str:
    """What a value of this type is called, such as `a list of texts, or null`.

    Args:
        annotation: Of an argument; a text (an annotation that is not resolved) is given back.
    """
    kinds, origin = get_args(annotation), get_origin(annotation)
    if isinstance(annotation, str) or annotation is Any:
        return annotation if isinstance(annotation, str) else "anything"
    if origin in (Union, UnionType):
        return _either([name for kind in kinds for name in (_choices(kind) or [describe(kind)])])
    if origin is Literal:
        return _either(_choices(annotation))
    if annotation in _PLAIN:
        return _PLAIN[annotation][0]
    if inspect.isclass(origin) and kinds:
        return f"a {_several(annotation).replace('s ', ' ', 1)}"
    if is_dataclass(annotation) and isinstance(annotation, type):
        return f"a mapping with {', '.join(option.name for option in fields(annotation))}"
    if inspect.isclass(annotation):
        return _CLASS + _name(annotation)
    return inspect.formatannotation(annotation).replace("typing.", "")


def _several(annotation: Any) -> str:
    """The same of more than one."""
    kinds, origin = get_args(annotation), get_origin(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation][1]
    if origin in (Union, UnionType):
        return _either([_several(kind) for kind in kinds])
    if inspect.isclass(origin) and kinds:
        return f"mappings to {_several(kinds[-1])}" if issubclass(origin, Mapping) else f"lists of {_several(kinds[0])}"
    return describe(annotation)


def _choices(annotation: Any) -> list[str]:
    return [str(choice) for choice in get_args(annotation)] if get_origin(annotation) is Literal else []


def _name(kind: type) -> str:
    """A class by its name; what only says which methods are needed, by its first words, since nothing has its name."""
    if getattr(kind, "_is_protocol", False):
        return re.split(r"[;.]", inspect.getdoc(kind) or kind.__name__)[0].lower()
    return f"a {kind.__name__}"


def _either(names: Sequence[str]) -> str:
    """`a, b or c`, each once, null last."""
    different = [name for name in dict.fromkeys(names) if name != "null"]
    if all(name.startswith(_CLASS) for name in different):
        different[1:] = [name.removeprefix(_CLASS) for name in different[1:]]
    several = " or ".join(filter(None, [", ".join(different[:-1]), *different[-1:]]))
    return several + (", or null" if "null" in names else "")
