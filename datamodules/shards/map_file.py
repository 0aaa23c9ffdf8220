"""Field maps in YAML files, as `--map` takes them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from .fields import FieldMap, TextField, excerpt, name_kind


def read_map(file: Path | None) -> FieldMap | None:
    """The field map of a file; None for none.

    Raises:
        ValueError: It is no YAML, or has keys or values that a field map has not.
    """
    if file is None:
        return None
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise _fault(file, f"not UTF-8 ({error.reason})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(str(getattr(error, "problem", error)).split())
        raise _fault(file, f"not YAML ({f'line {mark.line + 1}: ' if mark else ''}{problem})") from None
    try:
        options = _options(content, FieldMap, "a field map")
        if "texts" in options:
            options["texts"] = [TextField(**_options(entry, TextField, "each of `texts`")) for entry in options["texts"]]
        return FieldMap(**options)
    except ValueError as error:
        raise _fault(file, str(error)) from None


def _options(found: Any, kind: type, what: str) -> dict[str, Any]:
    """
    Raises:
        ValueError: It is no mapping with options of this kind, or `member` is not there.
    """
    kinds = {option.name: option.type for option in fields(kind) if option.init}
    names = [*kinds]
    if not isinstance(found, Mapping):
        raise ValueError(f"{what} is a mapping with any of {', '.join(names)}; found {name_kind(found)} ({excerpt(found)})")
    if unknown := [str(name) for name in found if name not in names]:
        raise ValueError(f"{what} has {', '.join(names)}; found {', '.join(unknown)}")
    if kind is TextField and "member" not in found:
        raise ValueError(f"{what} needs `member`, the extension of the member that has the text; found {', '.join(found)}")
    for name, value in found.items():
        if expected := _expected(kinds[name], value):
            raise ValueError(f"`{name}` must be {expected}, found {excerpt(value)}")
    return dict(found)


def _expected(kind: Any, value: Any) -> str:
    """What a value must be and is not; `""` where it is."""
    if kind in (str, bool):
        words = "true or false" if kind is bool else "a text (words such as no, on or 5 stand in quotes)"
        return "" if isinstance(value, kind) else words
    if isinstance(value, list) and (kind == Sequence[TextField] or all(isinstance(entry, str) for entry in value)):
        return ""
    return f"a list{'' if kind == Sequence[TextField] else ' of texts (words such as no, on or 5 stand in quotes)'}"


def _fault(file: Path, reason: str) -> ValueError:
    return ValueError(f"{file}: not a field map: {reason}; `interlingua shards check --help` shows one")
