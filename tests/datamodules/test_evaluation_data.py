"""Retrieval data: every picture and every text once over all ranks, apart, with identities that join them."""

from collections import Counter

import pytest
from small_shards import LANGUAGES, as_rank, equal, picture, record, write_shards, write_tar
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.evaluation import RetrievalData
from interlingua.modalities.augmentation import ImageTransform


def batches(paths, data, rank=0, world=1, batch_size=4, **options):
    sources = paths if isinstance(paths, dict) else {"novel": paths}
    options = {"max_tokens": 64, "workers": 0, **options}
    opened = RetrievalData(sources, small_tokenizer(data).path, ImageTransform(8), batch_size=batch_size, **options)
    as_rank(opened, rank, world).setup("test")
    return list(opened.test_dataloader())


def pictures(some):
    return [(batch.source, n) for batch in some if batch.image is not None for n in batch.sample.tolist()]


def texts(some):
    return [(batch.source, n) for batch in some if batch.text is not None for n in batch.sample.tolist()]


@pytest.mark.parametrize(("world", "workers"), [(1, 0), (2, 0), (2, 1), (4, 0)])
def test_everything_comes_once_over_all_ranks(tmp_path, data, world, workers):
    """Pitfall M09: 21 samples, 2 ranks, batch 4."""
    paths = write_shards(tmp_path, data, (10, 11))
    ranks = [batches(paths, data, rank, world, workers=workers) for rank in range(world)]
    assert len({len(rank) for rank in ranks}) == 1
    every = [batch for rank in ranks for batch in rank]
    assert Counter(pictures(every)) == {("novel", n): 1 for n in range(21)}
    assert Counter(texts(every)) == {("novel", n): 1 for n in range(21 * len(LANGUAGES) * 2)}
    assert all(batch.size == 0 or (batch.text is None) != (batch.image is None) for batch in every)
    turns = [batch for turn in zip(*ranks, strict=True) for batch in turn if batch.size]
    assert equal(tuple(turns), tuple(batches(paths, data)))


def test_texts_come_one_language_a_batch_and_belong_to_their_pictures(tmp_path, data):
    paths, tokenizer = write_shards(tmp_path, data, (5,)), small_tokenizer(data)
    every = batches(paths, data)
    numbers = {
        item: pixel
        for batch in every
        if batch.image is not None
        for item, pixel in zip(batch.item.tolist(), batch.image.pixels[:, 0, 0, 0].tolist(), strict=True)
    }
    assert sorted(numbers.values()) == [0, 1, 2, 3, 4]
    for batch in every:
        if batch.text is not None:
            assert len(batch.text.language.unique()) == 1
            for item, tokens in zip(batch.item.tolist(), batch.text.tokens.tolist(), strict=True):
                assert tokenizer.decode(tokens).split()[-2] == str(numbers[item])


def test_languages_and_roles_are_chosen_and_sources_told_apart(tmp_path, data):
    paths = {name: write_shards(tmp_path / name, data, (3,)) for name in ("seen", "novel")}
    every = batches(paths, data, texts=TextChoice(["sw", "de"], ["name"]))
    assert Counter(name for name, _ in texts(every)) == {"seen": 6, "novel": 6}
    decoded = [small_tokenizer(data).decode(row) for batch in every if batch.text for row in batch.text.tokens.tolist()]
    assert all(text.endswith("name") for text in decoded)
    with pytest.raises(ValueError, match="source 'seen': language xx is in no sample"):
        batches(paths, data, texts=TextChoice(["xx"]))


def test_a_picture_of_several_samples_comes_once_with_all_its_texts(tmp_path, data):
    """Two pictures with five captions each, a sample a caption; and a text without a picture, which is no query."""
    members = {}
    for number in range(10):
        members[f"{number}.png"] = picture(number // 5)
        members[f"{number}.json"] = record(("en", f"caption {number}"), item=number // 5)
    members["x.json"] = record(("en", "nothing to see"), item="x")
    every = batches(write_tar(tmp_path / "a.tar", members), data)
    assert (len(pictures(every)), len(texts(every))) == (2, 10)
    assert {n for batch in every if batch.text for n in batch.item.tolist()} == {
        n for batch in every if batch.image for n in batch.item.tolist()
    }


def test_a_bad_picture_is_a_hole_and_its_texts_come(tmp_path, data, caplog):
    members = {}
    for number in range(4):
        members[f"{number}.png"] = picture(number) if number != 2 else b"text"
        members[f"{number}.json"] = record(("en", f"caption {number}"))
    every = batches(write_tar(tmp_path / "a.tar", members), data, batch_size=1)
    assert (len(pictures(every)), len(texts(every))) == (3, 4)
    assert "skipped not an image in a.tar, key 2" in caplog.text


def test_no_picture_with_a_text_is_an_error_that_says_what_is_there(tmp_path, data):
    path = write_tar(tmp_path / "a.tar", {"0.json": record(("en", "a dog")), "1.png": picture(1)})
    with pytest.raises(ValueError, match=r"'novel': no picture with a text.*1 pictures in 2 samples, languages found: en"):
        batches(path, data)
