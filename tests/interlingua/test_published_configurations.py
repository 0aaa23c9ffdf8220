"""The published recipes: every file is parsed, checked and built without memory, and as large as the published model."""

import pytest
import torch
from lightning.pytorch import LightningModule

from interlingua.checking import build
from interlingua.configuration import packaged_configurations, read_arguments
from interlingua.trainer import check

PUBLISHED = {
    ("mbert",): 178_566_653,  # Hugging Face's BertForPreTraining at 119,547 entries
    ("xlm",): 249_071_384,  # XLMWithLMHeadModel at 95,000 entries and 15 languages
    ("xlm", "xlm_code"): 249_071_384,
    ("xlmr",): 278_295_186,  # XLMRobertaForMaskedLM at 250,002 entries
    ("infoxlm",): 278_295_186 + 768**2,  # the same, and the projection of its contrast
    ("infoxlm", "infoxlm_code"): 278_295_186 + 768**2,
    ("alm",): 249_071_384,  # as XLM-15
    ("erniem",): 278_295_186,
    ("hictl",): 278_295_186 + 768**2 + 768,  # the same, and the linear layer of its word contrast
    ("unicoder",): 250_126_106,  # XLM-15, the weights of word recovery (3 x 1024), and a pooler with two scores
}
"""Parameters that are trained, by the files that are merged."""

EXPONENTS = {"mbert": 0.7, "xlm": 0.7, "xlmr": 0.3, "infoxlm": 0.7, "alm": 0.7, "unicoder": 0}
"""Of the languages of every source. XLM's released code would draw all alike where nothing is set; Unicoder does."""

DATA_FILES = ("initial", "counts", "alpha", "tokenizer")
"""Arguments that name a file of the user's, or need one."""


def configuration(names) -> dict:
    arguments = [part for name in names for part in ("--config", f"configs/pretrain/{name}.yaml")]
    return read_arguments(arguments).configuration


def without_files(node):
    if isinstance(node, dict):
        return {key: without_files(value) for key, value in node.items() if key not in DATA_FILES}
    return node


@pytest.mark.parametrize("names", PUBLISHED, ids="+".join)
def test_a_published_recipe_builds_the_published_model(names):
    found = configuration(names)
    check("fit", found, ["seed_everything", "trainer", "model", "data"])
    assert found["trainer"]["max_steps"] >= 150_000
    with torch.device("meta"):
        model = build(LightningModule, without_files(found["model"]))
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[names]
    assert set(found["data"]["init_args"]["sources"]) == set(found["model"]["init_args"]["passes"])
    assert found["data"]["init_args"]["max_tokens"] <= model.encoder.max_tokens


@pytest.mark.parametrize(("name", "exponent"), EXPONENTS.items())
def test_languages_are_drawn_by_the_published_exponent_in_each_source(name, exponent):
    """Each apart: a language's share of the parallel text is of that text. Of two sources a step reads one, each as often."""
    found = configuration([name])["data"]["init_args"]
    assert {source["sampling"]["exponent"] for source in found["sources"].values()} == {exponent}
    assert all(mixture["exponent"] == 0 for mixture in found.get("mixtures", {}).values())


@pytest.mark.parametrize(
    "name",
    ["mbert_small", "xlmr_small", "xlm_small", "infoxlm_small", "alm_small", "erniem_small", "hictl_small", "unicoder_small"],
)
def test_a_small_twin_is_of_the_same_kinds_and_takes_minutes(name):
    small, published = configuration([name]), configuration([name.removesuffix("_small")])
    check("fit", small, ["seed_everything", "trainer", "model", "data"])
    with torch.device("meta"):
        model = build(LightningModule, without_files(small["model"]))
    assert sum(parameter.numel() for parameter in model.parameters()) < 2_000_000
    arguments = [one["model"]["init_args"] for one in (small, published)]
    assert arguments[0]["encoder"]["class_path"] == arguments[1]["encoder"]["class_path"]
    assert [set(one["objectives"]) for one in arguments] == [set(model.objectives)] * 2
    assert arguments[0]["passes"] == arguments[1]["passes"]


@pytest.mark.parametrize("name", sorted(packaged_configurations()))
def test_every_file_says_first_what_it_is_from_and_how_it_is_run(name):
    lines = packaged_configurations()[name].read_text(encoding="utf-8").splitlines()
    heading = [line for line in lines[:12] if line.startswith("#")]
    assert heading[0] == lines[0]
    assert any(line.startswith("# interlingua ") for line in heading)
    paper = any("arXiv:" in line or "doi:" in line for line in heading)
    assert paper or sum(line.count("--config") for line in heading) > 1 or name.startswith("configs/evaluate")
