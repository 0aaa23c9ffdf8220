"""Which errors are refusals, to be told in a line, and not faults of the code, to be told with their trace."""

import re
import traceback
from pathlib import Path

FRAME = re.compile(r'\s*File "(?P<file>.+)", line \d+, in ')


def find_refusal(error: Exception) -> str | None:
    """What a `raise` of ours said, here or in a loader's worker; None where it was not one of ours."""
    if str(error).startswith("Caught ") and "in DataLoader worker process" in str(error).partition("\n")[0]:
        return _find_in_worker(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    module = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
    reason = " ".join(str(error).split())
    if "Error(s) in loading state_dict" in reason:
        return reason
    return reason if module.startswith("interlingua.") and (last.line or "").startswith("raise ") else None


def _find_in_worker(error: Exception) -> str | None:
    """Torch makes the trace in the worker the message of its error here."""
    lines = str(error).rstrip().splitlines()
    frames = [number for number, line in enumerate(lines) if FRAME.match(line)]
    if not frames or not lines[frames[-1] + 1].strip().startswith("raise "):
        return None
    found = FRAME.match(lines[frames[-1]])
    if found is None or not _is_ours(Path(found["file"]).resolve()):
        return None
    rest = [line for line in lines[frames[-1] + 2 :] if not re.fullmatch(r"\s*[\^~]+\s*", line)]
    return " ".join(" ".join(rest).split()).partition(": ")[2]


def _is_ours(file: Path) -> bool:
    """Whether a file is of this package: below its folder in an installation, below its checkout else."""
    package = Path(__file__).resolve().parent
    root = package if "site-packages" in package.parts else package.parent
    return root in file.parents and "site-packages" not in file.relative_to(root).parts
