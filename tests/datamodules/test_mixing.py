"""Languages and sources in proportion, steps made of tokens, packed rows: exact whatever the ranks, and resumed by a jump."""

import gzip
import json
import pickle
from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from recording import check_resumption, samples
from small_shards import as_rank, equal, record, write_tar
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.draws import Sampling, temper
from interlingua.datamodules.mixture import Mixture
from interlingua.datamodules.parts import ByTokens
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.lengths import find_lengths
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.datamodules.turns import ExhaustedError

PAIRS = 7000


@pytest.fixture(scope="module")
def parallel(data, tmp_path_factory):
    """Real translations between languages of the small tokenizer, from all parts of the corpus."""
    known, folder = small_tokenizer(data).languages, tmp_path_factory.mktemp("parallel")
    written = 0
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as lines, ShardWriter(folder) as writer:
        for line in islice(lines, 0, None, 10):
            row = json.loads(line)
            texts = [Caption(row[f"{side}_lang"], row[side], "sentence") for side in ("src", "tgt")]
            if row["split"] == "train" and all(text.language in known and text.text.strip() for text in texts):
                writer.write(f"{written:06d}", texts, item=written)
                written += 1
            if written == PAIRS:
                break
    return str(folder)


def reader(paths, data, max_tokens=64, name="texts", **options):
    options = {"text": TextChoice(), **options}
    return Reader(name, Source(paths, **options), ShardSet(paths), small_tokenizer(data), max_tokens)


def languages(batches, data, field="text"):
    names = small_tokenizer(data).languages
    return Counter(names[one] for batch in batches for one in getattr(batch, field).language[:, 0].tolist())


def batches_of(opened, count, rank=0, world=1):
    return [batch for step in range(count) for batch in opened.read_step(step, rank, world)[0]]


def drawn(opened, count, data):
    """How often each language is drawn, by the index alone."""
    draws = opened.draws.draws(0, count)
    return Counter(opened.texts.languages[one] for one in opened.texts.language[draws.text.numpy()].tolist())


@pytest.mark.parametrize("exponent", [0.3, 0.7, 1.0, 0.0])
def test_languages_come_in_proportion_to_their_size_to_the_power(parallel, data, exponent):
    """XLM, section 3.1: q = p ** 0.7 / sum; XLM-R takes 0.3."""
    opened = reader(parallel, data, batch_size=8, sampling=Sampling(exponent))
    sizes = {one.name: len(one.samples) for one in opened.draws.strata}
    assert len(sizes) > 3
    assert max(sizes.values()) > 20 * min(sizes.values())
    powers = {name: (size / sum(sizes.values())) ** exponent for name, size in sizes.items()}
    count = 3 * opened.draws.turns.block
    found = drawn(opened, count, data)
    for name, power in powers.items():
        assert found[name] == pytest.approx(count * power / sum(powers.values()), abs=1.5)
    assert opened.draws.drawn(count) == dict(found)


def test_by_tokens_the_shares_are_of_tokens(parallel, data):
    opened = reader(parallel, data, max_tokens=128, batch_size=8, sampling=Sampling(0.5, by="tokens"))
    sizes = np.array([len(one.samples) * one.tokens for one in opened.draws.strata])
    expected = dict(zip((one.name for one in opened.draws.strata), temper(sizes, 0.5), strict=True))
    text = opened.draws.draws(0, opened.draws.turns.block).text.numpy()
    lengths = np.minimum(find_lengths(opened.shards, small_tokenizer(data))[text], 128)
    tokens = Counter()
    for code, length in zip(opened.texts.language[text].tolist(), lengths.tolist(), strict=True):
        tokens[opened.texts.languages[code]] += length
    for name, share in expected.items():
        assert tokens[name] / tokens.total() == pytest.approx(share, rel=0.02, abs=0.002)


def test_each_language_has_epochs_of_its_own(parallel, data):
    opened = reader(parallel, data, batch_size=8, sampling=Sampling(0.3))
    draws = opened.draws.draws(0, 2 * opened.draws.turns.block)
    codes = opened.texts.language[draws.text.numpy()]
    for stratum in opened.draws.strata:
        mine = np.flatnonzero(codes == stratum.pair[0])
        size = len(stratum.samples)
        for epoch in range(len(mine) // size):
            part = torch.from_numpy(mine[epoch * size : (epoch + 1) * size])
            assert sorted(draws.sample[part].tolist()) == stratum.samples.tolist()
            assert draws.epoch[part].unique().tolist() == [epoch]


def test_the_exponent_may_change_with_the_steps(parallel, data):
    sampling = Sampling({0: 1.0, 100: 0.0})
    assert [sampling.exponent_at(step) for step in (0, 50, 100, 1000)] == [1.0, 0.5, 0.0, 0.0]
    opened = reader(parallel, data, batch_size=64, sampling=sampling)
    block, late = opened.draws.turns.block, 100 * 64
    first = opened.draws.turns.counts(block)
    start = -(-late // block) * block
    last = opened.draws.turns.counts(start + block) - opened.draws.turns.counts(start)
    sizes = np.array([len(one.samples) for one in opened.draws.strata])
    assert np.allclose(first, block * sizes / sizes.sum(), atol=1.5)
    assert last.max() - last.min() <= 2


def test_a_cap_on_repeats_holds_and_running_out_is_an_error(parallel, data):
    opened = reader(parallel, data, batch_size=8, sampling=Sampling(0.0, max_epochs=2))
    total = sum(2 * len(one.samples) for one in opened.draws.strata)
    found = drawn(opened, total, data)
    assert found == {one.name: 2 * len(one.samples) for one in opened.draws.strata}
    with pytest.raises(ExhaustedError, match=f"source 'texts': .*{total} times"):
        opened.read_step(total // 8, 0, 1)


def test_pairs_of_languages_are_drawn_in_proportion_too(parallel, data):
    opened = reader(
        parallel, data, batch_size=8, text=TextChoice(["en"]), translation=TranslationChoice(), sampling=Sampling(0.3)
    )
    names = {one.name for one in opened.draws.strata}
    assert {name.split("-")[0] for name in names} == {"en"}
    batches = batches_of(opened, 60)
    assert set(languages(batches, data)) == {"en"}
    sizes = np.array([len(one.samples) for one in opened.draws.strata])
    expected = dict(zip((one.name[3:] for one in opened.draws.strata), temper(sizes, 0.3), strict=True))
    found = languages(batches, data, "translation")
    for name, share in expected.items():
        assert found[name] / 480 == pytest.approx(share, abs=0.06)


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


def sources(paths):
    texts = TextChoice()
    return {
        "buckets": Source(paths, text=texts, batch_tokens=512, micro_batch_tokens=256, sampling=Sampling(0.5, max_epochs=500)),
        "packed": Source(paths, text=texts, batch_tokens=512, micro_batch_tokens=256, pack=True),
        "pairs": Source(paths, text=TextChoice(["en"]), translation=TranslationChoice(), batch_size=4, micro_batch_size=3),
    }


def module(paths, data, workers=0, **options):
    mixtures = {"texts": Mixture(["buckets", "packed"], 0.5)}
    return Shards(sources(paths), small_tokenizer(data).path, 64, None, workers=workers, mixtures=mixtures, **options)


def test_a_step_reads_one_source_of_a_mixture_and_all_others(parallel, data):
    ranks = [as_rank(module(parallel, data), rank, 2) for rank in range(2)]
    chosen = []
    for opened in ranks:
        opened.setup("fit")
        steps = [step for step, _ in zip(opened.train_dataloader(), range(8), strict=False)]
        chosen.append([sorted({batch.source for batch in step.batches}) for step in steps])
    assert chosen[0] == chosen[1]
    assert all(len(names) == 2 and "pairs" in names for names in chosen[0])
    mixed = ranks[0]._mixed[0]
    counts = mixed.steps_before(1024)
    assert abs(counts["buckets"] - counts["packed"]) <= 1  # of one size, as they read the same texts
    numbers = [mixed.at(step) for step in range(1024)]
    assert [number for name, number in numbers if name == "packed"] == list(range(counts["packed"]))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_run_goes_on_in_buckets_rows_and_mixtures_as_if_it_had_not_stopped(tmp_path, parallel, data, workers):
    seen = check_resumption(tmp_path, lambda count: module(parallel, data, count), (4, 6, 9), (workers, 0, workers))
    assert len({number for name in ("buckets", "packed") for number in samples(seen, name)}) > 50


def test_resuming_jumps(parallel, data, monkeypatch):
    """Blocks that were trained are neither drawn nor cut again."""
    opened = as_rank(module(parallel, data), step=6000)
    opened.setup("fit")
    state = opened.state_dict()
    assert len(state["planned"]["buckets"]) > 3
    resumed = as_rank(module(parallel, data), step=6000)
    resumed.setup("fit")
    resumed.load_state_dict(state)
    numbers, planned = opened._steps_of_sources(opened._step), []
    plan = ByTokens._plan
    monkeypatch.setattr(ByTokens, "_plan", lambda parts, block: planned.append(block) or plan(parts, block))
    for one, before in zip(resumed.readers, opened.readers, strict=True):
        assert equal(tuple(one.read_step(numbers[one.name], 0, 1)[0]), tuple(before.read_step(numbers[one.name], 0, 1)[0]))
    assert len(planned) <= 8  # two sources, twice, a step across the border of two blocks at most
    assert min(planned, default=9) > 3  # what the first one had planned last, it still has


def test_other_settings_of_the_order_are_refused(parallel, data):
    before = as_rank(module(parallel, data))
    before.setup("fit")
    state = before.state_dict()
    for change, message in (
        (
            {"buckets": Source(parallel, text=TextChoice(), batch_tokens=512, micro_batch_tokens=256)},
            "buckets.sampling.exponent",
        ),
        (
            {"packed": Source(parallel, text=TextChoice(), batch_tokens=512, micro_batch_tokens=256)},
            "packed.pack: checkpoint True",
        ),
    ):
        mixtures = {"texts": Mixture(["buckets", "packed"], 0.5)}
        other = as_rank(Shards({**sources(parallel), **change}, small_tokenizer(data).path, 64, mixtures=mixtures))
        other.setup("fit")
        with pytest.raises(ValueError, match=message):
            other.load_state_dict(state)


def test_the_report_tells_shares_and_epochs(parallel, data):
    opened = as_rank(module(parallel, data), step=400)
    opened.setup("fit")
    report = opened.report()
    shares = {key: value for key, value in report.items() if key.startswith("data/buckets/share/")}
    assert sum(shares.values()) == pytest.approx(1)
    assert report["data/texts/share/buckets"] == pytest.approx(0.5, abs=0.05)
    stratum = opened.readers[0].draws.strata[0]
    total = opened.readers[0].parts.draws_before(opened._steps_of_sources(opened._step)["buckets"])
    assert report[f"data/buckets/epochs/{stratum.name}"] == pytest.approx(
        total * shares[f"data/buckets/share/{stratum.name}"] / len(stratum.samples)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 4, "batch_tokens": 64}, "of rows .* or of tokens"),
        ({"micro_batch_size": 4}, "of rows .* or of tokens"),
        ({"batch_tokens": 1000, "micro_batch_tokens": 300}, "1000 is no multiple of micro_batch_tokens 300"),
        ({"pack": True, "batch_size": 4}, "`pack` fills rows with texts alone"),
        ({"pack": True, "translation": TranslationChoice()}, "`pack` fills rows with texts alone"),
        ({"text": None, "batch_tokens": 64}, "neither `text` nor `image`"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Source("x", **{"text": TextChoice(), **options})


def test_what_cannot_be_shared_or_does_not_fit_is_refused_with_both_numbers(parallel, data):
    opened = reader(parallel, data, batch_tokens=3072, micro_batch_tokens=1024)
    with pytest.raises(ValueError, match="'texts': batch_tokens 3072 are 3 micro-batches of 1024 tokens, which 2 processes"):
        opened.check_world(2)
    with pytest.raises(ValueError, match=r"2 x 64 tokens .max_tokens. does not fit into micro_batch_tokens 100"):
        reader(parallel, data, text=TextChoice(["en"]), translation=TranslationChoice(), batch_tokens=100)


@pytest.mark.parametrize(
    ("mixture", "message"),
    [
        (lambda: {"m": Mixture(["a", "x"])}, "mixtures.m: there is no source 'x'"),
        (lambda: {"m": Mixture(["a", "b"]), "n": Mixture(["b", "c"])}, "source 'b' is in the mixtures 'm' and 'n'"),
        (lambda: {"m": Mixture(["a"])}, "two or more"),
        (lambda: {"m": Mixture(["a", "b"], -1.0)}, "exponent is -1.0"),
    ],
)
def test_mixtures_that_cannot_be_are_refused(mixture, message):
    with pytest.raises(ValueError, match=message):
        Shards({name: Source("x", 4, text=TextChoice()) for name in "abc"}, mixtures=mixture())
