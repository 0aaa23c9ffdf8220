"""Scores of the checkpoints of a run: made in one pass over the data, kept beside the run, used again where nothing changed."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from .checkpoints import load_model
from .configuration import ConfigurationError
from .run_checkpoints import peek
from .run_kept import KEPT, keep
from .run_plans import Plan

SPLITS = {"dev": "validation", "test": "test"}
"""What people call them, and what the data call them."""


def score_run(plan: Plan) -> dict[str, Any]:
    """Scores of all checkpoints of a run, and of their average, as plain containers.

    Args:
        plan: Of the run.

    Returns:
        `data`: name of what was scored; `unit`: what its examples are, in the plural; `majority`: by language, how often the
        most frequent label of test stands there, and all labels; `seed`; `objectives`; `checkpoints`: in the order of
        training, `name`, `step` and `scores` by split, language and figure (right, of, n); `average`: the same of their mean.

    Raises:
        ConfigurationError: A checkpoint's weights are not finite.
    """
    if plan.kept:
        print(f"{plan.folder}: scored before, and nothing has changed since: taken from {plan.folder / KEPT}", flush=True)
        return {**plan.kept, "run": str(plan.folder)}
    found = {"key": plan.key, "run": str(plan.folder), **make_scores(plan)}
    keep(found, plan.folder)
    return found


def make_scores(plan: Plan) -> dict[str, Any]:
    """Load all, average them, and read the data once."""
    from lightning.pytorch import Trainer

    from .interruption import Interrupted, Interruption
    from .progress import StepBar
    from .quiet import quiet
    from .tasks.transfer import average_weights
    from .tasks.transfer_scoring import TransferScoring

    data, steps = plan.data, plan.steps
    several = len(steps) > 1
    what = f"{len(steps)} checkpoints and the average of their weights" if several else "its only checkpoint"
    print(f"{plan.folder}: scoring {what}", flush=True)
    states = [read_weights(file) for file in steps]
    last = load_model(list(steps)[-1], str(data.tokenizer.path))
    models = [copy_with(last, state) for state in (*states, *([average_weights(states)] if several else []))]
    scoring = TransferScoring(models)
    interruption = Interruption()
    with quiet("test"):
        trainer = Trainer(
            devices=1,
            precision=(plan.configuration.get("trainer") or {}).get("precision", "32-true"),
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
    scores = scoring.scores(data.tokenizer.languages)
    mean = scores.pop() if several else deepcopy(scores[0])
    return {
        "data": plan.name,
        "unit": name_unit(data.layout),
        "majority": count_majority(data),
        "seed": plan.seed,
        "objectives": list(last.objectives),
        "checkpoints": [
            {"name": file.stem, "step": step, "scores": one} for (file, step), one in zip(steps.items(), scores, strict=True)
        ],
        "average": {"name": "average", "scores": mean},
    }


def name_unit(layout: Any) -> str:
    """What the examples of a layout are, in the plural."""
    return {"Tagged": "sentences", "Question": "questions"}.get(layout.kind.__name__, "examples")


def count_majority(data: Any) -> dict[str, list[int]]:
    """By language of test, how often its most frequent label stands there, and all its labels; empty where nothing is
    classified."""
    counts: dict[str, Counter[str]] = {}
    for record in data.examples.get(f"{data.name}/test", []) if data.layout.classifies else []:
        counts.setdefault(record.language, Counter()).update(name for name in data.layout.names(record) if name)
    return {language: [max(own.values()), own.total()] for language, own in counts.items() if own}


def take_background(scored: dict[str, Any], figure: str) -> Any:
    """What a figure of a run's scores is to be seen against, as `tasks.transfer.Background`."""
    from .tasks.span_scores import ACCURACY
    from .tasks.transfer import Background

    if figure.partition("/")[2] != ACCURACY:
        return Background(scored["unit"])
    test = {one: own[figure] for one, own in scored["average"]["scores"].get("test", {}).items() if figure in own}
    words = {one: int(of) for one, (_, of, n) in test.items()} if scored["unit"] == "sentences" else {}
    majority = {one: most / every for one, (most, every) in scored["majority"].items()}
    return Background(scored["unit"], words, majority)


def tell_majority(scored: dict[str, Any], figure: str) -> list[str]:
    """What always giving the most frequent label would get where the figure is another than accuracy, in sentences."""
    from .tasks.span_scores import ACCURACY

    shares = [most / every for most, every in scored["majority"].values()]
    if figure.partition("/")[2] == ACCURACY or not shares:
        return []
    mean = 100 * sum(shares) / len(shares)
    return [
        f"Always giving the label that is most frequent in a language's test data is right for {mean:.1f} % in the mean over "
        "languages: that is accuracy (--figure accuracy), and F1 is another number."
    ]


def read_weights(file: Path) -> dict[str, Any]:
    """Weights of a checkpoint.

    Raises:
        ConfigurationError: Some are not finite: nothing could be said of what is scored with them.
    """
    weights = peek(file)["state_dict"]
    wrong = [name for name, weight in weights.items() if weight.is_floating_point() and not weight.isfinite().all()]
    if wrong:
        raise ConfigurationError(
            f"{file}: {wrong[0]} holds numbers that are not finite, so training had failed by then; move it away, or train anew"
        )
    return weights


def copy_with(model: Any, state: dict[str, Any]) -> Any:
    """A model of the same kind with other weights; building it anew takes a second."""
    copied = deepcopy(model, {id(model.tokenizer): model.tokenizer})
    copied.load_state_dict(state)
    return copied


def leave_out(scored: Sequence[dict[str, Any]], figure: str) -> list[str]:
    """Take out, in place, languages of which there is nothing in a split that could be right or wrong: no labels, say.

    Args:
        scored: Scores of all runs.
        figure: `OBJECTIVE/FIGURE`.

    Returns:
        What was left out, in sentences.
    """
    notes = []
    every = [one["scores"] for run in scored for one in (*run["checkpoints"], run["average"])]
    for name, split in SPLITS.items():
        languages = sorted({language for scores in every for language in scores.get(split, {})})
        asked = [[scores.get(split, {}).get(one, {}).get(figure, (0, 0, 0))[1] for scores in every] for one in languages]
        empty = [language for language, of in zip(languages, asked, strict=True) if not any(of)]
        for scores in every:
            for language in empty:
                scores.get(split, {}).pop(language, None)
        if empty:
            what = figure.partition("/")[2].replace("_", " ")
            notes.append(
                f"Left out of {name}, as nothing there can be right or wrong by {what} (no labels?): {', '.join(empty)}."
            )
    return notes


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
