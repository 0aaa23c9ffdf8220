"""The recipes of tagging and answering: they parse, build the published model, and data and objective agree."""

import pytest
import torch
from lightning.pytorch import LightningModule

from interlingua.checking import build
from interlingua.configuration import read_arguments
from interlingua.modalities.parts_of_speech import UNIVERSAL
from interlingua.run_curves import FEWEST_LOSSES
from interlingua.trainer import check

TOWER = 277_453_056
"""XLM-R base without a head: 250,002 entries."""
HEADS = {"udpos": 17 * 769, "panx": 7 * 769, "xquad": 2 * 769}


@pytest.mark.parametrize("name", HEADS)
def test_a_recipe_builds_the_published_model(name):
    found = read_arguments(["--config", f"configs/transfer/{name}.yaml"]).configuration
    check("fit", found, ["seed_everything", "trainer", "model", "data"])
    arguments, data = found["model"]["init_args"], found["data"]["init_args"]
    assert arguments.pop("initial")
    assert arguments.pop("tokenizer") == data["tokenizer"]
    with torch.device("meta"):
        model = build(LightningModule, found["model"])
    assert sum(parameter.numel() for parameter in model.parameters()) == TOWER + HEADS[name]
    assert data["max_tokens"] <= model.encoder.max_tokens
    [objective] = arguments["objectives"].values()
    assert objective["init_args"].get("classes") == data.get("labels")
    assert list(data["train"]) == ["en"]
    assert "en" in data["validation"]
    assert len(data["test"]) == {"udpos": 33, "panx": 40, "xquad": 11}[name]


def test_tags_are_those_of_the_files():
    found = read_arguments(["--config", "configs/transfer/udpos.yaml"]).configuration
    assert set(found["data"]["init_args"]["labels"]) == UNIVERSAL


@pytest.mark.parametrize("name", ["udpos", "panx", "xquad", "xnli", "pawsx"])
def test_own_files_replace_those_of_a_recipe_in_the_way_that_it_says(name, tmp_path):
    recipe, mine = f"configs/transfer/{name}.yaml", "{en: own, de: own}"
    (tmp_path / "none.yaml").write_text("data: {init_args: {train: null, validation: null, test: null}}")
    (tmp_path / "mine.yaml").write_text(f"data: {{init_args: {{train: {mine}, validation: {mine}, test: {mine}}}}}")
    files = [word for file in (recipe, tmp_path / "none.yaml", tmp_path / "mine.yaml") for word in ("--config", str(file))]
    options = [
        word for split in ("train", "validation", "test") for value in ("null", mine) for word in (f"--data.{split}", value)
    ]
    for words in (files, ["--config", recipe, *options]):
        found = read_arguments(words).configuration["data"]["init_args"]
        assert [found[split] for split in ("train", "validation", "test")] == [{"en": "own", "de": "own"}] * 3
    beside = read_arguments(["--config", recipe, "--data.train", "{de: own}"]).configuration["data"]["init_args"]["train"]
    assert sorted(beside) == ["de", "en"]


def test_a_short_run_of_intents_has_a_curve():
    trainer = read_arguments(["--config", "configs/transfer/intents.yaml"]).configuration["trainer"]
    assert 60 / trainer["log_every_n_steps"] >= FEWEST_LOSSES
