"""Who may import whom: modalities <- models <- tasks, modalities <- datamodules; one way inside a folder."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "modalities": {"modalities"},
    "models": {"modalities", "models"},
    "tasks": {"modalities", "models", "tasks"},
    "datamodules": {"modalities", "datamodules"},
    "configs": {"configs"},
    "interlingua": {"modalities", "models", "tasks", "datamodules", "configs", "interlingua"},
}
FILES = [path.relative_to(ROOT) for folder in MAY_IMPORT for path in sorted((ROOT / folder).rglob("*.py"))]


def imports(file: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Level and dotted name of everything that a file imports, inside functions too."""
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((0, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            yield from ((node.level, (*module, alias.name)) for alias in node.names)


def own_imports(file: Path) -> Iterator[Path]:
    """Files of the package that a file imports."""
    package = file.parent.parts if file.parts[0] != "interlingua" else ()
    for level, name in imports(file):
        if level:
            target = (*package[: len(package) - level + 1], *name)
            places = [Path(*target[:end]) for end in (len(target), len(target) - 1) if target[:end]]
            candidates = [path for place in places for path in (place.with_suffix(".py"), place / "__init__.py")]
            candidates += [Path("interlingua") / path for path in candidates] + [Path("interlingua/__init__.py")]
            yield next(path for path in candidates if (ROOT / path).is_file())


@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports_follow_the_design(file):
    assert not [name for level, name in imports(file) if not level and name[0] in MAY_IMPORT], "ours are imported relatively"
    assert {path.parts[0] for path in own_imports(file)} <= MAY_IMPORT[file.parts[0]]


def test_no_circles():
    TopologicalSorter({file: set(own_imports(file)) - {file} for file in FILES}).prepare()
