"""What one class can be told, or one function that builds one: its options with their words, and what may be put in."""

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_args, get_type_hints

OWN = "interlingua."


def describe_class(path: str) -> str:
    """The text.

    Args:
        path: Class path.

    Raises:
        ConfigurationError: There is no such class.
    """
    from jsonargparse import ArgumentParser

    from .checking import add_arguments, import_class

    called = import_class("--help", path)
    kinds = {name: list(_kinds(hint)) for name, hint in _hints(called).items()}
    for kind in {kind for some in kinds.values() for kind in some}:
        list(import_siblings(kind))  # whatever is imported is listed
    parser = ArgumentParser(prog=path, usage="class_path and init_args", add_help=False)
    if not add_arguments(parser, called, fail_untyped=False):
        return f"usage: class_path: {path}\n\n{inspect.getdoc(called) or path}\n\nIt takes no options.\n"
    words = dict(shared_words(called))
    for action in parser._actions:
        if action.dest in words and not _says(action.help):
            action.help = words[action.dest].replace("%", "%%")
        made = [preset for kind in kinds.get(action.dest, ()) for preset in find_presets(kind)]
        if made and action.help and not action.option_strings[0].endswith(".help"):
            action.help += f" Functions that build one: {', '.join(made)}."
    return parser.format_help()


def _says(text: str | None) -> bool:
    """Whether a help text is more than type and default, which the parser adds."""
    return bool(text and text.strip() and text != "==SUPPRESS==")


def _hints(called: Callable) -> dict[str, Any]:
    try:
        return get_type_hints(called.__init__ if inspect.isclass(called) else called)
    except (NameError, TypeError):  # what only a type checker can resolve
        return {}


def _kinds(hint: Any) -> Iterator[type]:
    """The classes of ours in an annotation."""
    if inspect.isclass(hint) and hint.__module__.startswith(OWN):
        yield hint
    for part in get_args(hint):
        yield from _kinds(part)


def import_siblings(kind: Any) -> Iterator[Any]:
    """All modules of the folder that a class stands in."""
    package = import_module(kind.__module__.rpartition(".")[0])
    for module in iter_modules(getattr(package, "__path__", ())):
        if not module.ispkg and not module.name.startswith("_"):
            yield import_module(f"{package.__name__}.{module.name}")


def find_presets(kind: type) -> list[str]:
    """Functions that build a thing of this kind under a published name: those of the modules called `presets`."""
    found = []
    for module in import_siblings(kind):
        for name, one in vars(module).items() if module.__name__.endswith("presets") else ():
            if inspect.isfunction(one) and one.__module__ == module.__name__ and not name.startswith("_"):
                made = _hints(one).get("return")
                if inspect.isclass(made) and issubclass(made, kind):
                    found.append(f"{module.__name__}.{name}")
    return found


def shared_words(called: Callable) -> Iterator[tuple[str, str]]:
    """Words of options that a docstring names together (`rate, scheme: As of `MaskedLanguage`, over the pair`): the other
    class's own, and what is said behind its name."""
    doc = inspect.getdoc(called.__init__ if inspect.isclass(called) else called) or ""
    for names, text in re.findall(r"^ {4}(\w+(?:, \w+)+): (.+(?:\n {8,}.+)*)", doc, flags=re.MULTILINE):
        text = " ".join(text.split())
        other = re.match(r"As of `(\w+)`[,;.]?\s*(.*)", text)
        theirs = {} if other is None else _own_words(_find(called, other[1]))
        rest = "" if other is None else other[2]
        for name in names.split(", "):
            yield name, " ".join(filter(None, [theirs[name], f"Here: {rest}" if rest else ""])) if name in theirs else text


def _own_words(called: Callable | None) -> dict[str, str]:
    doc = inspect.getdoc(called.__init__ if inspect.isclass(called) else called) or "" if called is not None else ""
    found = re.findall(r"^ {4}(\w+): (.+(?:\n {8,}.+)*)", doc, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _find(near: Any, name: str) -> Any:
    """A class or function of the same folder, by its name."""
    return next((vars(module)[name] for module in import_siblings(near) if name in vars(module)), None)
