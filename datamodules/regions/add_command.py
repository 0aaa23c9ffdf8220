"""`interlingua regions add`: regions of a detector's files into shards."""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..shards.parsing import add_command
from .field_names import BOX_FORMS, KNOWN
from .ids import RULES
from .lookup import FORMATS

PROGRAM = "interlingua regions"


def add_add(commands: Any) -> None:
    """The command `add`."""
    parser = add_command(
        commands,
        "add",
        _add,
        "Copy shards and put the regions that a detector found beside the pictures' samples, checked.",
        f"examples:\n  {PROGRAM} add bottom-up train.tsv --shards data/train --output data/train-regions --by image_id\n"
        f"  {PROGRAM} add npz features --shards data/train --output data/regions --names features=x size=info --boxes xywh\n\n"
        "formats: bottom-up (.tsv of bottom-up attention, and LXMERT's); uniter (LMDB of msgpack or .npz); volta-lmdb\n"
        "(LMDB of pickles, read as plain values); volta-h5 (HDF5, a group a picture); npz (folders, a file a picture).\n"
        f"--names knows: {', '.join(KNOWN)}",
    )
    parser.add_argument("form", choices=FORMATS, metavar="FORMAT", help=f"of the files: {', '.join(FORMATS)}")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="files, databases or folders of one detector")
    add_shards(parser)
    parser.add_argument(
        "--by", default="", metavar="FIELD", help="field of a sample's JSON that names its picture (default: the sample's key)"
    )
    parser.add_argument(
        "--match",
        choices=RULES,
        default=RULES[0],
        help="how names are compared: stem: without folders, extension and leading zeros of numbers; number: the last digits "
        "alone, as a number; exact (default: %(default)s)",
    )
    parser.add_argument(
        "--boxes", choices=BOX_FORMS, help="what boxes are (default: fractions where they are called norm_bb, else corners)"
    )
    parser.add_argument(
        "--names", nargs="+", action="extend", default=[], metavar="OURS=THEIRS", help="what fields are called in the files"
    )
    parser.add_argument(
        "--size-fields", nargs=2, metavar=("WIDTH", "HEIGHT"), help="fields of a sample's JSON, where shards have no pictures"
    )
    parser.add_argument("--rescale", action="store_true", help="pictures of the shards are copies in another size: scale boxes")
    add_choice(parser, threshold=0.0, least=0, most=None)


def add_shards(parser: argparse.ArgumentParser) -> None:
    """What all commands that copy shards take."""
    parser.add_argument("--shards", nargs="+", required=True, metavar="PATH", help="local tars, patterns, or folders")
    parser.add_argument("--map", type=Path, metavar="FILE.yaml", help="field map, for shards in another layout than ours")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="where the copy goes; must be empty")
    parser.add_argument("--replace", action="store_true", help="take regions that are in the shards already out of the copy")
    parser.add_argument("--force", action="store_true", help="replace shards that are in the folder")


def add_choice(parser: argparse.ArgumentParser, threshold: float, least: int, most: int | None) -> None:
    """Which regions of a picture are kept."""
    parser.add_argument(
        "--threshold", type=float, default=threshold, metavar="P", help="least confidence of a region (default: %(default)g)"
    )
    parser.add_argument(
        "--least", type=int, default=least, metavar="N", help="regions kept in any case, the surest (default: %(default)s)"
    )
    parser.add_argument(
        "--most",
        type=int,
        default=most,
        metavar="N",
        help=f"regions kept, the surest (default: {'all' if most is None else most})",
    )


def check_choice(arguments: argparse.Namespace) -> None:
    """Refuse what keeps no region, or contradicts itself.

    Raises:
        ValueError: Names the option.
    """
    if not 0 <= arguments.threshold <= 1:
        raise ValueError(f"--threshold: found {arguments.threshold:g}, expected a confidence from 0 to 1")
    if arguments.least < 0 or (arguments.most is not None and not max(1, arguments.least) <= arguments.most):
        raise ValueError(f"--least {arguments.least} and --most {arguments.most}: expected 0 <= least <= most, and 1 <= most")


def _add(arguments: argparse.Namespace) -> int:
    from ..shards.map_file import read_map
    from .adding import Joining, add_regions
    from .interpret import Interpretation

    check_choice(arguments)
    choice = (arguments.threshold, arguments.least, arguments.most)
    how = Interpretation(_parse_names(arguments.names), arguments.boxes, arguments.rescale, *choice)
    sizes = tuple(arguments.size_fields) if arguments.size_fields else None
    joining = Joining(arguments.form, arguments.by, arguments.match, sizes)
    fields = read_map(arguments.map)
    done = add_regions(
        arguments.files, arguments.shards, arguments.output, joining, how, fields, arguments.replace, arguments.force
    )
    report(done.samples, done.counts, done.examples, arguments.output)
    return 0


def _parse_names(given: list[str]) -> dict[str, str]:
    names = {}
    for word in given:
        ours, equals, theirs = word.partition("=")
        if ours not in KNOWN or not equals or not theirs:
            raise ValueError(f"--names: found {word!r}, expected OURS=THEIRS, with OURS one of {', '.join(KNOWN)}")
        names[ours] = theirs
    return names


def report(samples: int, counts: Counter[str], examples: Mapping[str, str], output: Path) -> None:
    """Tell what was done, and what was left out, with the first of each kind."""
    from .adding import ADDED, REGIONS

    for kind, count in counts.most_common():
        if kind not in (ADDED, REGIONS):
            what = kind if kind.startswith(("noted: ", "sample ")) else f"without regions: {kind}"
            print(f"{what}: {count:,}" + (f" (first: {examples[kind]})" if kind in examples else ""), file=sys.stderr)
    with_regions, regions = counts[ADDED], counts[REGIONS]
    print(
        f"{samples:,} samples in {output}; {with_regions:,} with regions, {regions:,} regions "
        f"({regions / with_regions:.1f} each)"
    )
