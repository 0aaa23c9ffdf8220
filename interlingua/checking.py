"""A configuration against the classes it names: wrong keys, values and classes are refused before anything is built."""

import inspect
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentError, ArgumentParser

from .annotations import describe
from .configuration import ConfigurationError, suggest

REPLACED = {
    "accumulate_grad_batches": (1, "micro_batch_size of the data's sources, which splits a step exactly"),
    "gradient_clip_val": (None, "model.optimization.max_gradient_norm"),
    "gradient_clip_algorithm": (None, "model.optimization.max_gradient_norm"),
}
"""Options of the trainer that our optimisation loop replaces: the harmless value, and what to set instead."""

LINKED = ("tokenizer",)
"""Arguments of the data that the model takes over where both have them."""


def check_trainer(trainer: type, arguments: dict[str, Any]) -> None:
    """Refuse what the trainer does not take, and what our own options replace."""
    for name, (harmless, ours) in REPLACED.items():
        if arguments.get(name, harmless) != harmless:
            raise ConfigurationError(f"trainer.{name}: found {arguments[name]!r}, but it is not used here; set {ours}")
    for name in ("log_every_n_steps", "val_check_interval"):
        if isinstance(found := arguments.get(name), int) and found < 1:
            raise ConfigurationError(f"trainer.{name}: found {found}, expected a number of optimiser steps of 1 or more")
    check_arguments("trainer", trainer, arguments)


def check_keys(prefix: str, found: dict[str, Any], valid: list[str]) -> None:
    """Refuse keys that nothing reads."""
    for name in found:
        if name not in valid:
            raise ConfigurationError(f"{prefix}{name}: no such key (found {found[name]!r}){suggest(name, valid)}")


def check_class(address: str, node: dict[str, Any]) -> None:
    """Refuse a `class_path` that cannot be imported, and arguments that its class does not take.

    Args:
        address: Where the node stands, as the command line would write it.
        node: `class_path` and perhaps `init_args`.
    """
    check_keys(f"{address}.", node, ["class_path", "init_args", "dict_kwargs"])
    found = import_class(f"{address}.class_path", node["class_path"])
    arguments = node.get("init_args") or {}
    if not isinstance(arguments, dict):
        raise ConfigurationError(f"{address}.init_args: found {arguments!r}, expected a mapping of arguments")
    check_arguments(address, found, arguments)
    given = [*arguments, *(node.get("dict_kwargs") or {})]
    missing = [name for name in _required(found) if name not in given]
    if missing:
        raise ConfigurationError(f"{address}: {node['class_path']} needs {', '.join(missing)}, which nothing sets")


def check_arguments(address: str, called: Callable, arguments: dict[str, Any]) -> None:
    """Refuse arguments that a class does not take, or whose value is of the wrong type, at any depth."""
    valid = accepted(called)
    check_keys(f"{address}.", arguments, valid)
    for name, value in arguments.items():
        for place, node in _classes(f"{address}.{name}", value):
            check_class(place, node)
        _check_value(f"{address}.{name}", called, name, value, valid)


def accepted(called: Callable) -> list[str]:
    """Names of the arguments that a class takes, those it passes on to its bases included, or a function that builds one."""
    return [name.removeprefix("x.") for name in add_arguments(ArgumentParser(), called, "x", fail_untyped=False)]


def add_arguments(parser: ArgumentParser, called: Callable, *arguments: Any, **options: Any) -> list[str]:
    """Give a parser the arguments of a class, or of a function that builds one; further ones are the parser's own."""
    add = parser.add_class_arguments if inspect.isclass(called) else parser.add_function_arguments
    return add(called, *arguments, **options)


def _required(called: Callable) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(called).parameters.values()
    return [p.name for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]


def _classes(address: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Classes that a value configures, with their addresses: itself, or its entries."""
    if isinstance(value, dict) and "class_path" in value:
        yield address, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _classes(f"{address}.{key}", entry)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _classes(f"{address}.{number}", entry)


def _check_value(address: str, called: Callable, name: str, value: Any, valid: list[str]) -> None:
    parser = ArgumentParser(exit_on_error=False)
    others = {other for other in valid if other != name}
    add_arguments(parser, called, skip=others, fail_untyped=False, sub_configs=True)
    try:
        parser.parse_object({name: deepcopy(value)})
    except ArgumentError as error:
        parameter, reason, nodes = (
            inspect.signature(called).parameters.get(name),
            _reason(error),
            dict(_classes(address, value)),
        )
        stranger = [place for place, node in nodes.items() if reason.startswith(f"found {node['class_path']}, expected ")]
        if stranger and _PROTOCOL in str(error) and parameter is not None:
            reason = f"found {nodes[stranger[0]]['class_path']}, expected {describe(parameter.annotation)}"
        if parameter is None or nodes:
            raise ConfigurationError(f"{next(iter(stranger), address)}: {reason}") from None
        place, annotation, part = blame(address, parameter.annotation, value)
        raise ConfigurationError(f"{place}: found {part!r}, expected {describe(annotation)}") from None


def blame(address: str, annotation: Any, value: Any) -> tuple[str, Any, Any]:
    """The innermost part of a wrong value that is wrong, as address, what it should be, and what was found.

    Raises:
        ConfigurationError: A group of options has a key that it does not know, or lacks one.
    """
    for choice in get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,):
        parts: list[tuple[str, Any, Any]] = []
        kinds = get_args(choice)
        if is_dataclass(choice) and isinstance(value, dict):
            own = {option.name: option for option in fields(choice) if option.init}
            check_keys(f"{address}.", value, list(own))
            lacking = [n for n, o in own.items() if n not in value and o.default is MISSING and o.default_factory is MISSING]
            if lacking:
                raise ConfigurationError(f"{address}: needs {', '.join(lacking)}, which nothing sets")
            hints = get_type_hints(choice)
            parts = [(f"{address}.{name}", hints[name], entry) for name, entry in value.items()]
        elif inspect.isclass(choice) and choice.__module__.startswith("interlingua.") and isinstance(value, dict):
            check_arguments(address, choice, value)
        elif isinstance(value, dict) and len(kinds) == 2:
            parts = [(f"{address}.{name}", kinds[1], entry) for name, entry in value.items()]
        elif isinstance(value, list) and len(kinds) == 1:
            parts = [(f"{address}.{number}", kinds[0], entry) for number, entry in enumerate(value)]
        for part in parts:
            if not _fits(*part[1:]):
                return blame(*part)
    return address, annotation, value


def _fits(annotation: Any, value: Any) -> bool:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--x", type=annotation)
    try:
        parser.parse_object({"x": deepcopy(value)})
    except ArgumentError:
        return False
    return True


_PROTOCOL = "does not implement protocol"
_STRANGER = re.compile(rf"Import path (\S+) (?:does not correspond to a subclass of|{_PROTOCOL}) ([\w.]+)")
"""A class that exists, and is of another kind."""

_SCAFFOLDING = ("Parser key", "Problem with", "Errors:", "Subtypes:", "Does not", "Given value", "- Expected a <class 'None")


def condense(error: Exception) -> str:
    """The line of a parser's message that says what is wrong, under the keys that it names."""
    keys = [line.split('"')[1] for line in str(error).splitlines() if line.strip().startswith("Parser key")]
    return ": ".join([".".join(keys), _reason(error)] if keys else [_reason(error)])


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = next((line.removeprefix("- ") for line in lines if not line.startswith(_SCAFFOLDING)), lines[0])
    return _STRANGER.sub(r"found \1, expected class_path of a kind of \2", reason)


def import_class(address: str, path: Any) -> Any:
    """What a class path names.

    Args:
        address: Where the path was found, for the message.
        path: Dotted, module first.

    Raises:
        ConfigurationError: Names the nearest that there is.
    """
    if not isinstance(path, str) or "." not in path:
        raise ConfigurationError(f"{address}: found {path!r}, expected a full path such as package.module.Class")
    module_name, _, name = path.rpartition(".")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and what it imports is not
        raise ConfigurationError(f"{address}: no module {error.name!r}{suggest(error.name, _siblings(error.name))}") from None
    if not hasattr(module, name):
        classes = {key: value.__module__ for key, value in vars(module).items() if inspect.isclass(value)}
        own = [key for key, defined in classes.items() if defined == module_name]  # what it imports is rarely meant
        raise ConfigurationError(f"{address}: {module_name} has no {name!r}{suggest(name, own or classes)}")
    return getattr(module, name)


def _siblings(module_name: str) -> list[str]:
    parent, _, _ = module_name.rpartition(".")
    paths = import_module(parent).__path__ if parent else []
    return [f"{parent}.{module.name}" for module in iter_modules(paths)]


def build(base: type, node: dict[str, Any]) -> Any:
    """The object that a checked node describes.

    Args:
        base: What its class must be a subclass of.
        node: `class_path` and `init_args`.

    Raises:
        ConfigurationError: The node does not fit its class.
    """
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--built", type=base)
    try:
        parsed = parser.parse_object({"built": deepcopy(node)})  # it turns nested mappings into its own kind, in place
    except ArgumentError as error:
        raise ConfigurationError(_reason(error)) from None
    return parser.instantiate_classes(parsed).built


def link(configuration: dict[str, Any]) -> None:
    """Write what the data says into the model's arguments, in place, so that it is saved with the model.

    Raises:
        ConfigurationError: Both say it, and differently.
    """
    model, data = configuration["model"], configuration.get("data")
    if not data:
        return
    for name in LINKED:
        theirs = (data.get("init_args") or {}).get(name)
        if theirs is not None and name in accepted(import_class("model.class_path", model["class_path"])):
            model["init_args"] = {**(model.get("init_args") or {})}
            agree("model", model["init_args"], name, theirs)


def agree(address: str, arguments: dict[str, Any], name: str, value: Any) -> None:
    """Set an argument to what the data says, in place, or refuse another value that is there."""
    found = arguments.get(name)
    if found is not None and found != value:
        raise ConfigurationError(
            f"{address}.{name} is {found!r}, but the data's {name} is {value!r}; leave the model's out, or make them equal"
        )
    arguments[name] = value
