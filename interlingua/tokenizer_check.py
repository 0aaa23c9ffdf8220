"""`interlingua tokenizer check`: a tokenizer against the texts of shards, and against the encoder that is to read them."""

import argparse
import json
import re
from types import SimpleNamespace
from typing import Any, NamedTuple

from .configuration import ConfigurationError, locate, read_file
from .datamodules.check_tokenizer import TokenizerReport, check_tokenizer
from .datamodules.shards.parsing import read_cache
from .datamodules.shards.reader import ShardSet
from .modalities.tokenizer import Tokenizer

LONGEST = 512
"""Longest text where neither the command line nor an encoder says."""


def check(options: argparse.Namespace) -> int:
    """Run `interlingua tokenizer check`; gives the exit status.

    Args:
        options: As parsed by `tokenizer_command`.

    Raises:
        ValueError: An option is out of range, or shards or tokenizer cannot be read.
        ConfigurationError: `--encoder` names nothing that describes an encoder.
    """
    for name, least in (("limit_texts", 1), ("max_tokens", 3)):
        if (given := getattr(options, name)) is not None and given < least:
            raise ValueError(f"--{name.replace('_', '-')} is {given}; expected at least {least}")
    tokenizer = Tokenizer(options.file)
    card = EncoderCard() if options.encoder is None else find_encoder(options.encoder)
    max_tokens = options.max_tokens or card.max_tokens or getattr(card.encoder, "max_tokens", None) or LONGEST
    shards = ShardSet(options.shards, cache=read_cache(options))
    report = check_tokenizer(tokenizer, shards, max_tokens, options.limit_texts, options.languages, options.roles)
    if card.encoder is not None:
        compare(report, tokenizer, card, options.encoder)
    if options.json:
        print(json.dumps(report.to_json(), indent=1, ensure_ascii=False))
    else:
        show_report(report)
    return 0 if report.fit else 1


class EncoderCard(NamedTuple):
    """What is to read the tokenizer's tokens, as a configuration tells it."""

    encoder: Any = None
    tokenizer: str | None = None
    """Path of the tokenizer that the configuration names."""
    max_tokens: int | None = None
    """Tokens at which its data cut a text."""
    hash: str | None = None
    """Of the tokenizer that it was trained with, where a checkpoint says it."""


def find_encoder(file: str) -> EncoderCard:
    """The encoder that a configuration or a checkpoint describes, without its weights.

    Args:
        file: `.yaml`, or a `.ckpt` that `interlingua fit` wrote.

    Raises:
        ConfigurationError: It is neither, or describes no encoder.
    """
    from .checkpoints import read_checkpoint, read_configuration
    from .modalities.trained_tokenizer import KEY
    from .training import with_kept_encoder

    is_configuration = file.endswith((".yaml", ".yml"))
    try:
        configuration = with_kept_encoder(read_file(locate(file))) if is_configuration else read_configuration(file)
    except ConfigurationError as error:  # of a file that another option names elsewhere
        raise ConfigurationError(re.sub(r"^--config\b", "--encoder", str(error))) from None
    arguments = (configuration.get("model") or {}).get("init_args") or {}
    if not isinstance(arguments.get("encoder"), dict):
        raise ConfigurationError(f"{file}: describes no encoder; expected model.init_args.encoder with a class_path")
    from .checking import build, check_class
    from .models.encoder import Encoder

    check_class("model.encoder", arguments["encoder"])
    data = (configuration.get("data") or {}).get("init_args") or {}
    named = next((path for path in (arguments.get("tokenizer"), data.get("tokenizer")) if isinstance(path, str)), None)
    kept = {} if is_configuration else read_checkpoint(file).get(KEY) or {}
    return EncoderCard(build(Encoder, arguments["encoder"]), named, data.get("max_tokens"), kept.get("hash"))


def compare(report: TokenizerReport, tokenizer: Tokenizer, card: EncoderCard, file: str) -> None:
    """Add to a report where tokenizer and encoder do not agree.

    Args:
        report: Of the tokenizer.
        tokenizer: Itself.
        card: Who is to read its tokens.
        file: Where that was found.
    """
    from .tasks.agreement import check_agreement

    if card.encoder.vocabulary is None:
        report.problems.append(f"{file}: its encoder reads no text")
        return
    try:
        check_agreement(card.encoder, tokenizer, SimpleNamespace(max_tokens=report.max_tokens))
        report.notes.append(
            f"{file}: its encoder has the same number of pieces, the same ids, and room for {report.max_tokens} tokens"
        )
    except ValueError as error:
        report.problems.append(f"{file}: {error}")
    if card.tokenizer is None:
        return
    try:
        theirs = card.hash or Tokenizer(card.tokenizer).hash
    except (ValueError, OSError, ImportError):
        report.notes.append(
            f"{file} names the tokenizer {card.tokenizer}, which cannot be read here: whether it is the same is not known"
        )
        return
    if theirs != tokenizer.hash:
        report.problems.append(
            f"{file} names another tokenizer: {card.tokenizer} {'had' if card.hash else 'has'} hash {theirs[:12]}, "
            f"{tokenizer.path} has {tokenizer.hash[:12]}: equal ids mean different pieces; give the encoder its own tokenizer"
        )


def show_report(report: TokenizerReport) -> None:
    """Print a table, and below it what is wrong."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 200  # a file or a pipe is as wide as its lines
    about = report.tokenizer
    ids = about["vocabulary"]
    console.print(f"{about['path']}: {ids['size']:,} pieces, hash {about['hash'][:12]}, {about['normalization']}")
    console.print("ids: " + ", ".join(f"{name} {number}" for name, number in ids.items() if name != "size"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, title in enumerate(
        ["", "texts", "read", "a word", "a character", "unknown", "bytes", "come back", "longest", f"over {report.max_tokens}"]
    ):
        table.add_column(title, justify="right" if number else "left")
    for code, one in report.languages.items():
        share = one.shares
        fertility = ["", f"{one.fertility:.2f}"] if one.unspaced else [f"{one.fertility:.2f}", ""]
        rates = [_percent(share[name]) for name in ("unknown", "bytes", "returned")]
        table.add_row(code, f"{one.texts:,}", f"{one.read:,}", *fertility, *rates, f"{one.longest:,}", _percent(share["cut"]))
    console.print(table)
    console.print("(a word, a character: mean pieces of one; unknown, bytes: of pieces; come back, over: of texts)")
    for kind, count in report.unreadable.items():
        console.print(f"left out, {kind}: {count:,} samples")
    for line in report.notes:
        console.print(f"note: {line}", soft_wrap=True)
    for line in report.problems:
        console.print(f"NOT FIT: {line}", soft_wrap=True)
    if report.fit:
        console.print("fit")


def _percent(share: float) -> str:
    """A share that says 0 % and 100 % only where it is."""
    shown = f"{share:.1%}"
    return {"0.0%": "0" if share == 0 else "<0.1%", "100.0%": "100%" if share == 1 else ">99.9%"}.get(shown, shown)
