"""Objectives over halves of documents, whole trainings: exact however a step is split, on real text, resumed bit for bit."""

import pytest
import streams
import tiny
import torch
import training
from ranks import run_on_ranks
from small_documents import write_documents
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.models.embeddings import TextEmbeddings
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.next_sentence import NextSentence
from interlingua.tasks.objectives.sentence_order import SentenceOrder
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining

pytestmark = pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
STEPS = 8


def module(encoder=None, source="names", **options) -> Pretraining:
    """Next sentence prediction and masked language modelling in one pass, sentence order prediction in another."""
    torch.manual_seed(0)
    objectives = {"nsp": NextSentence(0.5), "mlm": MaskedLanguage(0.3), "sop": SentenceOrder()}
    encoder = encoder or tiny.text_tower(segments=2)
    optimization = Optimization(1e-2, warmup_steps=2, weight_decay=0.1, steps=STEPS)
    return Pretraining(encoder, objectives, {source: [["nsp", "mlm"], ["sop"]]}, optimization, seed=3, **options)


def one_step(rank, world, micro):
    return streams.one_step(module(), training.Steps(1, rank, world, micro, sources=("names",))[0])


def on_ranks():
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return {micro: one_step(rank, world, micro) for micro in (1, 2)}


def test_one_process_of_8_equals_micro_batches_and_two_ranks():
    whole = one_step(0, 1, 1)
    assert whole[1]["nsp"] == whole[1]["sop"] == 8
    for micro in (2, 4):
        streams.assert_equal_steps(whole, one_step(0, 1, micro))
    for rank in run_on_ranks(on_ranks, 2):
        for found in rank.values():
            streams.assert_equal_steps(whole, found)


@pytest.fixture(scope="module")
def documents(data, tmp_path_factory):
    return write_documents(tmp_path_factory.mktemp("documents"), data)


def build(documents, data):
    """A tower with dropout over real help pages, in steps of tokens."""
    torch.manual_seed(0)
    tokenizer = small_tokenizer(data)
    embeddings = TextEmbeddings(tokenizer.vocabulary, tiny.WIDTH, 64, segments=2)
    model = module(TextTower(embeddings, tiny.transformer(1, 0.1)), "documents", tokenizer=tokenizer.path)
    options = {"text": TextChoice(), "following": 2, "batch_tokens": 1024, "micro_batch_tokens": 256}
    source = Source(documents, **options)
    validation = {"documents": Source(documents, 16, text=TextChoice(), following=2)}
    return model, Shards({"documents": source}, tokenizer.path, 48, validation, workers=0)


def train(documents, data, until, resume=None):
    model, shards = build(documents, data)
    read = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    trainer = training.trainer(until, limit_val_batches=0)
    trainer.fit(model, shards, ckpt_path=resume, weights_only=True)
    return model, trainer, read


def test_a_pass_of_next_sentence_and_masked_language_reads_real_documents_once(documents, data):
    model, trainer, read = train(documents, data, 2)
    assert len(read) == 2 * 4 * 2  # steps, micro-batches, passes
    for batch in read:
        assert batch.translation is None
        assert (batch.text.segment[batch.text.present] == 1).any()
    joint = [batch for batch in read if batch.matched is not None]
    assert len(joint) == len(read) // 2
    assert all(batch.text.hidden.any() for batch in joint)
    matched = torch.cat([batch.matched for batch in joint])
    assert 0.3 < matched.float().mean() < 0.7
    metrics = trainer.callback_metrics
    assert all(metrics[f"train/{name}"].isfinite() for name in ("nsp", "mlm", "sop"))
    found = training.trainer(1).validate(model, build(documents, data)[1], verbose=False)[0]
    names = {key.split("/")[-1] for key in found}
    assert names == {"nsp", "mlm", "sop", "accuracy", "loss"}


def test_a_resumed_run_is_the_uninterrupted_run(tmp_path, documents, data):
    whole, _, read = train(documents, data, STEPS)
    _, trainer, first = train(documents, data, STEPS // 2)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    resumed, _, second = train(documents, data, STEPS, str(tmp_path / "half.ckpt"))
    assert len(first) + len(second) == len(read)
    for one, other in zip([*first, *second], read, strict=True):
        assert one.text.tokens.equal(other.text.tokens)
    for name, value in whole.state_dict().items():
        assert resumed.state_dict()[name].equal(value), name
