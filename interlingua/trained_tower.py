"""Text towers to be exported: out of a file of import, or of a training checkpoint with the heads that were trained on it."""

from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from .configuration import ConfigurationError


def read_tower(file: str, family: Any, objective: str | None, languages: list[str] | None) -> Any:
    """A file of `interlingua checkpoint import`, or what a training checkpoint holds of one.

    Args:
        file: Either.
        family: What it is to be.
        objective: Of a training checkpoint: whose token head to take; None: the only one there is.
        languages: Codes of the language vectors, in order; None: as the file says.

    Raises:
        FileNotFoundError, ValueError, ConfigurationError: There is no such file, or it holds something else.
    """
    from dataclasses import replace

    from .models.pretrained import is_pretrained, read_pretrained, refuse_folder

    refuse_folder(file)
    if not Path(file).is_file():
        raise FileNotFoundError(f"{file} does not exist; give a file of `interlingua checkpoint import`, or a .ckpt")
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
    from .models.families import check_family
    from .models.foreign_weights import checksum
    from .models.pretrained import find_text_tower, from_tower

    encoder, state, objectives = read_encoder(file)
    tower = find_text_tower(encoder)
    check_family(tower, family)
    heads = find_head(state, tower, objective) | _find_pair_head(state, objectives)
    count = tower.languages
    if languages is not None and len(languages) != count:
        raise ValueError(f"--languages names {len(languages)}, but there are {count} language vectors")
    return from_tower(tower, family, heads, languages, {Path(file).name: checksum(Path(file))})


def read_encoder(file: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The encoder of a training checkpoint, filled; all weights, and the nodes of its objectives by name.

    Raises:
        ConfigurationError, ValueError: It is no such checkpoint.
    """
    from .checking import build, check_class
    from .checkpoints import CONFIGURATION, read_checkpoint
    from .models.encoder import Encoder
    from .models.loading import load_whole

    if not is_zipfile(file):
        raise ValueError(f"{file}: neither a file of `interlingua checkpoint import`, nor a .ckpt, or cut short")
    checkpoint = read_checkpoint(file)
    node = checkpoint.get(CONFIGURATION, {}).get("model", {}).get("init_args", {}).get("encoder")
    if node is None:
        raise ConfigurationError(f"{file}: holds no configuration of an encoder; give the .ckpt that `interlingua fit` wrote")
    check_class("model.encoder", node)
    encoder = build(Encoder, node)
    state = checkpoint.get("state_dict")
    if not isinstance(state, dict):
        raise ConfigurationError(f"{file}: holds no state_dict; give the .ckpt that `interlingua fit` wrote")
    load_whole(encoder, below(state, "encoder."), "encoder of the configuration")
    return encoder, state, checkpoint[CONFIGURATION]["model"]["init_args"].get("objectives") or {}


def _find_pair_head(state: dict[str, Any], objectives: dict[str, Any]) -> dict[str, Any]:
    """Weights of the pooler and classifier of next sentence prediction, where it was trained."""
    for name, node in objectives.items():
        if node["class_path"].endswith(".NextSentence"):
            start = f"objectives.{name}.pair_head."
            pooler, classifier = below(state, f"{start}pooler."), below(state, f"{start}head.")
            return named("pooler", pooler) | named("next_sentence", classifier)
    return {}


def find_head(state: dict[str, Any], encoder: Any, objective: str | None) -> dict[str, Any]:
    """Weights of the one token head on an encoder's text, or of the named one."""
    wanted = {name: weight.shape for name, weight in encoder.token_head("text").state_dict().items()}
    heads = {}
    for name in sorted({key.split(".")[1] for key in state if key.startswith("objectives.")}):
        head = below(state, f"objectives.{name}.head.")
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
    return named("head", heads[objective] if objective else first)


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(weight.equal(other[name]) for name, weight in one.items())  # one head, saved under each name that shares it


def named(part: str, weights: dict[str, Any]) -> dict[str, Any]:
    return {f"{part}.{name}": weight for name, weight in weights.items()}


def below(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): weight for name, weight in state.items() if name.startswith(prefix)}
