"""What a plan makes of pictures and captions after a few minutes of training, for each arm and seed: one stream of both, two
streams that meet, or two towers, with as many parameters, and with objectives that bring other languages near.

    python benchmarks/cross_modal.py --data runs/vl

Captions stand beside pictures in English alone (with VTLM in German and French, too); names in eight languages are read as
texts in every arm, so that Hindi, Korean and Swahili never stand beside a picture. The data folder holds `train`, `val`,
`test`, `aligned` and `tokenizer.model`, as docs/vision_language.md writes them. Runs that are there are kept; the rest run a
few at a time. Writes `results.md` and `results.png`: on the test pictures, accuracy of image-text matching, of hidden words of
English captions with their picture, without it and with another's, and of classes of hidden regions with and without the
caption; and retrieval of pictures by texts, by language; each with the spread over seeds.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import yaml
from cross_modal_arms import ARMS, BESIDE, NEVER, PICTURED, configuration
from runs import execute, run_all, spread, write_table

from interlingua.tasks.curves import read_curves

METRIC = "recall@10"
ITEMS = 100
"""Of the test set, among which pictures are searched."""
RETRIEVAL = {"English": [PICTURED], "German, French": BESIDE, "Hindi, Korean, Swahili": NEVER}


class Run(NamedTuple):
    """One arm with one seed."""

    arm: str
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoints" / "last.ckpt"

    @property
    def results(self) -> Path:
        """Written last."""
        return self.folder / "results.json"


def commands(run: Run, data: Path, steps: int) -> Iterator[list[str]]:
    """The commands of a run, and the files that they are given."""
    test, override = str(data / "test"), run.folder / "test.yaml"
    retrieval = run.folder / "retrieval.yaml"
    files = {
        run.folder / "arm.yaml": configuration(run.arm, run.seed, data, steps, run.folder),
        override: {"data": {"init_args": {"validation": {"captions": {"shards": test}}}}},
        retrieval: read_retrieval(run, data),
    }
    for file, content in files.items():
        file.write_text(yaml.safe_dump(content))
    quiet = ["--trainer.enable_progress_bar", "false"]
    yield ["fit", "--config", str(run.folder / "arm.yaml"), "--overwrite", *quiet]
    where = ["--config", str(override), "--trainer.default_root_dir", str(run.folder / "test")]
    yield ["validate", "--ckpt_path", str(run.checkpoint), *where, *quiet]
    yield ["inspect", str(run.checkpoint), "--output", str(run.folder / "inspect"), "--data", str(override), "--samples"]
    yield ["test", "--config", str(retrieval), *quiet]


def read_retrieval(run: Run, data: Path) -> dict[str, object]:
    """What `interlingua test` is given: towers are asked by vectors, the others by the matching head."""
    by = "vectors" if run.arm.startswith("two towers") else "matching"
    model = {"checkpoint": str(run.checkpoint), "output": str(run.folder), "pictured": [PICTURED], "by": by}
    texts = {"languages": [PICTURED, *BESIDE, *NEVER]}
    options = {"sources": {"test": str(data / "test")}, "tokenizer": str(data / "tokenizer.model"), "texts": texts}
    return {
        "trainer": {"default_root_dir": str(run.folder / "retrieval")},
        "model": {"class_path": "interlingua.tasks.retrieval.Retrieval", "init_args": model},
        "data": {
            "class_path": "interlingua.datamodules.evaluation.RetrievalData",
            "init_args": {**options, "regions": {}, "items": ITEMS, "max_tokens": 24, "workers": 0},
        },
    }


def work(run: Run, data: Path, steps: int) -> float:
    """Seconds that the run took; none if it is there."""
    if run.results.exists():
        return 0.0
    run.folder.mkdir(parents=True, exist_ok=True)
    return execute(run.name, run.folder, commands(run, data, steps))


def read_figures(run: Run) -> dict[str, float]:
    """In per cent."""
    logs = read_curves(run.folder / "test")
    figures = {"matching": 100 * logs[f"validation/captions/{PICTURED}/itm/accuracy"][-1][1]}
    rows = json.loads((run.folder / "inspect" / "inspect.json").read_text())["ablation"]
    found = {row["objective"]: row for row in rows if row["figure"] == "accuracy" and row["source"] == "captions"}
    for objective, name, other in (("mlm", "words", "picture"), ("mrc", "classes", "caption")):
        for field, head in (("whole", f"with the {other}"), ("without", "without"), ("swapped", "with another's")):
            figures[f"{name} {head}"] = 100 * found[objective][field]
    records = json.loads(run.results.read_text())
    own = [one for one in records if one["task"] == "text_to_image_retrieval" and one["data"] == "test"]
    for metric, end in ((METRIC, ""), (f"chance {METRIC}", ", chance")):
        values = {one["language"]: 100 * one["value"] for one in own if one["metric"] == metric}
        figures |= {f"R@10 {name}{end}": mean(values[code] for code in codes) for name, codes in RETRIEVAL.items()}
    return figures


def write_results(arms: Mapping[str, Sequence[dict[str, float]]], path: Path) -> str:
    """Two tables, a row an arm: mean and standard deviation over seeds."""
    heads = [head for head in next(iter(arms.values()))[0] if not head.endswith("chance")]
    tables = []
    for part in ([one for one in heads if not one.startswith("R@10")], [one for one in heads if one.startswith("R@10")]):
        rows = [[arm, str(len(runs)), *(spread([one[head] for one in runs]) for head in part)] for arm, runs in arms.items()]
        tables.append(write_table(rows, ["trained as", "seeds", *part]))
    first = next(iter(arms.values()))[0]
    chance = ", ".join(f"{head} {first[f'R@10 {head}, chance']:.1f}" for head in RETRIEVAL)
    text = "\n".join(tables) + f"\nBy chance R@10 is: {chance}.\n"
    path.write_text(
        "# Pictures and captions: one stream, two streams, two towers\n\n"
        f"Accuracies and recall@10 in per cent on test pictures, mean and standard deviation over seeds.\n\n{text}"
    )
    return text


def draw(arms: Mapping[str, list[dict[str, float]]], path: Path) -> None:
    """A point a seed, and a bar to their mean: what picture and caption are worth to each other, and retrieval."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 1.6 + 0.6 * len(arms)), layout="constrained")
    FigureCanvasAgg(figure)
    colors = ["#0b7a75", "#d98324", "#7b8794"]
    panels = {
        "Hidden words of captions, told right": [f"words {end}" for end in ("with the picture", "with another's", "without")],
        "Classes of hidden regions, told right": [
            f"classes {end}" for end in ("with the caption", "with another's", "without")
        ],
        "The right picture is among ten": [f"R@10 {name}" for name in RETRIEVAL],
    }
    every = figure.subplots(1, len(panels), sharey=True)
    for axes, (title, heads) in zip(every, panels.items(), strict=True):
        for number, (head, color) in enumerate(zip(heads, colors, strict=True)):
            for place, runs in enumerate(arms.values()):
                values, at = [one[head] for one in runs], place + 0.26 * (number - 1)
                label = head.partition(" ")[2] if not place else None
                axes.barh(at, mean(values), 0.24, color=color, alpha=0.55, label=label)
                axes.plot(
                    values, [at] * len(values), "o", color=color, markersize=3, markeredgecolor="#16202c", markeredgewidth=0.4
                )
        axes.set_title(title, fontsize=11)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_axisbelow(True)
        axes.xaxis.grid(color="#dde3ea")
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    first = next(iter(arms.values()))[0]
    every[-1].axvline(first["R@10 English, chance"], color="#16202c", linewidth=0.8, linestyle=":")
    every[0].set_yticks(range(len(arms)), list(arms))
    every[0].invert_yaxis()
    figure.suptitle("Pictures and captions by plan and objectives: per cent, a dot a seed; dotted: chance", fontweight="bold")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=Path("runs/vl"), help="folder of the shards and the tokenizer (%(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("runs/cross_modal"), help="folder of runs and results (%(default)s)"
    )
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS, metavar="ARM", help=f"{', '.join(ARMS)} (all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="SEED", help="(0 1 2)")
    parser.add_argument("--steps", type=int, default=500, help="optimiser steps of a run (%(default)s)")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time, a thread each (%(default)s)")
    options = parser.parse_args()
    runs = [
        Run(arm, seed, options.output / f"{arm.replace(' + ', '_').replace(' ', '_').lower()}_{options.steps}_{seed}")
        for seed in options.seeds
        for arm in options.arms
    ]
    start = time.monotonic()
    run_all([[(run.name, partial(work, run, options.data, options.steps)) for run in runs]], options.parallel)
    arms = {arm: [read_figures(run) for run in runs if run.arm == arm] for arm in options.arms}
    print(write_results(arms, options.output / "results.md"))
    draw(arms, options.output / "results.png")
    print(f"{(time.monotonic() - start) / 60:.0f} minutes; {options.output}/results.md, results.png")


if __name__ == "__main__":
    main()
