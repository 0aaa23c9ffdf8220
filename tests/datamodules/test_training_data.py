"""The data module of training: exact resume, exact shares, nothing decided by workers, validation once over all ranks."""

import pickle
from collections import Counter

import pytest
from recording import Validated, check_resumption, samples, train
from small_shards import LANGUAGES, as_rank, equal, picture, record, write_shards, write_tar
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.faults import TooManyBadSamplesError
from interlingua.datamodules.source import Source
from interlingua.datamodules.steps import Steps
from interlingua.datamodules.training import Shards
from interlingua.modalities.augmentation import ImageTransform


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("shards"), data)


@pytest.fixture(scope="module")
def hundred(data, tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("shards"), data, (60, 60), ("en", "de"), roles=("name",))


def module(paths, data, batch_size=4, micro_batch_size=None, validation=False, workers=0, **options):
    sources = {
        "pictures": Source(paths, batch_size, micro_batch_size, TextChoice(["en"]), image=ImageTransform(8)),
        "names": Source(paths, 2 * batch_size, micro_batch_size, TextChoice(["en"]), TranslationChoice()),
    }
    options = {"max_tokens": 64, "validation": sources if validation else None, "workers": workers, **options}
    return Shards(sources, small_tokenizer(data).path, **options)


def steps(paths, data, count, rank=0, world=1, first=0, **options):
    opened = as_rank(module(paths, data, **options), rank, world, first)
    opened.setup("fit")
    return [step for step, _ in zip(opened.train_dataloader(), range(count), strict=False)]


@pytest.mark.parametrize(("counts", "world"), [((1, 1, 1), 4), ((10, 10, 3), 2)])
def test_few_or_unequal_shards_give_every_rank_the_same_steps(tmp_path, data, counts, world):
    """Pitfall D01: fewer shards than ranks, shards of unequal size."""
    paths, total = write_shards(tmp_path, data, counts), sum(counts)
    ranks = [steps(paths, data, total, rank, world) for rank in range(world)]
    assert [[step.number for step in rank] for rank in ranks] == [list(range(total))] * world
    assert {len(step.batches) for rank in ranks for step in rank} == {2}
    drawn = [n for parts in zip(*ranks, strict=True) for n in samples(parts)]
    assert Counter(drawn) == dict.fromkeys(range(total), 4)  # 4 rows a step, `total` steps: four epochs


@pytest.mark.parametrize(("world", "micro"), [(2, None), (4, None), (1, 2), (2, 1)])
def test_ranks_and_micro_batches_train_on_the_same_rows(folder, data, world, micro):
    whole = steps(folder, data, 3)
    parts = [steps(folder, data, 3, rank, world, micro_batch_size=micro) for rank in range(world)]
    tokenizer = small_tokenizer(data)
    for number, step in enumerate(whole):
        for source in ("pictures", "names"):
            assert samples([part[number] for part in parts], source) == samples([step], source)
        rows = [row for part in parts for batch in part[number].batches for row in batch.text.tokens.tolist()]
        assert sorted(map(tokenizer.decode, rows)) == sorted(
            tokenizer.decode(row) for batch in step.batches for row in batch.text.tokens.tolist()
        )


def test_workers_change_nothing(folder, data):
    alone = steps(folder, data, 4, batch_size=6, micro_batch_size=4)
    for workers in (1, 2):
        assert equal(tuple(alone), tuple(steps(folder, data, 4, batch_size=6, micro_batch_size=4, workers=workers)))


def test_steps_survive_pickling(folder, data):
    """As `spawn` and `forkserver` workers need it."""
    opened = as_rank(module(folder, data))
    opened.setup("fit")
    dataset = Steps(opened.readers)
    assert equal(pickle.loads(pickle.dumps(dataset))[3], dataset[3])


def test_a_batch_that_ranks_cannot_share_is_refused_at_start(folder, data):
    with pytest.raises(ValueError, match=r"'pictures': batch_size 4 .* 3 processes"):
        steps(folder, data, 1, world=3)


def test_a_resumed_run_trains_on_what_the_uninterrupted_one_does(tmp_path, hundred, data):
    """Pitfall D10: 120 numbered samples, batch 4, stopped after step 25 and again after 28, with other workers."""
    seen = check_resumption(tmp_path, lambda workers: module(hundred, data, workers=workers), (25, 28, 32), (2, 1, 0))
    assert sorted(samples(seen[:30])) == list(range(120))


def test_other_data_than_the_checkpoint_s_are_refused_with_both_numbers(hundred, folder, data):
    before = as_rank(module(hundred, data))
    before.setup("fit")
    state = before.state_dict()
    same = module(hundred, data, micro_batch_size=2, workers=2)
    same.setup("fit")
    same.load_state_dict(state)
    for options, message in (
        ({"batch_size": 8}, "sources.pictures.batch_size: checkpoint 4, now 8"),
        ({"paths": folder}, "sources.names.samples: checkpoint 120, now 23"),
        ({"seed": 1}, "seed: checkpoint 0, now 1"),
    ):
        other = module(**{"paths": hundred, "data": data, **options})
        other.setup("fit")
        with pytest.raises(ValueError, match=message):
            other.load_state_dict(state)


def validated(paths, data, world=1, **options):
    ranks = []
    for rank in range(world):
        opened = as_rank(module(paths, data, validation=True, **options), rank, world)
        opened.setup("validate")
        loader = opened.val_dataloader()
        ranks.append(list(loader))
        assert len(loader) == len(ranks[-1])
    return ranks


@pytest.mark.parametrize("world", [2, 3])
def test_validation_reads_each_sample_of_each_language_once_over_all_ranks(folder, data, world):
    """Pitfall D01: each of the 23 samples once."""
    (alone,) = validated(folder, data)
    ranks = validated(folder, data, world)
    assert len({len(rank) for rank in ranks}) == 1
    languages = small_tokenizer(data).languages
    found = Counter()
    for batch in (batch for rank in ranks for batch in rank if batch.size):
        last = batch.text if batch.translation is None else batch.translation
        (language,) = last.language[last.present].unique().tolist()
        found.update((batch.source, languages[language], number) for number in batch.sample.tolist())
    expected = [("pictures", "en"), ("names", "de"), ("names", "sw")]
    assert found == {(*group, number): 1 for group in expected for number in range(23)}
    turns = [batch for turn in zip(*ranks, strict=True) for batch in turn]
    assert equal(tuple(batch for batch in turns if batch.size), tuple(alone))  # batches are dealt out whole


def test_validation_within_training_is_the_same_each_time(tmp_path, folder, data):
    recorder = Validated()
    train(tmp_path, module(folder, data, validation=True), 4, recorder=recorder)
    half = len(recorder.validated) // 2
    (alone,) = validated(folder, data)
    assert equal(tuple(recorder.validated[:half]), tuple(alone))
    assert equal(tuple(recorder.validated[half:]), tuple(alone))
    assert len(recorder.seen) == 4


def test_validation_is_the_same_each_time_and_undisturbed(folder, data):
    (first,), (second,) = validated(folder, data), validated(folder, data, workers=1)
    assert equal(tuple(first), tuple(second))
    batch = first[0]
    assert batch.image.pixels[:, 0, 0, 0].tolist() == batch.sample.tolist()  # not augmented
    assert sorted(n for batch in first if batch.source == "pictures" for n in batch.sample.tolist()) == list(range(23))


def test_one_sample_and_more_ranks_leave_empty_batches_not_repetitions(tmp_path, data):
    paths = write_shards(tmp_path, data, (1,), LANGUAGES[:2])
    ranks = validated(paths, data, 4)
    assert [[batch.size for batch in rank] for rank in ranks] == [[1], [1], [0], [0]]


def test_too_many_bad_samples_stop_training_with_their_kinds(tmp_path, data):
    members = {}
    for number in range(20):
        content = picture(number, "JPEG") if number % 2 else b"text"
        members |= {f"{number}.jpg": content, f"{number}.json": record(("en", "a dog"), ("de", "ein Hund"))}
    path = write_tar(tmp_path / "bad.tar", members)
    assert len(steps(path, data, 3)) == 3  # too early to judge
    with pytest.raises(TooManyBadSamplesError, match=r"training: .* could not be read .not an image: "):
        steps(path, data, 12, batch_size=20)
