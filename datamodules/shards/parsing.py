"""What all commands of `interlingua shards` share."""

import argparse
from collections.abc import Callable
from typing import Any

PROGRAM = "interlingua shards"


def add_command(commands: Any, name: str, run: Callable | None, what: str, epilog: str = "") -> argparse.ArgumentParser:
    """A parser of one command, with its help and what runs it."""
    parser = commands.add_parser(
        name, help=what, description=what, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser
