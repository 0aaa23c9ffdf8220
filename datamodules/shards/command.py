"""`interlingua shards`: write, check, repair, show, measure and index shards from the command line."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arguments import OneLineParser, check_folder, check_outputs, run_told
from .map_file import read_map
from .parsing import PROGRAM, add_cache, add_command, read_cache
from .write_command import add_write

if TYPE_CHECKING:
    from ...modalities.tokenizer import Tokenizer


def main(argv: list[str]) -> int:
    """Run one command.

    Args:
        argv: What stands behind `interlingua shards`.

    Returns:
        Exit status: 0 well, 1 shards not fit, 2 wrong use or wrong input (one line on standard error says what).
    """
    arguments = _parser().parse_args(argv)
    return run_told(f"{PROGRAM} {arguments.command}", lambda: arguments.run(arguments))


def _check(arguments: argparse.Namespace) -> int:
    from .check import check_shards, format_report

    report = check_shards(
        arguments.paths,
        read_map(arguments.map),
        not arguments.no_decode,
        arguments.index_folder,
        _read_tokenizer(arguments.tokenizer),
        read_cache(arguments),
    )
    _print(arguments, report.to_json, format_report(report))
    return 0 if report.fit else 1


def _repair(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from .repair import format_repair, repair_shards

    done = repair_shards(
        arguments.paths,
        arguments.out,
        read_map(arguments.map),
        not arguments.no_decode,
        arguments.join,
        arguments.force,
        _read_tokenizer(arguments.tokenizer),
    )
    faults = {"faults": [fault._asdict() for fault in done.faults]}
    _print(arguments, lambda: asdict(done) | faults, format_repair(done, arguments.out))
    return 0


def _print(arguments: argparse.Namespace, to_json: Callable[[], dict[str, Any]], text: str) -> None:
    print(json.dumps(to_json(), indent=1, ensure_ascii=False) if arguments.json else text)


def _show(arguments: argparse.Namespace) -> int:
    from .check import list_faults
    from .reader import ShardSet
    from .show import choose, draw_sheet, format_sample, read_some

    if arguments.number < 1:
        raise ValueError(f"-n: expected 1 or more samples, found {arguments.number}")
    if arguments.sheet:
        check_outputs([arguments.sheet], True, "--sheet")
    shards = ShardSet(arguments.paths, read_map(arguments.map), arguments.index_folder, read_cache(arguments))
    languages = arguments.language
    numbers = choose(shards, arguments.number, languages, image=True if arguments.sheet else None)
    samples, faults = read_some(shards, numbers)
    for sample in samples:
        print(format_sample(sample, languages))
    if faults:
        print("\n".join(["skipped:", *list_faults(faults, len(faults))]), file=sys.stderr)
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


def _stats(arguments: argparse.Namespace) -> int:
    from .stats import format_stats, measure
    from .stats_page import write_page

    if arguments.pictures < 0:
        raise ValueError(f"--pictures: expected 0 or more, found {arguments.pictures}")
    check_folder(arguments.output)
    tokenizer = _read_tokenizer(arguments.tokenizer)
    stats = measure(
        arguments.paths, read_map(arguments.map), arguments.index_folder, tokenizer, arguments.pictures, read_cache(arguments)
    )
    page = write_page(stats, arguments.output)
    print(format_stats(stats))
    print(f"page: {page}")
    return 0


def _index(arguments: argparse.Namespace) -> int:
    from .reader import ShardSet

    tokenizer = _read_tokenizer(arguments.tokenizer)
    shards = ShardSet(arguments.paths, read_map(arguments.map), arguments.index_folder, read_cache(arguments))
    print(f"{len(shards.shards):,} shards, {len(shards):,} samples, {len(shards.faults):,} faults")
    for kind, count in Counter(fault.kind for fault in shards.faults).most_common():
        print(f"  {kind}: {count:,} (interlingua shards check lists them)")
    if tokenizer:
        from .lengths import find_lengths

        print(f"{int(find_lengths(shards, tokenizer, replace=True).sum()):,} tokens, start and end of each text with them")
    return 0


def _read_tokenizer(file: Path | None) -> "Tokenizer | None":
    if file is None:
        return None
    from ...modalities.tokenizer import Tokenizer

    return Tokenizer(file)


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
        prog=PROGRAM, description="Write, check, repair, show and index shards: tars of samples, as webdataset reads them."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_write(commands)
    for add in (_add_check, _add_repair, _add_show, _add_stats, _add_index):
        add(commands)
    return parser


def _add_check(commands: Any) -> None:
    check = _add(
        commands,
        "check",
        _check,
        "Look at every sample: counts, languages, and all that is broken, by kind. Exit status 1 if not fit.",
        f"examples:\n  {PROGRAM} check data/train\n  {PROGRAM} check 'cc3m/{{00000..00331}}.tar' --map cc3m.yaml\n"
        + _EXAMPLE_MAP,
    )
    _add_judging(check)
    _add_places(check)


def _add_repair(commands: Any) -> None:
    repair = _add(
        commands,
        "repair",
        _repair,
        "Write a clean copy: the samples that can be used, as they stand, without what `check` finds. The source is only read.",
        f"examples:\n  {PROGRAM} repair data/train data/clean\n  {PROGRAM} repair 'cc3m/*.tar' clean --map cc3m.yaml --join\n\n"
        "Shards, keys, order and members stay as they are (blank texts beside others too: nothing reads them). What the\n"
        "index of the source finds broken is absent from its numbering already, so that training on the copy is the same,\n"
        "bit for bit; leaving out pictures that cannot be decoded, and --join, change the numbering.",
    )
    repair.add_argument("out", type=Path, metavar="OUT", help="folder for the copy; must be empty")
    _add_judging(repair)
    repair.add_argument(
        "--join",
        action="store_true",
        help="also keep samples whose members stand apart or twice, if they are whole together and equal where twice",
    )
    repair.add_argument("--force", action="store_true", help="replace shards that are in OUT")


def _add_judging(parser: argparse.ArgumentParser) -> None:
    """Options of commands that look at every sample."""
    parser.add_argument("--json", action="store_true", help="print the report as JSON, every fault in it")
    parser.add_argument("--no-decode", action="store_true", help="do not decode pictures and arrays: much faster, finds less")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="FILE", help="samples whose texts are all in languages that it does not know are bad"
    )


def _add_show(commands: Any) -> None:
    show = _add(
        commands,
        "show",
        _show,
        "Print some samples, evenly spread; draw them on a contact sheet.",
        f"examples:\n  {PROGRAM} show data/train -n 3\n  {PROGRAM} show data/train --language de sw --sheet sheet.png",
    )
    show.add_argument("-n", dest="number", type=int, default=8, metavar="N", help="samples to show (default: %(default)s)")
    show.add_argument(
        "--language",
        nargs="+",
        action="extend",
        metavar="CODE",
        help="only samples with a text in one of these languages, and of their texts only those",
    )
    show.add_argument("--sheet", type=Path, metavar="FILE.png", help="also draw pictures and texts into this file")
    _add_places(show)


def _add_stats(commands: Any) -> None:
    stats = _add(
        commands,
        "stats",
        _stats,
        "Measure lengths, languages, roles, picture sizes and duplicates: a page of plots, and the numbers as JSON.",
        f"example:\n  {PROGRAM} stats data/train --output stats --tokenizer tokenizer.model\n\n"
        "The page opens from disk in any browser: stats/stats.html; the numbers are in stats/stats.json.",
    )
    stats.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="where page, plots and numbers go")
    stats.add_argument("--tokenizer", type=Path, metavar="FILE", help="also count tokens")
    stats.add_argument(
        "--pictures",
        type=int,
        default=20_000,
        metavar="N",
        help="pictures whose headers are read, evenly spread where there are more (default: %(default)s)",
    )
    _add_places(stats)


def _add_index(commands: Any) -> None:
    index = _add(
        commands,
        "index",
        _index,
        "Build missing indexes now, not when training starts (once for all ranks of a cluster).",
        f"examples:\n  {PROGRAM} index 'cc3m/*.tar' --map cc3m.yaml --index-folder indexes\n"
        f"  {PROGRAM} index data/train --tokenizer tokenizer.model",
    )
    index.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FILE",
        help="also count the tokens of all texts, for batches of equal length; replaces lengths by another tokenizer",
    )
    _add_places(index)


def _add(commands: Any, name: str, run: Callable, what: str, epilog: str) -> argparse.ArgumentParser:
    """A command that reads shards."""
    parser = add_command(commands, name, run, what, epilog)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=_PATHS)
    parser.add_argument("--map", type=Path, metavar="FILE.yaml", help="field map, for shards in another layout than ours")
    return parser


def _add_places(parser: argparse.ArgumentParser) -> None:
    """Options of commands that read shards as training does."""
    add_cache(parser)
    parser.add_argument("--index-folder", metavar="FOLDER", help="where indexes are kept (default: beside the tars)")
