"""Steps made of tokens, and packed rows: within their budgets, the same whatever the ranks, nearly without padding."""

import pickle

import pytest
import torch
from parallel_text import batches_of, reader
from small_shards import equal, record, write_tar
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.draws import Sampling

TOKENS = {
    "buckets": {},
    "pairs": {"text": TextChoice(["en"]), "translation": TranslationChoice()},
    "packed": {"pack": True},
    "mixed": {"sampling": Sampling(0.5)},
}


@pytest.mark.parametrize("kind", TOKENS)
def test_no_micro_batch_is_over_its_budget_and_ranks_share_the_same_ones(parallel, data, kind):
    opened = reader(parallel, data, batch_tokens=4096, micro_batch_tokens=1024, **TOKENS[kind])
    whole = batches_of(opened, 5)
    assert len(whole) == 20
    for batch in whole:
        slots = sum(text.present.numel() for text in (batch.text, batch.translation) if text is not None)
        assert 0 < slots <= 1024
    for world in (2, 4):
        ranks = [batches_of(opened, 5, rank, world) for rank in range(world)]
        share = 4 // world
        again = [batch for step in range(5) for rank in ranks for batch in rank[step * share : (step + 1) * share]]
        assert equal(tuple(again), tuple(whole))


@pytest.mark.parametrize("kind", ["buckets", "pairs", "packed"])
def test_an_epoch_holds_every_sample_once_and_the_next_is_another(parallel, data, kind):
    opened = reader(parallel, data, batch_tokens=4096, micro_batch_tokens=1024, **TOKENS[kind])
    epochs = [[part.draws for part in opened.parts.block(epoch)] for epoch in (0, 1)]
    orders = [torch.cat([draws.sample for draws in epoch]).tolist() for epoch in epochs]
    assert sorted(orders[0]) == sorted(orders[1]) == opened.samples.tolist()
    assert orders[0] != orders[1]
    assert [draws.epoch.unique().tolist() for draws in epochs[1]] == [[1]] * len(epochs[1])
    assert [len(part.draws.sample) for part in opened.once()] == [len(draws.sample) for draws in epochs[0]]


@pytest.mark.parametrize(("kind", "most"), [("buckets", 0.1), ("pairs", 0.1), ("packed", 0.1), ("mixed", 0.1)])
def test_at_most_a_tenth_of_real_parallel_text_is_padding(parallel, data, kind, most):
    opened = reader(parallel, data, 128, **TOKENS[kind])
    texts = [text for batch in batches_of(opened, 2) for text in (batch.text, batch.translation) if text is not None]
    padding = 1 - sum(int(text.present.sum()) for text in texts) / sum(text.present.numel() for text in texts)
    assert padding <= most
    by_count = reader(parallel, data, 128, **{**TOKENS[kind], "pack": False}, batch_size=128)
    texts = [text for batch in batches_of(by_count, 2) for text in (batch.text, batch.translation) if text is not None]
    assert 1 - sum(int(text.present.sum()) for text in texts) / sum(text.present.numel() for text in texts) > 0.4


def test_packed_rows_hold_whole_texts_of_their_own(parallel, data):
    opened = reader(parallel, data, max_tokens=64, batch_tokens=2048, micro_batch_tokens=512, pack=True)
    tokenizer, found = small_tokenizer(data), []
    parts = opened.parts.block(0)
    for part in parts[:6]:
        batch = opened.read(*part).batch
        assert batch.text.tokens.shape[0] <= 512 // 64
        for row in range(batch.size):
            documents = batch.text.document[row]
            for document in range(int(documents[batch.text.present[row]].max()) + 1):
                chosen = batch.text.present[row] & (documents == document)
                assert batch.text.position[row][chosen].tolist() == list(range(int(chosen.sum())))
                found.append(tokenizer.decode(batch.text.tokens[row][chosen].tolist()))
    whole = [opened.read(part.draws).batch.text for part in parts[:6]]
    assert sorted(found) == sorted(tokenizer.decode(row.tolist()) for text in whole for row in text.tokens)


def test_a_text_that_cannot_be_read_leaves_a_hole_in_its_row(tmp_path, data):
    texts = [("en", f"a dog {number}") for number in range(12)]
    path = write_tar(tmp_path / "a.tar", {f"{n:02d}.json": record(text) for n, text in enumerate(texts)})
    opened = reader(path, data, batch_tokens=256, micro_batch_tokens=64, pack=True)
    opened = pickle.loads(pickle.dumps(opened))  # as in a worker: no text is remembered
    broken = {f"{n:02d}.json": record(text) if n != 5 else b"?" * len(record(text)) for n, text in enumerate(texts)}
    write_tar(tmp_path / "a.tar", broken)
    found = [opened.read(*part) for part in opened.parts.block(0)]
    assert [fault.kind for reading in found for fault in reading.faults] == ["broken json"]
    left = [number for reading in found for row in reading.batch.text.tokens for number in row.tolist()]
    assert left.count(small_tokenizer(data).vocabulary.start) == 11
