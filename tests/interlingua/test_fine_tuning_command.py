"""The recipes of zero-shot transfer: as published models are, and the small one trains, keeps, resumes and validates."""

import csv
import gzip
import json
from pathlib import Path

import pytest
import torch
from lightning.pytorch import LightningModule
from trained import small_tokenizer

from interlingua.__main__ import main
from interlingua.checking import build
from interlingua.configuration import read_arguments
from interlingua.trainer import check

CLASSIFIERS = {"xnli": (278_045_955, 392_702), "pawsx": (278_045_186, 49_401)}
"""Parameters of Hugging Face's XLMRobertaForSequenceClassification with as many labels, and examples to train on."""

LABELLED = "interlingua.datamodules.labelled"

pytestmark = pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")


def configuration(name):
    found = read_arguments(["--config", f"configs/transfer/{name}.yaml"]).configuration
    check("fit", found, ["seed_everything", "trainer", "model", "data"])
    return found


def model(found):
    arguments = {name: value for name, value in found["model"]["init_args"].items() if name not in ("initial", "tokenizer")}
    with torch.device("meta"):
        return build(LightningModule, {**found["model"], "init_args": arguments})


@pytest.mark.parametrize("name", [*CLASSIFIERS, "intents"])
def test_a_recipe_has_as_many_classes_as_labels_and_keeps_its_checkpoints_where_it_resumes(name):
    found = configuration(name)
    (objective,) = model(found).objectives.values()
    assert objective.classes == len(set(found["data"]["init_args"]["labels"]))
    (keeper,) = found["trainer"]["callbacks"]
    assert "dirpath" not in keeper["init_args"]  # so that it is default_root_dir/checkpoints
    assert found["trainer"]["max_steps"] % found["trainer"]["val_check_interval"] == 0
    assert set(found["model"]["init_args"]["passes"]) == {"labelled"}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_published_recipe_builds_the_published_classifier_and_trains_five_epochs(name):
    found, (parameters, examples) = configuration(name), CLASSIFIERS[name]
    assert sum(parameter.numel() for parameter in model(found).parameters()) == parameters
    data = found["data"]["init_args"]
    assert (data["max_tokens"], data["batch_size"]) == (128, 32)
    assert found["trainer"]["max_steps"] == 5 * -(-examples // 32)
    assert found["model"]["init_args"]["optimization"]["learning_rate"] == 2e-5


@pytest.fixture(scope="module")
def file(data, tmp_path_factory):
    """The intents in two languages."""
    file = tmp_path_factory.mktemp("intents") / "intents.jsonl"
    with gzip.open(data / "intents.jsonl.gz", "rt", encoding="utf-8") as lines:
        file.write_text("".join(line for line in lines if json.loads(line)["lang"] in ("en", "de")), encoding="utf-8")
    return str(file)


def arguments(folder, file, data, steps):
    tokenizer = small_tokenizer(data)
    changed = {
        "model.initial": "null",
        "model.encoder.vocabulary.size": str(tokenizer.vocabulary.size),
        "data.tokenizer": str(tokenizer.path),
        "data.train.en": file,
        "data.validation": file,
        "trainer.default_root_dir": str(folder),
        "trainer.accelerator": "cpu",
        "trainer.enable_progress_bar": "false",
        "trainer.max_steps": str(steps),
        "trainer.val_check_interval": "4",
        "trainer.log_every_n_steps": "1",
    }
    return [
        "--config",
        "configs/transfer/intents.yaml",
        *(part for name, value in changed.items() for part in (f"--{name}", value)),
    ]


def test_the_small_recipe_trains_keeps_every_validation_resumes_and_validates(file, data, tmp_path, capsys):
    kept = tmp_path / "checkpoints"
    assert main(["fit", *arguments(tmp_path, file, data, 6)]) == 0
    assert sorted(path.name for path in kept.iterdir()) == ["last.ckpt", "step=4.ckpt", "step=6.ckpt"]
    assert main(["fit", *arguments(tmp_path, file, data, 8)]) == 2  # another run's
    assert "is another run's" in capsys.readouterr().err
    assert main(["fit", *arguments(tmp_path, file, data, 8), "--ckpt_path", str(kept / "last.ckpt")]) == 0
    assert {path.name for path in kept.iterdir()} == {"last.ckpt", "step=4.ckpt", "step=6.ckpt", "step=8.ckpt"}
    assert torch.load(kept / "last.ckpt", weights_only=True)["global_step"] == 8

    with open(max(tmp_path.glob("logs/version_*"), key=lambda path: int(path.name.split("_")[1])) / "metrics.csv") as table:
        last = {name: value for row in csv.DictReader(table) for name, value in row.items() if value}
    capsys.readouterr()
    assert main(["validate", *arguments(tmp_path, file, data, 8), "--ckpt_path", str(kept / "step=8.ckpt")]) == 0
    told = capsys.readouterr().out
    for language in ("en", "de"):
        name = f"validation/labelled/{language}/accuracy"
        assert name in told
        assert f"{float(last[name]):.4f}"[:5] in told


def test_other_classes_than_labels_and_unread_sources_are_refused_in_a_line(file, data, tmp_path, capsys):
    given = arguments(tmp_path, file, data, 2)
    for change, message in (
        (["--model.objectives.intent.classes", "41"], "objective intent: classes is 41, but the data have 42 labels"),
        (["--data.name", "intents"], "model.passes.labelled: data.sources has no 'labelled'|data.validation.intents: no pass"),
        (["--data.train.en", str(Path("nowhere.jsonl"))], "data.train.en: there is no file nowhere.jsonl"),
        (["--data.format", f"{LABELLED}.json_lines.JsonLine"], "json_lines has no 'JsonLine'; the nearest is 'JsonLines'"),
        (["--data.format", f"{LABELLED}.pairs.Pairs"], "pairs has no 'Pairs'; the nearest is 'XtremePairs'"),
        (
            ["--data.format", f"{LABELLED}.bucc.Bucc"],
            f"data.format: found {LABELLED}.bucc.Bucc, expected class_path of a file format",
        ),
        (
            ["--data.layout", f"{{class_path: {LABELLED}.pairs.Xnli}}"],
            f"found {LABELLED}.pairs.Xnli, expected class_path of a kind of L",
        ),
        (["--data.labels.0", "5"], "data.labels.0: found 5, expected a text"),
        (
            ["--model.objectives.intent.pooling", "max"],
            "intent.pooling: found 'max', expected mean or first|expected first or mean",
        ),
    ):
        assert main(["fit", *given, *change]) == 2
        told = capsys.readouterr().err
        assert any(part in told for part in message.split("|")), told
