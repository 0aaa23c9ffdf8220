"""`interlingua transfer`: what runs of fine-tuning in one language get right in all, over seeds and checkpoints."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from .configuration import ConfigurationError
from .datamodules.arguments import OneLineParser

PROGRAM = "interlingua transfer"


def main(argv: Sequence[str]) -> int:
    """Score all checkpoints of some runs, and write figures over seeds, a picture and a page.

    Args:
        argv: What stands behind `interlingua transfer`.

    Returns:
        Exit status: 0 well, 2 wrong use or wrong input (one line on standard error says what).
    """
    options = _parser().parse_args(argv)
    try:
        return _run(options)
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ConfigurationError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2


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
        "--figure", default="accuracy", metavar="NAME", help="what is reported, such as span_f1, or OBJECTIVE/NAME (accuracy)"
    )
    parser.add_argument(
        "--data", metavar="FILE.yaml", help="a configuration whose `data` is merged over that of each run: files elsewhere, say"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    from .run_checkpoints import find_runs

    folders = find_runs(options.runs)
    check_output(options.output)
    from .run_plans import read_override
    from .trainer import told_in_a_line

    override = read_override(options.data)
    with told_in_a_line():
        return _report(folders, override, options)


def check_output(folder: Path) -> None:
    """Refuse a folder that cannot be written to before there is anything to write.

    Raises:
        ConfigurationError: Names it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # permissions alone do not tell: the disk may be read-only
            pass
    except FileExistsError:
        raise ConfigurationError(f"--output {folder} is a file; expected a folder") from None
    except OSError as error:
        raise ConfigurationError(f"--output {folder}: cannot be written to: {error.strerror}; choose another") from None


def _report(folders: Sequence[Path], override: dict[str, Any], options: argparse.Namespace) -> int:
    from .run_curves import gather_panels
    from .run_plans import check_plans, plan_run
    from .run_scores import leave_out, score_run, take_figure
    from .tasks.results import read_results, write_results, write_summaries, write_table
    from .tasks.transfer import make_records, measure_all
    from .tasks.transfer_chart import write_chart
    from .tasks.transfer_page import write_page

    if (results := options.output / "results.json").exists():
        read_results(results)  # what is there is kept, so it must be readable
    plans = [plan_run(folder, override, options.data) for folder in folders]
    figure, notes = check_plans(plans, options.figure, options.language)
    scored = [score_run(plan) for plan in plans]
    notes += leave_out(scored, figure)
    name, data = figure.partition("/")[2], scored[0]["data"]
    transfers = measure_all([take_figure(one, figure) for one in scored], options.language)
    tables = [make_records(transfer, data, name) for transfer in transfers]
    write_results([record for table in tables for record in table], options.output)
    picture, page = options.output / f"transfer_{name}.png", options.output / "page.html"
    write_chart(picture, transfers[0], data, name)
    panels = gather_panels(folders, scored, figure, options.language, notes)
    write_page(page, transfers, data, name, panels, notes)
    print(f"\n{tables[0][0].data}, in per cent:\n\n{write_table(tables[0])}")
    print("\n".join(write_summaries(tables)))
    for note in notes:
        print(note)
    if len(transfers) < 4:
        print("No oracle: there is no validation data in some of the languages.")
    print(f"All figures: {options.output / 'results.md'}; {picture} and {page} show them")
    return 0
