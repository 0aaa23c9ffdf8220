"""`interlingua shards`: write, check, show and index shards from the command line."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..arguments import OneLineParser
from .fields import FieldMap, TextField, check_language
from .sources import Record, read_csv, read_folder, read_jsonl

PROGRAM = "interlingua shards"


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


def _write_sources(arguments: argparse.Namespace) -> int:
    """`shards write` from anything but the quick start's own data."""
    skipped: Counter[str] = Counter()
    try:
        written, languages = _write_records(arguments.records(arguments, skipped), arguments, skipped)
    finally:
        _report_skipped(skipped)
    print(f"{written:,} samples in {arguments.out}: " + ", ".join(f"{code} {n:,}" for code, n in languages.most_common()))
    return 0


def _write_records(records: Iterator[Record], arguments: argparse.Namespace, skipped: Counter[str]) -> tuple[int, Counter[str]]:
    from ...modalities.image import BadImageError
    from .progress import track
    from .writer import ShardWriter

    written = 0
    languages: Counter[str] = Counter()
    with ShardWriter(arguments.out, arguments.name, arguments.samples_per_shard, arguments.resize, arguments.force) as writer:
        for record in track(records, "writing samples"):
            image = None if record.image is None else record.image.read_bytes()
            extension = "" if record.image is None else record.image.suffix[1:]
            try:
                writer.write(f"{written:09d}", record.texts, record.item, image, image_extension=extension)
            except BadImageError as error:
                skipped[f"picture that cannot be decoded ({error.kind})"] += 1
                continue
            written += 1
            languages.update(text.language for text in record.texts)
    return written, languages


def _report_skipped(skipped: Counter[str]) -> None:
    for kind, count in (+skipped).most_common():
        print(f"skipped: {kind}: {count:,}", file=sys.stderr)


def _from_folder(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    return read_folder(arguments.source, arguments.language, skipped)


def _from_csv(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    return read_csv(arguments.source, arguments.language, arguments.pictures, skipped)


def _from_jsonl(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    return read_jsonl(arguments.source, arguments.language, arguments.pictures, skipped)


def _from_moses(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    from .parallel import read_moses

    return read_moses(arguments.sources, arguments.languages, skipped)


def _from_tsv(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    from .parallel import read_tsv

    return read_tsv(arguments.source, arguments.languages, skipped)


def _write_quickstart(arguments: argparse.Namespace) -> int:
    from ..quickstart import write_quickstart

    dropped = write_quickstart(arguments.out, arguments.force)
    print(f"quick start data in {arguments.out}: train/pictures, train/names, train/captions, validation, test")
    print(
        f"kept out of training, as a novel concept has the same: {dropped.names} names, {dropped.keywords} keywords, "
        f"{dropped.pictures} pictures"
    )
    return 0


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
    _add_write(commands)
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
    parser = _command(commands, name, run, what, epilog)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=_PATHS)
    parser.add_argument("--map", type=Path, metavar="FILE.yaml", help="field map, for shards in another layout than ours")
    parser.add_argument("--index-folder", metavar="FOLDER", help="where indexes are kept (default: beside the tars)")
    return parser


def _command(commands: Any, name: str, run: Callable | None, what: str, epilog: str = "") -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=what, description=what, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def _add_write(commands: Any) -> None:
    write = _command(
        commands,
        "write",
        None,
        "Write shards from pictures with captions, or from parallel text.",
        f"examples:\n  {PROGRAM} write folder photos data/train --language en\n"
        f"  {PROGRAM} write moses news.en news.de data/parallel\n"
        f"each source has its own help: {PROGRAM} write csv --help",
    )
    sources = write.add_subparsers(dest="kind", required=True, metavar="SOURCE")
    folder = _source(
        sources,
        "folder",
        _from_folder,
        "Pictures with captions beside them: NAME.jpg, NAME.txt (a caption a line), NAME.de.txt (captions in German).",
        "photos data/train --language en --resize 256",
    )
    table = _source(
        sources,
        "csv",
        _from_csv,
        "Rows with the columns caption (or caption_en, caption_de, ...), and optionally image, language, role, item.",
        "captions.csv data/train --pictures photos --language en",
    )
    lines = _source(
        sources,
        "jsonl",
        _from_jsonl,
        "A JSON object a line: image, and caption (text or list), captions (by language) or texts (text, lang, role); "
        "or parallel text: src, tgt, src_lang, tgt_lang.",
        "captions.jsonl.gz data/train --language en",
    )
    for parser in (folder, table, lines):
        parser.add_argument(
            "--language", default="und", metavar="CODE", type=_language, help="of captions that do not say (default: und)"
        )
    for parser in (table, lines):
        parser.add_argument(
            "--pictures", type=Path, metavar="FOLDER", help="where paths of pictures start (default: beside the file)"
        )
    moses = _source(
        sources, "moses", _from_moses, "Parallel text, a file a language, line by line.", "news.en news.de data/news", "+"
    )
    tabs = _source(
        sources,
        "tsv",
        _from_tsv,
        "Parallel text, a column a language, tabs between; without --languages the first line has the codes.",
        "news.tsv data/news --languages en de",
    )
    moses.add_argument(
        "--languages", nargs="+", action="extend", default=[], metavar="CODE", help="of the files (default: extensions)"
    )
    tabs.add_argument(
        "--languages", nargs="+", action="extend", default=[], metavar="CODE", help="of the columns (default: first line)"
    )
    quick = _command(
        sources,
        "quickstart",
        _write_quickstart,
        "The data of the quick start: 1,906 emoji with names in twelve languages, novel concepts kept apart.",
        f"example:\n  {PROGRAM} write quickstart runs/quickstart/shards",
    )
    quick.add_argument("out", type=Path, metavar="OUT", help="folder for the shards")
    quick.add_argument("--force", action="store_true", help="replace shards that are in the folder")


def _source(sources: Any, name: str, records: Callable, what: str, example: str, many: str = "") -> argparse.ArgumentParser:
    """A source of `shards write`, with the options that all have."""
    parser = _command(sources, name, _write_sources, what, f"example:\n  {PROGRAM} write {name} {example}")
    parser.set_defaults(records=records)
    if many:
        parser.add_argument("sources", nargs=many, type=Path, metavar="FILE", help="texts, .gz too")
    else:
        parser.add_argument("source", type=Path, metavar=name.upper(), help="what to read" + (", .gz too" * (name != "folder")))
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the shards; must be empty")
    parser.add_argument("--name", default="shard", help="first part of the tars' names (default: %(default)s)")
    parser.add_argument("--samples-per-shard", type=int, default=4096, metavar="N", help="samples a tar (default: %(default)s)")
    parser.add_argument("--resize", type=int, metavar="PIXELS", help="make pictures smaller: shorter side, at most")
    parser.add_argument("--force", action="store_true", help="replace shards that are in the folder")
    return parser


def _language(code: str) -> str:
    try:
        return check_language(code, "found")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
