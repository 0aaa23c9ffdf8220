"""The recipes of tagging and answering: they parse, build the published model, and data and objective agree."""

import pytest
import torch
from lightning.pytorch import LightningModule

from interlingua.checking import build
from interlingua.configuration import read_arguments
from interlingua.modalities.parts_of_speech import UNIVERSAL
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
