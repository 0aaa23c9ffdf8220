"""Training with interpolated and word contrast: exact however a step is split, the same when resumed."""

import pytest
import streams
import tiny
import torch
import training
from lightning.pytorch.callbacks import ModelCheckpoint
from ranks import run_on_ranks
from trained import names, small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.interpolated_contrast import InterpolatedContrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.word_contrast import WordContrast
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.ranks import world

pytestmark = pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")

PASSES = {"names": [["sctl", "mlm"], ["wctl"]]}
SOME, FIRST = [9, 6, 4, 20, 0, 3, 8, 6], [9, 6, 4, 20, 0, 0, 0, 0]
"""Lengths of translations; in the second case none is on the second of two ranks."""


def objectives():
    contrast = InterpolatedContrast(temperature=0.1, pooling="mean", window=2)
    return {"sctl": contrast, "mlm": MaskedLanguage(rate=0.3), "wctl": WordContrast(others=12, temperature=0.1)}


def two_steps(rank=0, ranks=1, micro=1, lengths=SOME):
    """Two steps, in the second of which negatives are drawn nearer by what the first has left; and what both have left."""
    model = training.module(objectives=objectives(), passes=PASSES)

    def change(batch):
        return batch._replace(translation=tiny.text(lengths, 20, seed=9, language=1))

    steps, found = training.Steps(2, rank, ranks, micro, ("names",), change), []
    for number in range(2):
        found.append(streams.one_step(model, steps[number]))
        for objective in model.objectives.values():
            objective.after_step(model.encoder)
    return found, model.objectives["sctl"].likelihoods


def assert_same(one, other):
    for pair in zip(one[0], other[0], strict=True):
        streams.assert_equal_steps(*pair)
    torch.testing.assert_close(one[1], other[1], rtol=1e-5, atol=1e-6)


def on_ranks():
    return two_steps(*world(), 2), two_steps(*world(), 1, FIRST)


def test_one_by_eight_is_two_by_four_is_four_by_two():
    """What is remembered included; a rank without pairs neither hangs nor changes a mean (pitfall O03 d)."""
    whole, half = two_steps(), two_steps(lengths=FIRST)
    assert [step[1]["sctl"] for step in whole[0]] == [step[1]["wctl"] for step in whole[0]] == [7, 7]
    assert half[0][0][1]["sctl"] == half[0][0][1]["wctl"] == 4
    assert (whole[1] > 0.05).all()
    for micro in (2, 4):
        assert_same(whole, two_steps(micro=micro))
    found = run_on_ranks(on_ranks, 2)
    for rank in found:
        assert_same(whole, rank[0])
        assert_same(half, rank[1])
    assert torch.equal(found[0][0][1], found[1][0][1])


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """A shard of real names in two languages."""
    folder, own = tmp_path_factory.mktemp("names"), {"en": [], "de": []}
    for code, text in names(data):
        if code in own:
            own[code].append(text)
    with ShardWriter(folder / "shard") as writer:
        for number, (one, other) in enumerate(zip(*own.values(), strict=False)):
            writer.write(f"{number:04d}", [Caption("en", one), Caption("de", other)], item=number)
    return folder


def train(folder, data, until, name, resume=None):
    """Train with dropout and validation; the weights and what is remembered."""
    torch.manual_seed(0)
    tokenizer = small_tokenizer(data)
    encoder = TextTower(tiny.embeddings(0.1, vocabulary=tokenizer.vocabulary), tiny.transformer(dropout=0.1))
    model = Pretraining(encoder, objectives(), PASSES, Optimization(1e-2, steps=8), tokenizer.path)
    source = Source(str(folder / "shard"), 16, 8, TextChoice(["en"]), TranslationChoice())
    shards = Shards({"names": source}, tokenizer.path, 32, {"names": source}, workers=0)
    keeper = ModelCheckpoint(folder / "kept", filename=name + "-{step}", every_n_train_steps=1, save_top_k=-1)
    options = {"enable_checkpointing": True, "limit_val_batches": 1, "val_check_interval": 2}
    training.trainer(until, callbacks=[keeper], **options).fit(model, shards, ckpt_path=resume, weights_only=True)
    return model.state_dict()


def test_resumed_is_uninterrupted_what_is_remembered_included(folder, data):
    whole = train(folder, data, 5, "whole")
    assert int(whole["objectives.sctl.steps"]) == 5
    assert (whole["objectives.sctl.likelihoods"] > 0).all()
    resumed = train(folder, data, 5, "resumed", folder / "kept" / "whole-step=3.ckpt")
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]), name
