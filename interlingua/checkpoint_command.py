"""`interlingua checkpoint`: take over text towers of others, and give ours to others."""

import argparse
import sys
from pathlib import Path
from typing import Any

from .configuration import ConfigurationError
from .datamodules.arguments import OneLineParser

PROGRAM = "interlingua checkpoint"
NAMES = ("bert", "xlm-roberta", "xlm-roberta-xl", "xlm")
IDS = ("pad", "unknown", "start", "end", "mask")


def main(argv: list[str]) -> int:
    """Run one command.

    Args:
        argv: What stands behind `interlingua checkpoint`.

    Returns:
        Exit status: 0 well, 2 wrong use or wrong input (one line on standard error says what).
    """
    options = _parser().parse_args(argv)
    try:
        return options.run(options)
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ConfigurationError) as error:
        print(f"{PROGRAM} {options.command}: {error}", file=sys.stderr)
        return 2


def _import(options: argparse.Namespace) -> int:
    from .models.conversion import convert, export
    from .models.families import FAMILIES
    from .models.foreign_weights import read_foreign
    from .models.pretrained import write_pretrained

    _refuse_existing(options.output, options.force)
    family, foreign = FAMILIES[options.family], read_foreign(options.source)
    converted = convert(foreign, family, options.heads, options.ids, options.languages)
    pretrained, translation = converted.pretrained, converted.translation
    _account(translation.matched, len(foreign.weights), translation.missing, translation.unexpected)
    for part in translation.absent:
        print(f"not in the file: {part}")
    for note in converted.notes:
        print(note)
    _describe(pretrained)
    has_own = foreign.facts_from is not None and foreign.facts_from.endswith("config.json")
    _check_forward(pretrained, export(pretrained), configuration=foreign.facts if has_own else None)
    write_pretrained(pretrained, options.output)
    print(f"written: {options.output}")
    return 0


def _export(options: argparse.Namespace) -> int:
    from .models.conversion import export, write_folder
    from .models.families import FAMILIES

    folder = Path(options.output)
    _refuse_existing(folder / "config.json", options.force)
    _refuse_existing(folder / "model.safetensors", options.force)
    pretrained = _read(options.file, FAMILIES[options.family], options.objective, options.languages)
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
    from .models.pretrained import read_pretrained

    pretrained = read_pretrained(options.file)
    _describe(pretrained)
    for name, digest in pretrained.sources.items():
        print(f"made of: {name} sha256 {digest}")
    import yaml

    print(yaml.safe_dump({"encoder": pretrained.configuration}, sort_keys=False), end="")
    return 0


def _resize(options: argparse.Namespace) -> int:
    from .models.pretrained import read_pretrained, resize_vocabulary, write_pretrained

    _refuse_existing(options.output, options.force)
    keep = None if options.keep is None else _read_ids(options.keep)
    before = read_pretrained(options.file)
    after = resize_vocabulary(before, keep, options.add)
    write_pretrained(after, options.output)
    sizes = [one.arguments["vocabulary"]["size"] for one in (before, after)]
    print(f"vocabulary: {sizes[0]} entries, now {sizes[1]}, the last {options.add} new")
    print(f"written: {options.output}")
    return 0


def _read_ids(file: str) -> list[int]:
    lines = Path(file).read_text(encoding="utf-8").split()
    wrong = [line for line in lines if not line.isdigit()]
    if wrong:
        raise ConfigurationError(f"{file}: {wrong[0]!r} is no id; expected one number a line")
    return [int(line) for line in lines]


def _read(file: str, family: Any, objective: str | None, languages: list[str] | None) -> Any:
    """A file of ours, or what a training checkpoint holds of one."""
    from dataclasses import replace

    from .models.pretrained import is_pretrained, read_pretrained

    if not Path(file).is_file():
        raise FileNotFoundError(f"{file} does not exist; give a file of `{PROGRAM} import`, or the .ckpt of a training")
    if not is_pretrained(file):
        return _read_training(file, family, objective, languages)
    pretrained = read_pretrained(file)
    if pretrained.family != family.name:
        raise ValueError(f"{file} is {pretrained.family}, but --as is {family.name}")
    if objective is not None:
        raise ValueError(f"{file} has no objectives; leave --objective out")
    count = pretrained.arguments.get("languages", 0)
    if languages is not None and len(languages) != count:
        raise ValueError(f"--languages names {len(languages)}, but there are {count} language vectors")
    return pretrained if languages is None else replace(pretrained, languages=languages)


def _read_training(file: str, family: Any, objective: str | None, languages: list[str] | None) -> Any:
    from .checking import build, check_class
    from .checkpoints import CONFIGURATION, read_checkpoint
    from .models.encoder import Encoder
    from .models.families import check_family
    from .models.foreign_weights import checksum
    from .models.loading import load_whole
    from .models.pretrained import find_text_tower, from_tower

    checkpoint = read_checkpoint(file)
    node = checkpoint.get(CONFIGURATION, {}).get("model", {}).get("init_args", {}).get("encoder")
    if node is None:
        raise ConfigurationError(f"{file}: holds no configuration of an encoder; give the .ckpt that `interlingua fit` wrote")
    check_class("model.encoder", node)
    encoder = build(Encoder, node)
    state = checkpoint["state_dict"]
    load_whole(encoder, _below(state, "encoder."), "encoder of the configuration")
    tower = find_text_tower(encoder)
    check_family(tower, family)
    objectives = checkpoint[CONFIGURATION]["model"]["init_args"].get("objectives") or {}
    heads = _find_head(state, tower, objective) | _find_pair_head(state, objectives)
    count = tower.languages
    if languages is not None and len(languages) != count:
        raise ValueError(f"--languages names {len(languages)}, but there are {count} language vectors")
    return from_tower(tower, family, heads, languages, {Path(file).name: checksum(Path(file))})


def _find_pair_head(state: dict[str, Any], objectives: dict[str, Any]) -> dict[str, Any]:
    """Weights of the pooler and classifier of next sentence prediction, where it was trained."""
    for name, node in objectives.items():
        if node["class_path"].endswith(".NextSentence"):
            start = f"objectives.{name}.pair_head."
            pooler, classifier = _below(state, f"{start}pooler."), _below(state, f"{start}head.")
            return _named("pooler", pooler) | _named("next_sentence", classifier)
    return {}


def _find_head(state: dict[str, Any], tower: Any, objective: str | None) -> dict[str, Any]:
    """Weights of the one token head, or of the named one."""
    wanted = {name: weight.shape for name, weight in tower.token_head("text").state_dict().items()}
    heads = {}
    for name in sorted({key.split(".")[1] for key in state if key.startswith("objectives.")}):
        head = _below(state, f"objectives.{name}.head.")
        if {key: weight.shape for key, weight in head.items()} == wanted:
            heads[name] = head
    if objective is not None and objective not in heads:
        raise ValueError(f"objective {objective!r} has no token head; those with one: {', '.join(heads) or 'none'}")
    first = heads[min(heads)] if heads else {}
    if objective is None and not all(_same(first, other) for other in heads.values()):
        raise ValueError(f"several objectives have token heads of their own: {', '.join(heads)}; give one as --objective")
    if not heads:
        print("no objective has a token head: the tower is written without one")
        return {}
    return _named("head", heads[objective] if objective else first)


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(weight.equal(other[name]) for name, weight in one.items())  # one head, saved under each name that shares it


def _named(part: str, weights: dict[str, Any]) -> dict[str, Any]:
    return {f"{part}.{name}": weight for name, weight in weights.items()}


def _below(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): weight for name, weight in state.items() if name.startswith(prefix)}


def _account(matched: int, there: int, missing: list[str], unexpected: list[str]) -> None:
    """Say what became of all names; the rest of `there` are buffers and copies."""
    rest = there - matched - len(unexpected)
    aside = f" ({rest} buffers or copies set aside)" if rest > 0 else ""
    print(f"{matched} of {there} weights matched, {len(missing)} missing, {len(unexpected)} unexpected{aside}")
    for name in unexpected:
        print(f"unexpected, left aside: {name}")


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
    print(f"forward check: {type(theirs).__name__} agrees; largest difference of states {agreement.states:.1e}, {scores}")


def _refuse_existing(path: str | Path, force: bool) -> None:
    if Path(path).exists() and not force:
        raise ConfigurationError(f"{path} exists; choose another, or give --force to write over it")


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog=PROGRAM, description="Take over text towers of others, and give ours to others.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    take = commands.add_parser("import", help="make a checkpoint of others ours")
    take.set_defaults(run=_import)
    take.add_argument("source", metavar="DIR|FILE", help="a folder of Hugging Face's, or a file of weights (fairseq, XLM)")
    take.add_argument("--as", dest="family", required=True, choices=NAMES, help="what it is")
    take.add_argument("--heads", type=int, metavar="N", help="attention heads, where the files do not say")
    take.add_argument("--ids", type=_ids, metavar="PAD,UNKNOWN,START,END,MASK", help="control ids, if not the published")
    take.add_argument("--output", required=True, metavar="FILE", help="for `initial` of a pretraining, or for export")
    give = commands.add_parser("export", help="write a folder that Hugging Face's own classes load")
    give.set_defaults(run=_export)
    give.add_argument("file", metavar="FILE", help="of import, or a .ckpt of `interlingua fit`")
    give.add_argument("--as", dest="family", required=True, choices=NAMES, help="what it is to be")
    give.add_argument("--objective", metavar="NAME", help="of a .ckpt: whose token head to write, if they differ")
    give.add_argument("--output", required=True, metavar="DIR")
    for command in (take, give):
        command.add_argument("--languages", type=_split, metavar="en,de", help="codes of XLM's language vectors, in order")
    show = commands.add_parser("show", help="print what a file of import holds, and the configuration of its encoder")
    show.set_defaults(run=_show)
    show.add_argument("file", metavar="FILE")
    resize = commands.add_parser("resize", help="change the vocabulary, keeping the rows of what stays")
    resize.set_defaults(run=_resize)
    resize.add_argument("file", metavar="FILE", help="of import")
    resize.add_argument("--keep", metavar="IDS.txt", help="old ids that stay, one a line, in their new order (default: all)")
    resize.add_argument("--add", type=int, default=0, metavar="N", help="new entries behind them, at the mean of the kept")
    resize.add_argument("--output", required=True, metavar="FILE")
    for command in (take, give, resize):
        command.add_argument("--force", action="store_true", help="write over what is there")
    return parser


def _ids(numbers: str) -> dict[str, int]:
    found = [int(number) for number in numbers.split(",")]
    if len(found) != len(IDS):
        raise argparse.ArgumentTypeError(f"expected {len(IDS)} numbers ({', '.join(IDS)}), found {len(found)}")
    return dict(zip(IDS, found, strict=True))


def _split(codes: str) -> list[str]:
    return [code.strip() for code in codes.split(",")]
