"""What all commands of `interlingua shards` share."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cache import Cache

PROGRAM = "interlingua shards"


def add_command(commands: Any, name: str, run: Callable | None, what: str, epilog: str = "") -> argparse.ArgumentParser:
    """A parser of one command, with its help and what runs it."""
    parser = commands.add_parser(
        name, help=what, description=what, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_cache(parser: argparse.ArgumentParser) -> None:
    """The options of what reads shards that may be remote, as `cache` of a configuration."""
    parser.add_argument("--cache", metavar="FOLDER", help="where remote shards are kept (default: in the user's cache folder)")
    parser.add_argument(
        "--cache-gigabytes", type=float, default=100.0, metavar="N", help="most of them that is kept (default: %(default)g)"
    )


def read_cache(arguments: argparse.Namespace) -> "Cache":
    """What `add_cache` was given.

    Raises:
        ValueError: It is no cache.
    """
    from .cache import Cache

    if not arguments.cache_gigabytes > 0:
        raise ValueError(
            f"--cache-gigabytes is {arguments.cache_gigabytes:g}; expected more than 0, with room for several shards"
        )
    if arguments.cache is not None and not arguments.cache:
        raise ValueError("--cache is empty (an unset variable?); expected a folder")
    return Cache(arguments.cache, arguments.cache_gigabytes)
