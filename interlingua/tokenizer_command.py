"""`interlingua tokenizer`: train, import or check a tokenizer, count entries and cut dictionaries by it, show what it does."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .configuration import ConfigurationError
from .datamodules.arguments import OneLineParser, check_outputs, run_told
from .datamodules.shards.parsing import add_cache, read_cache
from .tokenizer_dictionary import add_dictionary

PROGRAM = "interlingua tokenizer"
FILE = "NAME.json|NAME.model"


def main(argv: list[str]) -> int:
    """Run one command.

    Args:
        argv: What stands behind `interlingua tokenizer`.

    Returns:
        Exit status: 0 well, 1 a tokenizer not fit, 2 wrong use or wrong input (one line on standard error says what).
    """
    options = _parser().parse_args(argv)
    return run_told(f"{PROGRAM} {options.command}", lambda: options.run(options), ImportError, ConfigurationError)


def _train(options: argparse.Namespace) -> int:
    from .datamodules.train_tokenizer import train_tokenizer

    train_tokenizer(
        _read_texts(options),
        options.output,
        options.size,
        options.temperature,
        options.languages,
        options.limit_lines,
        options.seed,
        options.force,
    )
    return 0


def _import(options: argparse.Namespace) -> int:
    from .datamodules.shards.fields import check_language
    from .modalities.tokenizer_import import import_tokenizer

    for code in options.languages or []:
        check_language(code, "--languages")
    import_tokenizer(
        options.source,
        options.family,
        options.output,
        options.languages,
        options.lower_case,
        options.preset,
        options.force,
    )
    return 0


def _show(options: argparse.Namespace) -> int:
    from .modalities.tokenizer import Tokenizer

    tokenizer = Tokenizer(options.file)
    print(f"{tokenizer.path}: {tokenizer.vocabulary.size} pieces of the family {tokenizer.family}, hash {tokenizer.hash}")
    ids = ", ".join(f"{name}: {number}" for name, number in asdict(tokenizer.vocabulary).items())
    print(f"vocabulary: {{{ids}}}")
    print(f"normalisation: {tokenizer.normalization}")
    print(f"languages: {', '.join(f'{code} {number}' for number, code in enumerate(tokenizer.languages))}")
    if options.language:
        tokenizer.language_id(options.language)
    for text in options.text:
        found = tokenizer.encode([text], options.language and [options.language])
        words: dict[int, list[str]] = {}
        for word, piece in zip(found.words.tolist(), tokenizer.pieces(found.ids.tolist()), strict=True):
            words.setdefault(word, []).append(piece)
        print(f"text: {tokenizer.normalize(text, options.language)}")
        print(f"  ids: {' '.join(map(str, found.ids.tolist()))}")
        print(f"  words: {' | '.join(' '.join(pieces) for pieces in words.values())}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from .tokenizer_check import check

    return check(options)


def _count(options: argparse.Namespace) -> int:
    from .datamodules.count_entries import count_entries
    from .modalities.entry_counts import write_counts
    from .modalities.tokenizer import Tokenizer

    tokenizer = Tokenizer(options.file)
    if not options.output.endswith(".json"):
        raise ValueError(f"--output is {options.output}; expected a file NAME.counts.json")
    check_outputs([Path(options.output)], options.force)
    lines = _read_texts(options)
    unknown: Counter[str] = Counter()
    found = count_entries(_leave_out(lines, tokenizer.languages, unknown), tokenizer)
    for code, number in unknown.most_common():
        print(f"left out: {number:,} texts in {code}, a language that the tokenizer does not know")
    if not found.counts.any():
        raise ValueError("no text to count in: every line is empty, or there is none; check the files and --roles")
    write_counts(found, options.output)
    seen = int((found.counts > 0).sum())
    print(
        f"wrote {options.output}: {int(found.counts.sum()):,} pieces of {found.texts:,} texts, "
        f"{seen:,} of {tokenizer.vocabulary.size:,} entries seen"
    )
    return 0


def _read_texts(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Language and text of all that `--shards` or `--text` name.

    Raises:
        ValueError: They cannot be read, or `--roles` is given for what has none.
    """
    from .datamodules.train_tokenizer import read_shards, read_text_files

    if options.shards:
        return read_shards(options.shards, options.roles or [], print, read_cache(options))
    if options.roles:
        raise ValueError("--roles chooses texts of --shards; files of --text have none, so leave it out")
    return read_text_files(options.text)


def _leave_out(lines: Iterator[tuple[str, str]], known: Sequence[str], unknown: Counter[str]) -> Iterator[tuple[str, str]]:
    """The lines in known languages, as training reads them; the others are counted."""
    for code, text in lines:
        if code in known:
            yield code, text
        else:
            unknown[code] += 1


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=PROGRAM, description="Train or import a tokenizer, check that one fits data and encoder, show what one does."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_train(commands)
    _add_import(commands)
    _add_check(commands)
    _add_counts(commands)
    add_dictionary(commands)
    inspect = commands.add_parser(
        "show", help="print size and ids (as `vocabulary:` wants them), languages, normalisation, hash"
    )
    inspect.set_defaults(run=_show)
    inspect.add_argument("file", metavar=FILE)
    inspect.add_argument("--text", nargs="+", default=[], metavar="TEXT", help="texts to be cut into pieces and words")
    inspect.add_argument("--language", metavar="CODE", help="language of the texts; only XLM's words depend on it")
    return parser


def _add_train(commands: Any) -> None:
    train = commands.add_parser("train", help="train one from shards or text files")
    train.set_defaults(run=_train)
    _add_texts(train)
    train.add_argument("--output", required=True, metavar="NAME.model", help="NAME.json is written beside it")
    train.add_argument("--size", type=int, default=8000, help="pieces, control tokens and bytes included (default: 8000)")
    train.add_argument(
        "--temperature",
        type=float,
        default=0.7,
        help="exponent of a language's lines in its share: 1 as the data are, 0 all alike (default: 0.7)",
    )
    _add_languages(train, "codes in the order of their ids (default: sorted)")
    _add_roles(train)
    train.add_argument("--limit-lines", type=int, default=2_000_000, metavar="N", help="lines drawn at most (default: 2000000)")
    train.add_argument("--seed", type=int, default=0, help="decides which lines are drawn (default: 0)")
    _add_force(train, "tokenizer")


def _add_import(commands: Any) -> None:
    what = "take over the tokenizer of a published checkpoint, from its local files"
    take = commands.add_parser(
        "import",
        help=what,
        description=f"{what[0].upper()}{what[1:]}. The result is a tokenizer like any other, in files of its own.",
        epilog=f"examples:\n  {PROGRAM} import xlm-roberta-base --as xlm-roberta --languages en,de --output data/xlmr.model\n"
        f"  {PROGRAM} import bert-base-multilingual-cased --as bert --languages en,de --output data/mbert.json\n"
        f"  {PROGRAM} import xlm-mlm-tlm-xnli15-1024 --as xlm --output data/xlm15.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    take.set_defaults(run=_import)
    take.add_argument("source", metavar="FOLDER|FILE", help="the checkpoint's folder, or its vocabulary's file")
    take.add_argument("--as", dest="family", required=True, choices=["xlm-roberta", "bert", "xlm"], help="family of the model")
    take.add_argument(
        "--output", required=True, metavar=FILE, help="other files go beside it; NAME.model for xlm-roberta alone"
    )
    _add_languages(take, "codes of your data in the order of their ids; XLM's files tell them")
    take.add_argument(
        "--lower-case",
        action=argparse.BooleanOptionalAction,
        help="lower-case texts and drop accents, of bert and xlm (default: as its configuration, else its vocabulary, says)",
    )
    take.add_argument(
        "--preset",
        choices=["xlm_original", "xlm_hf"],
        help="what XLM's texts start with: </s>, as it was trained (default), or <s>, as with Hugging Face",
    )
    _add_force(take, "tokenizer")


def _add_check(commands: Any) -> None:
    what = "what it makes of each language's texts, and whether an encoder can read it. Exit status 1 if not fit"
    check = commands.add_parser(
        "check",
        help=what,
        description=f"Check a tokenizer: {what}.",
        epilog=f"examples:\n  {PROGRAM} check data/tokenizer.model --shards data/names\n"
        f"  {PROGRAM} check data/tokenizer.model --shards data/names --encoder runs/mine/checkpoints/last.ckpt --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.set_defaults(run=_check)
    check.add_argument("file", metavar=FILE)
    check.add_argument("--shards", nargs="+", action="extend", required=True, metavar="PATH", help="tars, patterns, or folders")
    add_cache(check)
    check.add_argument("--encoder", metavar="FILE", help="a configuration (.yaml) or a checkpoint (.ckpt) with the encoder")
    check.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="longest text (default: what --encoder or its data say, else 512)",
    )
    _add_languages(check, "check only texts in these (default: all)")
    _add_roles(check)
    check.add_argument(
        "--limit-texts",
        type=int,
        default=20_000,
        metavar="N",
        help="texts read of a language, evenly spread (default: 20000)",
    )
    check.add_argument("--json", action="store_true", help="print the report as JSON")


def _add_counts(commands: Any) -> None:
    what = "how often each entry of the vocabulary stands in texts, for objectives that hide rare tokens more often (`alpha`)"
    count = commands.add_parser("counts", help=what, description=f"Count {what}.")
    count.set_defaults(run=_count)
    count.add_argument("file", metavar=FILE)
    _add_texts(count)
    count.add_argument("--output", required=True, metavar="NAME.counts.json", help="what is written")
    _add_roles(count)
    _add_force(count, "file")


def _add_texts(parser: argparse.ArgumentParser) -> None:
    sources = parser.add_mutually_exclusive_group(required=True)
    sources.add_argument("--shards", nargs="+", action="extend", metavar="PATH", help="shards to take all texts from")
    sources.add_argument("--text", nargs="+", action="extend", metavar="LANG=FILE", help="text files, UTF-8, one text a line")
    add_cache(parser)


def _add_roles(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--roles", type=_split, metavar="ROLE,ROLE", help="use only texts of these roles (default: all)")


def _add_languages(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("--languages", type=_split, metavar="en,de", help=meaning)


def _add_force(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--force", action="store_true", help=f"write over an existing {what}")


def _split(codes: str) -> list[str]:
    return [code.strip() for code in codes.split(",")]
