"""`interlingua regions`: regions of pictures into shards, from a detector's files or found here."""

from .configuration import ConfigurationError
from .datamodules.arguments import OneLineParser, run_told
from .datamodules.regions.add_command import PROGRAM, add_add
from .datamodules.regions.extract_command import add_extract
from .trained_image_tower import read_image_tower


def main(argv: list[str]) -> int:
    """Run one command.

    Args:
        argv: What stands behind `interlingua regions`.

    Returns:
        Exit status: 0 well, 2 wrong use or wrong input (one line on standard error says what).
    """
    parser = OneLineParser(prog=PROGRAM, description="Regions of pictures into shards, as KEY.regions.npz beside each picture.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_add(commands)
    add_extract(commands, read_image_tower)
    arguments = parser.parse_args(argv)
    return run_told(f"{PROGRAM} {arguments.command}", lambda: arguments.run(arguments), ConfigurationError)
