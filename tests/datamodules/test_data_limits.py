"""The ends of what sampling allows: caps, the last block, high powers, steps in which proportions change, other texts."""

import json

import numpy as np
import pytest
import torch
from recording import train
from small_shards import as_rank
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.draws import Sampling, temper
from interlingua.datamodules.mixture import Mixture
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.sample import BadSampleError, Caption
from interlingua.datamodules.shards.cache import Cache
from interlingua.datamodules.shards.lengths import find_lengths
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.datamodules.turns import ExhaustedError, Turns
from interlingua.report import name_of

COUNTS = {"en": 1500, "sw": 50, "de": 1}


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """Languages of very unequal sizes; most texts of English are long."""
    folder = tmp_path_factory.mktemp("uneven")
    with ShardWriter(folder) as writer:
        for language, count in COUNTS.items():
            for number in range(count):
                text = f"{language} {number}" + " dog" * (number % 20 if language == "en" else 0)
                writer.write(f"{language}{number:04d}", [Caption(language, text)], item=number)
    return str(folder)


def source(paths, **options):
    return Source(paths, **{"text": TextChoice(), **options})


def reader(paths, data, **options):
    return Reader("texts", source(paths, **options), ShardSet(paths), small_tokenizer(data), 64)


def opened(sources, data, step=0, mixtures=None, max_steps=-1):
    module = as_rank(Shards(sources, small_tokenizer(data).path, 64, workers=0, mixtures=mixtures), step=step)
    module.trainer.max_steps = max_steps
    module.setup("fit")
    return module


def test_what_a_capped_category_leaves_goes_to_the_others_in_their_proportions():
    """In the very block in which the cap is reached, too: there most of a block is left over."""
    weights, limits = np.array([0.9, 0.09, 0.01]), np.array([700, 10**9, 10**9])
    counts = Turns(lambda _: weights, 1, limits, block=640).counts(1280)
    assert counts.tolist() == [700, 522, 58]  # nine to one


@pytest.mark.parametrize("epochs", [0.01, 1.0, 1.7])
def test_a_cap_within_a_block_is_reached_to_the_last_draw(uneven, data, epochs):
    texts = reader(uneven, data, batch_size=1, sampling=Sampling(0.3, max_epochs=epochs))
    limits = {language: int(epochs * count) for language, count in COUNTS.items()}
    total = sum(limits.values())
    texts.check_end(total)
    assert len(texts.draws.draws(0, total).sample) == total
    assert texts.draws.drawn(total) == limits
    with pytest.raises(ExhaustedError, match=f"{total} times in all"):
        texts.read_step(total, 0, 1)


@pytest.mark.parametrize(("epochs", "told"), [(0.3, ", and nothing of de; give 1"), (None, ""), (1, ""), (2.5, "")])
def test_a_cap_below_one_epoch_is_told(uneven, data, caplog, epochs, told):
    reader(uneven, data, batch_size=1, sampling=Sampling(0.3, max_epochs=epochs))
    found = [record.getMessage() for record in caplog.records if "max_epochs" in record.getMessage()]
    assert len(found) == bool(told)
    assert all("sampling.max_epochs 0.3 is less than one epoch: a part of each language is never" in line for line in found)
    assert all(told in line for line in found)


STEPS = {
    "rows": {"batch_size": 8},
    "tokens": {"batch_tokens": 512, "micro_batch_tokens": 64},
    "packed": {"batch_tokens": 512, "micro_batch_tokens": 64, "pack": True},
}


def most_steps(texts, rank=0, world=1):
    for step in range(1000):
        try:
            texts.parts.step(step, rank, world)
        except ExhaustedError:
            return step
    raise AssertionError("it does not end")


@pytest.mark.parametrize("kind", STEPS)
def test_running_out_ends_training_in_the_same_step_on_every_rank(uneven, data, kind):
    last = set()
    for world, rank in ((1, 0), (2, 0), (2, 1), (8, 0), (8, 7)):
        last.add(most_steps(reader(uneven, data, sampling=Sampling(0.3, max_epochs=0.3), **STEPS[kind]), rank, world))
    assert len(last) == 1
    whole = reader(uneven, data, sampling=Sampling(0.3, max_epochs=0.3), **STEPS[kind])
    assert 465 - 64 < whole.parts.draws_before(*last) <= 465  # 450 + 15 rows; less than a step is left


@pytest.mark.parametrize("kind", ["rows", "tokens"])
def test_training_to_the_last_step_that_a_cap_allows_ends_well(tmp_path, uneven, data, kind):
    """What loaders ask for beyond it, and what a checkpoint or report says there, is no error."""
    sources = {"texts": source(uneven, sampling=Sampling(0.3, max_epochs=0.3), **STEPS[kind])}
    most = most_steps(reader(uneven, data, sampling=Sampling(0.3, max_epochs=0.3), **STEPS[kind]))
    seen, checkpoint = train(tmp_path, Shards(sources, small_tokenizer(data).path, 64, workers=0), most)
    assert len(seen) == most
    assert all(step.batches for step in seen)
    assert checkpoint.exists()
    report = opened(sources, data, most).report()
    assert report["data/texts/share/en"] == pytest.approx(450 / 465, abs=0.02)


@pytest.mark.parametrize("by", ["samples", "tokens"])
def test_where_steps_are_made_of_tokens_the_exponent_changes_with_these(uneven, data, by):
    sampling = Sampling({0: 1.0, 100: 0.0}, by=by)
    texts = reader(uneven, data, sampling=sampling, batch_tokens=1024, micro_batch_tokens=256)
    texts.parts.part(4 * 120)
    asked = [texts.draws.step_of(block * texts.draws.turns.block) for block in range(len(texts.parts.before))]
    assert asked == [before / 4 for before in texts.parts.before]
    late = next(block for block, step in enumerate(asked) if step >= 100)
    draws = texts.draws.draws(*texts.draws.block(late))
    if by == "samples":
        codes = texts.texts.language[draws.text.numpy()]
        assert np.ptp(np.bincount(codes, minlength=3)) <= 2


def test_high_powers_draw_the_largest_alone():
    assert temper(np.array([6.0, 2.0, 5.0]), 1e5).tolist() == [1, 0, 0]
    assert temper(np.array([5, 5]), 2000).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("options", [{"exponent": float("nan")}, {"exponent": {-1: 0.7}}, {"exponent": {0: float("inf")}}])
def test_powers_and_steps_that_are_no_numbers_are_refused(options):
    with pytest.raises(ValueError, match=r"sampling exponent is .*give a number from 0"):
        Sampling(**options)


def test_a_cap_may_be_as_high_as_one_likes_but_not_without_end(uneven, data):
    texts = reader(uneven, data, batch_size=4, sampling=Sampling(max_epochs=1e30))
    texts.check_end(10**9)
    assert len(texts.draws.draws(10**6, 4).sample) == 4
    with pytest.raises(ValueError, match=r"max_epochs is inf; .* null for no limit"):
        Sampling(max_epochs=float("inf"))


@pytest.mark.parametrize("options", [{"batch_tokens": 512}, {"batch_size": 4, "sampling": Sampling()}])
def test_other_texts_of_the_same_samples_are_another_order(tmp_path, data, options):
    with ShardWriter(tmp_path) as writer:
        for number in range(30):
            writer.write(f"{number:02d}", [Caption("en", f"a dog {number}"), Caption("de", "ein Hund")], item=number)
    state = opened({"texts": source(str(tmp_path), text=TextChoice(["en"]), **options)}, data).state_dict()
    json.dumps(state)
    opened({"texts": source(str(tmp_path), text=TextChoice(["en"]), **options)}, data).load_state_dict(state)
    with pytest.raises(ValueError, match=r"sources\.texts\.texts that may be read: checkpoint"):
        opened({"texts": source(str(tmp_path), **options)}, data).load_state_dict(state)


def test_a_mixture_by_tokens_depends_on_the_tokens(uneven, data):
    def of(exclude):
        one = source(uneven, text=TextChoice([code for code in COUNTS if code not in exclude]), batch_size=4)
        return opened({"a": one, "b": source(uneven, batch_size=4)}, data, mixtures={"m": Mixture(["a", "b"], by="tokens")})

    with pytest.raises(ValueError, match=r"mixtures\.m\.size of a: checkpoint"):
        of(["sw"]).load_state_dict(of([]).state_dict())


def test_a_cap_is_held_against_the_steps_that_a_mixture_gives(uneven, data):
    capped = source(uneven, batch_size=1, sampling=Sampling(max_epochs=1))
    sources, mixtures = {"a": capped, "b": source(uneven, batch_size=1)}, {"m": Mixture(["a", "b"])}
    opened(sources, data, mixtures=mixtures, max_steps=3000).train_dataloader()
    with pytest.raises(ValueError, match=r"source 'a': 20\d\d steps of 1 rows need more than the 1551"):
        opened(sources, data, mixtures=mixtures, max_steps=4096).train_dataloader()


def test_steps_beyond_the_last_are_empty(uneven, data):
    module = opened({"a": source(uneven, batch_size=2)}, data, max_steps=3)
    sizes = [len(step.batches) for step, _ in zip(module.train_dataloader(), range(5), strict=False)]
    assert sizes == [1, 1, 1, 0, 0]
    assert torch.is_tensor(module.readers[0].read_step(4, 0, 1)[0][0].sample)


def test_the_table_of_what_was_drawn_takes_names_of_any_kind():
    assert name_of("data/texts/epochs/en-de") == ("texts", "en-de")
    assert name_of("data/web/share/share/sw") == ("web", "share/sw")
    assert name_of("data/en/web/share/sw") == ("en/web", "sw")


def test_packed_texts_that_are_longer_than_counted_are_holes_where_their_row_has_no_room(tmp_path, data, monkeypatch):
    """As where a shard could not be read when its tokens were counted, so that their number was estimated."""
    with ShardWriter(tmp_path) as writer:
        for number in range(12):
            writer.write(f"{number:02d}", [Caption("en", "ζξψ ωφχ " * (1 + number % 4) + str(number))], item=number)

    def fail(*arguments, **options):
        raise BadSampleError("unreadable shard", "input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(ShardSet, "read", fail)
        find_lengths(ShardSet(str(tmp_path)), small_tokenizer(data))
    texts = reader(str(tmp_path), data, batch_tokens=512, micro_batch_tokens=256, pack=True)
    read, holes = [], []
    for part in texts.parts.block(0):
        reading = texts.read(*part)
        assert reading.batch.text.tokens.shape[1] <= 64
        read += part.draws.sample[reading.slots].tolist()
        starts = reading.batch.text.tokens == small_tokenizer(data).vocabulary.start
        assert int(starts.sum()) == len(reading.slots)
        assert {fault.kind for fault in reading.faults} <= {"changed texts"}
        holes += [int(fault.key) for fault in reading.faults]
    assert sorted(read + holes) == list(range(12))
    assert 0 < len(holes) < 12


def test_what_is_written_otherwise_and_means_the_same_is_no_other_order(uneven, data):
    def of(exponent, shared):
        one, two = (source(uneven, batch_size=4, sampling=Sampling(exponent, max_epochs=50)) for _ in range(2))
        return opened({"a": one, "b": two}, data, mixtures={"m": Mixture(["a", "b"], shared)})

    of(1, {0: 1, 10: 0}).load_state_dict(of(1.0, {10: 0.0, 0: 1.0}).state_dict())
    with pytest.raises(
        ValueError, match=r"mixtures\.m\.exponent: .*; sources\.a\.sampling\.exponent: checkpoint {0: 1.0}, now"
    ):
        of(0.5, 0.5).load_state_dict(of(1, 1).state_dict())


def test_a_mixture_has_a_name_of_its_own():
    with pytest.raises(ValueError, match=r"mixtures\.a: a source has this name, too"):
        Shards({name: Source("x", 4, text=TextChoice()) for name in "ab"}, mixtures={"a": Mixture(["a", "b"])})


def test_a_cache_may_be_without_end():
    assert Cache(gigabytes=float("inf")).limit > 10**17
