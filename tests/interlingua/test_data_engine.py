"""The data engine by the command line: languages in proportion, steps of tokens, what is reported and what is refused."""

import csv
from pathlib import Path

import pytest
import yaml
from small_pretraining import write_experiment, write_parts

from interlingua.__main__ import main
from interlingua.datamodules.source import Source
from interlingua.refusals import find_refusal

NAMES = {"text": {}, "batch_tokens": 128, "micro_batch_tokens": 64, "sampling": {"exponent": 0.3}}
MLM = {"class_path": "interlingua.tasks.objectives.masked_language.MaskedLanguage", "init_args": {"rate": 0.5}}


@pytest.fixture
def experiment(tmp_path, data, monkeypatch):
    """Changes an experiment with a source of texts beside the pictures, and runs it."""
    monkeypatch.chdir(tmp_path)
    write_experiment(write_parts(data, tmp_path))

    def run(command=("fit",), **changes):
        content = yaml.safe_load(Path("experiment.yaml").read_text())
        sources = content["data"]["init_args"]["sources"]
        sources["names"] = {"shards": sources["pictures"]["shards"], **NAMES, **changes.get("names", {})}
        sources["pictures"] |= changes.get("pictures", {})
        content["model"]["init_args"]["objectives"]["names"] = MLM
        content["model"]["init_args"]["passes"] |= {"names": changes.get("passes", [["names"]])}
        content["data"]["init_args"] |= changes.get("data", {})
        content["trainer"] |= {"logger": True, "max_steps": 4, **changes.get("trainer", {})}
        Path("changed.yaml").write_text(yaml.safe_dump(content))
        return main([*command, "--config", "changed.yaml"])

    return run


def test_shares_epochs_and_padding_are_logged_and_told_at_the_end(experiment, capsys):
    assert experiment(trainer={"max_steps": 2}) == 0
    table = capsys.readouterr().err
    assert "What was drawn" in table
    (logged,) = Path("runs/default/logs").glob("*/metrics.csv")
    with logged.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["data/names/share/de"]]
    shares = [float(rows[-1][f"data/names/share/{language}"]) for language in ("de", "en", "sw")]
    assert sum(shares) == pytest.approx(1)
    assert max(shares) - min(shares) < 0.2  # all of one size; exact at the ends of blocks
    assert float(rows[-1]["data/names/epochs/de"]) > 0
    assert 0 <= float(rows[-1]["data/names/padding"]) < 0.5


def test_a_mixture_reads_one_source_a_step_and_blames_no_objective_for_it(experiment, recwarn):
    mixtures = {"all": {"sources": ["names", "pictures"], "exponent": 1.0}}
    assert experiment(data={"mixtures": mixtures}, trainer={"max_steps": 6}) == 0
    assert not [warning for warning in recwarn if "had nothing to score" in str(warning.message)]
    (logged,) = Path("runs/default/logs").glob("*/metrics.csv")
    rows = list(csv.DictReader(logged.open(encoding="utf-8")))
    losses = [row for row in rows if row["train/loss"]]
    assert {bool(row["train/names"]) + bool(row["train/picture"]) for row in losses} == {1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pictures": {"batch_size": None}}, "data.sources.pictures.batch_size: nothing sets it; objective 'picture' compares"),
        ({"names": {"sampling": {"exponent": -1}}}, "sampling exponent is -1"),
        ({"names": {"batch_tokens": 100}}, "batch_tokens 100 is no multiple of micro_batch_tokens 64"),
        ({"names": {"sampling": {"exponnent": 1}}}, "exponnent"),
        ({"data": {"mixtures": {"m": {"sources": ["names", "nouns"]}}}}, "mixtures.m: there is no source 'nouns'"),
        (
            {"names": {"batch_size": 4, "batch_tokens": None, "micro_batch_tokens": None, "sampling": {"max_epochs": 0.5}}},
            "4 steps of 4 rows need more than the 9 that sampling.max_epochs 0.5 allows",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(experiment, capsys, changes, message):
    assert experiment(**changes) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


def test_what_a_worker_refuses_is_told_in_a_line_too(experiment, capsys):
    names = {"sampling": {"max_epochs": 1}}
    assert experiment(names=names, trainer={"max_steps": 400}, data={"workers": 1}) == 2
    told = capsys.readouterr().err
    assert "source 'names': every category has been drawn as often as its limit allows, 18 times in all; raise" in told
    assert "Traceback" not in told


def test_only_what_we_raise_is_a_refusal():
    def caught(call):
        try:
            call()
        except Exception as error:
            return find_refusal(error)

    assert caught(lambda: int("x")) is None
    assert "batch_size is 0" in caught(lambda: Source("x", 0))
