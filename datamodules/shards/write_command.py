"""`interlingua shards write`: shards from pictures with captions, parallel text, or documents."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from .align_command import add_align
from .fields import check_language
from .joining import LineChoice, parse_conditions
from .parsing import PROGRAM, add_command
from .records import NOTED, Record
from .sources import read_csv, read_folder, read_jsonl

TOLD_PER_KIND = 10
"""Skipped pictures of one kind that are named one by one; all are counted."""


def _write_sources(arguments: argparse.Namespace) -> int:
    """`shards write` from anything but the quick start's own data."""
    skipped: Counter[str] = Counter()
    try:
        written, languages = _write_records(arguments.records(arguments, skipped), arguments, skipped)
    finally:
        _report_skipped(skipped)
    texts = ", ".join(f"{code} {number:,}" for code, number in languages.most_common())
    print(f"{written:,} samples in {arguments.out}; texts: {texts}")
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
                writer.write(
                    f"{written:09d}",
                    record.texts,
                    record.item,
                    image,
                    image_extension=extension,
                    document=record.document,
                    alignments=record.alignments,
                )
            except BadImageError as error:
                skipped[kind := f"picture that cannot be decoded ({error.kind})"] += 1
                if skipped[kind] <= TOLD_PER_KIND:
                    print(f"skipped: {record.image}: {error}", file=sys.stderr)
                continue
            written += 1
            languages.update(text.language for text in record.texts)
    return written, languages


def _report_skipped(skipped: Counter[str]) -> None:
    for kind, count in (+skipped).most_common():
        print(f"{'' if kind.startswith(NOTED) else 'skipped: '}{kind}: {count:,}", file=sys.stderr)


def _from_folder(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    return read_folder(arguments.source, arguments.language, skipped)


def _from_csv(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    return read_csv(arguments.source, arguments.language, arguments.pictures, skipped)


def _from_jsonl(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    conditions = parse_conditions(arguments.where)
    choice = LineChoice(arguments.languages, conditions, arguments.group, arguments.documents, arguments.parallel)
    return read_jsonl(arguments.source, arguments.language, arguments.pictures, skipped, choice)


def _from_moses(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    from .parallel import read_moses
    from .pharaoh import Reading

    reading = Reading(arguments.alignment_base, arguments.alignment_order == "target-source")
    return read_moses(arguments.sources, arguments.languages, skipped, arguments.alignments, reading)


def _from_documents(arguments: argparse.Namespace, skipped: Counter[str]) -> Iterator[Record]:
    from .documents import read_documents

    if arguments.max_sentences < 1:
        raise ValueError(f"--max-sentences: expected 1 or more, found {arguments.max_sentences}")
    return chain.from_iterable(
        read_documents(file, arguments.language, arguments.max_sentences, skipped) for file in arguments.sources
    )


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


def add_write(commands: Any) -> None:
    """The commands that write shards: `write`, a sub-command a source, and `align`."""
    add_align(commands)
    write = add_command(
        commands,
        "write",
        None,
        "Write shards from pictures with captions, from parallel text, or from documents.",
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
        "A JSON object a line: caption (text or list), captions (by language) or texts (text, lang, role), and optionally "
        "image, language, role; or parallel text: src, tgt, src_lang, tgt_lang. Lines with the same item are about the same "
        "thing, and never each other's negatives.",
        "captions.jsonl.gz data/train --language en",
    )
    documents = _source(
        sources,
        "documents",
        _from_documents,
        "Documents with their sentences in order: text files with a sentence a line and a blank line between documents, or "
        "JSON lines (.jsonl) with sentences (a list), and optionally language, item. A sample is a document.",
        "wiki.en.txt.gz data/wiki --language en",
        "+",
    )
    documents.add_argument(
        "--max-sentences", type=int, default=512, metavar="N", help="longer documents become several (default: %(default)s)"
    )
    for parser in (folder, table, lines, documents):
        parser.add_argument(
            "--language", default="und", metavar="CODE", type=_language, help="of texts that do not say (default: und)"
        )
    for parser in (table, lines):
        parser.add_argument(
            "--pictures", type=Path, metavar="FOLDER", help="where paths of pictures start (default: beside the file)"
        )
    lines.add_argument(
        "--languages", nargs="+", action="extend", default=[], metavar="CODE", help="leave out texts in others (default: none)"
    )
    lines.add_argument(
        "--where",
        nargs="+",
        action="extend",
        default=[],
        metavar="FIELD=VALUE",
        help="take only lines whose fields have these values, such as split=train",
    )
    lines.add_argument(
        "--group",
        nargs="+",
        action="extend",
        default=[],
        metavar="FIELD",
        help="lines that agree in all these fields become one sample, such as all translations of a sentence (source id src); "
        "all texts are held in memory",
    )
    lines.add_argument(
        "--documents",
        default="",
        metavar="FIELD",
        help="lines are texts of documents: FIELD is DOCUMENT#NUMBER, and all texts of a document in one language, by their "
        "numbers, become one sample, as `shards write documents` makes them; all are held in memory",
    )
    lines.add_argument(
        "--parallel",
        action="store_true",
        help="with --documents: src and tgt of the lines stay together, a sample a document and pair of languages, which a "
        "source can read in both in turn (alternate)",
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
    moses.add_argument(
        "--alignments",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="Pharaoh files (0-0 1-2 ...; 1?2 or 1p2 for a possible pair): words of the first text with words of the second, "
        "with the third, ...; words are counted between spaces",
    )
    moses.add_argument(
        "--alignment-base", type=int, choices=(0, 1), default=0, help="number of the first word (default: %(default)s)"
    )
    moses.add_argument(
        "--alignment-order",
        choices=("source-target", "target-source"),
        default="source-target",
        help="which number of a pair is of the first text (default: %(default)s)",
    )
    tabs.add_argument(
        "--languages", nargs="+", action="extend", default=[], metavar="CODE", help="of the columns (default: first line)"
    )
    quick = add_command(
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
    parser = add_command(sources, name, _write_sources, what, f"example:\n  {PROGRAM} write {name} {example}")
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
