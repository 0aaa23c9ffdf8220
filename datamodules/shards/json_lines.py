"""Files of JSON lines: the object of each line, and where it stands."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .fields import name_kind, require_characters
from .lines import Lines

_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # half of a pair, if not its other half stands beside it


def read_objects(file: Path, skipped: Counter[str], expected: str = "an object") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The object of each line that is not blank, and where it stands, for messages.

    Args:
        file: UTF-8, `.gz` too.
        skipped: Counts blank lines.
        expected: What a line is to be, for messages.

    Raises:
        ValueError: Names file and line: it is no such file, or no such line.
    """
    with Lines(file) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                where = f"{file}, line {number}"
                yield where, _parse(line, where, expected)
            else:
                skipped["blank line"] += 1


def _parse(line: str, where: str, expected: str) -> Mapping[str, Any]:
    """
    Raises:
        ValueError: It is not JSON, not an object, or holds half of a surrogate pair.
    """
    try:
        record = json.loads(line.rstrip())
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error.msg} at column {error.colno}); expected {expected} on each line") from None
    except (ValueError, RecursionError):
        raise ValueError(
            f"{where}: not JSON that can be read, as it is too deep or its numbers too long; expected {expected} on each line"
        ) from None
    if not isinstance(record, dict):
        raise ValueError(f"{where}: found {name_kind(record)}, expected {expected}")
    if _HALF.search(line):
        require_characters(json.dumps(record, ensure_ascii=False), where)
    return record
