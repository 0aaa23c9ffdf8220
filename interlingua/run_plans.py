"""What runs of fine-tuning can be asked, found out before anything is scored, so that what is wrong costs seconds."""

import inspect
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from .checking import build, check_class, import_class
from .checkpoints import CONFIGURATION, load_model
from .configuration import ConfigurationError, locate, merge, read_file
from .refusals import find_refusal
from .run_checkpoints import check_one_run, list_checkpoints, peek, sort_by_step
from .run_figures import expect_figures, find_figure
from .run_kept import KEPT, fingerprint, read_kept


class Plan(NamedTuple):
    """A run, and what its scores are of."""

    folder: Path
    steps: dict[Path, int]
    """Checkpoints in the order of training."""
    configuration: dict[str, Any]
    """Of the last one."""
    key: str
    """Changes where its scores may."""
    kept: dict[str, Any]
    """Its scores, where they are known; else empty."""
    data: Any
    """What it is scored on; None where its scores are known."""
    name: str
    """Of the data."""
    rows: dict[str, dict[str, int]]
    """Examples by split and language."""
    figures: set[str]
    """`OBJECTIVE/FIGURE`."""
    notes: list[str]

    @property
    def seed(self) -> list[Any]:
        """Of the order and of the weights."""
        return [self.configuration.get("seed_everything"), self.configuration["model"]["init_args"].get("seed")]


def read_override(file: str | None) -> dict[str, Any]:
    """The `data` of a configuration.

    Raises:
        ConfigurationError: The file cannot be read, or says something else.
    """
    if file is None:
        return {}
    try:
        found = read_file(locate(file, "--data"))
    except ConfigurationError as error:
        raise ConfigurationError(str(error) if str(error).startswith("--data") else f"--data {error}") from None
    if list(found) != ["data"] or not isinstance(found["data"], dict):
        raise ConfigurationError(f"--data {file}: found {', '.join(found) or 'nothing'}, expected `data:` alone, a mapping")
    if not found["data"].keys() <= {"class_path", "init_args"} or not isinstance(found["data"].get("init_args", {}), dict):
        raise ConfigurationError(
            f"--data {file}: found {', '.join(found['data'])} under `data:`, expected init_args, a mapping, as in "
            "`data: {init_args: {test: {en: FILE}}}`"
        )
    return found


def plan_run(folder: Path, override: dict[str, Any], file: str | None = None, wanted: str | None = None) -> Plan:
    """Look at a run: all of its checkpoints, and at the data they would be scored on, of which one example is read.

    Args:
        folder: Of the run.
        override: `data`, merged over that of the run.
        file: Where that stands, for messages.
        wanted: Figure that is asked for; None: the one that the task is reported by.

    Raises:
        ConfigurationError: There is no such figure; it is no run of fine-tuning, checkpoints are damaged or not of one run,
            or the data cannot be read or do not fit the model.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # classes of one's own project
    steps = sort_by_step(list_checkpoints(folder))
    last = list(steps)[-1]
    notes = check_one_run(list(steps))
    configuration = peek(last)[CONFIGURATION]
    most = (configuration.get("trainer") or {}).get("max_steps") or 0
    if steps[last] < most:
        notes.append(f"{folder}: its last checkpoint is of step {steps[last]}, but it was to be trained {most} steps.")
    with _told_of(folder, last, file):
        node = merge({"data": configuration["data"]}, override)["data"]
        check_kind(folder, last, configuration["model"], node)
        check_class("data", node)
    if expected := expect_figures(configuration["model"], node):
        find_figure(sorted(expected), wanted)  # before data are read
    with _told_of(folder, last, file):
        check_tokenizer(last, node)  # the file may have been replaced in place
    key, kept = fingerprint(list_checkpoints(folder), node), read_kept(folder / KEPT)
    if kept.get("key") == key:
        scores = kept["average"]["scores"]
        rows = {split: {one: next(iter(own.values()))[2] for one, own in found.items()} for split, found in scores.items()}
        figures = {figure for found in scores.values() for own in found.values() for figure in own}
        return Plan(folder, steps, configuration, key, kept, None, kept["data"], rows, figures, notes)
    print(f"{folder}: reading its data", flush=True)
    with _told_of(folder, last, file):
        data = open_data(node)
        data.load_state_dict(peek(last).get(type(data).__qualname__) or {})  # refuses other labels
        model = load_model(last, (node.get("init_args") or {}).get("tokenizer"))
        figures = find_figures(model, data)
    rows = {source.rpartition("/")[2]: dict(Counter(one.language for one in found)) for source, found in data.examples.items()}
    return Plan(folder, steps, configuration, key, {}, data, data.name, rows, figures, notes)


def check_tokenizer(last: Path, data: dict[str, Any]) -> None:
    """Refuse another tokenizer than the checkpoint was trained with, also where scores are known.

    Raises:
        ConfigurationError: It is another, or cannot be read.
    """
    from .modalities.tokenizer import Tokenizer
    from .modalities.trained_tokenizer import KEY, check_trained
    from .trainer import one_line

    kept, path = peek(last).get(KEY), (data.get("init_args") or {}).get("tokenizer")
    if kept is not None and isinstance(path, str):
        mend = "give `data.tokenizer` the one that it was trained with"
        with one_line("data"):
            check_trained(kept, Tokenizer(path), str(last), False, mend)  # languages, too, once there is a model


def check_kind(folder: Path, last: Path, model: dict[str, Any], data: dict[str, Any]) -> None:
    """Refuse runs that are no fine-tuning.

    Raises:
        ConfigurationError: Says what they are, and what is expected.
    """
    from .datamodules.labelled.data import Labelled
    from .tasks.pretraining import Pretraining

    for part, node, wanted in (("data", data, Labelled), ("model", model, Pretraining)):
        found = import_class(f"{part}.class_path", node.get("class_path"))
        if inspect.isclass(found) and not issubclass(found, wanted):
            raise ConfigurationError(
                f"{folder} is no run of fine-tuning: its `{part}` is {node['class_path']}, expected "
                f"{wanted.__module__}.{wanted.__name__}, as in configs/transfer; to fine-tune what it has trained, give "
                f"`--model.initial {last}` to `interlingua fit --config configs/transfer/NAME.yaml`"
            )


def open_data(node: dict[str, Any]) -> Any:
    """The data that are tested on, read."""
    from lightning.pytorch import LightningDataModule

    from .trainer import one_line

    with one_line("data"):
        data = build(LightningDataModule, node)
    data.setup("test")
    return data


def find_figures(model: Any, data: Any) -> set[str]:
    """What a model can be reported by, told by one example."""
    from .tasks.transfer_scoring import check_fit, score_named

    check_fit(model, data)
    source, batch = data.read_first()
    return {figure for figure, _ in score_named(model, batch, data, data.examples[source])}


@contextmanager
def _told_of(folder: Path, last: Path, file: str | None) -> Iterator[None]:
    """What is refused is told with where it was asked for."""
    try:
        yield
    except (ConfigurationError, ValueError, OSError, RuntimeError) as error:
        reason = str(error) if isinstance(error, ConfigurationError) else find_refusal(error)
        if reason is None:
            raise
        if reason.startswith("Error(s) in loading state_dict"):
            reason = (
                f"its weights do not fit the model that its configuration describes; was another version used? ({reason:.300})"
            )
        if file is not None:
            raise ConfigurationError(f"--data {file}: {reason}") from error
        moved = isinstance(error, FileNotFoundError) or isinstance(error.__cause__, FileNotFoundError)
        hint = f"; where files have moved, give --data FILE.yaml (the configuration is that of {last})" if moved else ""
        named = reason if reason.startswith(f"{folder} is no") else f"{folder}: {reason}"
        raise ConfigurationError(named + hint) from error


def check_plans(plans: Sequence[Plan], wanted: str | None, language: str) -> tuple[str, list[str]]:
    """Refuse what cannot be reported together, or not in this way, before anything is scored.

    Args:
        plans: Of all runs.
        wanted: Figure, as it was asked for; None: the one that the task is reported by.
        language: That was trained in.

    Returns:
        The figure as `OBJECTIVE/FIGURE`, and what to say of the runs, in sentences.

    Raises:
        ConfigurationError, ValueError: Runs are of different data, tasks or labels; there is no such figure, or nothing to
            report in the language.
    """
    from .tasks.transfer import Run, Score, Scored, check_alike

    notes = check_seeds(plans)
    first = plans[0]
    for plan in plans[1:]:
        for what, ours, theirs in (
            ("figures", plan.figures, first.figures),
            ("labels", set(_labels(plan)), set(_labels(first))),
        ):
            if ours != theirs:
                raise ConfigurationError(
                    f"runs are of different tasks: {what} of {plan.folder} are {_list(ours)}, those of {first.folder} "
                    f"{_list(theirs)}; report them apart"
                )
    figure = find_figure(sorted(first.figures), wanted)
    for plan in plans:
        notes += check_language(plan, language)
    runs = []
    for plan in plans:
        test, dev = ({one: Score(0, 0, n) for one, n in plan.rows.get(split, {}).items()} for split in ("test", "validation"))
        scored = Scored("", dev, test)
        runs.append(Run(str(plan.folder), [scored], scored))
    check_alike(runs, language)
    if language not in runs[0].average.dev and any(len(plan.steps) > 1 for plan in plans):
        raise ConfigurationError(
            f"--language {language}: no dev data in it to choose a checkpoint on; dev is there in "
            f"{', '.join(runs[0].average.dev) or 'no language'}: give validation in {language} by --data FILE.yaml"
        )
    return figure, [*notes, *(note for plan in plans for note in plan.notes), *compare_lengths(plans)]


def _labels(plan: Plan) -> list[str]:
    labels = plan.configuration["data"].get("init_args", {}).get("labels")
    return labels if isinstance(labels, list) else []


def _list(names: set[str]) -> str:
    several = sorted(names)
    return (", ".join(several[:6]) or "none") + (", ..." if len(several) > 6 else "")


def check_language(plan: Plan, language: str) -> list[str]:
    """Refuse a language that was not trained in, or in which nothing is labelled.

    Returns:
        What else was trained in, in sentences.
    """
    trained = plan.configuration["data"].get("init_args", {}).get("train")
    if isinstance(trained, dict) and language not in trained:
        raise ConfigurationError(
            f"--language {language}: {plan.folder} was trained in {', '.join(trained)}; give --language CODE"
        )
    if plan.data is not None:
        for source, records in plan.data.examples.items():
            own = [record for record in records if record.language == language]
            if own and not any(map(plan.data.layout.is_labelled, own)):
                raise ConfigurationError(
                    f"--language {language}: none of the {len(own)} examples of data.{source.rpartition('/')[2]} in it has a "
                    f"label, so nothing can be right or wrong; give files with labels by --data FILE.yaml"
                )
    if not isinstance(trained, dict):
        return [f"{plan.folder}: its data.train names no language, so other languages may have been trained in, too."]
    others = [one for one in trained if one != language]
    return [f"{plan.folder} was trained in {', '.join(others)}, too: there it is no zero-shot transfer."] if others else []


def check_seeds(plans: Sequence[Any]) -> list[str]:
    """What to say of runs of one seed, in sentences.

    Raises:
        ConfigurationError: They are scored on data of different names.
    """
    names = sorted({plan.name for plan in plans})
    if len(names) > 1:
        raise ConfigurationError(f"runs are of different data, {' and '.join(names)}; report them apart")
    if len(plans) == 1:
        return ["One seed: no interval."]
    seeds: dict[str, list[str]] = {}
    for plan in plans:
        seeds.setdefault(str(plan.seed), []).append(str(plan.folder))
    return [f"{' and '.join(runs)} have the same seed: intervals say too little." for runs in seeds.values() if len(runs) > 1]


def compare_lengths(plans: Sequence[Plan]) -> list[str]:
    """What to say of runs with other checkpoints than others have, in sentences."""
    if len({tuple(plan.steps.values()) for plan in plans}) == 1:
        return []
    counts = ", ".join(f"{plan.folder} {len(plan.steps)} up to step {max(plan.steps.values())}" for plan in plans)
    return [f"Runs have different checkpoints to choose from and to average ({counts})."]
