"""`interlingua checkpoint` of fused encoders: VisualBERT and LXMERT both ways, UNITER, ViLBERT and VOLTA inward."""

import argparse
from pathlib import Path
from typing import Any

from .checkpoint_words import IDS, account
from .configuration import ConfigurationError

MATCHING = (".ImageTextMatching", ".HardImageTextMatching")


def import_fused(options: argparse.Namespace) -> int:
    """Make a file of a fused checkpoint of others."""
    from .models.foreign_weights import checksum, read_facts, read_foreign
    from .models.fused_conversion import convert_fused
    from .models.pretrained import write_pretrained

    for name in ("heads", "languages"):
        if getattr(options, name) is not None:
            raise ConfigurationError(f"--{name} is not for {options.family}, whose configuration says it (--config FILE.json)")
    foreign = read_foreign(options.source)
    configuration = None
    if options.config is not None:
        facts, found = read_facts(Path(options.config))
        if found is None:
            raise FileNotFoundError(f"--config {options.config} does not exist; give the JSON that the model was trained with")
        configuration = (facts, found)
        foreign.sources[Path(found).name] = checksum(Path(found))
    converted = convert_fused(foreign, options.family, options.ids, configuration)
    translation = converted.translation
    account(translation.matched, len(foreign.weights), translation.missing, translation.unexpected)
    for part in translation.absent:
        print(f"not in the file: {part}")
    for note in converted.notes:
        print(note)
    describe(converted.pretrained)
    _check_import(converted, options.family)
    write_pretrained(converted.pretrained, options.output)
    print(f"written: {options.output}")
    return 0


def _check_import(converted: Any, kind: str) -> None:
    from .models.fused_check import compare_fused
    from .models.fused_conversion import export_fused
    from .models.fused_families import LAYOUTS
    from .models.fused_pretrained import make_fused

    if LAYOUTS[kind].classes is None:
        print(f"forward check: left out, since no code of {kind}'s own is to be installed")
        return
    encoder = make_fused(converted.pretrained)
    exported = export_fused(encoder, converted.pretrained.weights, kind)
    _tell(exported, lambda theirs: compare_fused(encoder, converted.pretrained, theirs, kind), None)


def export_fused(options: argparse.Namespace) -> int:
    """Write a folder that Hugging Face's own class loads."""
    from .models.conversion import write_folder
    from .models.fused_check import compare_fused
    from .models.fused_conversion import export_fused as export
    from .models.fused_pretrained import is_fused, make_fused
    from .models.pretrained import is_pretrained, read_pretrained, refuse_folder

    refuse_folder(options.file)
    if not Path(options.file).is_file():
        raise FileNotFoundError(f"{options.file} does not exist; give a file of `interlingua checkpoint import`, or a .ckpt")
    if is_pretrained(options.file):
        pretrained = read_pretrained(options.file)
        if not is_fused(pretrained):
            raise ValueError(f"{options.file} holds a text tower ({pretrained.family}); give --as {pretrained.family}")
        if options.objective is not None:
            raise ValueError(f"{options.file} has no objectives; leave --objective out")
        encoder, weights = make_fused(pretrained), pretrained.weights
    else:
        encoder, weights = _read_training(options.file, options.objective)
    exported, folder = export(encoder, weights, options.family), Path(options.output)
    write_folder(exported, folder)
    for note in exported.notes:
        print(note)
    print(f"written: {folder / 'config.json'} and {folder / 'model.safetensors'}, for {exported.architecture}")
    _tell(exported, lambda theirs: compare_fused(encoder, weights, theirs, options.family), folder)
    return 0


def _read_training(file: str, objective: str | None) -> tuple[Any, dict[str, Any]]:
    """The fused encoder of a training checkpoint, and its weights with those of the heads trained on it, by our names."""
    from .models.fused import Fused
    from .trained_tower import below, find_head, named, read_encoder

    encoder, state, objectives = read_encoder(file)
    if not isinstance(encoder, Fused):
        raise ConfigurationError(f"{file}: its encoder is a {type(encoder).__name__}, and no fused one; export its text tower")
    weights = named("encoder", encoder.state_dict()) | find_head(state, encoder, objective)
    for name, node in objectives.items():
        if node["class_path"].endswith(MATCHING):
            weights |= named("matching", below(state, f"objectives.{name}.head."))
    return encoder.eval(), weights


def _tell(exported: Any, compare: Any, folder: Path | None) -> None:
    """Compare with Hugging Face's class, and say how well it agrees."""
    from .models.forward_check import build_theirs, has_transformers, load_theirs

    if not has_transformers():
        print("forward check: left out, since transformers is not installed (pip install transformers)")
        return
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    theirs = build_theirs(exported) if folder is None else load_theirs(exported, folder)
    found = compare(theirs)
    parts = ", ".join(f"{name} {apart:.1e}" for name, apart in found.items())
    print(f"forward check: {type(theirs).__name__} agrees; largest differences: {parts}")


def describe(pretrained: Any) -> None:
    """Say what a file of a fused encoder holds."""
    arguments, text = pretrained.arguments, pretrained.arguments["text"]["init_args"]
    parts = sorted({name.partition(".")[0] for name in pretrained.weights})
    numbers = sum(weight.numel() for weight in pretrained.weights.values())
    kinds = {str(weight.dtype).removeprefix("torch.") for weight in pretrained.weights.values()}
    print(f"{pretrained.family}: {', '.join(parts)}; {numbers:,} numbers, {', '.join(sorted(kinds))}")
    print(f"plan: {arguments['plan']}; regions of {arguments['features']} numbers")
    size, family = text["size"], pretrained.arguments["text"]["class_path"].rpartition(".")[2]
    print(
        f"text: {family} of {size['layers']} layers, width {size['width']}, {size['heads']} heads, inner {size['inner']}, "
        f"max_tokens {text['max_tokens']}"
    )
    ids = text["vocabulary"]
    print(f"vocabulary {ids['size']}: {', '.join(f'{name} {ids[name]}' for name in IDS)}")
