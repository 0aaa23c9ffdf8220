"""Regions of a source: which samples are read, which regions of them, in which frame, and what is a fault."""

import io

import numpy as np
import pytest
import torch
from found import find
from jsonargparse import ArgumentParser
from recording import check_resumption
from region_shards import COUNTS, SIZE, found_in, open_reader, picture, read, write
from small_shards import as_rank, equal, name_of, record, write_tar
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.region_choice import RegionChoice
from interlingua.datamodules.shards import FieldMap, ShardSet
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.modalities.augmentation import ImageTransform
from interlingua.modalities.batch import take
from interlingua.modalities.region import FoundRegions, pack_regions


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """12 samples with regions, and 2 without."""
    return write(tmp_path_factory.mktemp("regions"), data, [*map(found_in, range(12)), None, None])


def raw(path, data, *contents, image=None):
    """A tar of members as they are, for what our own writer refuses."""
    members = {}
    for number, content in enumerate(contents):
        members[f"{number}.json"] = record(("en", name_of(data, "en", number)))
        members[f"{number}.jpg"] = image or picture()
        members[f"{number}.regions.npz"] = content
    return write_tar(path / "raw.tar", members)


def stored(found, **change):
    content = io.BytesIO()
    arrays = {name: value for name, value in found._asdict().items() if value is not None}
    np.savez(content, **(arrays | {"size": np.array(found.size)} | change))
    return content.getvalue()


def test_only_samples_with_regions_are_read_and_the_others_counted(folder, data, tmp_path):
    reader = open_reader(folder, data)
    assert reader.samples.tolist() == list(range(12))
    assert reader.summary == "reads 12 of 14 samples, leaves out 2 without regions"
    assert len(open_reader(folder, data, None)) == 14
    with pytest.raises(ValueError, match="reads 0 of 1 samples, leaves out 1 without regions"):
        open_reader(write_tar(tmp_path / "plain.tar", {"a.json": record(("en", "a"))}), data)


def test_indexes_tell_who_has_regions(folder, data, tmp_path):
    shards = ShardSet([folder, raw(tmp_path, data, pack_regions(found_in(0)))])
    assert shards.has("regions.npz").tolist() == [True] * 12 + [False] * 2 + [True]
    assert not shards.has("wav").any()
    assert shards.read(0, members=()).members == {}
    assert set(shards.read(0).members) == {"regions.npz"}
    assert shards.read(0, image=False, members=["regions.npz", "wav"]).texts == shards.read(0).texts


def test_regions_are_those_of_the_files_alone_and_in_a_batch(folder, data):
    """Pitfall R03: pictures in which nothing was found stand beside others, and alone."""
    reader = open_reader(folder, data)
    regions = read(reader, *range(12)).batch.regions
    assert regions.present.sum(1).tolist() == list(COUNTS) * 2
    for number in range(12):
        found, alone = found_in(number), read(reader, number).batch.regions
        count = len(found.boxes)
        assert alone.features.shape == (1, count, 4)
        assert equal(alone, take(regions._replace(**_first(regions, count)), torch.tensor([number])))
        np.testing.assert_array_equal(alone.features[0], found.features.astype(np.float32))
        np.testing.assert_allclose(alone.boxes[0], found.boxes / [*SIZE, *SIZE], atol=1e-6)
        np.testing.assert_array_equal(alone.label[0], found.classes.argmax(1))
    empty = read(reader, 1, 7).batch.regions
    assert empty.features.shape == (2, 0, 4)
    assert empty.classes.shape == (2, 0, 6)
    assert not empty.present.any()


def _first(regions, count):
    return {name: field[:, :count] for name, field in regions._asdict().items() if field is not None}


def test_the_most_confident_regions_are_taken_in_their_order(data, tmp_path):
    confidence = np.array([0.1, 0.9, 0.3, 0.3, 0.8], np.float16)
    found = find(0, 5, SIZE, label=np.arange(5), confidence=confidence)
    paths = write(tmp_path, data, [found])

    def taken(**choice):
        return read(open_reader(paths, data, RegionChoice(**choice)), 0).batch.regions.label[0].tolist()

    assert taken() == [0, 1, 2, 3, 4]
    assert taken(most=3) == [1, 2, 4]
    assert taken(confidence=0.5) == [1, 4]
    assert taken(confidence=0.5, least=4) == [1, 2, 3, 4]
    assert taken(confidence=0.2, least=1, most=2) == [1, 4]
    assert taken(confidence=1.0) == []


def test_the_first_regions_are_taken_where_no_confidence_is_known(data, tmp_path):
    paths = write(tmp_path, data, [find(0, 5, SIZE)])
    regions = read(open_reader(paths, data, RegionChoice(most=2)), 0).batch.regions
    np.testing.assert_array_equal(regions.features[0], find(0, 5, SIZE).features[:2].astype(np.float32))
    with pytest.raises(ValueError, match=r"'regions': regions: confidence 0.2 is asked for, but those of shard-000000.tar"):
        open_reader(paths, data, RegionChoice(confidence=0.2))


def test_classes_and_attributes_may_be_left_out_and_labels_stay(data, tmp_path):
    attributes = {"attribute": np.array([1, -1]), "attribute_confidence": np.array([0.5, 0.0])}
    paths = write(tmp_path, data, [find(0, 2, SIZE, classes=6, **attributes)])
    all_of_it = read(open_reader(paths, data), 0).batch.regions
    assert all_of_it.classes.shape == (1, 2, 6)
    assert all_of_it.attribute.tolist() == [[1, -1]]
    regions = read(open_reader(paths, data, RegionChoice(classes=False, attributes=False)), 0).batch.regions
    assert regions.classes is regions.attribute is regions.attribute_confidence is None
    assert regions.label.equal(all_of_it.label)
    assert regions.confidence.equal(all_of_it.confidence)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: b"PK nothing", "broken array", "regions.npz"),
        (lambda: pack_regions(found_in(0))[:-60], "broken array", "regions.npz"),
        (lambda: stored(found_in(0), features=np.full((5, 4), np.nan, np.float16)), "not finite", "features"),
        (lambda: stored(found_in(0), boxes=np.array([[50, 40, 20, 10]] * 5, np.float32)), "reversed box", "5 of 5"),
        (lambda: stored(found_in(0), boxes=np.zeros((4, 4), np.float32)), "broken regions", "features of 5"),
        (lambda: pack_regions(found_in(0, width=8)), "other regions", "8 numbers, but 4 in raw.tar, key 0"),
        (lambda: pack_regions(found_in(0, classes=5)), "other regions", "classes of 5 numbers, but 6"),
        (lambda: pack_regions(found_in(0, classes=0)), "other regions", "no classes, which those of raw.tar, key 0 have"),
    ],
)
def test_a_broken_file_is_a_counted_fault_and_its_neighbours_are_read(data, tmp_path, make, kind, words):
    paths = raw(tmp_path, data, pack_regions(found_in(0)), make(), pack_regions(found_in(2)))
    reading = read(open_reader(paths, data), 0, 1, 2)
    assert reading.slots == [0, 2]
    assert reading.batch.regions.present.sum(1).tolist() == [5, 36]
    (fault,) = reading.faults
    assert (fault.kind, fault.shard, fault.key) == (kind, "raw.tar", "1")
    assert words in fault.detail


def test_fields_of_a_source_are_those_of_its_first_regions_whatever_other_samples_have(data, tmp_path):
    plain = {"classes": 0}
    files = [pack_regions(found_in(1)), pack_regions(found_in(0, **plain)), pack_regions(found_in(2)), b"broken"]
    reader = open_reader(raw(tmp_path, data, *files), data)
    assert reader.regions.form.features.shape == (0, 4)
    for number in range(3):
        regions = read(reader, number).batch.regions
        assert regions.classes is regions.label is None
    nothing = read(reader, 3)
    assert nothing.batch.regions.features.shape == (0, 0, 4)
    assert [fault.kind for fault in nothing.faults] == ["broken array"]
    with pytest.raises(ValueError, match=r"none of the first 100 samples has regions that can be used, first raw.tar, key 0"):
        open_reader(raw(tmp_path / "broken", data, b"broken"), data)


def test_the_size_of_a_region_file_is_that_of_the_upright_picture(data, tmp_path):
    """Pitfall I03: a JPEG stored 4 x 2 that stands 2 x 4, with a region file of either size."""
    boxes, features = np.array([[0, 0, 1, 2.5]], np.float32), np.ones((1, 4), np.float16)
    upright, stored_so = (pack_regions(FoundRegions(boxes[:, order], size, features)) for order, size in (
        ([0, 1, 2, 3], (2, 4)),
        ([1, 0, 3, 2], (4, 2)),
    ))  # fmt: skip
    paths = raw(tmp_path, data, upright, stored_so, image=picture((4, 2), orientation=6))
    reading = read(open_reader(paths, data, image=ImageTransform(4, area=(1.0, 1.0), ratio=1.0)), 0, 1)
    assert reading.slots == [0]
    assert reading.batch.regions.boxes.tolist() == [[[0, 0, 0.5, 0.625]]]
    (fault,) = reading.faults
    assert (fault.kind, fault.key) == ("wrong size", "1")
    assert "4 x 2" in fault.detail
    assert "2 x 4" in fault.detail
    assert "EXIF" in fault.detail
    assert not read(open_reader(paths, data), 0, 1).faults  # the picture is not looked at


def test_boxes_are_mirrored_with_the_picture_and_pictures_are_not_mirrored_unasked(data, tmp_path):
    """Pitfall I08: box [10, 20, 30, 40] in a picture of 100 x 50 is [70, 20, 90, 40] in its mirror image."""
    found = FoundRegions(np.array([[10, 20, 30, 40]], np.float32), SIZE, np.ones((1, 4), np.float16))
    paths = write(tmp_path, data, [found])
    still = {"area": (1.0, 1.0), "ratio": 1.0}
    for mirror, expected, red in ((None, [10, 20, 30, 40], 0), (1.0, [70, 20, 90, 40], 9)):
        options = still if mirror is None else {**still, "mirror": mirror}
        batch = read(open_reader(paths, data, image=ImageTransform(10, **options)), 0).batch
        torch.testing.assert_close(batch.regions.boxes[0, 0] * torch.tensor([*SIZE, *SIZE]), torch.tensor(expected).float())
        assert batch.image.pixels[0, 1, 5].argmin() == red


def test_boxes_follow_the_window_and_leave_with_what_is_not_seen(data, tmp_path):
    """The middle square of 100 x 50: [25, 75] of the width. A box half inside is cut, one less than half inside is left out."""
    boxes = np.array([[30, 10, 60, 40], [20, 0, 32, 50], [10, 0, 39, 50], [0, 0, 20, 50]], np.float32)
    paths = write(tmp_path, data, [FoundRegions(boxes, SIZE, np.arange(16).reshape(4, 4).astype(np.float16))])
    reader = open_reader(paths, data, image=ImageTransform(10, fit="crop", area=(1.0, 1.0), ratio=1.0))
    regions = read(reader, 0).batch.regions
    torch.testing.assert_close(regions.boxes[0], torch.tensor([[0.1, 0.2, 0.7, 0.8], [0, 0, 0.14, 1]]))
    assert regions.features[0, :, 0].tolist() == [0, 4]


def test_random_windows_move_boxes_with_the_pixels(data, tmp_path):
    """What is red in the picture is what the box holds, under any window, mirrored or not, decoded smaller or not."""
    size = (400, 200)
    found = FoundRegions(np.array([[0, 0, 40, 200]], np.float32), size, np.ones((1, 4), np.float16))
    paths = raw(tmp_path, data, *[pack_regions(found)] * 12, image=picture(size))
    for scaled in (False, True):
        transform = ImageTransform(50, area=(0.8, 1.2), shift=0.2, mirror=0.5, fill=255, scaled=scaled)
        batch = read(open_reader(paths, data, image=transform), *range(12)).batch
        seen = [row for row in range(12) if batch.regions.present[row].any()]
        assert len(seen) > 5
        for row in seen:
            columns = (batch.image.pixels[row, 1, 25] < 128).nonzero().flatten()
            low, _, high, _ = (batch.regions.boxes[row, 0] * 50).tolist()
            assert abs(low - columns[0]) < 1.6
            assert abs(high - columns[-1] - 1) < 1.6


def shards(folder, data, workers=0):
    sources = {
        "pictures": Source(folder, 4, 2, TextChoice(), image=ImageTransform(8, mirror=0.5), regions=RegionChoice(most=10)),
        "boxes": Source(folder, 4, regions=RegionChoice()),
        "buckets": Source(folder, text=TextChoice(), regions=RegionChoice(), batch_tokens=256, micro_batch_tokens=128),
    }
    return Shards(sources, small_tokenizer(data).path, 64, workers=workers)


def test_workers_and_resumption_change_nothing(folder, data, tmp_path):
    seen = check_resumption(tmp_path, lambda workers: shards(folder, data, workers), (2, 3), (2, 0))
    assert {batch.source for batch in seen[0].batches} == {"pictures", "boxes", "buckets"}
    assert all(batch.regions.features.shape[2] == 4 for step in seen for batch in step.batches)


def test_micro_batches_and_ranks_read_the_same_regions(folder, data):
    reader = open_reader(folder, data)
    (whole,) = reader.read_step(0, 0, 1)[0]
    halves = [reader.read_step(0, rank, 2)[0][0] for rank in range(2)]
    for half in halves:
        for row in range(half.size):
            same = int((whole.sample == half.sample[row]).nonzero()[0, 0])
            count = int(half.regions.present[row].sum())
            assert half.regions.features[row, :count].equal(whole.regions.features[same, :count])


def test_validation_reads_regions_too(folder, data):
    source = Source(folder, 8, text=TextChoice(), regions=RegionChoice())
    module = as_rank(Shards({"a": source}, small_tokenizer(data).path, 64, validation={"a": source}, workers=0))
    module.setup("validate")
    counts = {
        int(sample): int(count)
        for batch in module.val_dataloader()
        for sample, count in zip(batch.sample, batch.regions.present.sum(1), strict=True)
    }
    assert counts == dict(enumerate(COUNTS * 2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"regions": RegionChoice(), "pack": True, "text": TextChoice()}, "image and regions, or pack"),
        ({"regions": RegionChoice()}, "give batch_size"),
        ({}, "nor `regions` is read"),
    ],
)
def test_sources_that_cannot_be_read_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Source("x", **options)


@pytest.mark.parametrize("options", [{"most": 0}, {"least": 101}, {"least": -1}, {"confidence": 1.5}])
def test_choices_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError, match=f"regions: {next(iter(options))} is"):
        RegionChoice(**options)


def test_foreign_shards_may_leave_regions_undeclared(folder, data):
    with pytest.raises(ValueError, match="without regions"):
        open_reader(folder, data, fields=FieldMap(members=["wav"]))


def test_configurations_say_regions_in_the_words_of_the_choice(capsys):
    parser = ArgumentParser()
    parser.add_argument("--source", type=Source)
    told = {"shards": "x", "batch_size": 8, "text": {}, "regions": {"most": 36, "classes": False}}
    source = parser.instantiate_classes(parser.parse_object({"source": told})).source
    assert source.regions == RegionChoice(most=36, classes=False)
    plain = parser.instantiate_classes(parser.parse_object({"source": told | {"regions": {}}})).source
    assert plain.regions == RegionChoice()
    with pytest.raises(SystemExit):
        parser.parse_object({"source": told | {"regions": {"mots": 36}}})
    assert "mots" in capsys.readouterr().err
