"""A progress bar on standard error, where someone is looking."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

Element = TypeVar("Element")


def track(elements: Iterable[Element], what: str, total: int | None = None) -> Iterator[Element]:
    """The elements themselves, with a bar beside them if standard error is a terminal and there are several.

    Args:
        elements: What is worked through.
        what: Words before the bar.
        total: How many there are, where `elements` cannot say.
    """
    total = len(elements) if total is None and isinstance(elements, Sequence) else total
    if total is not None and total < 2:
        yield from elements
        return
    from rich.console import Console
    from rich.progress import track as rich_track

    console = Console(stderr=True)
    yield from rich_track(elements, what, total=total, console=console, disable=not console.is_terminal)
