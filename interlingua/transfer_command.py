"""`interlingua transfer`: what runs of fine-tuning in one language get right in all, over seeds and checkpoints."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .configuration import ConfigurationError
from .datamodules.arguments import OneLineParser, check_folder, run_told

PROGRAM = "interlingua transfer"


def main(argv: Sequence[str]) -> int:
    """Score all checkpoints of some runs, and write figures over seeds, a picture and a page.

    Args:
        argv: What stands behind `interlingua transfer`.

    Returns:
        Exit status: 0 well, 2 wrong use or wrong input (one line on standard error says what).
    """
    options = _parser().parse_args(argv)
    return run_told(PROGRAM, lambda: _run(options), ConfigurationError)


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=PROGRAM,
        description="Zero-shot cross-lingual transfer: every checkpoint of each run, and the average of their weights, is "
        "scored on the validation and test data of all languages, in one pass. Scores of a run are kept in RUN/transfer.json. "
        "Writes results.json, results.md, a picture and page.html.",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folder of a run of fine-tuning, with RUN/checkpoints; one a seed"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="where results go")
    parser.add_argument("--language", default="en", metavar="CODE", help="language that was trained in (default: en)")
    parser.add_argument(
        "--figure",
        metavar="NAME",
        help="what is reported, such as accuracy, or OBJECTIVE/NAME (default: F1 of answers, of spans or of runs of parts of "
        "speech, where the task has it, else accuracy)",
    )
    parser.add_argument(
        "--data", metavar="FILE.yaml", help="a configuration whose `data` is merged over that of each run: files elsewhere, say"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    from .run_checkpoints import find_runs

    folders = find_runs(options.runs)
    check_folder(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    from .run_plans import read_override
    from .trainer import told_in_a_line

    override = read_override(options.data)
    with told_in_a_line():
        return _report(folders, override, options)


REPORTED = ("interlingua.datamodules.labelled.data", "lightning.pytorch.utilities.rank_zero")
"""Who says of each run what it reads."""


def _report(folders: Sequence[Path], override: dict[str, Any], options: argparse.Namespace) -> int:
    from .quiet import said_once
    from .run_curves import gather_panels
    from .run_figures import name_task, tell_figure
    from .run_plans import check_plans, plan_run
    from .run_scores import leave_out, score_run, take_background, take_figure, tell_majority
    from .tasks.results import write_summaries, write_table
    from .tasks.transfer import make_records, measure_all

    check_results(options.output)
    with said_once(*REPORTED):
        plans = [plan_run(folder, override, options.data, options.figure) for folder in folders]
    figure, notes = check_plans(plans, options.figure, options.language)
    if options.figure is None:
        notes.append(tell_figure(figure, plans[0].figures))
    scored = [score_run(plan) for plan in plans]
    notes += leave_out(scored, figure) + tell_majority(scored[0], figure)
    background, task = take_background(scored[0], figure), name_task(scored[0]["data"], figure)
    transfers = measure_all([take_figure(one, figure) for one in scored], options.language, background)
    name = figure.partition("/")[2]
    tables = [make_records(transfer, task, name) for transfer in transfers]
    panels = gather_panels(folders, scored, figure, options.language, notes)
    written = write_report(options.output, transfers, task, name, panels, notes)
    print(f"\n{tables[0][0].data}, in per cent:\n\n{write_table(tables[0])}")
    print("\n".join(write_summaries(tables)))
    for note in notes:
        print(note)
    if len(transfers) == 1:
        print("One checkpoint: nothing to choose.")
    elif len(transfers) < 4:
        print("No oracle: there is no validation data in some of the languages.")
    print(f"All figures: {options.output / 'results.md'}; {' and '.join(map(str, written))} show them")
    return 0


def check_results(folder: Path) -> None:
    """Refuse results that cannot be joined.

    Raises:
        ValueError: What is there is no list of records.
    """
    from .tasks.results import read_results

    if (results := folder / "results.json").exists():
        read_results(results)


def write_report(
    folder: Path, transfers: Sequence[Any], task: str, figure: str, panels: Sequence[Any], notes: Sequence[str]
) -> list[Path]:
    """Write figures, a picture and a page, in place of those of an earlier report; other evaluations' figures are kept.

    Args:
        folder: Where they go.
        transfers: The same runs by several ways to choose a checkpoint (`tasks.transfer.Transfer`).
        task: What runs were trained and tested on.
        figure: Name of the figure.
        panels: Curves of training.
        notes: What else a reader must know, in sentences.

    Returns:
        The picture and the page.
    """
    from .tasks.results import read_results, write_results
    from .tasks.transfer import TASKS, make_records
    from .tasks.transfer_chart import write_chart
    from .tasks.transfer_page import write_page

    picture, page, results = folder / "transfer.png", folder / "page.html", folder / "results.json"
    before = [one for one in (read_results(results) if results.exists() else []) if one.task in TASKS]
    records = [record for transfer in transfers for record in make_records(transfer, task, figure)]
    write_results(records, folder, replaced=TASKS)
    for metric in {one.metric.removeprefix("mean ") for one in before}:
        (folder / f"transfer_{metric}.png").unlink(missing_ok=True)  # so pictures were called once
    write_chart(picture, transfers[0], task, figure)
    write_page(page, transfers, task, figure, panels, notes)
    if before and {one.data for one in before} != {one.data for one in records}:
        print(f"{folder}: another report stood there ({before[0].data}); it is replaced")
    return [picture, page]
