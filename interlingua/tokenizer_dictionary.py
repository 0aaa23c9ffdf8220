"""`interlingua tokenizer dictionary`: a bilingual dictionary cut by a tokenizer, for code switching."""

import argparse
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

PROGRAM = "interlingua tokenizer"


def add_dictionary(commands: Any) -> None:
    """The command `dictionary`."""
    what = "a bilingual dictionary in a tokenizer's pieces, for code switching (`alignments: dictionary`)"
    parser = commands.add_parser(
        "dictionary",
        help=what,
        description=f"Write {what}.",
        epilog=f"examples:\n  {PROGRAM} dictionary en-de.txt --languages en de --tokenizer data/my.model --output data/my.npz\n"
        f"  {PROGRAM} dictionary lexicon.jsonl.gz --tokenizer data/my.model --output data/my.npz",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=write)
    parser.add_argument(
        "lexicons",
        nargs="+",
        metavar="LEXICON",
        help="text with a word and its translation on each line, a space or tab between (MUSE), or NAME.jsonl with "
        '{"words": {"en": "ten", "de": "zehn"}} on each line; .gz too',
    )
    parser.add_argument("--tokenizer", required=True, metavar="NAME.json|NAME.model", help="what cuts the words")
    parser.add_argument("--output", required=True, metavar="NAME.npz", help="what is written")
    parser.add_argument(
        "--languages",
        nargs="+",
        metavar="CODE",
        help="the two of a text's columns; of JSON lines, those that are wanted (default: all that the tokenizer knows)",
    )
    parser.add_argument(
        "--capitalized",
        action="store_true",
        help="words with a capital letter too, for lexicons in lower case (MUSE's): they are looked up as they are written",
    )
    parser.add_argument("--force", action="store_true", help="write over an existing file")


def write(options: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        ValueError: An option or a file is not as it should be.
    """
    from .datamodules.arguments import check_outputs
    from .datamodules.lexicons import compile_dictionary, read_lexicon, with_capitals
    from .modalities.dictionary import write_dictionary
    from .modalities.tokenizer import Tokenizer

    tokenizer = Tokenizer(options.tokenizer)
    if not options.output.endswith(".npz"):
        raise ValueError(f"--output is {options.output}; expected a file NAME.npz")
    check_outputs([Path(options.output)], options.force)
    codes = options.languages
    if codes is not None and (len(codes) < 2 or len(set(codes)) < len(codes)):
        raise ValueError(f"--languages: expected two or more, each once, found {' '.join(codes)}")
    for code in codes or []:
        tokenizer.language_id(code)
    lines: Counter[str] = Counter()
    pairs = chain.from_iterable(read_lexicon(path, codes, lines) for path in options.lexicons)
    found, skipped = compile_dictionary(with_capitals(pairs) if options.capitalized else pairs, tokenizer)
    for kind, count in (+lines).most_common():
        print(f"skipped: {kind}: {count:,}")
    for kind, count in skipped.most_common():
        print(f"skipped: {kind}: {count:,} pairs")
    if not len(found.pairs):
        raise ValueError(f"no pair of words in {' '.join(options.lexicons)} to be written; check --languages and --tokenizer")
    write_dictionary(found, options.output)
    print(f"wrote {options.output}: {len(found.language):,} words, {len(found.pairs):,} pairs of a word and a translation")
    for line in _by_language(found, tokenizer):
        print(line)
    return 0


def _by_language(found: Any, tokenizer: Any) -> list[str]:
    """Pairs by their two languages, in the order of languages."""
    pairs = Counter(map(tuple, found.language[found.pairs].tolist()))
    codes = tokenizer.languages
    return [f"  {codes[source]} to {codes[target]}: {count:,}" for (source, target), count in sorted(pairs.items())]
