"""Mixtures of sources, resumed by a jump; settings that contradict a checkpoint or each other are refused."""

import pytest
from parallel_text import reader
from recording import check_resumption, samples
from small_shards import as_rank, equal
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.draws import Sampling
from interlingua.datamodules.mixture import Mixture
from interlingua.datamodules.parts import ByTokens
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards


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
