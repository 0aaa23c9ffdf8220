"""Pitfall D01 on real processes: unequal shards, fewer shards than ranks x workers, one shard for validation: nothing hangs."""

import pytest
import torch
import torch.distributed as dist
from ranks import run_on_ranks
from small_shards import as_rank, write_shards
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.mixture import Mixture
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards

STEPS = 12


def visit(paths, tokenizer, workers):
    """Steps of training and all batches of validation, with a collective in each; what this rank has read."""
    tokens = {"text": TextChoice(), "batch_tokens": 512, "micro_batch_tokens": 128}
    sources = {
        "rows": Source(paths, 8, text=TextChoice(["en"]), translation=TranslationChoice()),
        "buckets": Source(paths, **tokens),
        "packed": Source(paths, **tokens, pack=True),
    }
    validation = {"buckets": Source(paths[:1], **tokens), "rows": Source(paths, 4, text=TextChoice(["en"]))}
    mixtures = {"texts": Mixture(["buckets", "packed"])}
    rank, world = dist.get_rank(), dist.get_world_size()
    opened = as_rank(Shards(sources, tokenizer, 32, validation, workers=workers, mixtures=mixtures), rank, world)
    opened.setup("fit")
    trained, validated = [], []
    for number, step in enumerate(opened.train_dataloader()):
        trained.append([(batch.source, batch.sample.tolist()) for batch in step.batches])
        meet(len(step.batches), world)
        if number + 1 == STEPS:
            break
    for batch in opened.val_dataloader():
        validated += [(batch.source, int(batch.text.language[row, 0]), int(batch.sample[row])) for row in range(batch.size)]
        meet(1, world)
    return trained, validated


def meet(count, world):
    """A collective that all ranks must reach as often: it sums what must be the same on each."""
    total = torch.tensor(count)
    dist.all_reduce(total)
    assert int(total) == count * world


@pytest.mark.parametrize(("world", "workers"), [(2, 2), (4, 1)])
def test_unequal_shards_and_few_of_them_give_every_rank_as_many_steps_and_each_sample_once(tmp_path, data, world, workers):
    paths = write_shards(tmp_path, data, (10, 10, 3), ("en", "de"), images=False, roles=("name",))
    ranks = run_on_ranks(visit, world, paths, small_tokenizer(data).path, workers, limit=120)
    assert {len(trained) for trained, _ in ranks} == {STEPS}
    for number in range(STEPS):
        assert len({tuple(source for source, _ in trained[number]) for trained, _ in ranks}) == 1
        rows = [sample for trained, _ in ranks for source, samples in trained[number] if source == "rows" for sample in samples]
        assert len(rows) == 8
    drawn = [
        sample
        for number in range(STEPS)
        for trained, _ in ranks
        for source, samples in trained[number]
        if source == "rows"
        for sample in samples
    ]
    for epoch in range(STEPS * 8 // 23):
        assert sorted(drawn[23 * epoch : 23 * (epoch + 1)]) == list(range(23))
    seen = sorted(row for _, validated in ranks for row in validated)
    languages = small_tokenizer(data).languages
    expected = [("buckets", languages.index(code), number) for code in ("en", "de") for number in range(10)]
    assert seen == sorted(expected + [("rows", languages.index("en"), number) for number in range(23)])
