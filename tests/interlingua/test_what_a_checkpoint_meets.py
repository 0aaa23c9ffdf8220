"""A checkpoint that meets another tokenizer of the same size, or its labels in another order: refused wherever they meet."""

import json
import shutil
from pathlib import Path

import pytest
import tiny
import torch
import yaml
from quiet import quiet_trainer
from small_transfer import LABELS, configure, transfer
from trained import names, small_tokenizer

from interlingua.__main__ import main
from interlingua.datamodules.train_tokenizer import train_tokenizer
from interlingua.modalities.trained_tokenizer import KEY, identify
from interlingua.tasks.retrieval import Retrieval
from interlingua.tasks.sentence_mining import SentenceMining
from interlingua.tasks.sentence_retrieval import SentenceRetrieval

pytestmark = pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
REFUSED = "was trained with another tokenizer"


@pytest.fixture(scope="module")
def other(data, tmp_path_factory):
    """Another tokenizer of 1,500 pieces."""
    path = tmp_path_factory.mktemp("other") / "other.model"
    return train_tokenizer(names(data, 100), path, size=1500, report=lambda line: None)


@pytest.fixture
def run(transfer_runs, tmp_path, monkeypatch):
    """A copy of a run, in the working folder, and its last checkpoint."""
    shutil.copytree(transfer_runs / "a", tmp_path / "a", ignore=shutil.ignore_patterns("transfer.json*"))
    shutil.copy(transfer_runs / "a.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return "a/checkpoints/last.ckpt"


def refused(capsys, words, *arguments):
    capsys.readouterr()
    status = main([*map(str, arguments)])
    told = capsys.readouterr()
    assert status == 2, told.out + told.err
    assert words in told.err.strip().splitlines()[-1]
    assert "Traceback" not in told.err


def give(**arguments):
    Path("data.yaml").write_text(yaml.safe_dump({"data": {"init_args": arguments}}))
    return "--data", "data.yaml", "--output", "out"


LASTS = ("few/checkpoints/last.ckpt", "fresh/checkpoints/last.ckpt")


def test_labels_in_another_order_are_refused(run, capsys):
    swapped = [LABELS[1], LABELS[0], *LABELS[2:]]
    words = "data.labels are HassTurnOff, HassTurnOn, HassLightSet,"
    refused(capsys, words, "transfer", "a", *give(labels=swapped))
    refused(
        capsys,
        words,
        "validate",
        "--config",
        "a.yaml",
        "--ckpt_path",
        run,
        "--data.labels",
        yaml.safe_dump(swapped, default_flow_style=True),
    )
    found = torch.load(run, weights_only=True)
    del found["Labelled"]["labels"]  # as it was before
    for file in Path("a/checkpoints").glob("*.ckpt"):
        torch.save({**torch.load(file, weights_only=True), "Labelled": found["Labelled"]}, file)
    refused(capsys, "the checkpoint was trained with others, or in another order", "transfer", "a", *give(labels=swapped))


def test_another_tokenizer_is_refused_in_validation_transfer_and_at_a_start(run, other, capsys, caplog):
    refused(capsys, REFUSED, "transfer", "a", *give(tokenizer=other.path))
    given = ("--data.tokenizer", other.path, "--model.tokenizer", other.path)
    refused(capsys, REFUSED, "validate", "--config", "a.yaml", "--ckpt_path", run, *given)
    start = ["fit", "--config", "a.yaml", "--trainer.default_root_dir", "b", "--data.tokenizer", other.path, "--model.initial"]
    start += [run, "--trainer.max_steps", 1, "--trainer.callbacks", "null"]
    refused(capsys, "or give `model.other_tokenizer true`", *start)
    with caplog.at_level("INFO"):
        assert main([*map(str, start), "--model.other_tokenizer", "true"]) == 0
    assert f"{run}: heads are not taken from a checkpoint: intent start with fresh ones" in caplog.text


def test_heads_go_on_from_a_run_where_they_are_asked_for(run, capsys, caplog):
    """Few-shot: the first step begins with the head that was trained, with the labels that it was trained with."""
    start = ["fit", "--config", "a.yaml", "--trainer.callbacks", "null", "--trainer.max_steps", "1"]
    start += ["--model.optimization.learning_rate", "1e-12", "--trainer.default_root_dir"]
    given = ["--model.initial", str(run), "--model.initial_heads", "true"]
    with caplog.at_level("INFO"):
        assert main([*start, "few", *given]) == 0
    assert f"{run}: heads of intent are taken, too" in caplog.text
    assert main([*start, "fresh", *given[:2]]) == 0
    before, few, fresh = (torch.load(one, weights_only=True)["state_dict"] for one in (run, *LASTS))
    names = [name for name in before if name.startswith("objectives.intent.") and name.endswith("weight")]
    assert names
    for name in names:
        assert torch.allclose(before[name], few[name], atol=1e-6)
        assert not torch.allclose(before[name], fresh[name], atol=1e-3)
    assert main(["validate", "--ckpt_path", LASTS[0]]) == 0  # from the checkpoint alone, whose start is past
    swapped = yaml.safe_dump([LABELS[1], LABELS[0], *LABELS[2:]], default_flow_style=True)
    refused(capsys, "but the heads of `initial` were trained with HassTurnOn", *start, "b", *given, "--data.labels", swapped)
    refused(capsys, "there is no `initial` to take them from", *start, "b", *given[2:])


def test_a_tokenizer_that_is_replaced_in_place_is_refused(data, other, transfer_runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own = configure(transfer_runs, tmp_path / "run", data, 0)
    own["trainer"] |= {"max_steps": 1, "val_check_interval": 1}
    own["data"]["init_args"]["tokenizer"] = "own.model"

    def put(tokenizer):
        for ending in (".model", ".json"):
            shutil.copy(Path(tokenizer.path).with_suffix(ending), f"own{ending}")

    put(small_tokenizer(data))
    Path("run.yaml").write_text(yaml.safe_dump(own))
    assert main(["fit", "--config", "run.yaml"]) == 0
    assert transfer(capsys, "run", "--output", "out")[0] == 0
    put(other)
    refused(capsys, REFUSED, "transfer", "run", "--output", "out")
    key = json.loads(Path("run/transfer.json").read_text())["key"]
    monkeypatch.setattr("interlingua.run_plans.fingerprint", lambda *_: key)  # as if scores were of the file that is there now
    refused(capsys, REFUSED, "transfer", "run", "--output", "out")
    last = "run/checkpoints/last.ckpt"
    refused(capsys, REFUSED, "validate", "--ckpt_path", last)
    refused(capsys, REFUSED, "fit", "--config", "run.yaml", "--ckpt_path", last, "--trainer.max_steps", "2")


def test_evaluations_refuse_another_tokenizer_and_note_what_is_not_known(data, other, tmp_path, capsys):
    encoder = tiny.two_towers(vocabulary=tiny.Vocabulary(1500))
    state = {f"encoder.{name}": weight for name, weight in encoder.state_dict().items()}
    file = str(tmp_path / "last.ckpt")
    for task, part in ((Retrieval, encoder), (SentenceRetrieval, encoder), (SentenceMining, encoder)):
        for kept, tokenizer in ((identify(small_tokenizer(data)), other), (None, other)):
            torch.save({"state_dict": state, **({KEY: kept} if kept else {})}, file)
            module = task(part, str(tokenizer.path), file, str(tmp_path / "out"))
            module.trainer = quiet_trainer()
            if kept:
                with pytest.raises(ValueError, match=f"last.ckpt {REFUSED}"):
                    module.setup("test")
            else:
                module.setup("test")
                assert "last.ckpt does not say which tokenizer" in capsys.readouterr().out
