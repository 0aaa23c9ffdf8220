"""The checkpoints of a run of fine-tuning: which there are, in which order, and whether they are all of one run."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .checkpoints import CONFIGURATION, read_checkpoint
from .configuration import ConfigurationError, differences

SEEDS = ("seed_everything", "model.seed")
MOVED = ("model.initial", "model.tokenizer", "data.tokenizer")
"""Files that may have moved while a run went on."""


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """Folders of runs, each with checkpoints.

    Raises:
        ConfigurationError: One has none, or stands twice.
    """
    seen: dict[Path, Path] = {}
    for folder in folders:
        if not list_checkpoints(folder):
            there = "there is no such folder" if not folder.is_dir() else "no .ckpt there"
            if folder.is_file():
                there = f"{folder} is a file"
            raise ConfigurationError(
                f"{folder / 'checkpoints'}: {there}; give the folder of a run (its trainer.default_root_dir), whose "
                "configuration keeps a checkpoint at each validation in RUN/checkpoints"
            )
        if folder.resolve() in seen:
            raise ConfigurationError(f"{folder} is given twice; each run counts as one seed")
        seen[folder.resolve()] = folder
    return list(folders)


def list_checkpoints(folder: Path) -> list[Path]:
    """All checkpoints of a run, by name."""
    return sorted(folder.glob("checkpoints/*.ckpt"))


def peek(file: Path) -> dict[str, Any]:
    """A checkpoint whose tensors are read only where they are touched.

    Raises:
        ConfigurationError: It cannot be read.
    """
    import torch

    try:
        found = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except Exception:  # another kind of file, or none: told by whoever reads it whole
        found = None
    return found if isinstance(found, dict) else read_checkpoint(file)


def sort_by_step(files: Iterable[Path]) -> dict[Path, int]:
    """Checkpoints in the order of training; of several of one step (`last.ckpt`, say) the one whose name tells it.

    Raises:
        ConfigurationError: One cannot be read, or what was saved last is not of the last step.
    """
    steps = {file: int(peek(file).get("global_step", 0)) for file in files}
    first: dict[int, Path] = {}
    for file in sorted(steps, key=lambda file: (steps[file], file.stem.startswith("last"), file)):
        first.setdefault(steps[file], file)
    for last in (file for file in steps if file.stem == "last" and steps[file] < max(steps.values())):
        beyond = first[max(steps.values())]
        raise ConfigurationError(
            f"{last} is of step {steps[last]}, but {beyond.name} of step {steps[beyond]}: they are of two runs in one folder; "
            "move those of the other away"
        )
    return {file: step for step, file in first.items()}


def check_one_run(files: Sequence[Path]) -> list[str]:
    """Refuse checkpoints that are not of one run.

    Args:
        files: In the order of training.

    Returns:
        What to say of them, in sentences: options that changed while the run went on.

    Raises:
        ConfigurationError: One lacks what is needed, has weights of other shapes, or another seed; names it.
    """
    *before, last = files
    newest, notes = _require(last), []
    shapes = {name: weight.shape for name, weight in newest["state_dict"].items()}
    for file in before:
        older = _require(file)
        own = {name: weight.shape for name, weight in older["state_dict"].items()}
        wrong = [name for name in sorted({*own, *shapes}) if own.get(name) != shapes.get(name)]
        if wrong:
            raise ConfigurationError(
                f"{file}: of another model than {last.name}; weights differ in {', '.join(wrong[:3])}: move those of the other "
                "run away"
            )
        changed = {
            address: f"{address} {old!r}, there {new!r}"
            for part in ("seed_everything", "model", "data")
            for address, old, new in differences(older[CONFIGURATION].get(part), newest[CONFIGURATION].get(part), part)
            if address not in MOVED
        }
        if seeds := [changed[address] for address in SEEDS if address in changed]:
            raise ConfigurationError(
                f"{file}: of another run than {last.name} ({'; '.join(seeds)}); move those of the other run away"
            )
        if changed:
            notes.append(f"{file} was trained with other options than {last.name}: {'; '.join(changed.values())}.")
    return notes


def _require(file: Path) -> dict[str, Any]:
    """A checkpoint with its configuration and weights."""
    found = peek(file)
    configuration = found.get(CONFIGURATION) or {}
    if "state_dict" not in found or not configuration.get("data") or not configuration.get("model"):
        raise ConfigurationError(f"{file}: holds no configuration of model and data; give a run of `interlingua fit`")
    return found
