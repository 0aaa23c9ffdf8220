"""Scores of the checkpoints of a run: made in one pass over the data, kept beside the run, used again where nothing changed."""

import glob
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from . import __version__
from .checkpoints import CONFIGURATION, load_model, read_checkpoint
from .configuration import ConfigurationError, locate, merge, read_file, suggest

KEPT = "transfer.json"
SPLITS = {"dev": "validation", "test": "test"}
"""What people call them, and what the data call them."""


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """Folders of runs, each with checkpoints.

    Raises:
        ConfigurationError: One has none, or stands twice.
    """
    seen: dict[Path, Path] = {}
    for folder in folders:
        if not list_checkpoints(folder):
            there = "there is no such folder" if not folder.is_dir() else "no .ckpt there"
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


def read_override(file: str | None) -> dict[str, Any]:
    """The `data` of a configuration.

    Raises:
        ConfigurationError: The file cannot be read, or says something else.
    """
    if file is None:
        return {}
    found = read_file(locate(file))
    if list(found) != ["data"] or not isinstance(found["data"], dict):
        raise ConfigurationError(f"--data {file}: found {', '.join(found) or 'nothing'}, expected `data:` alone, a mapping")
    return found


def score_run(folder: Path, override: dict[str, Any]) -> dict[str, Any]:
    """Scores of all checkpoints of a run, and of their average, as plain containers.

    Args:
        folder: Of the run.
        override: `data`, merged over that of the run.

    Returns:
        `data`: name of what was scored; `seed`; `objectives`; `checkpoints`: in the order of training, `name`, `step` and
        `scores` by split, language and figure (right, of, n); `average`: the same of their mean.

    Raises:
        ConfigurationError: A checkpoint cannot be read or holds no configuration, or it or the data do not fit the code.
    """
    files = list_checkpoints(folder)
    configuration = peek(files[-1]).get(CONFIGURATION)
    if configuration is None or not configuration.get("data"):
        raise ConfigurationError(f"{files[-1]}: holds no configuration of model and data; give a run of `interlingua fit`")
    node = merge({"data": configuration["data"]}, override)["data"]
    key, kept = fingerprint(files, node), folder / KEPT
    before = read_kept(kept)
    if before.get("key") == key:
        print(f"{folder}: scored before, and nothing has changed since: taken from {kept}", flush=True)
        return {**before, "run": str(folder)}
    found = {"key": key, "run": str(folder), **make_scores(folder, files, configuration, node)}
    beside = kept.with_name(kept.name + ".partial")
    try:
        beside.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, kept)
    except OSError as error:
        print(f"{kept}: cannot be written ({error.strerror}): the scores are not kept", flush=True)
    return found


def make_scores(folder: Path, files: Sequence[Path], configuration: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Load all, average them, and read the data once."""
    from lightning.pytorch import LightningDataModule, Trainer

    from .checking import build, check_class
    from .interruption import Interrupted, Interruption
    from .progress import StepBar
    from .quiet import quiet
    from .tasks.transfer import average_weights
    from .tasks.transfer_scoring import TransferScoring
    from .trainer import one_line

    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # classes of one's own project
    steps = sort_by_step(files)
    print(f"{folder}: scoring {len(steps)} checkpoints and the average of their weights", flush=True)
    states = [peek(file)["state_dict"] for file in steps]
    last = load_model(list(steps)[-1], (node.get("init_args") or {}).get("tokenizer"))
    models = [copy_with(last, state) for state in (*states, average_weights(states))]
    check_class("data", node)
    with one_line("data"):
        data = build(LightningDataModule, node)
    scoring = TransferScoring(models)
    interruption = Interruption()
    with quiet("test"):
        trainer = Trainer(
            devices=1,
            precision=(configuration.get("trainer") or {}).get("precision", "32-true"),
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            callbacks=[StepBar()],
        )
        try:
            with interruption.watch():
                trainer.test(scoring, datamodule=data, verbose=False)
        except Interrupted:
            raise KeyboardInterrupt from None
    names = sorted({place.data for place in scoring.samples})
    if len(names) != 1:
        raise ConfigurationError(f"{folder}: expected data of one source to test on, found {', '.join(names) or 'none'}")
    *scores, mean = scoring.scores(data.tokenizer.languages)
    return {
        "data": names[0],
        "seed": [configuration.get("seed_everything"), configuration["model"]["init_args"].get("seed")],
        "objectives": list(last.objectives),
        "checkpoints": [
            {"name": file.stem, "step": step, "scores": one} for (file, step), one in zip(steps.items(), scores, strict=True)
        ],
        "average": {"name": "average", "scores": mean},
    }


def copy_with(model: Any, state: dict[str, Any]) -> Any:
    """A model of the same kind with other weights; building it anew takes a second."""
    copied = deepcopy(model, {id(model.tokenizer): model.tokenizer})
    copied.load_state_dict(state)
    return copied


def peek(file: Path) -> dict[str, Any]:
    """A checkpoint whose tensors are read only where they are touched.

    Raises:
        ConfigurationError: It cannot be read.
    """
    import torch

    try:
        return torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except Exception:  # another kind of file, or none: told by whoever reads it whole
        return read_checkpoint(file)


def sort_by_step(files: Iterable[Path]) -> dict[Path, int]:
    """Checkpoints in the order of training; of several of one step (`last.ckpt`, say) the one whose name tells it."""
    steps = {file: int(peek(file).get("global_step", 0)) for file in files}
    first: dict[int, Path] = {}
    for file in sorted(steps, key=lambda file: (steps[file], file.stem.startswith("last"), file)):
        first.setdefault(steps[file], file)
    return {file: step for step, file in first.items()}


def fingerprint(files: Sequence[Path], node: dict[str, Any]) -> str:
    """A hash of what is scored: what the checkpoints hold, the data's configuration, and the files that it names."""
    digest = hashlib.sha256(json.dumps([__version__, node], sort_keys=True).encode())
    for file in files:
        try:
            with ZipFile(file) as archive:  # checksums of all parts stand at its end
                parts: Any = [(part.filename.partition("/")[2], part.CRC, part.file_size) for part in archive.infolist()]
        except BadZipFile:
            parts = file.stat().st_mtime_ns
        digest.update(json.dumps([file.name, parts]).encode())
    for name in sorted(set(_strings(node))):
        for found in sorted(glob.glob(name, recursive=True)):
            for file in sorted(Path(found).rglob("*")) if os.path.isdir(found) else [Path(found)]:
                digest.update(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for entry in node.values() if isinstance(node, dict) else node:
            yield from _strings(entry)


def read_kept(file: Path) -> dict[str, Any]:
    """Scores that were kept; nothing where there are none, or the file is damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def find_figure(scored: Sequence[dict[str, Any]], wanted: str) -> str:
    """The figure, as `OBJECTIVE/FIGURE`.

    Raises:
        ConfigurationError: No objective has it, or several have.
    """
    splits = [split for run in scored for split in run["average"]["scores"].values()]
    there = sorted({name for split in splits for own in split.values() for name in own})
    found = [name for name in there if wanted in (name, name.partition("/")[2])]
    if len(found) == 1:
        return found[0]
    reason = f"several objectives have it: {', '.join(found)}" if found else f"there is {', '.join(there) or 'none'}"
    raise ConfigurationError(f"--figure {wanted}: {reason}{suggest(wanted, found or there)}")


def check_seeds(scored: Sequence[dict[str, Any]]) -> list[str]:
    """What to say of runs of one seed, in sentences.

    Raises:
        ConfigurationError: They were scored on data of different names.
    """
    names = sorted({run["data"] for run in scored})
    if len(names) > 1:
        raise ConfigurationError(f"runs were scored on different data, {' and '.join(names)}; report them apart")
    if len(scored) == 1:
        return ["One seed: no interval."]
    seeds: dict[str, list[str]] = {}
    for run in scored:
        seeds.setdefault(str(run["seed"]), []).append(run["run"])
    return [f"{' and '.join(runs)} have the same seed: intervals say too little." for runs in seeds.values() if len(runs) > 1]


def take_figure(scored: dict[str, Any], figure: str) -> Any:
    """One figure of a run's scores, as `tasks.transfer.Run`."""
    from .tasks.transfer import Run, Score, Scored

    def take(one: dict[str, Any]) -> Scored:
        splits = [
            {language: Score(*own[figure]) for language, own in one["scores"].get(split, {}).items() if figure in own}
            for split in SPLITS.values()
        ]
        return Scored(one["name"], *splits)

    return Run(scored["run"], [take(one) for one in scored["checkpoints"]], take(scored["average"]))
