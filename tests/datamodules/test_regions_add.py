"""`regions add`: exact values out of each format, joined by names, with all that is left out counted."""

import json
import sys
import tarfile

import detector_files as made
import numpy as np
import pytest

from interlingua.__main__ import main
from interlingua.datamodules.regions import lookup
from interlingua.datamodules.shards.check import check_shards

NUMBERS = range(40, 45)
KEYS = [f"{number:06d}" for number in NUMBERS]


def add(*arguments):
    return main(["regions", "add", *map(str, arguments)])


def put_lines(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def agree(found, number, names=(), tolerance=0.0):
    """Whether regions are those of a picture."""
    np.testing.assert_allclose(found.boxes, made.boxes(number), atol=tolerance)
    assert (found.boxes.dtype, found.features.dtype, found.size) == (np.float32, np.float16, (made.WIDTH, made.HEIGHT))
    np.testing.assert_array_equal(found.features, made.features(number))
    assert {name for name, value in found._asdict().items() if value is not None} == {"boxes", "size", "features", *names}


def write_npz(folder, **more):
    for number in NUMBERS:
        (folder / "val").mkdir(parents=True, exist_ok=True)
        boxes = made.boxes(number)
        boxes[:, 2:] -= boxes[:, :2]
        arrays = {"x": made.features(number).T, "bbox": boxes, "info": np.array({"objects": 1}, object)}
        np.savez(folder / "val" / f"{number}.npz", **arrays, image_w=made.WIDTH, image_h=made.HEIGHT, **more)
    return folder


FORMATS = {
    "bottom-up": lambda to: put_lines(to / "a.tsv", *map(made.bottom_up_line, NUMBERS)),
    "bottom-up, LXMERT's": lambda to: put_lines(to / "a.tsv", *map(made.lxmert_line, NUMBERS)),
    "uniter": lambda to: made.write_uniter(to / "u", NUMBERS),
    "uniter, compressed": lambda to: made.write_uniter(to / "u", NUMBERS, compressed=True),
    "volta-lmdb": lambda to: made.write_volta(to / "v", NUMBERS),
    "volta-lmdb, 2": lambda to: made.write_volta(to / "v", NUMBERS, protocol=2),
    "volta-lmdb, 5": lambda to: made.write_volta(to / "v", NUMBERS, protocol=5),
    "volta-lmdb, ViLBERT's": lambda to: made.write_volta(to / "v", NUMBERS, made.vilbert_fields),
    "volta-h5": lambda to: made.write_h5(to / "v.h5", NUMBERS),
    "npz": lambda to: write_npz(to / "n"),
}
OPTIONS = {"npz": ["--boxes", "xywh"], "uniter": ["--match", "number"], "uniter, compressed": ["--match", "number"]}
OPTIONS["bottom-up, LXMERT's"] = ["--match", "number"]
NAMED = ("label", "confidence")
NAMES = {"bottom-up": (), "npz": (), "volta-lmdb, ViLBERT's": ()} | {
    "bottom-up, LXMERT's": (*NAMED, "attribute", "attribute_confidence"),
    "uniter": ("classes",),
    "uniter, compressed": ("classes",),
}


@pytest.mark.parametrize("form", FORMATS)
def test_values_of_each_format(tmp_path, capsys, form):
    shards = made.write_pictures(tmp_path / "in")
    files = FORMATS[form](tmp_path)
    assert add(form.partition(",")[0], files, "--shards", shards, "--output", tmp_path / "out", *OPTIONS.get(form, [])) == 0
    out, err = capsys.readouterr()
    assert out == f"5 samples in {tmp_path / 'out'}; 5 with regions, 15 regions (3.0 each)\n"
    assert err == ""
    found = made.read_regions(tmp_path / "out")
    assert list(found) == KEYS
    names = NAMES.get(form, NAMED)
    for number, regions in zip(NUMBERS, found.values(), strict=True):
        agree(regions, number, names, 64 * 2**-11 if "uniter" in form else 0)  # norm_bb is kept in float16
        if "label" in names:
            assert regions.label.tolist() == [4, 0, 2]
            assert regions.confidence.tolist() == [0.25, 0.75, 0.5]
        if "attribute" in names:
            assert regions.attribute.tolist() == [5, 1, 3]
            assert regions.attribute_confidence.tolist() == [0.125, 0.375, 0.25]
        if "classes" in names:
            np.testing.assert_array_equal(regions.classes, made.classes(number))


def test_all_else_stays_and_the_copy_is_fit(tmp_path):
    """Members byte by byte, shards, keys, and an index.json as our writer makes it."""
    shards = made.write_pictures(tmp_path / "in")
    add("bottom-up", FORMATS["bottom-up"](tmp_path), "--shards", shards, "--output", tmp_path / "out")
    for name in ("shard-000000.tar", "shard-000001.tar"):
        with tarfile.open(tmp_path / "in" / name) as before, tarfile.open(tmp_path / "out" / name) as after:
            old = {member.name: before.extractfile(member).read() for member in before}
            new = {member.name: after.extractfile(member).read() for member in after}
        assert old.items() <= new.items()
        assert {key.partition(".")[2] for key in new.keys() - old.keys()} == {"regions.npz"}
    report = check_shards(str(tmp_path / "out"))
    assert report.fit
    assert report.fields["regions.npz"] == 5
    summary = json.loads((tmp_path / "out" / "index.json").read_text())
    assert summary["modalities"] == {"image": 5, "regions.npz": 5, "text": 5}
    assert [shard["samples"] for shard in summary["shards"]] == [3, 2]
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir() if path.suffix != ".index") == [".json", ".tar", ".tar"]


def test_what_is_left_out_is_counted(tmp_path, capsys):
    shards = made.write_pictures(tmp_path / "in")
    broken = made.bottom_up_line(42).rpartition("\t")[0]
    sideways = made.bottom_up_line(43, size=(made.HEIGHT, made.WIDTH))
    lines = [
        made.bottom_up_line(40),
        made.bottom_up_line(40),
        broken,
        sideways,
        made.bottom_up_line(44),
        made.bottom_up_line(99),
    ]
    assert add("bottom-up", put_lines(tmp_path / "a.tsv", *lines), "--shards", shards, "--output", tmp_path / "out") == 0
    out, err = capsys.readouterr()
    assert list(made.read_regions(tmp_path / "out")) == ["000040", "000044"]
    assert "5 samples in" in out
    assert "2 with regions, 6 regions (3.0 each)" in out
    assert "without regions: no regions in the files: 1 (first: shard-000000.tar, 000041: '000041', compared as '41')" in err
    assert "without regions: broken regions: 1 (first: shard-000000.tar, 000042: found 5 columns" in err
    assert "without regions: wrong size: 1 (first: shard-000001.tar, 000043: the boxes are of a picture of 48 x 64" in err
    assert "noted: regions of a picture that is in no shard: 1" in err
    assert "noted: regions that stand in the files again, the first taken: 1" in err


def test_boxes_that_are_not_what_is_declared(tmp_path, capsys):
    """R01: x, y, width, height read as corners are told from corners, and the way out is named."""
    shards = made.write_pictures(tmp_path / "in")
    (tmp_path / "n").mkdir()
    np.savez(tmp_path / "n" / "40.npz", x=made.features(40, 1), bbox=np.array([[32, 24, 16, 12]]))
    arguments = ["npz", tmp_path / "n", "--shards", shards, "--output", tmp_path / "out"]
    assert add(*arguments) == 2
    err = capsys.readouterr().err
    assert "000040: 1 of 1 boxes, the first [32, 24, 16, 12] in a picture of 64 x 48: expected x0, y0, x1, y1" in err
    assert "all fit the picture as x, y, width, height" in err
    assert add(*arguments, "--boxes", "fractions") == 2
    assert "boxes from 12 to 32 are no fractions; declare --boxes corners or xywh" in capsys.readouterr().err
    assert add(*arguments, "--boxes", "xywh") == 0
    assert made.read_regions(tmp_path / "out")["000040"].boxes.tolist() == [[32, 24, 48, 36]]


def test_by_a_field_and_sizes_from_the_json(tmp_path, capsys):
    """Without pictures the size comes from a field; names are compared without folder, extension and leading zeros."""
    shards = made.write_pictures(tmp_path / "in", images=False)
    made.write_uniter(tmp_path / "u", NUMBERS)
    arguments = ["uniter", tmp_path / "u", "--shards", shards, "--output", tmp_path / "out", "--by", "picture.id"]
    assert add(*arguments) == 2
    assert "no sample is named like a picture" in capsys.readouterr().err
    assert add(*arguments, "--match", "number", "--force") == 2
    assert "000040: neither the detector's file, nor the sample's picture, nor its JSON" in capsys.readouterr().err
    sizes = ["--size-fields", "picture.w", "picture.h"]
    assert add(*arguments, "--match", "number", *sizes, "--force") == 0
    for number, regions in zip(NUMBERS, made.read_regions(tmp_path / "out").values(), strict=True):
        agree(regions, number, ("classes",), 64 * 2**-11)


def test_smaller_copies_of_the_pictures(tmp_path, capsys):
    shards = made.write_pictures(tmp_path / "in", size=(32, 24))
    arguments = ["bottom-up", FORMATS["bottom-up"](tmp_path), "--shards", shards, "--output", tmp_path / "out"]
    assert add(*arguments) == 2
    assert "wrong size: 5" in capsys.readouterr().err
    assert add(*arguments, "--rescale", "--force") == 0
    for number, regions in zip(NUMBERS, made.read_regions(tmp_path / "out").values(), strict=True):
        np.testing.assert_array_equal(regions.boxes, made.boxes(number) / 2)
        assert regions.size == (32, 24)
    flat = made.write_pictures(tmp_path / "flat", size=(64, 24))
    assert add(*arguments[:2], "--shards", flat, "--output", tmp_path / "other", "--rescale") == 2
    assert "its shape differs" in capsys.readouterr().err


def test_choice_by_confidence(tmp_path):
    """UNITER's: over a threshold, at least and at most so many, the surest first (confidences 0.3, 0.9, 0.1)."""
    shards = made.write_pictures(tmp_path / "in")
    made.write_uniter(tmp_path / "u", NUMBERS)
    for least, most, rows in ((0, 5, [1, 0]), (3, 3, [1, 0, 2]), (0, 1, [1])):
        choice = ["--threshold", 0.2, "--least", least, "--most", most, "--force", "--match", "number"]
        assert add("uniter", tmp_path / "u", "--shards", shards, "--output", tmp_path / "out", *choice) == 0
        for number, regions in zip(NUMBERS, made.read_regions(tmp_path / "out").values(), strict=True):
            np.testing.assert_array_equal(regions.features, made.features(number)[rows])


def test_a_picture_without_any_region(tmp_path):
    """R03: kept, with no rows, and as wide as the others."""
    shards = made.write_pictures(tmp_path / "in")
    lines = [made.bottom_up_line(40, count=0), *map(made.bottom_up_line, range(41, 45))]
    assert add("bottom-up", put_lines(tmp_path / "a.tsv", *lines), "--shards", shards, "--output", tmp_path / "out") == 0
    first = made.read_regions(tmp_path / "out")["000040"]
    assert (first.boxes.shape, first.features.shape) == ((0, 4), (0, made.FEATURES))


class SuddenError(Exception):
    """What a test raises in the middle of the work."""


def test_an_interrupted_command_goes_on(tmp_path, monkeypatch, capsys):
    shards, files = made.write_pictures(tmp_path / "in"), FORMATS["bottom-up"](tmp_path)
    assert add("bottom-up", files, "--shards", shards, "--output", tmp_path / "whole") == 0
    arguments = ["bottom-up", files, "--shards", shards, "--output", tmp_path / "out"]
    read, reads = lookup.Lookup.read, []

    def stop(self, key):
        reads.append(key)
        if len(reads) == 6:  # one for the width, three of the first shard, then in the second
            raise SuddenError
        return read(self, key)

    monkeypatch.setattr(lookup.Lookup, "read", stop)
    with pytest.raises(SuddenError):
        add(*arguments)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".regions"]
    assert add(*arguments, "--boxes", "xywh") == 2
    assert "an interrupted command is to be gone on with there, which differs in interpretation" in capsys.readouterr().err
    reads[:] = range(10)
    assert add(*arguments) == 0
    assert [key for key in reads[10:] if key in "40 41 42 43 44"] == ["40", "43", "44"]  # the first again for the width
    for path in (tmp_path / "whole").iterdir():
        if path.suffix in (".tar", ".json"):
            assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    assert not (tmp_path / "out" / ".regions").exists()
    assert add(*arguments) == 2
    assert "the folder is not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bottom-up", "{to}/none.tsv"], "none.tsv: there is no such file of a detector"),
        (
            ["bottom-up", "{to}/a.tsv", "--by", "picture.id"],
            "no sample is named like a picture of the files: their field picture.id",
        ),
        (
            ["bottom-up", "{to}/a.tsv", "--match", "exact"],
            "their keys: '000040', '000041', '000042'; the files have '40', '41'",
        ),
        (["bottom-up", "{to}/words.txt"], "words.txt, line 1: found no tab"),
        (["volta-lmdb", "{to}/in"], "expected an LMDB, a folder with data.mdb or one file"),
        (["volta-lmdb", "{to}/a.tsv"], "a.tsv: no LMDB"),
        (["volta-h5", "{to}/a.tsv"], "a.tsv: no HDF5 file"),
        (["npz", "{to}/a.tsv"], "expected a folder of .npz files"),
        (["npz", "{to}/empty"], "empty: it has no picture"),
        (["bottom-up", "{to}/a.tsv", "--names", "feature=x"], "--names: found 'feature=x', expected OURS=THEIRS"),
        (["bottom-up", "{to}/a.tsv", "--names", "features=x"], "no field 'x', as --names says of features; found image_id"),
        (["bottom-up", "{to}/a.tsv", "--most", "0"], "--least 0 and --most 0: expected"),
        (["bottom-up", "{to}/a.tsv", "--most", "2"], "(first: shard-000000.tar, 000040: --threshold and --most choose by it"),
        (["bottom-up", "{to}/a.tsv", "--output", "{to}/in"], "the shards to copy are in this folder"),
        (["bottom-up", "{to}/a.tsv", "--output", "{to}/a.tsv"], "expected a folder for the shards, found a file"),
    ],
)
def test_refusals(tmp_path, capsys, arguments, message):
    shards = made.write_pictures(tmp_path / "in")
    FORMATS["bottom-up"](tmp_path)
    (tmp_path / "empty").mkdir()
    put_lines(tmp_path / "words.txt", "only words")
    given = [word.format(to=tmp_path) for word in arguments]
    out = [] if "--output" in given else ["--output", tmp_path / "out"]
    assert add(*given, "--shards", shards, *out) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_regions_that_are_there_are_replaced_only_on_demand(tmp_path, capsys):
    shards, files = made.write_pictures(tmp_path / "in"), FORMATS["bottom-up"](tmp_path)
    assert add("bottom-up", files, "--shards", shards, "--output", tmp_path / "one") == 0
    again = ["bottom-up", FORMATS["bottom-up, LXMERT's"](tmp_path), "--shards", tmp_path / "one", "--output", tmp_path / "two"]
    assert add(*again, "--match", "number") == 2
    assert "5 samples of the shards have regions already; --replace" in capsys.readouterr().err
    assert add(*again, "--match", "number", "--replace") == 0
    assert made.read_regions(tmp_path / "two")["000040"].label.tolist() == [4, 0, 2]


def test_missing_packages_are_named(tmp_path, capsys, monkeypatch):
    shards = made.write_pictures(tmp_path / "in")
    stores = {"lmdb": made.write_volta(tmp_path / "v", NUMBERS), "h5py": made.write_h5(tmp_path / "v.h5", NUMBERS)}
    for package, form in (("lmdb", "volta-lmdb"), ("h5py", "volta-h5")):
        monkeypatch.setitem(sys.modules, package, None)
        assert add(form, stores[package], "--shards", shards, "--output", tmp_path / "out") == 2
        assert f"needs {package}: pip install 'interlingua[regions]'" in capsys.readouterr().err


def test_a_missing_msgpack_is_named(tmp_path, capsys, monkeypatch):
    shards, files = made.write_pictures(tmp_path / "in"), made.write_uniter(tmp_path / "u", NUMBERS)
    monkeypatch.setitem(sys.modules, "msgpack", None)
    assert add("uniter", files, "--shards", shards, "--output", tmp_path / "out", "--match", "number") == 2
    assert "needs msgpack: pip install 'interlingua[regions]'" in capsys.readouterr().err
