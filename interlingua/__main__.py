"""The command line's front door: it knows the commands by name and imports one only when it is called."""

import io
import os
import sys
from collections.abc import Sequence

from . import __version__

COMMANDS = {
    "fit": ("train a model", "interlingua.training:fit"),
    "validate": ("measure a model on its validation data", "interlingua.training:validate"),
    "test": ("measure a model on its test data", "interlingua.training:test"),
    "predict": ("write what a model makes of its data", "interlingua.training:predict"),
    "transfer": ("measure what fine-tuning in one language carries over to others", "interlingua.transfer_command:main"),
    "shards": ("write, check and show shards", "interlingua.datamodules.shards.command:main"),
    "regions": ("put regions of pictures into shards", "interlingua.regions_command:main"),
    "quickstart": ("train and measure a small encoder on real data, in minutes", "interlingua.quickstart:main"),
    "checkpoint": ("take over text towers of others, and give ours to others", "interlingua.checkpoint_command:main"),
    "inspect": ("show what a fused encoder looks at, and what picture and text are worth", "interlingua.inspect_command:main"),
    "tokenizer": ("train, check and show a tokenizer", "interlingua.tokenizer_command:main"),
}

HELP = """\
usage: interlingua COMMAND ...

{commands}

  interlingua COMMAND --help   what a command takes
  interlingua --version        the version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments after the program's name; None: those of the process.

    Returns:
        Exit status: 0 where all is well, 2 where the arguments or the configuration are wrong, 130 where interrupted,
        141 where the reader of our output went away; a command may return others.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without our scripts shows codes in their place
    try:
        status = _dispatch(arguments)
        if sys.stdout is not None:  # closed
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The interpreter flushes once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _dispatch(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "--help"
    if name in ("--help", "-h", "help"):
        width = max(map(len, COMMANDS))
        print(HELP.format(commands="\n".join(f"  {n:{width}}   {line}" for n, (line, _) in COMMANDS.items())), end="")
        return 0
    if name == "--version":
        print(f"interlingua {__version__}")
        return 0
    if name not in COMMANDS:
        from difflib import get_close_matches  # slow to import, and rarely needed

        nearest = get_close_matches(name, COMMANDS, n=1, cutoff=0.0)[0]
        print(f"interlingua: no command {name!r}; the nearest is {nearest!r} (interlingua --help)", file=sys.stderr)
        return 2
    from importlib import import_module

    module, _, function = COMMANDS[name][1].partition(":")
    return getattr(import_module(module), function)(arguments[1:]) or 0


if __name__ == "__main__":
    sys.exit(main())
