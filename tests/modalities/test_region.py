"""Regions: what is refused, what is kept, numbers of boxes, and rows of a batch, alone and beside others."""

import io
import pickle

import numpy as np
import pytest
import torch
from found import find

from interlingua.modalities.batch import take
from interlingua.modalities.region import (
    BadRegionsError,
    FoundRegions,
    check_regions,
    collate_regions,
    corners,
    encode_boxes,
    overlap,
    pack_regions,
    unpack_regions,
)

PICTURE = (640, 480)


def boxes(*rows):
    return np.array(rows, np.float32).reshape(-1, 4)


def one(box, size=PICTURE):
    return FoundRegions(boxes(box), size, np.ones((1, 4), np.float16))


def arrays(content):
    return dict(np.load(io.BytesIO(content)))


def refused(found, kind, *words, picture=None):
    with pytest.raises(BadRegionsError) as caught:
        check_regions(found, picture)
    assert caught.value.kind == kind
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_corners_sizes_and_reversed_boxes():
    """Pitfall R01: files A to D."""
    file_a = one([64, 48, 320, 240])
    check_regions(file_a, PICTURE)
    regions = collate_regions([file_a])
    torch.testing.assert_close(regions.boxes[0, 0], torch.tensor([0.1, 0.1, 0.5, 0.5]))
    assert encode_boxes(regions.boxes, 5)[0, 0, 4].item() == pytest.approx(0.16)
    file_b = file_a._replace(boxes=corners(boxes([64, 48, 256, 192])))
    assert collate_regions([file_b]).boxes.equal(regions.boxes)
    refused(one([64, 48, 320, 240], (480, 480)), "wrong size", "480 x 480", "640 x 480", picture=PICTURE)
    refused(one([50, 60, 20, 10]), "reversed box", "1 of 1", "[50, 60, 20, 10]", "640 x 480", "`modalities.region.corners`")
    refused(one([50, 60, 120, 10]), "reversed box")
    refused(one([64, 48, 320, 240], (480, 640)), "wrong size", "swapped", picture=PICTURE)
    with pytest.raises(BadRegionsError, match="reversed box"):
        pack_regions(one([50, 60, 20, 10]))


def test_the_hint_at_widths_and_heights_is_given_where_they_fit_alone():
    with pytest.raises(BadRegionsError) as caught:
        check_regions(FoundRegions(boxes([600, 60, 20, 10], [300, 200, 600, 300]), PICTURE, np.ones((2, 4), np.float16)))
    assert "1 of 2 boxes" in str(caught.value)
    assert "width" not in str(caught.value)


def test_boxes_outside_are_cut_within_a_pixel_and_refused_beyond():
    near = one([-0.9, 0, 640.9, 480.5])
    check_regions(near)
    assert collate_regions([near]).boxes.tolist() == [[[0, 0, 1, 1]]]
    assert arrays(pack_regions(near))["boxes"].tolist() == [[0, 0, 640, 480]]
    refused(one([600, 400, 700, 470]), "box outside", "[600, 400, 700, 470]", "resized")
    refused(one([-2, 0, 5, 5]), "box outside")
    refused(one([0.1, 0.1, 0.5, 0.5]), "box in fractions", "pixels")


def test_boxes_without_area_are_refused():
    for box in ([10, 10, 10, 20], [10, 10, 20, 10], [640.2, 10, 640.8, 20]):
        refused(one(box), "empty box")


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"features": np.full((3, 4), np.nan, np.float16)}, "not finite", ["features", "12 of 12"]),
        ({"boxes": np.full((3, 4), np.inf, np.float32)}, "not finite", ["boxes"]),
        ({"classes": np.full((3, 2), np.nan, np.float16)}, "not finite", ["classes"]),
        ({"features": np.ones((3, 4), np.int64)}, "broken regions", ["features", "int64 of 3 x 4", "floats"]),
        ({"features": np.ones((3, 0), np.float16)}, "broken regions", ["features"]),
        ({"features": np.ones(3, np.float16)}, "broken regions", ["features"]),
        ({"features": np.ones((2, 4), np.float16)}, "broken regions", ["features of 2", "3 boxes"]),
        ({"boxes": np.ones((3, 5), np.float32)}, "broken regions", ["boxes", "four"]),
        ({"boxes": np.array(1.0)}, "broken regions", ["boxes"]),
        ({"boxes": np.array([["a"] * 4] * 3)}, "broken regions", ["boxes"]),
        ({"classes": np.full((3, 4), 0.2, np.float16)}, "not probabilities", ["sums", "0.799"]),
        ({"classes": np.array([[1.5, -0.5]] * 3, np.float16)}, "not probabilities", ["-0.5"]),
        ({"label": np.array([0, 1, -2])}, "label out of range", ["-2"]),
        ({"label": np.ones(3)}, "broken regions", ["label", "whole numbers"]),
        ({"label": np.array([0, 1, 2]), "classes": np.full((3, 2), 0.5)}, "label out of range", ["0 to 2", "to 1"]),
        ({"label": np.zeros(2, np.int64)}, "broken regions", ["label of 2"]),
        ({"label": np.zeros(3, np.int64), "confidence": np.array([0, 1, 1.5])}, "not probabilities", ["1.5"]),
        ({"confidence": np.ones(3)}, "broken regions", ["confidence", "label or classes"]),
        ({"attribute": np.array([-3, 0, 0])}, "label out of range", ["attribute", "-3"]),
        ({"attribute_confidence": np.ones(3)}, "broken regions", ["attribute"]),
        ({"size": (0, 480)}, "wrong size", ["0 x 480"]),
    ],
)
def test_what_is_refused(change, kind, words):
    refused(find(1)._replace(**change), kind, *words)


def test_errors_survive_the_way_back_from_a_worker():
    error = pickle.loads(pickle.dumps(BadRegionsError("empty box", "why")))
    assert (error.kind, error.detail, str(error)) == ("empty box", "why", "empty box: why")


def test_files_keep_all_and_the_same_regions_give_the_same_bytes():
    found = find(2, classes=5, label=np.array([0, 4, -1]), confidence=np.array([0.5, 0.25, 0.0]))
    found = found._replace(attribute=np.array([3, -1, 0]), attribute_confidence=np.array([0.5, 0.0, 1.0]))
    content = pack_regions(found)
    assert content == pack_regions(found)
    stored = arrays(content)
    assert {name: array.dtype.name for name, array in stored.items()} == {
        **dict.fromkeys(("features", "classes", "confidence", "attribute_confidence"), "float16"),
        **dict.fromkeys(("size", "label", "attribute"), "int32"),
        "boxes": "float32",
    }
    kept = unpack_regions(stored | {"unknown": np.zeros(1)})
    check_regions(kept, PICTURE)
    assert kept.size == PICTURE
    for name, value in found._asdict().items():
        np.testing.assert_allclose(getattr(kept, name), value, rtol=1e-3, err_msg=name)


def test_features_that_float16_cannot_hold_are_refused_at_packing():
    found = find(1)._replace(features=np.full((3, 4), 7e4, np.float32))
    check_regions(found)
    with pytest.raises(BadRegionsError, match="float16 overflow: features reach 70,000"):
        pack_regions(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"boxes": None}, "no array boxes; found size, features"),
        ({"size": None, "features": None}, "no array size or features"),
        ({"size": np.array([640.0, 480.0])}, "size: found float64 of 2, expected two whole numbers"),
        ({"size": np.array([640, 480, 3])}, "size: found int64 of 3"),
    ],
)
def test_files_without_what_is_needed_are_refused(change, words):
    stored = arrays(pack_regions(find(1))) | change
    with pytest.raises(BadRegionsError, match=words):
        unpack_regions({name: array for name, array in stored.items() if array is not None})


def test_box_encodings():
    """Values 4, 5 and 7 of one box by hand, and of the whole picture."""
    box = torch.tensor([[[0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 1.0, 1.0]]])
    assert encode_boxes(box, 4).equal(box)
    assert encode_boxes(box, 5)[0].tolist() == [[0.25, 0.5, 0.75, 1.0, 0.25], [0, 0, 1, 1, 1]]
    assert encode_boxes(box, 7)[0].tolist() == [[0.25, 0.5, 0.75, 1.0, 0.5, 0.5, 0.25], [0, 0, 1, 1, 1, 1, 1]]


def test_overlap():
    """Halves of a picture, one shifted by half: a third; padding overlaps with nothing, itself included."""
    rows = torch.tensor([[[0, 0, 0.5, 1], [0.25, 0, 0.75, 1], [0.5, 0, 1, 1], [0, 0, 0, 0]]])
    shares = overlap(rows)[0]
    third = 1 / 3
    expected = [[1, third, 0, 0], [third, 1, third, 0], [0, third, 1, 0], [0, 0, 0, 0]]
    torch.testing.assert_close(shares, torch.tensor(expected))
    assert overlap(torch.zeros(2, 0, 4)).shape == (2, 0, 0)


def test_rows_of_different_lengths_are_the_same_alone_and_in_a_batch():
    found = [find(0, 5, classes=6), None, find(1, 0, classes=6), find(2, 2, (100, 50), classes=6)]
    batch = collate_regions(found)
    assert batch.features.dtype == batch.boxes.dtype == batch.classes.dtype == torch.float32
    assert batch.present.sum(1).tolist() == [5, 0, 0, 2]
    for place in (0, 3):
        alone, count = collate_regions([found[place]]), len(found[place].boxes)
        together = take(batch, torch.tensor([place]))
        for name in ("features", "boxes", "present", "classes", "label", "confidence"):
            assert getattr(together, name)[:, :count].equal(getattr(alone, name)), name
    assert not batch.features[~batch.present].any()
    assert not batch.boxes[~batch.present].any()
    assert (batch.label[~batch.present] == -1).all()


def test_label_and_confidence_are_told_by_class_probabilities_where_the_file_does_not():
    classes = np.array([[0.25, 0.75], [0.5, 0.5]], np.float16)
    regions = collate_regions([find(0, 2)._replace(classes=classes)])
    assert regions.label.tolist() == [[1, 0]]
    assert regions.confidence.tolist() == [[0.75, 0.5]]
    own = find(0, 2)._replace(classes=classes, label=np.array([0, -1]))
    regions = collate_regions([own])
    assert regions.label.tolist() == [[0, -1]]
    assert regions.confidence.tolist() == [[0.25, 0]]


def test_fields_that_some_rows_have_are_empty_in_the_others():
    attributed = find(0, 2, attribute=np.array([7, -1]), attribute_confidence=np.array([0.5, 0.0], np.float16))
    regions = collate_regions([attributed, find(1, 3)])
    assert regions.attribute.tolist() == [[7, -1, -1], [-1] * 3]
    assert regions.attribute_confidence.tolist() == [[0.5, 0, 0], [0] * 3]
    assert regions.label is None


def test_batches_without_any_region():
    """Pitfall R03: all rows without regions; the width of features is told all the same."""
    regions = collate_regions([find(0, 0, classes=3), find(1, 0, classes=3)])
    assert regions.features.shape == (2, 0, 4)
    assert regions.classes.shape == (2, 0, 3)
    assert regions.label.shape == (2, 0)
    like = find(0, 0)
    assert collate_regions([None, None], like).features.shape == (2, 0, 4)
    assert collate_regions([], like).features.shape == (0, 0, 4)
    with pytest.raises(ValueError, match="give `like`"):
        collate_regions([None])
    check_regions(unpack_regions(arrays(pack_regions(like))), PICTURE)


def test_features_of_two_detectors_are_no_batch():
    with pytest.raises(ValueError, match=r"features of regions in one batch differ in width, found 4, 8"):
        collate_regions([find(0), find(1, width=8)])
