"""Results, in one form for every evaluation: `results.json`, a list of records, and the same in `results.md`: a summary first.

{"task": "text_to_image_retrieval", "data": "quickstart/novel", "language": "de", "metric": "recall@10",
 "value": 0.21, "low": 0.17, "high": 0.25, "n": 382}

Shares are fractions of 1, gaps between two of them lie from -1 to 1; metrics that end in `rank`, `size`, `threshold` or
`words` are numbers. `mean METRIC` averages over languages, of which `language` says which (`all`, or `all but en`);
`chance METRIC` is what guessing gets. What an evaluation stands for comes first among its records, and of its means last: that
is what the summary shows. Records of an evaluation that is run again into the same folder replace the old ones.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

NUMBERS = ("rank", "size", "threshold", "words")

MEANINGS = (
    ("", "Shares are in per cent, with their 95 % intervals in brackets."),
    (
        r"\(none chosen\)",
        "*none chosen*: of several layers and poolings none was chosen on other sentences, so none is the result: the best of "
        "them flatters. Name a source to choose on (`model.chosen_on`), or one layer and one pooling.",
    ),
    (
        r"\(chosen on itself\)",
        "*chosen on itself*: layer and pooling were chosen by the very figures that are reported, which are too high for that; "
        "add another source to `data.sources`, and it is reported instead.",
    ),
    (", untrained", "*untrained*: the same encoder with random weights; what it gets needs no understanding."),
    ("recall@", "*recall@k*: queries that find a right answer among their first k."),
    ("median rank", "*median rank*: half of the queries find a right answer at this place or before; 1 is best."),
    ("accuracy@1", "*accuracy@1*: sentences whose nearest neighbour by cosine is their translation."),
    ("margin accuracy", "*margin*: nearest by ratio margin, which is cosine over what it is with the nearest neighbours."),
    (
        "sentence_mining",
        "*F1*, *precision*, *recall*: of the pairs that score at least a threshold, each language's own; figures of the source "
        "that it was tuned on flatter. *found*, *right*, *gold size*: pairs taken, right ones of them, and all translations.",
    ),
    ("gallery size", "*n*: queries; *gallery size*: how many candidates each is compared with."),
    ("chance ", "*chance*: what a random order gets."),
    ("mean ", "*mean*: every language counts alike."),
    (
        "^(zero_shot_)?transfer: ",
        "*transfer*: fine-tuned in one language, that after *from*, and tested in all; intervals are t intervals over runs "
        "that differ by their seed alone, and one run has none. They end where a share does, at 0 or 100 %, though of few runs "
        "the t interval itself goes on.",
    ),
    (
        "oracle, not zero-shot",
        "*oracle*: needs labels in each language, so that it is no zero-shot transfer but what the best choice would have got.",
    ),
    ("gap to ", "*gap to*: how far below the language of fine-tuning, in points; below 0 where a language is better."),
    (
        ": majority$",
        "*majority*: what is right where always the label is given that is most frequent in the language's own test data.",
    ),
    (": words$", "*words*: of test, each of which accuracy counts."),
    (
        "sample size",
        "*sample size*: runs, each with its own seed. *n*: examples of test (of tagging, sentences; of answering, questions).",
    ),
    (
        "image.*: all but ",
        "*all but*: without the languages trained with pictures, so that only what has carried over is left.",
    ),
    ("texts unlike ", "*texts unlike*: only texts spelt differently from those of the same picture in the languages named."),
)
"""What words in a record's task, data, language and metric mean (as patterns), for people."""


class Record(NamedTuple):
    """One measured figure."""

    task: str
    """What was asked of the model, such as `text_to_image_retrieval`."""
    data: str
    """What it was asked about, such as `quickstart/novel`."""
    language: str
    """Code of the language; `all` or `all but CODE` with means."""
    metric: str
    value: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    n: int
    """Number of queries, questions or sentences measured."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes two records measurements of the same thing."""
        return self[:4]


def write_results(records: Sequence[Record], folder: str | Path, replaced: Sequence[str] = ()) -> list[Record]:
    """Write `results.json` and `results.md`, keeping records of other evaluations that are there already.

    Args:
        records: Of one evaluation.
        folder: Where they go.
        replaced: Tasks of which no record that is there is kept.

    Returns:
        All records in the folder.

    Raises:
        ValueError: A record is not fit, or two records measure the same thing.
    """
    folder = Path(folder)
    for record in records:
        _check(record, "record")
    keys = {record.key for record in records}
    if len(keys) < len(records):
        twice = next(record.key for index, record in enumerate(records) if record.key in {r.key for r in records[:index]})
        raise ValueError(f"two records measure the same thing: {', '.join(twice)}; give one of them another task or data name")
    path = folder / "results.json"
    kept = [
        record
        for record in (read_results(path) if path.exists() else [])
        if record.key not in keys and record.task not in replaced
    ]
    everything = [*kept, *records]
    folder.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(json.dumps(record._asdict(), ensure_ascii=False) for record in everything)
    _replace(path, f"[\n{rows}\n]\n")
    _replace(folder / "results.md", write_tables(everything))
    return everything


def read_results(path: str | Path) -> list[Record]:
    """Records of a `results.json`.

    Raises:
        ValueError: The file is not a list of fit records; names the first that is not.
    """
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        records = [Record(**row) for row in rows]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: expected a list of records with {', '.join(Record._fields)}; {error}") from error
    for number, record in enumerate(records):
        _check(record, f"{path}: record {number}")
    return records


def is_number(metric: str) -> bool:
    """True for metrics that are numbers (ranks, sizes, thresholds) and not shares."""
    return metric.endswith(NUMBERS)


def has_spread(metric: str) -> bool:
    """Whether a figure differs from run to run."""
    return not (is_number(metric) or metric.endswith("majority") or metric.startswith("chance "))


def is_over_runs(table: Iterable[Record]) -> bool:
    """Whether the figures of a table are means over several runs."""
    return any(record.metric == "sample size" and record.value > 1 for record in table)


def mean_chance(records: Sequence[Record]) -> list[Record]:
    """What guessing gets, averaged over the languages of one task and data: a record a metric."""
    guesses: dict[str, list[Record]] = {}
    for record in records:
        if record.metric.startswith("chance "):
            guesses.setdefault(record.metric, []).append(record)
    means = []
    for same in guesses.values():
        value = sum(record.value for record in same) / len(same)
        means.append(same[0]._replace(language="all", value=value, low=value, high=value))
    return means


def show(record: Record, several: bool = False) -> str:
    """A figure for people: `21.0 (17.1-25.2)` in per cent, or `12 (9-15)`; without interval where it is a point.

    Args:
        record: The figure.
        several: It is a mean over several runs, so that an interval is told where it is a point, too.
    """
    alone = record.low == record.high and not (several and has_spread(record.metric))

    def form(value: float | int) -> str:
        if record.metric.endswith("threshold"):
            return f"{value:.5f}"
        return f"{value:.1f}".removesuffix(".0") if is_number(record.metric) else f"{100 * value:.1f}"

    return form(record.value) if alone else f"{form(record.value)} ({form(record.low)}–{form(record.high)})"


def write_tables(records: Iterable[Record]) -> str:
    """Markdown: a summary, what its words mean, then one table for each task and data, in the order of the records."""
    tables: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        tables.setdefault((record.task, record.data), []).append(record)
    parts = ["# Results\n", *write_summaries(tables.values()), explain([one for table in tables.values() for one in table])]
    for table in tables.values():
        if all(record.metric.startswith("mean ") for record in table):
            continue  # the summary shows what it stands for
        parts.append(f"## {_title(table[0])}\n\n{write_table(table)}")
    return "\n".join(parts)


def write_summaries(tables: Iterable[Sequence[Record]]) -> list[str]:
    """A line for each task and data that has means: its last mean of a share, the languages left out of it, and chance.

    Lines with the same columns stand in one table.
    """
    lines: dict[str, list[str]] = {}
    for table in tables:
        means = [record for record in table if record.metric.startswith("mean ") and not is_number(record.metric)]
        if not means:
            continue
        mean, metric = means[-1], means[-1].metric.removeprefix("mean ")
        left_out = mean.language.removeprefix("all but ").split(", ") if mean.language != "all" else []
        single = {record.language: record for record in table if record.metric == metric}
        guesses = [record for record in mean_chance(table) if record.metric == f"chance {metric}"]
        figures = [mean, *(single.get(language) for language in left_out), *guesses]
        names = [metric, f"mean over {mean.language}", *left_out, *("chance" for _ in guesses)]
        head = f"| {' | '.join(names)} |\n|---|{'---:|' * len(figures)}"
        several = is_over_runs(table)
        cells = [show(figure, several) if figure else "" for figure in figures]
        lines.setdefault(head, []).append(f"| {_title(table[0])} | {' | '.join(cells)} |")
    return ["\n".join([head, *some]) + "\n" for head, some in lines.items()]


def explain(records: Iterable[Record]) -> str:
    """What the words mean that these records use."""
    used = {f"{record.task}: {record.data}: {record.language}: {record.metric}" for record in records}
    return "\n".join(meaning for words, meaning in MEANINGS if any(re.search(words, one) for one in used)) + "\n"


def write_table(records: Sequence[Record]) -> str:
    """The table of one task and data: languages as rows, metrics as columns, then means and chance."""
    rows: dict[str, dict[str, Record]] = {}
    several = is_over_runs(records)
    for record in records:
        kind, _, metric = record.metric.partition(" ")
        if kind == "mean":
            rows.setdefault(f"*mean over {record.language}*", {})[metric] = record
        elif kind != "chance":
            rows.setdefault(record.language, {})[record.metric] = record
    rows = dict(sorted(rows.items(), key=lambda row: row[0].startswith("*")))
    guesses = {record.metric.partition(" ")[2]: record for record in mean_chance(records)}
    rows |= {"*chance*": guesses} if guesses else {}
    metrics = list(dict.fromkeys(metric for row in rows.values() for metric in row))
    shown = {metric: {show(row[metric]) for row in rows.values() if metric in row} for metric in metrics}
    alike = [metric for metric in metrics if metric.endswith("size") and len(shown[metric]) == 1]
    metrics = [metric for metric in metrics if metric not in alike]
    lines = [f"{metric}: {shown[metric].pop()}\n" for metric in alike]  # worth a line and not a column
    lines += [f"| language | n | {' | '.join(metrics)} |", f"|---|---:|{'---:|' * len(metrics)}"]
    for name, row in rows.items():
        n = "" if name == "*chance*" else str(next(iter(row.values())).n)
        cells = [show(row[metric], several) if metric in row else "" for metric in metrics]
        lines.append(f"| {name} | {n} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _title(record: Record) -> str:
    return f"{record.task.replace('_', ' ').capitalize()}: {record.data}"


def _check(record: Record, name: str) -> None:
    wrong = [field for field in Record._fields[:4] if not isinstance(getattr(record, field), str) or not getattr(record, field)]
    figures = (record.value, record.low, record.high)
    least = -1 if "gap " in record.metric else 0
    if not all(isinstance(figure, int | float) and math.isfinite(figure) for figure in figures):
        wrong.append("value, low, high (finite numbers)")
    elif record.low > record.high or not (is_number(record.metric) or all(least - 1e-9 <= one <= 1 + 1e-9 for one in figures)):
        wrong.append(f"value, low, high (low <= high, and shares as fractions from {least} to 1)")
    if not isinstance(record.n, int) or record.n < 1:
        wrong.append("n (a positive integer)")
    if wrong:
        raise ValueError(f"{name} is not fit: {record}; wrong: {'; '.join(map(str, wrong))}")


def _replace(path: Path, text: str) -> None:
    """Write a file so that whoever reads it meanwhile, or after a crash, finds the old one or the new one whole."""
    beside = path.with_name(path.name + ".partial")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
