"""`interlingua shards align`: shards with word alignments between translations."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from ..align.symmetrize import METHODS
from .fields import check_language
from .parsing import PROGRAM, add_cache, add_command, read_cache


def add_align(commands: Any) -> None:
    """The command `align`."""
    parser = add_command(
        commands,
        "align",
        _align,
        "Copy shards of translations and say in the copy which words translate which; it is learnt from the texts themselves, "
        "so the more there are the better (some thousand sentence pairs at least).",
        f"examples:\n  {PROGRAM} align data/news data/news-aligned --languages en de\n"
        f"  {PROGRAM} align 'data/*.tar' data/aligned --languages en de fr zh   (English with each of the others)",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="shards in our own layout: tars, patterns, or folders")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the copy; must be empty")
    parser.add_argument(
        "--languages",
        nargs="+",
        required=True,
        metavar="CODE",
        help="two or more; the first is aligned with each other one",
    )
    parser.add_argument(
        "--links",
        choices=METHODS,
        default=METHODS[0],
        help="how the links of both directions become one set: intersection has fewer and surer ones (default: %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="replace shards that are in the folder")
    add_cache(parser)


def _align(arguments: argparse.Namespace) -> int:
    from .align import align_shards

    codes = [check_language(code, "--languages") for code in arguments.languages]
    if len(codes) < 2 or len(set(codes)) < len(codes):
        raise ValueError(f"--languages: expected two or more, each once, found {' '.join(codes)}")
    start = time.perf_counter()
    done, skipped = align_shards(arguments.paths, arguments.out, codes, arguments.links, arguments.force, read_cache(arguments))
    for kind, count in (+skipped).most_common():
        print(f"skipped: {kind}: {count:,}", file=sys.stderr)
    for aligned in done:
        names = "-".join(aligned.languages)
        print(f"{names}: {aligned.pairs:,} pairs of texts, {aligned.links:,} links, {aligned.linked:.0%} of the words have one")
    print(f"aligned shards in {arguments.out} ({time.perf_counter() - start:.0f} s)")
    return 0
