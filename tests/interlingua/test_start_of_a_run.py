"""A run that started from another one's weights does not need them any more once it has a checkpoint of its own."""

from pathlib import Path

import pytest
import torch
from small_pretraining import write_experiment, write_parts

from interlingua.__main__ import main
from interlingua.checkpoints import load_model


@pytest.fixture
def parts(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_experiment(write_parts(data, tmp_path))


def test_what_a_run_started_from_may_go_once_it_is_saved(parts, capsys):
    fit = ["fit", "--config", "experiment.yaml", "--model.objectives.mlm.rate", "0.9", "--trainer.default_root_dir"]
    assert main([*fit, "first"]) == 0
    start = Path("start.ckpt")
    Path("first/checkpoints/last.ckpt").rename(start)
    assert main([*fit, "second", "--model.initial", "start.ckpt", "--trainer.max_steps", "1"]) == 0
    start.unlink()
    last = "second/checkpoints/last.ckpt"
    model = load_model(last)
    stored = torch.load(last, weights_only=True)["state_dict"]
    assert all(torch.equal(weight, stored[name]) for name, weight in model.state_dict().items())
    assert main([*fit, "second", "--model.initial", "start.ckpt", "--ckpt_path", last]) == 0
    capsys.readouterr()
    assert main([*fit, "third", "--model.initial", "start.ckpt"]) == 2
    assert "start.ckpt does not exist" in capsys.readouterr().err


def test_options_that_differ_from_the_resumed_run_are_told(parts, caplog):
    fit = ["fit", "--config", "experiment.yaml", "--model.objectives.mlm.rate", "0.9", "--trainer.default_root_dir", "run"]
    resume = [*fit, "--ckpt_path", "run/checkpoints/last.ckpt", "--trainer.max_steps", "3"]
    told = "the run goes on with other options than"
    assert main(fit) == 0
    with caplog.at_level("INFO"):
        assert main(resume) == 0
        assert told not in caplog.text
        changed = ["--model.objectives.mlm.weight", "0.5", "--model.objectives.picture.max_scale", "50"]
        assert main([*resume, *changed]) == 0
    said = next(record.getMessage() for record in caplog.records if told in record.getMessage())
    assert "model.objectives.picture.max_scale 50.0 (was 100.0)" in said
    assert "model.objectives.mlm.weight 0.5 (was 1.0)" in said
    assert said.count("(was ") == 2


def test_an_option_that_makes_weights_not_fit_is_named(parts, capsys):
    fit = ["fit", "--config", "experiment.yaml", "--trainer.default_root_dir", "run", "--model.optimization.learning_rate"]
    contrast = "interlingua.tasks.objectives.interpolated_contrast.InterpolatedContrast"
    Path("more.yaml").write_text(
        f"model: {{init_args: {{objectives: {{sctl: {{class_path: {contrast}, init_args: {{window: 5}}}}}},"
        " passes: {pictures: [[picture], [mlm], [sctl]]}}}\n"
        "data: {init_args: {sources: {pictures: {translation: {}}}}}\n"
    )
    fit += ["0.001", "--config", "more.yaml"]
    assert main(fit) == 0
    capsys.readouterr()
    changed = ["--ckpt_path", "run/checkpoints/last.ckpt", "--trainer.max_steps", "3", "--model.objectives.sctl.window", "7"]
    assert main([*fit, *changed]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "the checkpoint is of another model (now model.objectives.sctl.window 7 (was 5)); resume with the run's own" in last
    made_up = "interlingua.tasks.objectives.back_translation_language.BackTranslationLanguage"
    assert main([*fit, "--trainer.default_root_dir", "other", "--model.objectives.sctl", made_up]) == 2
    assert "data.sources.pictures.translation: objective 'sctl' reads texts alone" in capsys.readouterr().err
