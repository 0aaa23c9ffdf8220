"""Retrieval data of regions: each picture's once, with its picture or without; what cannot be read is a counted hole."""

import pytest
import torch
from region_shards import COUNTS, found_in, write
from small_shards import as_rank
from trained import small_tokenizer

from interlingua.datamodules.evaluation import RetrievalData
from interlingua.datamodules.region_choice import RegionChoice
from interlingua.modalities.augmentation import ImageTransform


def batches(path, data, image=None, regions=RegionChoice(), batch_size=4, items=None):  # noqa: B008
    options = {"max_tokens": 64, "batch_size": batch_size, "workers": 0, "regions": regions, "items": items}
    opened = RetrievalData({"held out": path}, small_tokenizer(data).path, image, **options)
    as_rank(opened).setup("test")
    return list(opened.test_dataloader())


def numbers(some, name):
    return [n for batch in some if getattr(batch, name) is not None for n in batch.sample.tolist()]


def test_regions_come_once_apart_from_texts_and_alike_with_the_picture(tmp_path, data):
    path = write(tmp_path / "some", data, [found_in(number) for number in range(6)])
    alone, both = batches(path, data), batches(path, data, ImageTransform(8))
    assert numbers(alone, "regions") == numbers(alone, "text") == numbers(both, "image") == list(range(6))
    assert not any(batch.text is not None and batch.regions is not None for batch in alone)
    for one, two in zip(alone, both, strict=True):
        if one.regions is not None:
            assert one.image is None
            assert one.regions.present.sum(1).tolist() == [COUNTS[number] for number in one.sample.tolist()]
            assert torch.equal(one.regions.boxes, two.regions.boxes)
            assert torch.equal(one.regions.features, two.regions.features)


def test_the_choice_of_regions_is_that_of_training(tmp_path, data):
    path = write(tmp_path / "some", data, [found_in(number) for number in range(6)])
    few = batches(path, data, regions=RegionChoice(most=2))
    assert [count for one in few if one.regions is not None for count in one.regions.present.sum(1).tolist()] == [
        2,
        0,
        2,
        2,
        1,
        2,
    ]


def test_regions_that_cannot_be_read_are_a_hole_and_pictures_without_any_are_not_searched(tmp_path, data, caplog):
    found = [found_in(0), found_in(2, width=5), None, found_in(3)]
    path = write(tmp_path / "some", data, found)
    every = batches(path, data, batch_size=1)
    assert numbers(every, "regions") == [0, 3]
    assert numbers(every, "text") == [0, 1, 3]
    assert "skipped other regions" in caplog.text


def test_shards_without_regions_and_data_that_read_nothing_are_refused(tmp_path, data):
    path = write(tmp_path / "some", data, [None, None])
    with pytest.raises(ValueError, match="no picture with a text to find it by; 0 pictures in 2 samples"):
        batches(path, data)
    with pytest.raises(ValueError, match="neither `image` nor `regions` is read"):
        RetrievalData({"held out": path}, small_tokenizer(data).path)


def test_some_items_are_the_same_ones_whatever_else_is_there(tmp_path, data):
    """Their pictures and their texts; the more are asked for, the more are added."""
    path = write(tmp_path / "some", data, [found_in(number) for number in range(12)])
    chosen = [numbers(batches(path, data, items=count), "regions") for count in (2, 5, 12, 50)]
    assert [len(one) for one in chosen] == [2, 5, 12, 12]
    assert set(chosen[0]) < set(chosen[1])
    assert chosen[1] != list(range(5))
    assert numbers(batches(path, data, items=5), "text") == chosen[1]
    with pytest.raises(ValueError, match="items is 1; expected 2 or more"):
        batches(path, data, items=1)
