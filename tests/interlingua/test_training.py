"""fit, validate, test and predict on a small real model: refusals, what is kept, resuming, reloading."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import small_training
import torch
import yaml

from interlingua.__main__ import main
from interlingua.checkpoints import load_model, read_configuration
from interlingua.configuration import ConfigurationError

EXPERIMENT = """
model:
  class_path: small_training.Model
  init_args:
    encoder: {class_path: small_training.Tower, init_args: {width: 4}}
    objectives:
      halve: {class_path: small_training.Halve, init_args: {rate: 0.25}}
      copy: {class_path: small_training.Copy}
data:
  class_path: small_training.Data
  init_args: {folder: ., languages: [en, no]}
trainer:
  max_steps: 2
  accelerator: cpu
  log_every_n_steps: 1
  enable_progress_bar: false
  val_check_interval: 1
"""

LAST = "runs/default/checkpoints/last.ckpt"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a configuration and data of three words."""
    monkeypatch.chdir(tmp_path)
    Path("experiment.yaml").write_text(EXPERIMENT)
    Path("words.txt").write_text("a b c")
    small_training.BUILT.clear()
    return tmp_path


@pytest.fixture
def trained(folder):
    """The same folder after two steps."""
    assert main(["fit", "--config", "experiment.yaml"]) == 0
    return folder


def plain(value):
    """True where a value holds nothing but containers, strings and numbers."""
    if type(value) is dict:
        return all(type(key) is str and plain(entry) for key, entry in value.items())
    return all(map(plain, value)) if type(value) is list else type(value) in (str, int, float, bool, type(None))


def test_run_leaves_logs_checkpoint_and_configuration(trained):
    logs = trained / "runs/default/logs/version_0"
    assert "loss/train" in (logs / "metrics.csv").read_text()
    assert list(logs.glob("events.out.tfevents.*"))
    assert (logs / "config.yaml").read_text() == (trained / "runs/default/config.yaml").read_text()
    assert yaml.safe_load((logs / "config.yaml").read_text()) == read_configuration(LAST)


def test_checkpoint_loads_safely_resumes_and_exports(trained):
    """Pitfall C04: lists, a path and nested classes in the configuration; nothing but tensors and plain containers is saved."""
    kept = torch.load(LAST, weights_only=True)["configuration"]
    assert plain(kept)
    assert kept["data"]["init_args"]["languages"] == ["en", "no"]
    assert kept["model"]["init_args"]["objectives"]["halve"]["init_args"] == {"rate": 0.25, "weight": 1.0}
    assert main(["fit", "--config", "experiment.yaml", "--ckpt_path", LAST, "--trainer.max_steps", "4"]) == 0
    checkpoint = torch.load(LAST, weights_only=True)
    assert checkpoint["global_step"] == 4
    exported = load_model(LAST)
    assert not exported.training
    torch.testing.assert_close(exported.encoder.layers[0].weight, checkpoint["state_dict"]["encoder.layers.0.weight"])


def test_numbers_of_the_data_are_saved_with_the_model(trained, capsys):
    """Pitfall L01: the resolved number is saved, rebuilds the model without the data, and is told where other data differs."""
    assert read_configuration(LAST)["model"]["init_args"]["vocabulary_size"] == 3
    Path("words.txt").unlink()
    assert load_model(LAST).tokens.shape == (3,)
    Path("words.txt").write_text("a b c d")
    assert main(["test", "--ckpt_path", LAST]) == 2
    assert "model.vocabulary_size is 3, but the data's vocabulary_size is 4" in capsys.readouterr().err


def test_tokenizer_of_the_data_is_the_models(folder, capsys):
    arguments = ["fit", "--config", "experiment.yaml", "--data.tokenizer", "names.model", "--print_config"]
    assert main(arguments) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["model"]["init_args"]["tokenizer"] == "names.model"
    assert main([*arguments, "--model.tokenizer", "other.model"]) == 2
    assert "model.tokenizer is 'other.model', but the data's tokenizer is 'names.model'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_checkpoint_is_measured_with_its_own_configuration(trained, command):
    small_training.BUILT.clear()
    assert main([command, "--ckpt_path", LAST]) == 0
    assert small_training.BUILT == ["Data", "Tower"]


def test_printed_configuration_is_complete_and_builds_nothing(folder, capsys):
    arguments = ["fit", "--config", "experiment.yaml", "--model.objectives.halve.rate", "4e-1", "--print_config"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    objectives = yaml.safe_load(shown)["model"]["init_args"]["objectives"]
    assert objectives["halve"]["init_args"] == {"rate": 0.4, "weight": 1.0}
    assert objectives["copy"]["init_args"] == {"weight": 1.0}
    assert small_training.BUILT == []
    assert not Path("runs").exists()
    Path("printed.yaml").write_text(shown)
    assert main(["fit", "--config", "printed.yaml", "--print_config"]) == 0
    assert capsys.readouterr().out == shown


def test_a_used_folder_is_not_written_over(trained, capsys):
    before = Path(LAST).read_bytes()
    assert main(["fit", "--config", "experiment.yaml", "--print_config"]) == 0
    capsys.readouterr()
    small_training.BUILT.clear()
    assert main(["fit", "--config", "experiment.yaml"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"interlingua fit: {LAST} is another run's")
    assert len(told.splitlines()) == 1
    assert all(way in told for way in (f"--ckpt_path {LAST}", "--trainer.default_root_dir FOLDER", "--overwrite"))
    assert small_training.BUILT == []
    assert Path(LAST).read_bytes() == before
    for way in (["--trainer.enable_checkpointing", "false"], ["--trainer.fast_dev_run", "1"]):
        assert main(["fit", "--config", "experiment.yaml", *way]) == 0
    assert Path(LAST).read_bytes() == before
    assert main(["fit", "--overwrite", "--config", "experiment.yaml", "--trainer.max_steps", "1"]) == 0
    assert torch.load(LAST, weights_only=True)["global_step"] == 1


def test_the_end_of_a_run_tells_where_everything_is(folder, capsys):
    assert main(["fit", "--config", "experiment.yaml"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == f"2 steps are trained; checkpoint {LAST}; logs in runs/default/logs/version_0"
    assert main(["fit", "--config", "experiment.yaml", "--trainer.logger", "false", "--trainer.fast_dev_run", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 steps are trained; no checkpoint; no logs"


def test_the_next_command_is_told_where_there_is_one_that_fits(tmp_path):
    from types import SimpleNamespace

    from interlingua.ending import LABELLED, tell_end

    last = tmp_path / "last.ckpt"
    last.touch()

    def told(data, **encoder):
        model = SimpleNamespace(encoder=SimpleNamespace(**encoder))
        return [line.removeprefix("next: ") for line in tell_end(5, last, "runs/x", None, model, data)[1:]]

    (text,) = told({"init_args": {"tokenizer": "a.model"}}, widths={"text": 8, "translation": 8}, vector_width=None)
    assert text.startswith(f"interlingua test --config configs/evaluate/sentences.yaml --model.checkpoint {last} ")
    assert "--data.tokenizer a.model" in text
    (text,) = told(None, widths={"text": 8, "translation": 8, "image": 8}, vector_width=4)
    assert "configs/evaluate/retrieval.yaml" in text
    assert told(None, widths={"text": 8, "regions": 8}, vector_width=None) == []
    assert told({"class_path": LABELLED}, widths={"text": 8}) == ["interlingua transfer runs/x --output runs/x"]
    last.unlink()
    assert tell_end(5, last, "runs/x", None, None, None) == [f"5 steps are trained; checkpoints in {tmp_path}; no logs"]


def test_a_short_run_leaves_figures(folder):
    """Shorter than the intervals of logging and validation."""
    intervals = ["--trainer.log_every_n_steps", "50", "--trainer.val_check_interval", "50"]
    assert main(["fit", "--config", "experiment.yaml", *intervals]) == 0
    with (folder / "runs/default/logs/version_0/metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], bool(row["loss/train"]), bool(row["loss/validation"])) for row in rows] == [
        ("1", True, False),
        ("1", False, True),
    ]


def test_the_bar_counts_all_steps_of_a_resumed_run(trained):
    look = ["--trainer.enable_progress_bar", "true", "--trainer.callbacks", "[{class_path: small_training.Look}]"]
    assert main(["fit", "--config", "experiment.yaml", "--ckpt_path", LAST, "--trainer.max_steps", "4", *look]) == 0
    assert small_training.Look.seen == [(2, 4), (3, 4)]


def test_a_run_tells_the_size_of_its_model_in_a_line(folder, caplog):
    assert main(["fit", "--config", "experiment.yaml", "--model.encoder.depth", "2"]) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "43 parameters: layers 40, other 3; on cpu",
        "`Trainer.fit` stopped: `max_steps=2` reached.",
    ]


def test_sizes_are_counted_once_and_frozen_parts_told():
    from interlingua.progress import describe_size

    module = torch.nn.Module()
    module.encoder = torch.nn.ModuleDict({"text": torch.nn.Embedding(30_000, 50), "image": torch.nn.Linear(1000, 300)})
    module.objectives = torch.nn.ModuleDict({"mlm": torch.nn.Linear(50, 500)})
    module.objectives["mlm"].tokens = module.encoder["text"]
    module.encoder["image"].requires_grad_(False)
    assert describe_size(module) == "1.8 M parameters: text 1.5 M, image 0.3 M, mlm 26 k; 0.3 M of them frozen"


TIMER = "lightning.pytorch.callbacks.Timer"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--trianer.max_steps", "3"], "trianer: no such key (found {'max_steps': 3}); the nearest is 'trainer'"),
        (["--trainer.max_stpes", "3"], "trainer.max_stpes: no such key (found 3); the nearest is 'max_steps'"),
        (["--model.learnin_rate", "3"], "model.learnin_rate: no such key (found 3); the nearest is 'learning_rate'"),
        (["--model.encoder.widht", "3"], "model.encoder.widht: no such key (found 3); the nearest is 'width'"),
        (["--model.objectives.halve.rat", "3"], "model.objectives.halve.rat: no such key (found 3); the nearest is 'rate'"),
        (["--data.folde", "x"], "data.folde: no such key (found 'x'); the nearest is 'folder'"),
        (["--trainer.max_steps", "many"], "trainer.max_steps: found 'many', expected a whole number"),
        (["--seed_everything", "x"], "seed_everything: found 'x', expected an integer"),
        (["--model.encoder.width", "wide"], "model.encoder.width: found 'wide', expected a whole number"),
        (["--model.objectives.halve.rate", "high"], "model.objectives.halve.rate: found 'high', expected a number"),
        (["--model.class_path", "small_training.Modle"], "small_training has no 'Modle'; the nearest is 'Model'"),
        (["--model", "small_trainin.Model"], "model.class_path: no module 'small_trainin'"),
        (["--model", "interlingua.task.pretraining"], "no module 'interlingua.task'; the nearest is 'interlingua.tasks'"),
        (["--model", "Model"], "model.class_path: found 'Model', expected a full path such as package.module.Class"),
        (["--model", "small_training.Tower", "--model.width", "3"], "model: found small_training.Tower, expected class_path"),
        (["--model.objectives.copy", "small_training.Tower", "--model.objectives.copy.width", "3"], "copy: found small"),
        (["--model.encoder.width", "null"], "model.encoder: small_training.Tower needs width, which nothing sets"),
        (["--model", "null"], "model: nothing sets it; give --config FILE, --model CLASS_PATH or --ckpt_path FILE"),
        (["--trainer", "3"], "trainer: found 3, expected a mapping"),
        (["--trainer.max_steps", "null"], "trainer.max_steps: nothing sets it; training is counted in optimiser steps"),
        (["--trainer.accumulate_grad_batches", "4"], "not used here; set micro_batch_size of the data"),
        (["--trainer.gradient_clip_val", "1.0"], "not used here; set model.optimization.max_gradient_norm"),
        (["--trainer.callbacks", f"[{{class_path: {TIMER}, init_args: {{duratio: 3}}}}]"], "the nearest is 'duration'"),
        (["--model.objectives.more", "{class_path: small_training.Passing, init_args: {sharpnes: 1}}"], "'sharpness'"),
        (["--model.objectives.more", "{class_path: small_training.Passing, init_args: {rate: x}}"], "more.rate: Expected a"),
        (["--ckpt_path", "nowhere.ckpt"], "--ckpt_path nowhere.ckpt: no such file"),
    ],
)
def test_refusal_is_short_and_comes_before_anything_is_built(folder, capsys, arguments, told):
    assert main(["fit", "--config", "experiment.yaml", *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) <= 2
    assert small_training.BUILT == []
    assert not Path("runs").exists()


def test_arguments_that_a_class_passes_on_are_taken(folder, capsys):
    more = "{class_path: small_training.Passing, init_args: {sharpness: 2, rate: 0.5}}"
    assert main(["fit", "--config", "experiment.yaml", "--model.objectives.more", more, "--print_config"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["model"]["init_args"]["objectives"]["more"]["init_args"]["rate"] == 0.5


def test_value_that_a_class_refuses_when_built_is_one_line(folder, capsys):
    assert main(["fit", "--config", "experiment.yaml", "--data.folder", "/nowhere"]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "Seed set" not in line]
    assert told == ["interlingua fit: data: [Errno 2] No such file or directory: '/nowhere/words.txt'"]


def test_checkpoint_with_a_pickle_is_refused(folder, capsys):
    torch.save({"configuration": {"model": Path}}, "foreign.ckpt")
    assert main(["test", "--ckpt_path", "foreign.ckpt"]) == 2
    assert "foreign.ckpt: not a checkpoint of tensors and plain containers" in capsys.readouterr().err
    torch.save({"state_dict": {}}, "bare.ckpt")
    with pytest.raises(ConfigurationError, match="holds no configuration"):
        read_configuration("bare.ckpt")


def test_help_is_short_and_tells_about_a_class(capsys):
    assert main(["fit", "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) < 40
    assert main(["fit", "--help", "small_training.Halve"]) == 0
    shown = capsys.readouterr().out
    assert "--rate RATE" in shown
    assert "Predict a share of what is read" in shown
    assert main(["fit", "--help", "Halve"]) == 2
    assert "--help: found 'Halve', expected a full path" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_by_flag(folder):
    flags = ["--trainer.devices", "2", "--trainer.strategy", "ddp"]
    done = subprocess.run(
        [sys.executable, "-m", "interlingua", "fit", "--config", "experiment.yaml", *flags],
        env={**os.environ, "PYTHONPATH": str(Path(small_training.__file__).parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Tip:" not in done.stderr
    assert torch.load(LAST, weights_only=True)["global_step"] == 2
    assert [path.name for path in Path("runs/default/logs").iterdir()] == ["version_0"]
