"""`interlingua checkpoint`: take over encoders of others, and give ours to others."""

import argparse
from pathlib import Path
from typing import Any

from .checkpoint_words import IDS, account
from .configuration import ConfigurationError
from .datamodules.arguments import OneLineParser, check_folder, check_outputs, run_told

PROGRAM = "interlingua checkpoint"
NAMES = ("bert", "xlm-roberta", "xlm-roberta-xl", "xlm")
FUSED = ("visualbert", "lxmert", "uniter", "vilbert", "volta")
"""Fused encoders (see `fused_checkpoint`); only the first two are exported."""


def main(argv: list[str]) -> int:
    """Run one command.

    Args:
        argv: What stands behind `interlingua checkpoint`.

    Returns:
        Exit status: 0 well, 2 wrong use or wrong input (one line on standard error says what).
    """
    options = _parser().parse_args(argv)
    return run_told(f"{PROGRAM} {options.command}", lambda: options.run(options), ConfigurationError)


def _import(options: argparse.Namespace) -> int:
    from .models.conversion import convert, export
    from .models.families import FAMILIES
    from .models.foreign_weights import read_foreign
    from .models.pretrained import write_pretrained

    check_outputs([Path(options.output)], options.force)
    if options.family in FUSED:
        from .fused_checkpoint import import_fused

        return import_fused(options)
    if options.config is not None:
        raise ConfigurationError(f"--config is for {', '.join(FUSED)}; of {options.family} the config.json beside it is read")
    family, foreign = FAMILIES[options.family], read_foreign(options.source)
    converted = convert(foreign, family, options.heads, options.ids, options.languages)
    pretrained, translation = converted.pretrained, converted.translation
    account(translation.matched, len(foreign.weights), translation.missing, translation.unexpected)
    for part in translation.absent:
        print(f"not in the file: {part}")
    for note in converted.notes:
        print(note)
    _describe(pretrained)
    has_own = foreign.facts_from is not None and foreign.facts_from.endswith("config.json")
    _check_forward(pretrained, export(pretrained), configuration=converted.facts if has_own else None)
    write_pretrained(pretrained, options.output)
    print(f"written: {options.output}")
    return 0


def _export(options: argparse.Namespace) -> int:
    from .models.conversion import export, write_folder
    from .models.families import FAMILIES
    from .trained_tower import read_tower

    folder = Path(options.output)
    check_folder(folder)
    check_outputs([folder / name for name in ("config.json", "model.safetensors")], options.force)
    if options.family in FUSED:
        from .fused_checkpoint import export_fused

        return export_fused(options)
    pretrained = read_tower(options.file, FAMILIES[options.family], options.objective, options.languages)
    exported = export(pretrained)
    write_folder(exported, folder)
    for note in exported.notes:
        print(note)
    if "n_langs" in exported.configuration and pretrained.arguments["languages"] and pretrained.languages is None:
        print("languages: their codes are not known, and not written; give --languages in the order of the vectors")
    print(f"written: {folder / 'config.json'} and {folder / 'model.safetensors'}, for {exported.architecture}")
    _check_forward(pretrained, exported, folder=folder)
    return 0


def _show(options: argparse.Namespace) -> int:
    from .models.fused_pretrained import is_fused
    from .models.pretrained import read_pretrained

    pretrained = read_pretrained(options.file)
    if is_fused(pretrained):
        from .fused_checkpoint import describe

        describe(pretrained)
    else:
        _describe(pretrained)
    for name, digest in pretrained.sources.items():
        print(f"made of: {name} sha256 {digest}")
    import yaml

    print(yaml.safe_dump({"encoder": pretrained.configuration}, sort_keys=False), end="")
    return 0


def _resize(options: argparse.Namespace) -> int:
    from .models.pretrained import read_pretrained, write_pretrained
    from .models.resizing import resize_layers, resize_segments, resize_vocabulary

    check_outputs([Path(options.output)], options.force)
    if options.keep is None and not (options.add or options.layers) and options.segments is None:
        raise ConfigurationError("nothing to change; give --keep IDS.txt, --add N, --layers N, --segments N, or several")
    keep = None if options.keep is None else _read_ids(options.keep)
    pretrained = read_pretrained(options.file)
    if pretrained.family not in NAMES:
        raise ConfigurationError(f"{options.file} holds a fused encoder ({pretrained.family}); only text towers are resized")
    if keep is not None or options.add:
        before = pretrained.arguments["vocabulary"]["size"]
        pretrained = resize_vocabulary(pretrained, keep, options.add)
        now = pretrained.arguments["vocabulary"]["size"]
        print(f"vocabulary: {before} entries, now {now}, the last {options.add} new")
    if options.layers:
        there = pretrained.arguments["size"]["layers"]
        kept, new = _choose_layers(options.layers, there)
        pretrained = resize_layers(pretrained, kept, new)
        print(f"layers: {there}, now {len(kept) + new}, the last {new} new, at random")
    if options.segments is not None:
        pretrained = resize_segments(pretrained, options.segments)
        print(f"segment vectors: now {options.segments}; those that are new are at random")
    write_pretrained(pretrained, options.output)
    print(f"written: {options.output}")
    return 0


def _choose_layers(wanted: list[int], there: int) -> tuple[list[int], int]:
    """Which layers stay, and how many are new: of one number, so many; of several, these."""
    if len(wanted) > 1:
        return wanted, 0
    return list(range(1, min(wanted[0], there) + 1)), max(0, wanted[0] - there)


def _read_ids(file: str) -> list[int]:
    try:
        lines = Path(file).read_text(encoding="utf-8").split()
    except OSError as error:
        raise ConfigurationError(f"--keep {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"--keep {file} is no text; expected one number a line") from None
    wrong = [line for line in lines if not line.isdecimal()]
    if wrong:
        raise ConfigurationError(f"{file}: {wrong[0]!r} is no id; expected one number a line")
    return [int(line) for line in lines]


def _describe(pretrained: Any) -> None:
    size, ids = pretrained.arguments["size"], pretrained.arguments["vocabulary"]
    parts = sorted({name.partition(".")[0] for name in pretrained.weights})
    numbers = sum(weight.numel() for weight in pretrained.weights.values())
    kinds = {str(weight.dtype).removeprefix("torch.") for weight in pretrained.weights.values()}
    print(f"{pretrained.family}: {', '.join(parts)}; {numbers:,} numbers, {', '.join(sorted(kinds))}")
    print(
        f"{size['layers']} layers, width {size['width']}, {size['heads']} heads, inner {size['inner']}, "
        f"max_tokens {pretrained.arguments['max_tokens']}"
    )
    print(f"vocabulary {ids['size']}: {', '.join(f'{name} {ids[name]}' for name in IDS)}")
    if pretrained.languages:
        print(f"languages: {', '.join(f'{code} {number}' for number, code in enumerate(pretrained.languages))}")


def _check_forward(pretrained: Any, exported: Any, folder: Path | None = None, configuration: Any = None) -> None:
    from .models.forward_check import build_theirs, compare, has_transformers, load_theirs

    if not has_transformers():
        print("forward check: left out, since transformers is not installed (pip install transformers)")
        return
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        theirs = build_theirs(exported, configuration) if folder is None else load_theirs(exported, folder)
    except (ValueError, OSError):
        raise
    except Exception as error:  # whatever their class makes of other values
        reason = " ".join(str(error).split())
        raise ValueError(f"{exported.architecture} cannot be built of the configuration: {reason}") from None
    agreement = compare(pretrained, theirs)
    scores = "no head" if agreement.scores is None else f"scores {agreement.scores:.1e}"
    agrees = "agrees"
    if folder is None and configuration is None:
        agrees = "is consistent with the assumed heads, epsilon and ids; not checked against a configuration of theirs"
    print(f"forward check: {type(theirs).__name__} {agrees}; largest difference of states {agreement.states:.1e}, {scores}")


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog=PROGRAM, description="Take over encoders of others, and give ours to others.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    take = commands.add_parser("import", help="make a checkpoint of others ours")
    take.set_defaults(run=_import)
    take.add_argument(
        "source", metavar="DIR|FILE", help="a folder of Hugging Face's, or a file of weights (fairseq, VOLTA, ...)"
    )
    take.add_argument("--as", dest="family", required=True, choices=(*NAMES, *FUSED), help="what it is")
    take.add_argument("--config", metavar="FILE.json", help="what its code is given: of UNITER, ViLBERT, VOLTA")
    take.add_argument("--heads", type=_whole, metavar="N", help="attention heads, where the files do not say")
    take.add_argument("--ids", type=_ids, metavar="PAD,UNKNOWN,START,END,MASK", help="control ids, if not the published")
    take.add_argument("--output", required=True, metavar="FILE", help="for `initial` of a pretraining, or for export")
    give = commands.add_parser("export", help="write a folder that Hugging Face's own classes load")
    give.set_defaults(run=_export)
    give.add_argument("file", metavar="FILE", help="of import, or a .ckpt of `interlingua fit`")
    give.add_argument("--as", dest="family", required=True, choices=(*NAMES, *FUSED[:2]), help="what it is to be")
    give.add_argument("--objective", metavar="NAME", help="of a .ckpt: whose token head to write, if they differ")
    give.add_argument("--output", required=True, metavar="DIR")
    for command in (take, give):
        command.add_argument("--languages", type=_split, metavar="en,de", help="codes of XLM's language vectors, in order")
    show = commands.add_parser("show", help="print what a file of import holds, and the configuration of its encoder")
    show.set_defaults(run=_show)
    show.add_argument("file", metavar="FILE")
    resize = commands.add_parser("resize", help="change vocabulary, layers or segment vectors, keeping what stays")
    resize.set_defaults(run=_resize)
    resize.add_argument("file", metavar="FILE", help="of import")
    resize.add_argument("--keep", metavar="IDS.txt", help="old ids that stay, one a line, in their new order (default: all)")
    resize.add_argument("--add", type=_whole, default=0, metavar="N", help="new entries behind them, at the mean of the kept")
    resize.add_argument("--layers", type=_numbers, metavar="N|2,4,6", help="how many, new ones at random; or which, from 1")
    resize.add_argument("--segments", type=_whole, metavar="N", help="how many segment vectors, new ones at random")
    resize.add_argument("--output", required=True, metavar="FILE")
    for command in (take, give, resize):
        command.add_argument("--force", action="store_true", help="write over what is there")
    return parser


def _ids(numbers: str) -> dict[str, int]:
    try:
        found = [int(number) for number in numbers.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {len(IDS)} numbers ({', '.join(IDS)}), found {numbers!r}") from None
    if len(found) != len(IDS):
        raise argparse.ArgumentTypeError(f"expected {len(IDS)} numbers ({', '.join(IDS)}), found {len(found)}")
    return dict(zip(IDS, found, strict=True))


def _numbers(numbers: str) -> list[int]:
    return [_whole(number) for number in numbers.split(",")]


def _whole(number: str) -> int:
    try:
        return int(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, found {number!r}") from None


def _split(codes: str) -> list[str]:
    return [code.strip() for code in codes.split(",")]
