"""Configurations, checkpoints and runs that go wrong: one line that names the place, before anything is lost."""

import pickle
from pathlib import Path

import pytest
import torch
from small_pretraining import write_experiment, write_parts

from interlingua.__main__ import main
from interlingua.checkpoints import read_checkpoint
from interlingua.configuration import ConfigurationError


@pytest.fixture(scope="module")
def parts(data, tmp_path_factory):
    """Real shards and a tokenizer."""
    return write_parts(data, tmp_path_factory.mktemp("parts"))


@pytest.fixture
def run(parts, tmp_path, monkeypatch, capsys):
    """Status and standard error of a command over the experiment, with some values changed."""
    monkeypatch.chdir(tmp_path)
    write_experiment(parts)

    def call(*options, command="fit"):
        status = main([command, "--config", "experiment.yaml", *options])
        return status, capsys.readouterr().err

    return call


def refused(answer, *words):
    status, error = answer
    last = error.splitlines()[-1]
    assert status == 2, error
    assert last.startswith("interlingua ")
    assert all(word in last for word in words), last


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("seed_everything", "-1", ["seed_everything", "-1", "0 to"]),
        ("seed_everything", "true", ["seed_everything", "True"]),
        ("trainer.devices", "x", ["trainer: "]),
        ("trainer.accelerator", "tpu", ["trainer: "]),
        ("trainer.log_every_n_steps", "0", ["trainer.log_every_n_steps", "1 or more"]),
        ("trainer.val_check_interval", "0", ["trainer.val_check_interval", "1 or more"]),
        ("model.optimization.warmup_steps", "1.5", ["model.optimization.warmup_steps: found 1.5, expected a whole number"]),
        ("model.optimization.schedule", "foo", ["model.optimization.schedule: found 'foo'", "cosine"]),
        ("model.optimization.warmup", "5", ["model.optimization.warmup: no such key", "'warmup_steps'"]),
        ("model.optimization", "{warmup_steps: 5}", []),
        ("model.optimization.learning_rate", ".inf", ["learning_rate", "inf", "finite"]),
        ("model.optimization.frozen", "[encodr]", ["frozen", "'encodr'", "encoder"]),
        ("model.objectives.mlm.weight", ".nan", ["weight is nan"]),
        ("model.objectives.mlm.weight", "-1", ["weight is -1"]),
        ("model.encoder.vector_width", "0", ["vector_width is 0"]),
        ("model.encoder.text.transformer.layers", "-1", ["layers is -1"]),
        ("model.encoder.text.embeddings.vocabulary.size", "500", ["tokenizer", "tower 500"]),
        ("model.passes.other", "[[mlm]]", ["model.passes.other", "data.sources has no 'other'"]),
        ("data.workers", "-1", ["workers is -1"]),
        ("data.max_tokens", "2", ["max_tokens is 2"]),
        ("data.max_bad_share", "2", ["max_bad_share is 2"]),
        ("data.sources.pictures.batch_size", "x", ["data.sources.pictures.batch_size: found 'x', expected a whole number"]),
        ("data.sources.pictures.batchsize", "5", ["data.sources.pictures.batchsize: no such key", "'batch_size'"]),
        ("data.sources.pictures.text.languages", "en", ["data.sources.pictures.text.languages: found 'en'"]),
        ("data.sources.pictures.text.languages", "[xx]", ["'pictures'", "xx", "found: de, en, sw"]),
        ("data.sources.pictures.shards", "gone", ["gone", "no such shard"]),
        ("data.sources.pictures.image.size", "0", ["size: found 0"]),
        ("data.sources.pictures.image.sise", "9", ["data.sources.pictures.image.sise: no such key", "'size'"]),
        ("data.sources.pictures.image.size", "x", ["data.sources.pictures.image.size: found 'x', expected a whole number"]),
        ("data.sources.other", "{shards: x, batch_size: 4, text: {}}", ["data.sources.other", "no pass"]),
        ("data.validation", "{othr: {shards: x, batch_size: 4, text: {}}}", ["data.validation.othr", "no pass"]),
    ],
)
def test_a_wrong_value_is_one_line(run, option, value, words):
    if not words:
        assert run(f"--{option}", value)[0] == 0
        return
    refused(run(f"--{option}", value), *words)


def test_a_source_without_options_it_needs(run):
    refused(run("--data.sources.other", "{batch_size: 4}"), "data.sources.other: needs shards")


def test_divergence_is_an_error_and_not_silent(run):
    refused(run("--model.optimization.learning_rate", "1e30", "--trainer.max_steps", "9"), "not finite", "learning rate")


def test_an_objective_without_anything_to_score_is_told(run):
    with pytest.warns(UserWarning, match="'picture' had nothing to score in any step up to step 1 that"):
        assert run("--data.sources.pictures.image", "null")[0] == 0


def test_a_command_that_a_task_has_not_is_one_line(run):
    refused(run(command="test"), "Pretraining has no test_step", "it is for fit and validate", "configs/evaluate")
    refused(run(command="predict"), "predict")


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def test_checkpoints_that_cannot_be_resumed(run):
    assert run()[0] == 0
    last = Path("runs/default/checkpoints/last.ckpt")
    Path("cut.ckpt").write_bytes(last.read_bytes()[:5000])
    Path("empty.ckpt").write_bytes(b"")
    Path("garbage.ckpt").write_bytes(b"garbage")
    Path("text.ckpt").write_text("trainer: {max_steps: 3}\n")
    Path("pickle.ckpt").write_bytes(pickle.dumps(Evil()))
    torch.save({"x": Evil()}, "evil.ckpt")
    torch.save({"x": 1}, "plain.ckpt")
    torch.save([1], "list.ckpt")
    for name, words in {
        "cut": "cut short",
        "empty": "cut short",
        "garbage": "not a checkpoint",
        "text": "cut short",
        "pickle": "not a checkpoint",
        "evil": "could run code",
        "plain": "lacks state_dict",
        "list": "found a list",
    }.items():
        refused(run("--ckpt_path", f"{name}.ckpt", "--weights_only", "false"), f"{name}.ckpt", words)
        if name != "plain":
            refused(run("--ckpt_path", f"{name}.ckpt", command="validate"), f"{name}.ckpt", words)
            with pytest.raises(ConfigurationError, match=words):
                read_checkpoint(f"{name}.ckpt")
    assert not Path("ran").exists()
    more = ("--ckpt_path", str(last), "--trainer.max_steps", "4")
    refused(run("--ckpt_path", "runs"), "found a folder")
    refused(run(*more, "--data.seed", "7"), "seed: checkpoint 0, now 7")
    refused(run(*more, "--data.sources.pictures.batch_size", "2"), "batch_size: checkpoint 4, now 2")
    refused(run(*more, "--model.encoder.vector_width", "4"), "another model", "size mismatch")
    refused(run(*more, "--model.optimization.frozen", "[encoder.image]"), "other parameters")
    status, error = run("--ckpt_path", str(last))
    assert status == 0
    assert "has trained 2 steps, and trainer.max_steps is 2: nothing is left to train" in error


def test_validation_without_data_names_the_option(run):
    told = ["data.validation: nothing sets it", "`interlingua validate`", "(pictures)"]
    refused(run(command="validate"), *told)
