"""Run a function on several gloo processes, within a time limit."""

import faulthandler
import importlib
import os
import pickle
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

GRACE = 3.0
"""Seconds that the other ranks get to report, after one has failed."""

START = 120.0
"""Seconds that ranks get to import and to find each other: generous, for busy machines."""


def run_on_ranks(function: Callable, ranks: int, *arguments: Any, limit: float = 120.0) -> list[Any]:
    """What `function(*arguments)` returns on each rank of a gloo group, all on this machine.

    Args:
        function: A function at the top level of a test module; ranks import it anew (with shapes and types checked).
        ranks: Number of processes, each with one thread.
        arguments: Anything that can be pickled.
        limit: Seconds that the function may take; then every rank is ended.

    Raises:
        AssertionError: If a rank raises or dies (with the traceback of each that did), or at the time limit (with
            the place where each rank stood).
    """
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        processes, pipes = [], []
        try:
            for rank in range(ranks):
                receive, send = context.Pipe(duplex=False)
                target = (function.__module__, function.__qualname__, pickle.dumps(arguments))
                process = context.Process(target=_rank, args=(send, folder, rank, ranks, limit, *target))
                process.start()
                send.close()
                processes.append(process)
                pipes.append(receive)
            results = _collect(pipes, time.monotonic() + START + limit + GRACE)
        finally:
            for process in processes:
                process.kill()
                process.join()
        failures = [f"rank {rank}: {_failure(results.get(rank), folder, rank)}" for rank in range(ranks)]
        failures = [text for rank, text in enumerate(failures) if rank not in results or results[rank][0] != "returned"]
        if failures:
            raise AssertionError(f"{function.__qualname__} failed on {len(failures)} of {ranks} ranks\n" + "\n".join(failures))
        return [results[rank][1] for rank in range(ranks)]


def _collect(pipes: list, deadline: float) -> dict[int, tuple[str, Any]]:
    results: dict[int, tuple[str, Any]] = {}
    waiting = {pipe: rank for rank, pipe in enumerate(pipes)}
    while waiting:
        ready = wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            break
        pipe: Any
        for pipe in ready:
            rank = waiting.pop(pipe)
            try:
                results[rank] = pickle.loads(pipe.recv_bytes())
            except EOFError:
                results[rank] = ("died", None)
            if results[rank][0] != "returned":
                deadline = min(deadline, time.monotonic() + GRACE)
    return results


def _failure(result: tuple[str, Any] | None, folder: str, rank: int) -> str:
    if result is not None and result[0] == "raised":
        return result[1]
    stood = Path(folder, f"stood{rank}")
    where = stood.read_text() if stood.exists() else ""
    return f"gave no result{' in time; it stood at:' + chr(10) + where if where else ' (ended, or waiting for another rank)'}"


def _rank(send, folder: str, rank: int, ranks: int, limit: float, module: str, name: str, arguments: bytes) -> None:
    """Body of a child process."""
    # The child ends itself, so that nothing is left behind even if the parent is killed.
    stood = open(Path(folder, f"stood{rank}"), "w")  # noqa: SIM115
    faulthandler.dump_traceback_later(START, exit=True, file=stood)
    os.environ["OMP_NUM_THREADS"] = "1"
    # What Lightning reads in processes that it has not launched itself.
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), NODE_RANK="0", WORLD_SIZE=str(ranks))
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        # Before the hook, under which bytecode has caches of its own: compiling Lightning for them takes 10 s.
        import lightning  # noqa: F401
        import torch
        import torch.distributed as dist

        importlib.import_module("conftest")  # the import hook that checks shapes and types
        torch.set_num_threads(1)
        store = Path(folder, "store").as_uri()
        dist.init_process_group("gloo", store, timeout=timedelta(seconds=START + limit), rank=rank, world_size=ranks)
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        dist.barrier()
        faulthandler.dump_traceback_later(limit, exit=True, file=stood)
        result = pickle.dumps(("returned", function(*pickle.loads(arguments))))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        result = pickle.dumps(("raised", traceback.format_exc()))
    send.send_bytes(result)
    send.close()
    faulthandler.cancel_dump_traceback_later()
    stood.close()
