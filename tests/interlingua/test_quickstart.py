"""The quick start from end to end, cut to a few steps, in an empty folder: the packaged configurations are found."""

from pathlib import Path

import pytest

from interlingua import quickstart
from interlingua.__main__ import main
from interlingua.tasks.results import read_results

FEW = ["--trainer.max_steps", "2", "--trainer.val_check_interval", "2", "--model.optimization.warmup_steps", "0"]
SMALL = ["--data.sources.pictures.batch_size", "16", "--data.sources.names.batch_size", "16", "--data.workers", "0"]
QUIET = ["--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false", "--trainer.accelerator", "cpu"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_everything_lands_in_the_run_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("runs/quickstart")
    todo = quickstart.commands(folder, without_crosslingual=False, seed=1)
    assert [command[0] for command in todo] == ["shards", "tokenizer", "fit", "test"]
    for command in todo:
        extra = {"fit": FEW + SMALL + QUIET, "test": ["--data.workers", "0", *QUIET]}.get(command[0], [])
        assert main([*command, *extra]) == 0, command
    for name in (
        "shards/about.json",
        "tokenizer.model",
        "config.yaml",
        "checkpoints/last.ckpt",
        "results.json",
        "results.html",
    ):
        assert (folder / name).is_file(), name
    records = {(record.data, record.language, record.metric) for record in read_results(folder / "results.json")}
    assert ("quickstart/novel", "sw", "recall@10") in records
    assert ("quickstart/novel, texts unlike en", "all but en", "mean recall@10") in records
    assert [command[0] for command in quickstart.commands(folder, True, 0)] == ["fit", "test"]  # shards and tokenizer are there


def test_a_checkpoint_that_is_not_there_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["test", "--config", "configs/evaluate/quickstart.yaml"]) == 2
    assert "model.checkpoint: runs/quickstart/checkpoints/last.ckpt does not exist" in capsys.readouterr().err
