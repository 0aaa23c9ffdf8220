"""Ctrl-C: what was trained is saved, and the run that goes on from there is the uninterrupted one."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_training
import torch
from small_pretraining import write_experiment, write_parts

from interlingua.__main__ import main

LAST = "runs/default/checkpoints/last.ckpt"


@pytest.fixture(scope="module")
def parts(data, tmp_path_factory):
    return write_parts(data, tmp_path_factory.mktemp("parts"), cut_short=5)


def fit(parts, folder, *options, steps=6):
    """Train in a folder, validating every two steps; the status."""
    write_experiment(parts)
    validation = f"{{pictures: {{shards: {parts[0]}, batch_size: 4, text: {{}}, image: {{size: 32}}}}}}"
    arguments = ["--trainer.default_root_dir", str(folder), "--trainer.logger", "true", "--data.validation", validation]
    arguments += ["--trainer.max_steps", str(steps), "--trainer.val_check_interval", "2", "--data.max_bad_share", "1", *options]
    return main(["fit", "--config", "experiment.yaml", *arguments])


@pytest.fixture(scope="module")
def whole(parts, tmp_path_factory):
    """A run of six steps that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert fit(parts, folder) == 0
    return folder


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ctrl_c(**options):
    return ["--trainer.callbacks", f"[{{class_path: small_training.CtrlC, init_args: {options}}}]"]


def left(folder):
    """The last checkpoint, and all logged rows of all runs in a folder."""
    rows = []
    for file in sorted(Path(folder, "logs").glob("version_*/metrics.csv")):
        with file.open() as opened:
            rows += [{name: value for name, value in row.items() if value} for row in csv.DictReader(opened)]
    rows = [row for row in rows if not all(name == "step" or name.startswith("data/") for name in row)]  # told at each end
    return torch.load(Path(folder, "checkpoints/last.ckpt"), weights_only=True), rows


def assert_same_run(folder, other, *extra):
    (checkpoint, rows), (expected, expected_rows) = left(folder), left(other)
    assert checkpoint["global_step"] == expected["global_step"]
    assert checkpoint["lr_schedulers"] == expected["lr_schedulers"]
    for name, tensor in expected["state_dict"].items():
        assert torch.equal(checkpoint["state_dict"][name], tensor), name
    for number, state in expected["optimizer_states"][0]["state"].items():
        for name, tensor in state.items():
            assert torch.equal(checkpoint["optimizer_states"][0]["state"][number][name], tensor), name
    assert [row for row in rows if row not in extra] == expected_rows


def test_a_run_goes_on_as_if_never_interrupted(parts, whole, capsys):
    """Where no validation is due, where one is, and where one has begun; counted faults go on, too."""
    resume = "interlingua fit --config cut/config.yaml --ckpt_path cut/checkpoints/last.ckpt"
    options = []
    for when, after in (({"step": 2}, 3), ({"step": 3}, 4), ({"step": 4, "validating": True}, 4)):
        assert fit(parts, "cut", *ctrl_c(**when), *options) == 130
        told = capsys.readouterr().err.splitlines()[-1]
        assert told == f"interlingua fit: interrupted after step {after}; go on from there with: {resume}"
        assert left("cut")[0]["global_step"] == after
        options = ["--ckpt_path", "cut/checkpoints/last.ckpt"]
    assert fit(parts, "cut", *options) == 0
    assert_same_run("cut", whole)
    faults = [float(row["train/faults"]) for row in left("cut")[1] if "train/faults" in row]
    assert faults == sorted(faults)
    assert left("cut")[0]["faults"] == faults[-1] > 1


def test_a_run_that_had_ended_goes_on_as_if_it_had_not(parts, whole):
    """With a validation that was due, then with one that the uninterrupted run lacks; steps are logged by their number."""
    assert fit(parts, "cut", steps=2) == 0
    assert fit(parts, "cut", "--ckpt_path", "cut/checkpoints/last.ckpt", steps=5) == 0
    assert fit(parts, "cut", "--ckpt_path", "cut/checkpoints/last.ckpt") == 0
    extra = left("cut")[1][7]
    assert_same_run("cut", whole, extra)
    assert extra["step"] == "4"
    assert "validation/loss" in extra


def test_the_second_one_stops_at_once(parts, capsys):
    assert fit(parts, "cut", *ctrl_c(step=2, times=2)) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interlingua fit: interrupted"
    assert not Path("cut/checkpoints").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_nothing_is_saved_it_says_so(parts, capsys):
    assert fit(parts, "cut", "--trainer.enable_checkpointing", "false", *ctrl_c(step=2)) == 130
    assert "interrupted after step 3; nothing is saved" in capsys.readouterr().err
    assert not Path("cut/checkpoints").exists()


def test_measuring_just_stops(whole, capsys):
    options = ["--ckpt_path", f"{whole}/checkpoints/last.ckpt", *ctrl_c(step=0, validating=True)]
    assert main(["validate", *options]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interlingua validate: interrupted"


def start(parts, *options):
    """A run in a process group of its own, which can be interrupted as a terminal does it."""
    write_experiment(parts)
    options = (*options, "--data.max_bad_share", "1")
    return subprocess.Popen(
        [sys.executable, "-m", "interlingua", "fit", "--config", "experiment.yaml", *options],
        env={**os.environ, "PYTHONPATH": str(Path(small_training.__file__).parent)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in a background job
    )


@pytest.mark.slow
def test_a_process_with_workers(parts):
    process = start(parts, "--trainer.max_steps", "100000", "--data.workers", "1", "--trainer.logger", "true")
    metrics = Path("runs/default/logs/version_0/metrics.csv")
    while not metrics.exists() and process.poll() is None:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    steps = torch.load(LAST, weights_only=True)["global_step"]
    assert f"interrupted after step {steps}; go on from there with: interlingua fit" in error
    options = ["--config", "experiment.yaml", "--trainer.logger", "true", "--data.max_bad_share", "1"]
    options += ["--trainer.max_steps", str(steps + 2)]
    assert main(["fit", "--ckpt_path", LAST, *options]) == 0
    assert main(["fit", "--trainer.default_root_dir", "whole", *options]) == 0
    assert_same_run("runs/default", "whole")


@pytest.mark.slow
def test_two_processes_of_which_one_is_told(parts):
    process = start(parts, "--trainer.devices", "2", "--trainer.strategy", "ddp", *ctrl_c(step=1, rank=1))
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert error.count("interrupted after step 2") == 1
    assert torch.load(LAST, weights_only=True)["global_step"] == 2
