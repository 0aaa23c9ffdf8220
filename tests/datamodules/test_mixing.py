"""Languages and sources in proportion to their sizes, exactly, whatever the exponent and by whatever they are measured."""

from collections import Counter

import numpy as np
import pytest
import torch
from parallel_text import batches_of, reader
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.choosing import Chooser
from interlingua.datamodules.draws import MixedDraws, Sampling, Stratum, temper
from interlingua.datamodules.filtering import TextRows
from interlingua.datamodules.mixture import STEPS, Mixed, Mixture
from interlingua.datamodules.order import Units
from interlingua.datamodules.shards.lengths import find_lengths
from interlingua.datamodules.turns import ExhaustedError


def languages(batches, data, field="text"):
    names = small_tokenizer(data).languages
    return Counter(names[one] for batch in batches for one in getattr(batch, field).language[:, 0].tolist())


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


def test_shares_by_hand():
    """Sizes 16, 4 and 1. Taken for a temperature, an exponent of 0.5 would square them: 256 to 16 to 1."""
    sizes = np.array([16, 4, 1])
    assert temper(sizes, 0.5).tolist() == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert temper(sizes, 1.0).tolist() == pytest.approx([16 / 21, 4 / 21, 1 / 21])
    assert temper(sizes, 0.0).tolist() == pytest.approx([1 / 3] * 3)
    assert temper(np.array([900, 100]), 0.7).tolist() == pytest.approx([0.8232, 0.1768], abs=1e-4)  # 9 to the 0.7 is 4.6555
    assert temper(np.array([900, 100]), 0.3).tolist() == pytest.approx([0.6591, 0.3409], abs=1e-4)  # and to the 0.3 1.9332


@pytest.mark.parametrize(("by", "english"), [("samples", 10 / (10 + 10**0.5)), ("tokens", 5 / 6)])
def test_samples_and_tokens_by_hand(by, english):
    """100 English samples of 4 tokens, 10 Swahili ones of 10, exponent 0.5. By samples draws are as 10 to 3.162; by tokens, of
    which there are 400 and 100, tokens are as 2 to 1, and so draws as 2/4 to 1/10."""
    texts = TextRows(110, np.arange(111), np.repeat([0, 1], [100, 10]), np.zeros(110, np.int64), ["en", "sw"], ["x"])
    strata = [
        Stratum("en", (0, 0), np.arange(100), Units.of(100), 4.0),
        Stratum("sw", (1, 1), np.arange(100, 110), Units.of(10), 10.0),
    ]
    draws = MixedDraws(strata, Sampling(0.5, by=by), 7, Chooser(texts, TextChoice(), None))
    count = 12 * draws.turns.block
    assert draws.drawn(count)["en"] == pytest.approx(count * english, abs=1.5)


def test_a_mixture_by_hand():
    """Of sizes 1,600 and 100 four steps to one, and by an exponent that falls to 0 as many of either in the end."""
    sizes = {"large": 1600.0, "small": 100.0}
    mixed = Mixed("both", Mixture(["large", "small"], 0.5), sizes, seed=0)
    assert mixed.steps_before(5 * STEPS) == {"large": 4 * STEPS, "small": STEPS}
    falling = Mixed("both", Mixture(["large", "small"], {0: 1.0, 2 * STEPS: 0.0}), sizes, seed=0)
    assert falling.steps_before(STEPS)["small"] == pytest.approx(STEPS / 17, abs=1)
    late = {name: falling.steps_before(4 * STEPS)[name] - falling.steps_before(2 * STEPS)[name] for name in sizes}
    assert late == {"large": pytest.approx(STEPS, abs=1), "small": pytest.approx(STEPS, abs=1)}


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
