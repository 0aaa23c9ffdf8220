"""A progress bar with the rate beside it, on standard error, where someone is looking."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def watch(total: int, what: str, unit: str) -> Iterator[Callable[[int], None]]:
    """A bar, while in the context.

    Args:
        total: Steps to be made.
        what: Words before the bar.
        unit: What the steps are, in the plural.

    Yields:
        To be called with the number of steps made since the last call.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            """Steps a second."""
            return Text(f"{task.speed or 0:,.1f} {unit}/s")

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)
