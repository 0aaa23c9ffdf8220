"""How every benchmark here measures: contenders in one process, interleaved, by CPU time, as ratios.

The order is reversed from round to round, so that warmth and noise fall on all alike; a ratio is the median over rounds of
the ratios within a round. Memory is the peak of a fresh process above its imports.
"""

import ctypes
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch

from interlingua.modalities.batch import Step


def cpu_seconds() -> float:
    """CPU time of this process and of the workers that it has seen end."""
    return sum(
        usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def interleave(
    contenders: Mapping[str, Callable[[], None]], rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """Seconds of the clock that each contender takes in each round, after one unmeasured call of each."""
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders)
        for name in names if number % 2 == 0 else reversed(names):
            start = clock()
            contenders[name]()
            seconds[name].append(clock() - start)
            print(f"  round {number + 1} of {rounds}: {name} {seconds[name][-1]:.2f} s", file=sys.stderr)
    return seconds


def ratio(slow: list[float], fast: list[float]) -> float:
    """Median over rounds of how many times faster the second is."""
    return statistics.median(one / other for one, other in zip(slow, fast, strict=True))


class Interleaved:
    """The same step again and again, the peers' turns between, so that all are timed in the same minutes.

    A turn of ours is the time from handing over a step to being asked for the next one.
    """

    def __init__(self, step: Step, peers: Mapping[str, Callable[[], None]], rounds: int):
        self.step, self.peers, self.rounds = step, peers, rounds
        self.seconds: dict[str, list[float]] = {name: [] for name in ("ours", *peers)}

    def __len__(self) -> int:
        return self.rounds + 2  # an unmeasured round first; the loop must ask once more after the last

    def __iter__(self) -> Iterator[Step]:
        for number in range(len(self)):
            order = list(self.peers) if number % 2 else list(reversed(self.peers))
            first, second = (order, []) if number % 2 else ([], order)
            for name in first:
                self._time(name, number)
            start = time.process_time()
            yield self.step
            self._note("ours", number, time.process_time() - start)
            for name in second:
                self._time(name, number)

    def _time(self, name: str, number: int) -> None:
        start = time.process_time()
        self.peers[name]()
        self._note(name, number, time.process_time() - start)

    def _note(self, name: str, number: int, seconds: float) -> None:
        if 0 < number <= self.rounds:
            self.seconds[name].append(seconds)
            print(f"  round {number} of {self.rounds}: {name} {seconds:.2f} s", file=sys.stderr)


class Products:
    """Plain float32 matrix products of one shape, as a contender: how fast the machine multiplies in the same minutes."""

    def __init__(self, rows: int, inner: int, columns: int, repeats: int = 20):
        self.left, self.right = torch.randn(rows, inner), torch.randn(inner, columns)
        self.out, self.repeats = torch.empty(rows, columns), repeats
        self.operations = 2.0 * rows * inner * columns * repeats

    def __call__(self) -> None:
        for _ in range(self.repeats):
            torch.mm(self.left, self.right, out=self.out)


def tune_allocator() -> None:
    """Keep freed memory for the next step instead of giving it back page by page (glibc; says so where it cannot)."""
    if platform.libc_ver()[0] != "glibc":
        print("allocator tuning needs glibc; running without", file=sys.stderr)
        return
    library = ctypes.CDLL(None)
    m_mmap_max, m_trim_threshold = -4, -1
    library.mallopt(m_mmap_max, 0)
    library.mallopt(m_trim_threshold, 2**31 - 1)


def resident() -> float:
    """Peak memory of this process so far, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # what `getrusage` says on Linux includes the peak of the process that started this one
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def memory_of(script: str, *arguments: str) -> float:
    """MiB above its imports at the peak of a fresh process that prints `{"memory": ...}` as its last line."""
    command = [sys.executable, str(Path(script).resolve()), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["memory"]
