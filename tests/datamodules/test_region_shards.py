"""Regions in shards: judged when they are written and checked, and shown over their picture."""

import io
import json

import numpy as np
import pytest
from found import find
from PIL import Image
from region_shards import SIZE, found_in, picture, write
from small_shards import record, write_tar

from interlingua.datamodules.region_files import parse_regions
from interlingua.datamodules.shards import ShardSet, ShardWriter
from interlingua.datamodules.shards.check import check_shards, format_report
from interlingua.datamodules.shards.command import main
from interlingua.modalities.region import pack_regions


@pytest.fixture
def run(capsys):
    """Status, standard output and standard error of `interlingua shards ...`."""
    return lambda *argv: (main(list(map(str, argv))), *capsys.readouterr())


def test_writers_refuse_regions_that_cannot_be_used_by_key(tmp_path):
    with ShardWriter(tmp_path) as writer:
        writer.write("good", image=picture(), members={"regions.npz": pack_regions(found_in(0))})
        writer.write("no picture", members={"regions.npz": pack_regions(find(0))})
        for content, words in (
            (b"PK", "sample 'bad': broken array: regions.npz"),
            (pack_regions(find(0, size=(50, 100))), "sample 'bad': wrong size: .*height and width are swapped"),
            (pack_regions(find(0)), "sample 'bad': wrong size: .*640 x 480.*100 x 50"),
        ):
            with pytest.raises(ValueError, match=words):
                writer.write("bad", image=picture(), members={"regions.npz": content})
    assert [sample.key for sample in ShardSet(str(tmp_path))] == ["good", "no picture"]


def test_sizes_are_those_of_the_upright_picture(tmp_path):
    with ShardWriter(tmp_path) as writer:
        turned = picture(SIZE, orientation=6)
        writer.write("a", image=turned, members={"regions.npz": pack_regions(find(0, size=(50, 100)))})
        with pytest.raises(ValueError, match="wrong size"):
            writer.write("b", image=turned, members={"regions.npz": pack_regions(find(0, size=SIZE))})


def test_boxes_are_made_smaller_with_their_picture(tmp_path):
    with ShardWriter(tmp_path, resize=25) as writer:
        writer.write("a", image=picture(), members={"regions.npz": pack_regions(found_in(0))})
        writer.write("b", image=picture((20, 20)), members={"regions.npz": (small := pack_regions(find(1, size=(20, 20))))})
    first, second = ShardSet(str(tmp_path))
    found = parse_regions(first.members["regions.npz"], (50, 25))
    np.testing.assert_allclose(found.boxes, found_in(0).boxes / 2, atol=1e-4)
    np.testing.assert_array_equal(found.features, found_in(0).features)
    assert second.members["regions.npz"] == small
    assert check_shards(str(tmp_path)).fit


def test_check_counts_regions_pictures_without_any_and_faults_by_kind(tmp_path, data, run):
    folder = write(tmp_path / "good", data, [*map(found_in, range(6)), None])
    report = check_shards(folder)
    assert report.fit
    assert (report.regions, report.without_regions) == (5 + 36 + 3 + 1 + 2, 1)
    assert "regions: 47" in format_report(report)
    assert "pictures in which no region was found: 1" in format_report(report)
    quick = check_shards(folder, decode=False)
    assert (quick.regions, quick.without_regions) == (0, 0)
    bad = find(0, size=SIZE)
    bad = bad._replace(boxes=bad.boxes[:, [2, 3, 0, 1]])
    content = io.BytesIO()
    np.savez(content, boxes=bad.boxes, size=np.array(SIZE), features=bad.features)
    members = {}
    for key, regions in (("a", content.getvalue()), ("b", pack_regions(find(0))), ("c", pack_regions(find(0, size=SIZE)))):
        members |= {f"{key}.json": record(("en", "a dog")), f"{key}.jpg": picture(), f"{key}.regions.npz": regions}
    tar = write_tar(tmp_path / "bad.tar", members)
    status, out, _ = run("check", tar, "--json")
    assert status == 1
    told = json.loads(out)
    assert told["kinds"] == {"reversed box": 1, "wrong size": 1}
    assert [(fault["shard"], fault["key"]) for fault in told["faults"]] == [("bad.tar", "a"), ("bad.tar", "b")]
    assert told["regions"] == 3
    run("repair", tar, tmp_path / "clean")
    assert check_shards(str(tmp_path / "clean")).fit


def test_stats_count_samples_with_regions(tmp_path, data, run):
    folder = write(tmp_path / "s", data, [*map(found_in, range(3)), None])
    status, out, _ = run("stats", folder, "--output", tmp_path / "out")
    assert status == 0
    assert "3 samples with regions" in out
    assert "samples with regions" in (tmp_path / "out" / "stats.html").read_text()


def test_show_tells_of_regions_and_draws_them_over_their_picture(tmp_path, data, run):
    box = {"boxes": np.array([[20, 10, 80, 40]], np.float32), "label": np.array([7])}
    folder = write(tmp_path / "s", data, [find(0, 1, SIZE, **box), find(0, 0, SIZE)])
    status, out, _ = run("show", folder, "--sheet", tmp_path / "sheet.png")
    assert status == 0
    assert ": 1 regions of 4 numbers with label, in 100 x 50" in out
    assert ": 0 regions of 4 numbers, in 100 x 50" in out
    sheet = np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB")).astype(int)
    left, top = 12, 12 + (224 - 112) // 2  # of the picture, which is 224 x 112 here: a pixel is 2.24 wide
    row, column = top + round(25 * 111 / 50), left + round(50 * 223 / 100)
    outlined = np.ptp(sheet, axis=2) > 100
    outlined[:, : left + 30] = False  # the picture is red there
    assert set(np.flatnonzero(outlined[row, left : left + 224]) // 2) == {round(20 * 2.23) // 2, round(80 * 2.23) // 2}
    assert set(np.flatnonzero(outlined[top : top + 112, column]) // 2) == {round(10 * 2.22) // 2, round(40 * 2.22) // 2}


def test_show_names_what_is_wrong_with_regions(tmp_path, run):
    members = {"a.json": record(("en", "a dog")), "a.jpg": picture(), "a.regions.npz": pack_regions(find(0))}
    status, out, _ = run("show", write_tar(tmp_path / "a.tar", members), "--sheet", tmp_path / "sheet.png")
    assert status == 0
    assert "3 regions of 4 numbers, in 640 x 480" in out
    broken = write_tar(tmp_path / "b.tar", members | {"a.regions.npz": b"PK"})
    assert "cannot be used: broken array" in run("show", broken, "--sheet", tmp_path / "sheet.png")[1]
