"""What objectives are worth after a few minutes of training, for each arm and seed: retrieval between translations, and
zero-shot transfer of intents.

    python benchmarks/cross_lingual.py --data runs/five --intents $INTERLINGUA_DATA/intents.jsonl.gz

For each seed an encoder is trained by masked language modelling alone, and every arm goes on from it, with the same steps,
tokens and rates (`configs/pretrain/infoxlm_small.yaml`), and other objectives on the parallel text; `untrained` trains
nothing. The data folder holds `train`, `val`, `test` and `tokenizer.model`, as docs/text.md writes them. Runs that are there
are kept; the rest run a few at a time. Writes `results.md` and `results.png`: means over languages, both directions, on
validation and test sentences, with the spread over seeds; and, where `--intents` is given, accuracy after
`configs/transfer/intents.yaml` (English training texts alone) on English and on the other languages' test texts.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from cross_lingual_arms import ARMS, FURTHER, NO_PAIRS
from runs import execute, run_all, spread, write_table

CONFIGURATION = "configs/pretrain/infoxlm_small.yaml"
SPLITS = ("val", "test")
DIRECTIONS = {"to": "sentence_retrieval_to_en", "from": "sentence_retrieval_from_en"}
BASE = "MLM"
START = "start"
"""What every arm but `untrained` goes on from: as many steps of masked language modelling."""
CHOSEN = "checkpoint chosen on en dev"
"""End of the records' name: the checkpoint is chosen on held-out English texts."""


class Run(NamedTuple):
    """One arm with one seed."""

    arm: str
    seed: int
    folder: Path
    start: Path | None = None
    """Folder of the run that it goes on from."""

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def results(self) -> Path:
        return self.folder / "results.json"

    @property
    def transfer(self) -> Path:
        return self.folder / "intents" / "results.json"

    @property
    def seeds(self) -> list[str]:
        seed = self.seed if self.start is None else self.seed + 1000  # what goes on reads in another order than before
        return [part for name in ("--seed_everything", "--model.seed", "--data.seed") for part in (name, str(seed))]


def commands(run: Run, data: Path, steps: int) -> Iterator[list[str]]:
    """The commands of a run."""
    root, steps = str(run.folder), 1 if run.arm == "untrained" else steps
    shards = str(data / "train")
    arm = [part.replace("DATA", str(data)) for part in {**ARMS, **FURTHER}.get(run.arm, NO_PAIRS)]
    fit = ["fit", "--config", CONFIGURATION, *arm, "--data.tokenizer", str(data / "tokenizer.model")]
    fit += ["--data.sources.monolingual.shards", shards]
    fit += ["--trainer.max_steps", str(steps), "--trainer.val_check_interval", str(steps)]
    if not any(part.startswith("--data.sources.parallel") for part in arm):
        fit += ["--data.sources.parallel.shards", shards]
    if run.start is not None and run.arm != "untrained":
        fit += ["--model.initial", f"{run.start}/checkpoints/last.ckpt"]
    yield [*fit, *run.seeds, "--trainer.default_root_dir", root, "--overwrite"]
    test = ["test", "--config", "configs/evaluate/sentences.yaml", "--model.checkpoint", f"{root}/checkpoints/last.ckpt"]
    sources = {"parallel/test": None, **{split: str(data / split) for split in SPLITS}}
    test += ["--model.output", root, "--data.sources", json.dumps(sources), "--data.tokenizer", str(data / "tokenizer.model")]
    yield [*test, "--trainer.default_root_dir", f"{root}/evaluation"]


def transfer_commands(run: Run, data: Path, intents: Path) -> Iterator[list[str]]:
    """The commands that fine-tune on English intents, and score all languages."""
    folder, path = str(run.transfer.parent), str(intents)
    keep = {"dirpath": f"{folder}/checkpoints", "filename": "{step}", "save_top_k": -1, "enable_version_counter": False}
    callbacks = [{"class_path": "lightning.pytorch.callbacks.ModelCheckpoint", "init_args": keep}]
    fit = ["fit", "--config", "configs/transfer/intents.yaml", "--model.initial", f"{run.folder}/checkpoints/last.ckpt"]
    fit += ["--data.tokenizer", str(data / "tokenizer.model"), "--data.train", json.dumps({"en": path})]
    fit += ["--data.validation", path, "--data.test", path, "--trainer.callbacks", json.dumps(callbacks)]
    yield [*fit, *run.seeds, "--trainer.default_root_dir", folder, "--overwrite"]
    yield ["transfer", folder, "--output", folder]


def work(run: Run, data: Path, steps: int, intents: Path | None) -> float:
    """Seconds that the run took; none if it is there."""
    todo = [] if run.results.exists() else list(commands(run, data, steps))
    if intents is not None and run.start is not None and not run.transfer.exists():
        todo += transfer_commands(run, data, intents)
    return execute(run.name, run.folder, todo) if todo else 0.0


def read_figures(run: Run) -> dict[str, float]:
    """Accuracy in per cent: of retrieval by split and direction, mean over languages, and of intents."""
    figures = {}
    records = json.loads(run.results.read_text())
    for split in SPLITS:
        for direction, task in DIRECTIONS.items():
            own = [one for one in records if one["task"] == task and one["data"].startswith(f"{split},")]
            values = {one["language"]: 100 * one["value"] for one in own if one["metric"] == "accuracy@1"}
            figures[f"{split}: {direction} en"] = mean(values.values())
            figures[f"{split}, Russian: {direction} en"] = values["ru"]
    if run.transfer.exists():
        own = [one for one in json.loads(run.transfer.read_text()) if one["data"].endswith(CHOSEN)]
        for head, language, metric in (("English", "en", "accuracy"), ("others", "all but en", "mean accuracy")):
            values = [100 * one["value"] for one in own if one["language"] == language and one["metric"] == metric]
            figures[f"intents: {head}"] = values[0]
    return figures


def add_gains(arms: Mapping[str, Sequence[dict[str, float]]]) -> None:
    """How far a run is above MLM alone that went on from the same start, mean of both directions."""
    for runs in arms.values():
        for own, base in zip(runs, arms[BASE], strict=True):
            for split in SPLITS:
                heads = [f"{split}: {direction} en" for direction in DIRECTIONS]
                own[f"{split}: above MLM, same seed"] = mean(own[head] - base[head] for head in heads)


def write_results(arms: Mapping[str, Sequence[dict[str, float]]], path: Path) -> str:
    """A row an arm: mean and standard deviation over seeds, of the figures that every run has."""
    every = [figures for runs in arms.values() for figures in runs]
    heads = [head for head in every[0] if all(head in figures for figures in every)]
    parts = [*SPLITS, "intents"]
    heads.sort(key=lambda head: next(place for place, part in enumerate(parts) if head.startswith(part)))
    rows = [
        [arm, str(len(runs)), *(spread([figures[head] for figures in runs]) for head in heads)] for arm, runs in arms.items()
    ]
    table = write_table(rows, ["trained with", "seeds", *heads])
    path.write_text(
        "# Retrieval between translations\n\nAccuracy@1 in per cent, mean and standard deviation over seeds.\n\n" + table
    )
    return table


def draw(arms: Mapping[str, list[dict]], path: Path) -> None:
    """A point a seed, and a bar to their mean, on the test sentences."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.4 + 0.55 * len(arms)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, runs in enumerate(arms.values()):
        for shift, direction, color in ((-0.18, "to", "#0b7a75"), (0.18, "from", "#d98324")):
            values = [figures[f"test: {direction} en"] for figures in runs]
            axes.barh(
                place + shift, mean(values), 0.3, color=color, alpha=0.55, label=f"{direction} English" if not place else None
            )
            axes.plot(
                values,
                [place + shift] * len(values),
                "o",
                color=color,
                markersize=4,
                markeredgecolor="#16202c",
                markeredgewidth=0.5,
            )
            axes.text(max(values) + 0.8, place + shift, f"{mean(values):.1f}", va="center", fontsize=8)
    axes.set_yticks(range(len(arms)), list(arms))
    axes.invert_yaxis()
    axes.set_xlabel("accuracy@1 in per cent on held-out sentences, mean over languages; a dot a seed")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)
    axes.xaxis.grid(color="#dde3ea")
    axes.margins(x=0.08)
    axes.legend(frameon=False, loc="best")
    figure.suptitle("Finding a sentence's translation, by what the encoder was trained with", fontweight="bold")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=Path("runs/five"), help="folder of the shards and the tokenizer (%(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("runs/cross_lingual"), help="folder of runs and results (%(default)s)"
    )
    parser.add_argument("--intents", type=Path, metavar="FILE", help="intents.jsonl.gz (without it, retrieval alone)")
    parser.add_argument(
        "--arms",
        nargs="+",
        default=list(ARMS),
        choices=[*ARMS, *FURTHER],
        metavar="ARM",
        help=f"{', '.join(ARMS)} (these where not given), {', '.join(FURTHER)}",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="SEED", help="(0 1 2)")
    parser.add_argument("--steps", type=int, default=1200, help="optimiser steps of a start, and of an arm (%(default)s)")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time, a thread each (%(default)s)")
    arguments = parser.parse_args()
    starts = {seed: Run(START, seed, arguments.output / f"start_{arguments.steps}_{seed}") for seed in arguments.seeds}
    runs = [
        Run(arm, seed, arguments.output / f"{arm.replace(' + ', '_').lower()}_{arguments.steps}_{seed}", starts[seed].folder)
        for seed in arguments.seeds
        for arm in arguments.arms
    ]
    start = time.monotonic()
    shared = arguments.data, arguments.steps, arguments.intents
    parts = [[(run.name, partial(work, run, *shared)) for run in part] for part in (list(starts.values()), runs)]
    run_all(parts, arguments.parallel)  # arms go on from the starts
    arms = {arm: [read_figures(run) for run in runs if run.arm == arm] for arm in arguments.arms}
    if BASE in arms:
        add_gains(arms)
    print(write_results(arms, arguments.output / "results.md"))
    draw(arms, arguments.output / "results.png")
    print(f"{(time.monotonic() - start) / 60:.0f} minutes; {arguments.output}/results.md, results.png")


if __name__ == "__main__":
    main()
