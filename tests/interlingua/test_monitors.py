"""A `monitor` of what validation will not log is refused before the first step; what it will log is known exactly."""

import csv

import pytest
import yaml
from small_transfer import configure

from interlingua.__main__ import main

KEEP = "lightning.pytorch.callbacks.ModelCheckpoint"
STOP = "lightning.pytorch.callbacks.EarlyStopping"


def fit(transfer_runs, data, tmp_path, monitor, callback=KEEP, **options):
    configuration = configure(transfer_runs, tmp_path / "run", data, 0)
    configuration["trainer"] |= {"max_steps": 4, "val_check_interval": 2}
    configuration["trainer"]["callbacks"] = [{"class_path": callback, "init_args": {"monitor": monitor, "mode": "max"}}]
    configuration["data"]["init_args"] |= options
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(configuration))
    return main(["fit", "--config", str(tmp_path / "run.yaml")])


@pytest.mark.parametrize(
    ("monitor", "callback", "nearest"),
    [
        ("validation/intents/de/intent/accuracy", KEEP, "/accuracy'"),
        ("validation/intents/de/span_f1", STOP, "validation/intents/de/"),
    ],
)
def test_a_name_that_is_never_logged_is_refused_before_the_first_step(
    monitor, callback, nearest, transfer_runs, data, tmp_path, capsys
):
    assert fit(transfer_runs, data, tmp_path, monitor, callback) == 2
    err = capsys.readouterr().err
    told = f"{callback.rpartition('.')[2]}: monitor is {monitor!r}, which validation will not log; the nearest is"
    assert told in err
    assert nearest in err.partition("the nearest is ")[2].partition(";")[0]
    assert not list((tmp_path / "run").glob("**/*.ckpt"))


@pytest.mark.parametrize("monitor", ["validation/intents/ru/accuracy", "validation/loss"])
def test_a_name_that_is_logged_is_taken_and_training_is_the_same(monitor, transfer_runs, data, tmp_path):
    assert fit(transfer_runs, data, tmp_path, monitor) == 0
    with open(next((tmp_path / "run" / "logs").glob("version_*/metrics.csv")), newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get(monitor)]
    assert len(rows) == 2
    first = next((transfer_runs / "a" / "logs").glob("version_*/metrics.csv"))
    with open(first, newline="") as file:
        expected = next(row["train/intent"] for row in csv.DictReader(file) if row["train/intent"])
    with open(next((tmp_path / "run" / "logs").glob("version_*/metrics.csv")), newline="") as file:
        assert next(row["train/intent"] for row in csv.DictReader(file) if row["train/intent"]) == expected
