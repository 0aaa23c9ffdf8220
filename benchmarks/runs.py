"""What benchmarks of many runs share: arms by seeds, a few at a time, each a list of commands of `interlingua`, logged."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev

from rich.progress import Progress

Command = Sequence[str]


def execute(name: str, folder: Path, commands: Iterable[Command]) -> float:
    """Seconds that some commands took, each on one thread; what they print is added to `log.txt` in a folder.

    Raises:
        SystemExit: One failed; says of what, and where to read why.
    """
    start = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "log.txt", "a") as log:
        for command in commands:
            arguments = [sys.executable, "-m", "interlingua", *command]
            done = subprocess.run(arguments, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
            if done.returncode:
                raise SystemExit(f"{name}: stopped; {folder / 'log.txt'} says why")
    return time.monotonic() - start


def run_all(parts: Sequence[Sequence[tuple[str, Callable[[], float]]]], parallel: int) -> None:
    """Work through parts, one after another; within a part a few at a time. Tells of each how long it took.

    Args:
        parts: Of each a name, and what does the work and gives the seconds it took; 0: it was there.
        parallel: How many at a time.
    """
    with Progress() as progress, ThreadPoolExecutor(parallel) as pool:
        bar = progress.add_task("runs", total=sum(map(len, parts)))
        for part in parts:
            for (name, _), seconds in zip(part, pool.map(lambda one: one[1](), part), strict=True):
                progress.console.print(f"{name}: {'there' if not seconds else f'{seconds / 60:.1f} min'}")
                progress.advance(bar)


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def write_table(rows: Sequence[Sequence[str]], heads: Sequence[str], words: int = 1) -> str:
    """A table in Markdown, of which the first columns are words."""
    marks = ["---"] * words + ["---:"] * (len(heads) - words)
    return "".join("| " + " | ".join(row) + " |\n" for row in (heads, marks, *rows))
