"""Configurations: files and command line become one plain mapping before anything heavy is imported.

Files are merged in the order given, then the command line's `--address value`:
    mappings    key by key, so touching one objective keeps the others
    class_path  a changed one drops the `init_args` that belonged to the old class
    null        removes what an earlier file said, so that the default holds
    the rest    replaces, lists included
An address names keys with dots. `init_args` may be left out, and numbers count through lists:
`--model.objectives.mlm.rate 0.4` is `--model.init_args.objectives.mlm.init_args.rate 0.4`.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class ConfigurationError(Exception):
    """Something in a configuration is wrong. The message names the key, what was found and what was expected."""


class Request(NamedTuple):
    """What the command line asks for."""

    configuration: dict[str, Any]
    print_config: bool


def read_arguments(argv: Sequence[str]) -> Request:
    """Merge all `--config FILE` and all `--address value`.

    Args:
        argv: Arguments after the command; files are merged first, wherever they stand.

    Raises:
        ConfigurationError: An argument or a file cannot be read.
    """
    files, overrides, print_config = [], [], False
    for option, value in _pairs(argv):
        if option in ("config", "c"):
            files.append(value)
        elif option == "print_config":
            print_config = True
        else:
            overrides.append((option, value))
    configuration: dict[str, Any] = {}
    for file in files:
        configuration = merge(configuration, read_file(locate(file)))
    for address, value in overrides:
        assign(configuration, address, parse_value(address, value))
    return Request(configuration, print_config)


def _pairs(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options and their values; an option without a value is an error, but for `--print_config`."""
    remaining = iter(argv)
    for argument in remaining:
        found = re.fullmatch(r"(?:--([A-Za-z_][\w.-]*)|-(c))(?:=(.*))?", argument, flags=re.DOTALL)
        if not found:
            raise ConfigurationError(f"unexpected argument {argument!r}; expected --config FILE or --address value")
        option, value = found[1] or found[2], found[3]
        if value is None and option != "print_config":
            value = next(remaining, None)
            if value is None or value.startswith("--"):
                raise ConfigurationError(f"--{option} has no value; expected --{option} VALUE")
        yield option, value or ""


def merge(base: Any, update: Any) -> Any:
    """`base` as `update` changes it, by the rules at the top of this file; neither is altered."""
    if not (isinstance(base, dict) and isinstance(update, dict)):
        return update
    if base.get("class_path", update.get("class_path")) != update.get("class_path", base.get("class_path")):
        return update
    merged = dict(base)
    for key, value in update.items():
        if value is None and key in base:
            del merged[key]
        else:
            merged[key] = merge(base[key], value) if key in base else value
    return merged


def differences(before: Any, after: Any, address: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Addresses at which two mappings differ, with both values; None where one of them says nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            inner = address if key == "init_args" else f"{address}.{key}".lstrip(".")
            yield from differences(before.get(key), after.get(key), inner)
    elif before != after:
        yield address, before, after


def assign(configuration: dict[str, Any], address: str, value: Any) -> None:
    """Change one value in place, by the rules at the top of this file.

    Args:
        configuration: What the files said.
        address: Keys joined by dots.
        value: For a class, its path or the whole mapping.

    Raises:
        ConfigurationError: The address leads through something that has no keys.
    """
    node: Any = configuration
    *parents, last = address.split(".")
    for depth, key in enumerate(parents):
        inside = _step_inside(node, key)
        if isinstance(inside, list):
            node = inside[_index(inside, key, address)]
            continue
        if not isinstance(inside, dict):
            raise ConfigurationError(f"--{address}: {'.'.join(parents[:depth])} is {inside!r} and has no key {key!r}")
        node = inside[key] = {} if inside.get(key) is None else inside[key]
    inside = _step_inside(node, last)
    if isinstance(inside, list):
        place = _index(inside, last, address)
        inside[place] = merge(inside[place], value)
    elif isinstance(inside, dict):
        names_class = isinstance(value, str) and (address in ("model", "data") or "class_path" in _mapping(inside.get(last)))
        changed = merge(inside, {last: {"class_path": value} if names_class else value})
        inside.clear()
        inside.update(changed)
    else:
        raise ConfigurationError(f"--{address}: {'.'.join(parents)} is {inside!r} and has no key {last!r}")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _step_inside(node: Any, key: str) -> Any:
    """`init_args` of a class, unless the key is one of the class's own."""
    if isinstance(node, dict) and "class_path" in node and key not in ("class_path", "init_args", "dict_kwargs"):
        return node.setdefault("init_args", {})
    return node


def _index(node: list[Any], key: str, address: str) -> int:
    if not (key.isdigit() and int(key) < len(node)):
        raise ConfigurationError(f"--{address}: {key!r} is no place in a list of {len(node)}; expected 0 to {len(node) - 1}")
    return int(key)


class Loader(yaml.SafeLoader):
    """YAML as people mean it: no key twice, `1e-3` is a number, `no` is a language and not `false`."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"found {key!r} twice", node.start_mark)
        return super().construct_mapping(node, deep)


_REPLACED_TAGS = [f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "timestamp")]
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED_TAGS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(_REPLACED_TAGS[0], re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF"))
Loader.add_implicit_resolver(
    _REPLACED_TAGS[1],
    re.compile(r"(?:[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"),
    list("-+0123456789."),
)


def parse_value(address: str, text: str) -> Any:
    """A value of the command line, read as YAML."""
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"--{address}: cannot read {text!r} as YAML: {_one_line(error)}") from None


def read_file(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        ConfigurationError: Names the file, and the line where it cannot be read.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 at byte {error.start} ({error.reason}); expected YAML") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: {_one_line(error)}") from None
    if content is not None and not isinstance(content, dict):
        raise ConfigurationError(f"{path}: found a {type(content).__name__}, expected a mapping such as `trainer: ...`")
    return content or {}


def _one_line(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return where + (problem or " ".join(str(error).split()))


def locate(name: str, option: str = "--config") -> Path:
    """A configuration file: relative to the working folder, else among those installed with the package.

    Args:
        name: Its path.
        option: What names it, for the message.

    Raises:
        ConfigurationError: There is no such file; names the nearest one that is installed.
    """
    path = Path(name)
    if path.exists():
        return path
    packaged = packaged_configurations()
    if path.as_posix() in packaged:
        print(f"interlingua: {name} is not in this folder; reading the installed {packaged[path.as_posix()]}", file=sys.stderr)
        return packaged[path.as_posix()]
    raise ConfigurationError(f"{option} {name}: no such file in {Path.cwd()}{suggest(path.as_posix(), packaged)}")


def packaged_configurations() -> dict[str, Path]:
    """Files of `configs/` that are installed with the package, by their name in a checkout."""
    from importlib.resources import files

    root = Path(str(files("interlingua.configs")))
    return {f"configs/{path.relative_to(root).as_posix()}": path for path in sorted(root.rglob("*.yaml"))}


def suggest(found: str, valid: Iterable[str]) -> str:
    """The nearest valid name, as the end of a message; empty where there is none."""
    nearest = get_close_matches(found, list(valid), n=1, cutoff=0.0)
    return f"; the nearest is {nearest[0]!r}" if nearest else ""
