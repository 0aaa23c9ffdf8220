"""Zero-shot cross-lingual transfer: what a model that was fine-tuned in one language gets right in the others, over seeds.

Which checkpoint of a run is reported decides the figures. Chosen on dev of the language of training, it is XTREME's rule
(arXiv:2003.11080, section 3), though that dev often says little about other languages (Keung et al. 2020, arXiv:2004.15001);
the average of all checkpoints' weights mends most of it (Schmidt et al. 2023, arXiv:2305.16834); choosing for each language
on its own dev needs labels in that language, so that it is no zero-shot transfer. All stand beside each other here.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from .results import Record

SELECTIONS = ("source dev", "average", "last", "oracle")
"""Ways to choose a checkpoint; the first is what is reported in one line."""

ONLY = "only"
"""Where runs have one checkpoint each: there is nothing to choose, nor to average."""

LEVEL = 0.95

TASKS = ("zero_shot_transfer", "transfer")
"""What records are of: without labels in other languages, and by the oracle."""

MAJORITY, WORDS = "majority", "words"
"""Metrics of `Background`."""


class Score(NamedTuple):
    """What a model got right in one language."""

    right: float
    of: float
    """What `right` is divided by: for accuracy how many were asked, for F1 what was predicted and expected."""
    n: int
    """Rows that were read."""

    @property
    def value(self) -> float:
        """The figure, a share; 0 where there was nothing to get right."""
        return self.right / self.of if self.of else 0.0


class Scored(NamedTuple):
    """A checkpoint with its scores of one figure."""

    name: str
    dev: Mapping[str, Score]
    """By language."""
    test: Mapping[str, Score]


class Run(NamedTuple):
    """A run of fine-tuning: one seed."""

    name: str
    checkpoints: Sequence[Scored]
    """In the order of training."""
    average: Scored
    """The model whose weights are the mean of the checkpoints'."""


class Estimate(NamedTuple):
    """Mean over seeds."""

    value: float
    low: float
    """Lower end of the 95 % interval; the value itself where there is one seed, which tells nothing of the spread."""
    high: float
    seeds: tuple[float, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """Of the interval where it goes on beyond what a share can be."""
        reach = _reach(self.seeds)
        return self.value - reach, self.value + reach


class Background(NamedTuple):
    """What figures are to be seen against."""

    unit: str = "examples"
    """What `Score.n` counts, in the plural."""
    words: Mapping[str, int] = {}
    """Of test, by language, where the figure is a share of words and not of what `n` counts."""
    majority: Mapping[str, float] = {}
    """What is right where always the label is given that is most frequent in the language's test data; empty where figures
    are none of these."""


BARE = Background()


class Transfer(NamedTuple):
    """What runs get right by one way to choose a checkpoint."""

    selection: str
    source: str
    """Language of training."""
    languages: Mapping[str, Estimate]
    """On test: the source first, then from best to worst."""
    sizes: Mapping[str, int]
    """Rows of test by language."""
    chosen: Sequence[Mapping[str, str]]
    """For each run the name of the checkpoint by language."""
    background: Background = BARE

    @property
    def others(self) -> list[str]:
        """Languages that were not trained in."""
        return [language for language in self.languages if language != self.source]

    def mean(self, languages: Iterable[str]) -> Estimate:
        """Macro average: every language counts alike; its interval is that of the seeds' averages."""
        return estimate([_mean(row) for row in zip(*(self.languages[one].seeds for one in languages), strict=True)])

    def gap(self, languages: Iterable[str]) -> Estimate:
        """How far languages, on average, lie below the source; within each seed, so that what moves both cancels out."""
        rows = [_mean(row) for row in zip(*(self.languages[one].seeds for one in languages), strict=True)]
        own = self.languages[self.source].seeds
        return estimate([high - low for high, low in zip(own, rows, strict=True)], least=-1.0)


def choose(run: Run, selection: str, source: str) -> dict[str, Scored]:
    """The checkpoint that is reported for each language of test.

    Args:
        run: With its checkpoints in order; of equally good ones the earliest is taken.
        selection: One of `SELECTIONS`, or `ONLY`.
        source: Language of training.

    Raises:
        ValueError: There are no dev scores of a language that the selection needs.
    """
    languages = list(run.average.test)
    if selection == "average":
        return dict.fromkeys(languages, run.average)
    if selection in ("last", ONLY):
        return dict.fromkeys(languages, run.checkpoints[-1])
    if selection == "source dev":
        return dict.fromkeys(languages, _best(run, source))
    if selection == "oracle":
        return {language: _best(run, language) for language in languages}
    raise ValueError(f"selection is {selection!r}; expected one of {', '.join(SELECTIONS)}")


def _best(run: Run, language: str) -> Scored:
    if language not in run.average.dev:
        raise ValueError(
            f"{run.name}: no dev data in {language} to choose a checkpoint on; dev is there in "
            f"{', '.join(run.average.dev) or 'no language'}"
        )
    return max(run.checkpoints, key=lambda one: one.dev[language].value)  # the first of equals


def measure(runs: Sequence[Run], selection: str, source: str, background: Background = BARE) -> Transfer:
    """Figures of all languages over seeds.

    Args:
        runs: One a seed.
        selection: One of `SELECTIONS`, or `ONLY`.
        source: Language of training.
        background: What figures are to be seen against.

    Raises:
        ValueError: There is no run, runs were tested on different data, or not in the source language.
    """
    check_alike(runs, source)
    chosen = [choose(run, selection, source) for run in runs]
    values = {one: estimate([picked[one].test[one].value for picked in chosen]) for one in chosen[0]}
    order = sorted(values, key=lambda one: (one != source, -values[one].value, one))
    sizes = {language: score.n for language, score in runs[0].average.test.items()}
    names = [{language: one.name for language, one in picked.items()} for picked in chosen]
    return Transfer(selection, source, {one: values[one] for one in order}, sizes, names, background)


def measure_all(runs: Sequence[Run], source: str, background: Background = BARE) -> list[Transfer]:
    """By every selection that the data allows: the oracle needs dev in each language of test, and choosing something to
    choose from."""
    check_alike(runs, source)
    if all(len(run.checkpoints) == 1 for run in runs):
        return [measure(runs, ONLY, source, background)]
    with_dev = all(language in runs[0].average.dev for language in runs[0].average.test)
    return [measure(runs, one, source, background) for one in SELECTIONS if one != "oracle" or with_dev]


def check_alike(runs: Sequence[Run], source: str) -> None:
    """Refuse runs that cannot be averaged.

    Raises:
        ValueError: There is no run, or they were scored on different data; names both.
    """
    if not runs:
        raise ValueError("no run to measure; give the folder of one run of fine-tuning a seed")
    first = runs[0]
    for run in runs:
        if not run.checkpoints:
            raise ValueError(f"{run.name}: no checkpoint")
        for split, ours, theirs in (
            ("test", run.average.test, first.average.test),
            ("dev", run.average.dev, first.average.dev),
        ):
            found, expected = ({language: score.n for language, score in one.items()} for one in (ours, theirs))
            if found != expected:
                raise ValueError(
                    f"{run.name}: {split} has {_sizes(found)} rows, but that of {first.name} has {_sizes(expected)}; seeds are "
                    "compared on the same data: score both with one --data FILE"
                )
    if not first.average.test:
        raise ValueError(f"{first.name}: no test data in any language; give `test`, files by language, by --data FILE.yaml")
    if source not in first.average.test:
        raise ValueError(
            f"no test data in {source}, the language of training; found {', '.join(first.average.test)}: give --language CODE"
        )


def _sizes(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{language} {count}" for language, count in sorted(rows.items())) or "no"


def average_weights(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Mean of models' weights, by name, in their own type; what is not a real number is that of the last.

    Checkpoints of one run are meant (Schmidt et al. 2023, section 3): those of other seeds do not lie in one valley.

    Raises:
        ValueError: The models are not of one kind.
    """
    last = states[-1]
    shapes = [{name: weight.shape for name, weight in state.items()} for state in states]
    wrong = sorted({name for one in shapes for name in {*one, *last} if one.get(name) != shapes[-1].get(name)})
    if wrong:
        raise ValueError(f"checkpoints of different models cannot be averaged; they differ in {', '.join(wrong[:3])}")
    return {
        name: sum(state[name].double() for state in states).div(len(states)).to(weight.dtype)
        if weight.is_floating_point()
        else weight
        for name, weight in last.items()
    }


def estimate(seeds: Sequence[float], least: float = 0.0, most: float = 1.0) -> Estimate:
    """Mean over seeds with the t interval, which knows that the spread itself is told by a few seeds only.

    Args:
        seeds: A figure of each; with one there is no interval.
        least: What the figure can be at least: the interval ends there.
        most: And at most.
    """
    value = _mean(seeds)
    if len(seeds) < 2:
        return Estimate(value, value, value, tuple(seeds))
    reach = _reach(seeds)
    return Estimate(value, max(least, value - reach), min(most, value + reach), tuple(seeds))


def _reach(seeds: Sequence[float]) -> float:
    """Half of the t interval; 0 of one seed."""
    if len(seeds) < 2:
        return 0.0
    value = _mean(seeds)
    deviation = math.sqrt(sum((one - value) ** 2 for one in seeds) / (len(seeds) - 1))
    return student_quantile(len(seeds) - 1) * deviation / math.sqrt(len(seeds))


def student_quantile(degrees: int, level: float = LEVEL) -> float:
    """t between whose minus and plus lies this share of Student's distribution.

    By bisection on its distribution function, a finite sum where the degrees of freedom are whole
    (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t over the root of the degrees
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < level else (low, middle)
    return math.tan(low) * math.sqrt(degrees)


def _within(angle: float, degrees: int) -> float:
    odd = degrees % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for power in range(2 + odd, degrees + 1, 2):
        total += term
        term *= (power - 1) / power * math.cos(angle) ** 2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _point(value: float) -> Estimate:
    """What has no spread."""
    return Estimate(value, value, value, ())


def name_selection(selection: str, source: str) -> str:
    """A way to choose a checkpoint, in words."""
    return {
        "source dev": f"checkpoint chosen on {source} dev",
        "average": "average of all checkpoints",
        "last": "last checkpoint",
        ONLY: "the only checkpoint",
        "oracle": "each language's checkpoint chosen on its own dev (oracle, not zero-shot)",
    }[selection]


def make_records(transfer: Transfer, data: str, figure: str) -> list[Record]:
    """Records of one way to choose a checkpoint.

    Args:
        transfer: What was measured.
        data: What it was measured on.
        figure: Name of the figure, such as `accuracy`.
    """
    source, others, every = transfer.source, transfer.others, list(transfer.languages)
    task = TASKS[transfer.selection == "oracle"]
    name = f"{data} from {source}, {name_selection(transfer.selection, source)}"
    total = sum(transfer.sizes.values())

    def record(language: str, metric: str, found: Estimate, n: int) -> Record:
        return Record(task, name, language, metric, *found[:3], n)

    background = transfer.background
    guessed, words = ({one: some[one] for one in every if one in some} for some in (background.majority, background.words))
    rest = total - transfer.sizes[source]
    seeds = float(len(transfer.languages[source].seeds))
    records = [record(one, figure, found, transfer.sizes[one]) for one, found in transfer.languages.items()]
    records += [record(one, f"gap to {source}", transfer.gap([one]), transfer.sizes[one]) for one in others]
    records += [record(one, MAJORITY, _point(share), transfer.sizes[one]) for one, share in guessed.items()]
    records += [record(one, WORDS, _point(float(count)), transfer.sizes[one]) for one, count in words.items()]
    records += [record(one, "sample size", _point(seeds), transfer.sizes[one]) for one in every]
    if others:
        records.append(record(f"all but {source}", f"mean gap to {source}", transfer.gap(others), rest))
    if guessed:
        records.append(record("all", f"mean {MAJORITY}", _point(_mean([*guessed.values()])), total))
    if shares := [share for one, share in guessed.items() if one != source]:
        records.append(record(f"all but {source}", f"mean {MAJORITY}", _point(_mean(shares)), rest))
    records.append(record("all", f"mean {figure}", transfer.mean(every), total))
    if others:
        records.append(record(f"all but {source}", f"mean {figure}", transfer.mean(others), rest))
    return records
