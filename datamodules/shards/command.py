"""`interlingua shards`: write, check, show and index shards from the command line."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..arguments import OneLineParser
from .fields import FieldMap, TextField
from .parsing import PROGRAM, add_command
from .write_command import add_write


def main(argv: list[str]) -> int:
    """Run one command.

    Args:
        argv: What stands behind `interlingua shards`.

    Returns:
        Exit status: 0 well, 1 shards not fit, 2 wrong use or wrong input (one line on standard error says what).
    """
    arguments = _parser().parse_args(argv)
    try:
        return arguments.run(arguments)
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        print(f"{PROGRAM} {arguments.command}: {error}", file=sys.stderr)
        return 2


def _check(arguments: argparse.Namespace) -> int:
    from .check import check_shards, format_report

    report = check_shards(arguments.paths, _read_map(arguments.map), not arguments.no_decode, arguments.index_folder)
    print(json.dumps(report.to_json(), indent=1, ensure_ascii=False) if arguments.json else format_report(report))
    return 0 if report.fit else 1


def _show(arguments: argparse.Namespace) -> int:
    from .reader import ShardSet
    from .show import choose, draw_sheet, format_sample, read_some

    if arguments.number < 1:
        raise ValueError(f"-n: expected 1 or more samples, found {arguments.number}")
    shards = ShardSet(arguments.paths, _read_map(arguments.map), arguments.index_folder)
    languages = arguments.language
    numbers = choose(shards, arguments.number, languages, image=True if arguments.sheet else None)
    samples = read_some(shards, numbers)
    for sample in samples:
        print(format_sample(sample, languages))
    if arguments.sheet:
        missing = draw_sheet(samples, arguments.sheet, languages)
        print(f"contact sheet: {arguments.sheet}", file=sys.stderr)
        if missing:
            print(
                f"no font of this machine has all characters of some texts in: {', '.join(missing)}; install one "
                "(Debian: fonts-noto-core, fonts-noto-cjk), then remove matplotlib's font cache",
                file=sys.stderr,
            )
    return 0


def _index(arguments: argparse.Namespace) -> int:
    from .reader import ShardSet

    shards = ShardSet(arguments.paths, _read_map(arguments.map), arguments.index_folder)
    print(f"{len(shards.shards):,} shards, {len(shards):,} samples, {len(shards.faults):,} faults")
    for kind, count in Counter(fault.kind for fault in shards.faults).most_common():
        print(f"  {kind}: {count:,} (interlingua shards check lists them)")
    return 0


def _read_map(file: Path | None) -> FieldMap | None:
    """The field map of a YAML file.

    Raises:
        ValueError: It has keys or values that a field map has not.
    """
    if file is None:
        return None
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError(f"found {content!r}, expected a mapping")
        if "texts" in content:
            content["texts"] = [TextField(**entry) for entry in content["texts"]]
        return FieldMap(**content)
    except (yaml.YAMLError, TypeError, AttributeError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{file}: not a field map ({reason}); `interlingua shards check --help` shows one") from None


_EXAMPLE_MAP = """
a field map says what the members of foreign shards are; for img2dataset's shards, cc3m.yaml:
  texts: [{member: json, path: caption, language: en}]
  item: url
  ignore: [txt]
for open_clip's (jpg + txt):
  texts: [{member: txt, language: en}]
for a JSON with captions by language, {"captions": {"en": [...], "de": "..."}}:
  texts: [{member: json, path: captions, by_language: true}]
"""
_PATHS = "tars, patterns ('data/{000..041}.tar', 'data/*.tar', in quotes), or folders"


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=PROGRAM, description="Write, check, show and index shards: tars of samples, as webdataset reads them."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_write(commands)
    check = _add(
        commands,
        "check",
        _check,
        "Look at every sample: counts, languages, and all that is broken, by kind. Exit status 1 if not fit.",
        f"examples:\n  {PROGRAM} check data/train\n  {PROGRAM} check 'cc3m/{{00000..00331}}.tar' --map cc3m.yaml\n"
        + _EXAMPLE_MAP,
    )
    check.add_argument("--json", action="store_true", help="print the report as JSON, every fault in it")
    check.add_argument("--no-decode", action="store_true", help="do not decode pictures: much faster, finds less")
    show = _add(
        commands,
        "show",
        _show,
        "Print some samples, evenly spread; draw them on a contact sheet.",
        f"examples:\n  {PROGRAM} show data/train -n 3\n  {PROGRAM} show data/train --language de sw --sheet sheet.png",
    )
    show.add_argument("-n", dest="number", type=int, default=8, metavar="N", help="samples to show (default: %(default)s)")
    show.add_argument(
        "--language", nargs="+", action="extend", metavar="CODE", help="only samples and texts in these languages"
    )
    show.add_argument("--sheet", type=Path, metavar="FILE.png", help="also draw pictures and texts into this file")
    _add(
        commands,
        "index",
        _index,
        "Build missing indexes now, not when training starts (once for all ranks of a cluster).",
        f"example:\n  {PROGRAM} index 'cc3m/*.tar' --map cc3m.yaml --index-folder indexes",
    )
    return parser


def _add(commands: Any, name: str, run: Callable, what: str, epilog: str) -> argparse.ArgumentParser:
    """A command that reads shards."""
    parser = add_command(commands, name, run, what, epilog)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=_PATHS)
    parser.add_argument("--map", type=Path, metavar="FILE.yaml", help="field map, for shards in another layout than ours")
    parser.add_argument("--index-folder", metavar="FOLDER", help="where indexes are kept (default: beside the tars)")
    return parser
