"""Files of pretrained encoders: one safetensors file with our names, the encoder's configuration and where it came from.

encoder.*         the names of a `TextTower`, or of a `Fused` encoder (see `fused_pretrained`)
head.*            its `TokenHead`'s, where there is one; the table is the encoder's, and so never written twice
pooler.*          BERT's dense layer over the first state, where there is one
next_sentence.*   and its classifier of pairs
matching.*        of a fused encoder: two scores of the joint vector; class 1 means that text and picture belong together
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from .encoder import Encoder
from .families import FAMILIES, Family, check_family, describe, differences, make_arguments, sketch_tower
from .fused_families import FUSED
from .heads import TokenHead
from .loading import load_whole
from .soundness import refuse_unsound
from .towers import TextTower

KEY, VERSION = "interlingua", 1
"""Key of the metadata, and version of what stands under it."""


@dataclass(frozen=True)
class Pretrained:
    """A text tower, or a fused encoder, on its own.

    Args:
        family: Name of one of `FAMILIES`, or of `FUSED`.
        arguments: Plain arguments of the family's preset.
        weights: By our names.
        languages: Codes of the language vectors, in their order, where known.
        sources: Checksums (SHA-256) of the files it was made of, by name.
    """

    family: str
    arguments: dict[str, Any]
    weights: dict[str, Tensor]
    languages: list[str] | None = None
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> Family:
        """The family of a text tower.

        Raises:
            ValueError: It is a fused encoder.
        """
        if self.family in FUSED:
            raise ValueError(f"the file holds a fused encoder ({self.family}), but this is for text towers")
        return FAMILIES[self.family]

    @property
    def configuration(self) -> dict[str, Any]:
        """The encoder's node of an experiment's configuration."""
        kind = FUSED.get(self.family) or self.kind
        return {"class_path": kind.class_path, "init_args": self.arguments}

    def part(self, name: str) -> dict[str, Tensor]:
        """Weights of `encoder`, `head`, `pooler` or `next_sentence`, by the names below it; empty where there are none."""
        return {key.partition(".")[2]: weight for key, weight in self.weights.items() if key.partition(".")[0] == name}


def is_pretrained(path: str | Path) -> bool:
    """Whether a file looks like safetensors, whatever its name."""
    with open(path, "rb") as file:
        start = file.read(9)
    return len(start) == 9 and start[8:] == b"{"


def write_pretrained(pretrained: Pretrained, path: str | Path) -> None:
    """Write a file whole or not at all."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    told = {"version": VERSION, "family": pretrained.family, "encoder": pretrained.configuration}
    told |= {"languages": pretrained.languages, "sources": pretrained.sources}
    unfinished = Path(f"{path}.{os.getpid()}.part")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.contiguous() for name, weight in pretrained.weights.items()}
    try:
        save_file(weights, unfinished, {"format": "pt", KEY: json.dumps(told, ensure_ascii=False)})
        os.replace(unfinished, path)
    except SafetensorError as error:
        raise OSError(f"{path} cannot be written: {error}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def read_pretrained(path: str | Path) -> Pretrained:
    """Read a file of `write_pretrained`.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is another file, cut short, or of another version.
    """
    from safetensors import SafetensorError, safe_open

    refuse_folder(path)
    with open(path, "rb") as file:
        if file.read(2) == b"PK":  # torch's files are zip archives
            raise ValueError(
                f"{path} is a training checkpoint, and no file of `interlingua checkpoint import`; `interlingua checkpoint "
                f"export {path} --as FAMILY --output DIR` writes its text tower, import makes a file of that; the "
                "configuration of its encoder is in the run's config.yaml"
            )
    try:
        with safe_open(path, "pt") as file:
            told = _read_told(path, (file.metadata() or {}).get(KEY))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path}: not safetensors, or cut short ({os.path.getsize(path):,} bytes): {error}") from None
    return Pretrained(told["family"], told["encoder"]["init_args"], weights, told["languages"], told["sources"])


def _read_told(path: str | Path, text: str | None) -> dict[str, Any]:
    """What a file says about itself."""
    if text is None:
        raise ValueError(
            f"{path} is not of ours; make one of it: `interlingua checkpoint import {path} --as FAMILY --output FILE`"
        )
    try:
        told = json.loads(text)
        version, family = told["version"], told["family"]
    except (ValueError, LookupError, TypeError):
        told, version, family = {}, VERSION, next(iter(FAMILIES))
    if version != VERSION or family not in (*FAMILIES, *FUSED):
        known = ", ".join((*FAMILIES, *FUSED))
        raise ValueError(f"{path}: version {version}, family {family!r}; this release reads version {VERSION} of {known}")
    encoder = told.get("encoder")
    if not isinstance(encoder, dict) or "init_args" not in encoder or not {"languages", "sources"} <= told.keys():
        raise ValueError(f"{path}: its own description is damaged ({text[:60]!r}); import it anew")
    return told


def refuse_folder(path: str | Path) -> None:
    """Say what to do with a folder where a file is expected.

    Raises:
        ValueError: It is one.
    """
    if Path(path).is_dir():
        raise ValueError(
            f"{path} is a folder, expected a file; where it is a checkpoint of Hugging Face's, make a file of it: `interlingua "
            f"checkpoint import {path} --as FAMILY --output FILE`"
        )


def make_tower(pretrained: Pretrained) -> TextTower:
    """The tower of a file, in evaluation mode."""
    tower = sketch_tower(pretrained.kind, pretrained.arguments)
    load_whole(tower, pretrained.part("encoder"), f"{pretrained.family} tower")
    return tower.eval()


def make_head(pretrained: Pretrained, tower: TextTower) -> TokenHead | None:
    """The token head of a file, tied to the tower's table; None where the file has none."""
    weights = pretrained.part("head")
    if not weights:
        return None
    head = tower.token_head("text")
    load_whole(head, weights, f"{pretrained.family} head")
    return head.to(tower.tokens.weight.dtype).eval()


def find_text_tower(encoder: nn.Module) -> TextTower:
    """The text tower that an encoder is or contains.

    Raises:
        ValueError: It has none, or several.
    """
    towers = [module for module in encoder.modules() if isinstance(module, TextTower)]
    if len(towers) != 1:
        raise ValueError(
            f"{type(encoder).__name__} has {len(towers)} text towers, and a file of a pretrained one is for an encoder that "
            "is one or contains one"
        )
    return towers[0]


def fill_tower(encoder: Encoder, pretrained: Pretrained, name: str) -> int:
    """Give the text tower of an encoder the weights of a file; returns how many there are.

    Args:
        encoder: Is or contains one text tower.
        pretrained: What to give it.
        name: The file's, for messages.

    Raises:
        ValueError: The tower would compute something else with these weights; names every difference, both values. Or a
            weight is not finite.
    """
    kind, tower = pretrained.kind, find_text_tower(encoder)
    described = describe(sketch_tower(kind, pretrained.arguments))
    found = differences("file", described, "encoder", describe(tower))
    if found:
        numbers = described.vocabulary != describe(tower).vocabulary
        other = [key for key in ("layers", "segments") if any(one.startswith(f"{key}:") for one in found)]
        resize = f"; or make the file fit: `interlingua checkpoint resize {name} --{other[0]} N --output FILE`" if other else ""
        again = "; where the file's ids are wrong, import it anew with `interlingua checkpoint import --ids`" if numbers else ""
        raise ValueError(
            f"{name} ({pretrained.family}) is not of this encoder's text tower; {'; '.join(found)}; set the tower to "
            f"{kind.class_path} with the file's arguments (`interlingua checkpoint show {name}`){again}{resize}"
        )
    refuse_unsound(pretrained.weights, name)
    weights = pretrained.part("encoder")
    load_whole(tower, weights, "text tower")
    return len(weights)


def from_tower(
    tower: TextTower,
    family: Family,
    heads: Mapping[str, Tensor],
    languages: list[str] | None = None,
    sources: Mapping[str, str] | None = None,
) -> Pretrained:
    """A trained tower as a file would hold it.

    Args:
        tower: Of the family.
        family: Whose code shall compute the same.
        heads: Weights of its heads, by their names in the file.
        languages: Codes of the language vectors.
        sources: Checksums of files by name.

    Raises:
        ValueError: The tower is of another kind; names every difference, both values.
    """
    check_family(tower, family)
    traits = describe(tower)
    dropout = {
        "dropout": tower.embeddings.dropout.p,
        "attention_dropout": tower.transformer.blocks[0].attention.dropout,
    }
    arguments = make_arguments(family, asdict(traits), traits.vocabulary, dropout)
    weights = {f"encoder.{name}": weight for name, weight in tower.state_dict().items()} | dict(heads)
    return Pretrained(family.name, arguments, weights, languages, dict(sources or {}))
