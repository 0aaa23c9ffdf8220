"""Where a sentence's vector is taken from, by hand (pitfalls M10, M12): which tokens are in the mean, which block is meant."""

import inspect

import pytest
import tiny
import torch
import yaml

from interlingua.configuration import packaged_configurations
from interlingua.models.encoder import States
from interlingua.models.towers import TextTower
from interlingua.tasks.sentence_mining import SentenceMining
from interlingua.tasks.sentence_retrieval import SentenceRetrieval
from interlingua.tasks.sentence_views import View

TASKS = {"bucc": SentenceMining, "tatoeba": SentenceRetrieval, "sentences": SentenceRetrieval}


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_the_mean_is_over_control_tokens_too_and_never_over_padding(left):
    """Start 1, pieces 2 and 6, end 9, two places of padding 100: the mean is 18/4 = 4.5. Pieces alone have 8/2 = 4, all places
    218/6; and place 0 is padding where that stands on the left."""
    text = tiny.text([4], padded=6, left=left)
    states = torch.full((1, 6, tiny.WIDTH), 100.0)
    states[text.present] = torch.tensor([1.0, 2.0, 6.0, 9.0])[:, None].expand(-1, tiny.WIDTH)
    found = {pooling: View(None, pooling).look(States(text=states), text)[0, 0].item() for pooling in ("mean", "first")}
    assert found == {"mean": 4.5, "first": 1.0}
    pieces = states[0, text.word[0] >= 0, 0]
    assert pieces.mean() == 4.0
    assert states[0, :, 0].mean().item() == pytest.approx(218 / 6)
    assert states[0, 0, 0] == (100.0 if left else 1.0)


@pytest.mark.parametrize("blocks", [12, 16])
def test_layer_8_is_what_the_eighth_block_gives_however_many_there_are(blocks):
    """XTREME's `layer 7` counts the states of the last twelve blocks from 0: of 12 blocks it is the eighth, of XLM-100's 16 the
    twelfth. Here it has the number of the block, as Hugging Face's `hidden_states`; 0 is what goes into the first."""
    torch.manual_seed(0)
    batch = tiny.batch([7, 5])
    whole = TextTower(tiny.embeddings(), tiny.transformer(layers=blocks)).eval()
    short = TextTower(whole.embeddings, tiny.transformer(layers=8)).eval()
    short.transformer.blocks = whole.transformer.blocks[:8]
    states = whole(batch, keep=[0, 7, 8, 12])
    wanted = View(None, "mean").look(short(batch), batch.text)
    assert torch.equal(View(8, "mean").look(states, batch.text), wanted)
    for other in (0, 7, 12, None):
        assert not torch.allclose(View(other, "mean").look(states, batch.text), wanted, atol=1e-3), other


@pytest.mark.parametrize("name", TASKS)
def test_published_evaluations_are_of_the_mean_by_a_margin_of_four(name):
    """XTREME's paper has the mean; its script for BUCC pools the first token, which scores far lower."""
    recipe = yaml.safe_load(packaged_configurations()[f"configs/evaluate/{name}.yaml"].read_text(encoding="utf-8"))["model"]
    assert recipe["class_path"].endswith(TASKS[name].__name__)
    options = {option: one.default for option, one in inspect.signature(TASKS[name]).parameters.items()}
    options |= recipe["init_args"]
    assert (list(options["poolings"]), list(options["layers"]), options["margin"]) == (["mean"], [None], 4)
    if name == "bucc":
        assert (options["way"], options["tuned_on"]) == ("max", "bucc/dev")
