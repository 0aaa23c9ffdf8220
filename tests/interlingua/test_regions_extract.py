"""`regions extract` on real pictures: grids, crops by a run's tower, a detector; clusters; the same however it is batched."""

import io
import json
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from small_two_towers import ENCODER

from interlingua.__main__ import main
from interlingua.checkpoints import CONFIGURATION
from interlingua.datamodules.arrays import load_arrays
from interlingua.datamodules.regions import extracting
from interlingua.datamodules.regions.clusters import read_clusters
from interlingua.datamodules.regions.detector import Choice, Detector, build_detector
from interlingua.datamodules.regions.grid import BackboneGrid, CropGrid, cells
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import ShardSet
from interlingua.datamodules.shards.check import check_shards
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.modalities.batch import Image
from interlingua.modalities.image import decode_image
from interlingua.modalities.image_front_ends import ConvolutionStem
from interlingua.modalities.region import check_regions, unpack_regions
from interlingua.models.towers import ImageTower
from interlingua.trained_image_tower import read_image_tower

BACKBONE = ["--backbone", "test_vit", "--random", "--size", "64"]
DETECTOR = "fasterrcnn_mobilenet_v3_large_320_fpn"


def pictures(data, count=6):
    """Photographs and drawings of different sizes."""
    with tarfile.open(data / "stamps-val.tar") as tar:
        return [tar.extractfile(member).read() for member in tar if member.name.endswith("webp")][:count]


@pytest.fixture
def shards(data, tmp_path):
    """Four samples in a shard, three in the next; one of those without a picture, one with half of one."""
    stored = [*pictures(data, 5), None, pictures(data, 1)[0][:500]]
    with ShardWriter(tmp_path / "in", samples_per_shard=4) as writer:
        for number, image in enumerate(stored):
            writer.write(f"{number:04d}", [Caption("en", f"stamp {number}")], item=number, image=image)
    return tmp_path / "in"


def extract(*arguments):
    return main(["regions", "extract", *map(str, arguments)])


def read(folder):
    samples = list(ShardSet(str(folder)))
    return {
        sample.key: unpack_regions(load_arrays(sample.members["regions.npz"]))
        for sample in samples
        if "regions.npz" in sample.members
    }


def test_cells():
    assert cells([(1, 1), (2, 1)], 10, 6).tolist() == [[0, 0, 10, 6], [0, 0, 10, 3], [0, 3, 10, 6]]
    assert cells([(1, 3)], 10, 6)[1].tolist() == pytest.approx([10 / 3, 0, 20 / 3, 6])


def test_a_backbone_over_grids(data, shards, tmp_path, capsys):
    arguments = [*BACKBONE, "--grid", 1, 1, 2, 2, "--shards", shards, "--output", tmp_path / "out"]
    assert extract(*arguments, "--batch-size", 3) == 0
    out, err = capsys.readouterr()
    assert "7 samples in" in out
    assert "; 5 with regions, 25 regions (5.0 each)\n5 pictures read in " in out
    assert "without regions: no picture: 1\n" in err
    assert "without regions: truncated image: 1 (first: shard-000001.tar, 0006: " in err
    found = read(tmp_path / "out")
    assert list(found) == ["0000", "0001", "0002", "0003", "0004"]
    for regions, image in zip(found.values(), pictures(data), strict=False):
        _, height, width = decode_image(image).shape
        check_regions(regions, (width, height))
        np.testing.assert_array_equal(regions.boxes, cells([(1, 1), (2, 2)], width, height))
        whole, quarters = regions.features[0].astype(np.float32), regions.features[1:].astype(np.float32)
        np.testing.assert_allclose(quarters.mean(0), whole, atol=4e-3)  # 4 x 4 cells: the mean of means, up to float16
    report = check_shards(str(tmp_path / "out"))
    assert report.fields["regions.npz"] == 5
    assert report.kinds == {"truncated image": 1}
    json.loads((tmp_path / "out" / "index.json").read_text())
    assert extract(*arguments, "--batch-size", 1, "--force") == 0
    for key, regions in read(tmp_path / "out").items():
        np.testing.assert_allclose(regions.features.astype(np.float32), found[key].features.astype(np.float32), atol=4e-3)


def stem(seed=0):
    torch.manual_seed(seed)
    return ConvolutionStem(16, channels=(8, 16), size=32)


def alone_and_together(maker, stored):
    """Largest difference of features between pictures read alone and together, and what was found together."""
    prepared = [maker.prepare(image) for image in stored]
    together = maker.find(prepared)
    alone = [maker.find([one])[0] for one in prepared]
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one.boxes, other.boxes, atol=1e-4)
        np.testing.assert_allclose(one.features, other.features, atol=1e-5, rtol=1e-5)
    return together


def test_alone_as_in_a_batch_by_grid(data):
    maker = BackboneGrid(stem(), 32, [(2, 3)], {})
    found = alone_and_together(maker, pictures(data))
    front = stem().eval()
    prepared = maker.prepare(pictures(data)[1])
    with torch.no_grad():
        vectors = front(Image(prepared.pixels[None], torch.ones(1, dtype=torch.bool)))[0].unflatten(0, (8, 8))
    np.testing.assert_allclose(found[1].features[0], vectors[:4, :3].mean((0, 1)), atol=1e-5)  # columns 0 to ceil(8 / 3)
    with pytest.raises(ValueError, match="no square map"):
        BackboneGrid(ThreeVectors(), 32, [(2, 2)], {}).find([prepared])


class ThreeVectors(torch.nn.Module):
    """A front end whose vectors are no square map."""

    def forward(self, image):
        return torch.zeros(len(image.pixels), 3, 4)


def test_alone_as_in_a_batch_by_crops(data):
    tower = ImageTower(stem())

    def vectors(image):
        return tower.encode(image)[0].mean(1)

    maker = CropGrid(vectors, 32, [(1, 1), (2, 2)], {}, crops_at_once=7)
    found = alone_and_together(maker, pictures(data))
    pixels = decode_image(pictures(data)[2])
    _, height, width = pixels.shape
    corner = maker.transform(pixels[:, height // 2 :, width // 2 :])[None]
    with torch.no_grad():
        expected = vectors(Image(corner, torch.ones(1, dtype=torch.bool)))[0]
    np.testing.assert_allclose(found[2].features[4], expected, atol=1e-5)
    tiny = io.BytesIO()
    Pillow.new("RGB", (2, 1), "red").save(tiny, "PNG")
    nine = CropGrid(vectors, 32, [(3, 3)], {})
    assert nine.find([nine.prepare(tiny.getvalue())])[0].features.shape == (9, 16)


@pytest.fixture(scope="module")
def model():
    """A detector of five classes with random weights, for pictures of at least 96 pixels."""
    torch.manual_seed(0)
    return build_detector(DETECTOR, None, classes=5, min_size=96, max_size=160)


def test_a_detector(data, model):
    maker = Detector(model, Choice(threshold=0.9, least=10, most=12), {})
    found = alone_and_together(maker, pictures(data, 4))
    for regions, image in zip(found, pictures(data), strict=False):
        _, height, width = decode_image(image).shape
        check_regions(regions, (width, height))
        assert regions.features.shape == (10, 1024)
        assert regions.classes.shape == (10, 5)
        np.testing.assert_array_equal(regions.label, regions.classes[:, 1:].argmax(1) + 1)
        np.testing.assert_allclose(regions.confidence, regions.classes[:, 1:].max(1))
        assert (np.diff(regions.confidence) <= 0).all()
    few = Detector(model, Choice(threshold=0.9, least=0, most=12), {}).find([maker.prepare(pictures(data)[0])])
    assert few[0].boxes.shape == (0, 4)  # nothing is sure enough
    assert few[0].features.shape == (0, 1024)
    many = Detector(model, Choice(threshold=0.0, most=12, overlap=0.3), {}).find([maker.prepare(pictures(data)[0])])[0]
    from torchvision.ops import box_iou

    boxes = torch.from_numpy(many.boxes)
    assert (box_iou(boxes, boxes) - torch.eye(len(boxes))).max() <= 0.3 + 1e-5


def test_a_detector_from_its_file(data, shards, tmp_path, model, capsys):
    torch.save(model.state_dict(), tmp_path / "detector.pth")
    arguments = ["--detector", DETECTOR, "--size", 96, "--shards", shards, "--output", tmp_path / "out"]
    assert extract(*arguments, "--checkpoint", tmp_path / "detector.pth") == 0
    found = read(tmp_path / "out")
    expected = Detector(model, Choice(), {}).find([Detector(model, Choice(), {}).prepare(pictures(data)[0])])[0]
    np.testing.assert_array_equal(found["0000"].label, expected.label)
    assert found["0000"].classes.shape[1] == 5
    torch.save({"a": torch.ones(1)}, tmp_path / "other.pth")
    assert extract(*arguments[:-1], tmp_path / "two", "--checkpoint", tmp_path / "other.pth") == 2
    assert "no weights of a detector with a box head; expected roi_heads.box_predictor" in capsys.readouterr().err


@pytest.fixture
def run(tmp_path):
    """A checkpoint as training writes it, and its encoder."""
    from interlingua.checking import build
    from interlingua.models.encoder import Encoder

    torch.manual_seed(1)
    encoder = build(Encoder, ENCODER)
    sources = {"pictures": {"shards": "x", "image": {"size": 32}}, "names": {"shards": "y"}}
    configuration = {"model": {"init_args": {"encoder": ENCODER}}, "data": {"init_args": {"sources": sources}}}
    state = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    torch.save({CONFIGURATION: configuration, "state_dict": state | {"objectives.a": torch.ones(1)}}, tmp_path / "last.ckpt")
    return tmp_path / "last.ckpt", encoder.eval()


def test_the_tower_of_a_run(run):
    file, encoder = run
    tower, size = read_image_tower(str(file), "cpu")
    assert size == 32
    image = Image(torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8), torch.ones(3, dtype=torch.bool))
    torch.testing.assert_close(tower(image), encoder.image.encode(image)[0].mean(1))


def test_from_run_with_clusters(data, shards, run, tmp_path, capsys):
    """Classes for training data, and the same clusters for other data."""
    file, _ = run
    arguments = ["--from-run", file, "--grid", 1, 1, 2, 2, 3, 3, "--shards", shards]
    assert extract(*arguments, "--output", tmp_path / "train", "--clusters", 8) == 0
    assert "5 with regions, 70 regions (14.0 each)" in capsys.readouterr().out
    found = read(tmp_path / "train")
    assert {path.name for path in (tmp_path / "train").iterdir()} >= {"clusters.npz", "index.json", "shard-000000.tar"}
    assert not (tmp_path / "train" / ".regions").exists()
    clusters = read_clusters(tmp_path / "train" / "clusters.npz")
    assert clusters.centres.shape == (8, 16)
    everything = []
    for regions in found.values():
        assert regions.classes.shape == (14, 8)
        distance = ((regions.features[:, None].astype(np.float64) - clusters.centres.numpy()) ** 2).sum(2)
        np.testing.assert_array_equal(regions.classes.argmax(1), distance.argmin(1))
        weights = np.exp(-(distance - distance.min(1, keepdims=True)) / clusters.gap)
        np.testing.assert_allclose(regions.classes, weights / weights.sum(1, keepdims=True), atol=1e-3)
        everything.append(np.sort(distance, 1))
    distances = np.concatenate(everything)
    assert clusters.gap == pytest.approx((distances[:, 1] - distances[:, 0]).mean(), rel=1e-3)
    again = ["--clusters-from", tmp_path / "train" / "clusters.npz"]
    assert extract(*arguments, "--output", tmp_path / "val", *again) == 0
    for key, regions in read(tmp_path / "val").items():
        np.testing.assert_array_equal(regions.classes, found[key].classes)
    for name in ("shard-000000.tar", "shard-000001.tar"):
        assert (tmp_path / "val" / name).read_bytes() == (tmp_path / "train" / name).read_bytes()
    assert extract(*BACKBONE, "--shards", shards, "--output", tmp_path / "no", *again) == 2
    assert "learnt from features that differ in grids, maker, name, size, weights" in capsys.readouterr().err


class SuddenError(Exception):
    """What a test raises in the middle of the work."""


@pytest.mark.parametrize("clusters", [[], ["--clusters", 4]])
def test_an_interrupted_command_goes_on(shards, tmp_path, monkeypatch, clusters):
    """By shard: those that are finished are not read again, and the result is the same bytes."""
    arguments = [*BACKBONE, "--grid", 2, 2, "--batch-size", 2, *clusters, "--shards", shards]
    assert extract(*arguments, "--output", tmp_path / "whole") == 0
    find, sizes, stopping = BackboneGrid.find, [], True

    def stop(self, prepared):
        sizes.append(len(prepared))
        if stopping and len(sizes) == 3:  # two batches are the first shard
            raise SuddenError
        return find(self, prepared)

    monkeypatch.setattr(BackboneGrid, "find", stop)
    with pytest.raises(SuddenError):
        extract(*arguments, "--output", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".regions"]
    sizes.clear()
    stopping = False
    assert extract(*arguments, "--output", tmp_path / "out") == 0
    assert sum(sizes) == 1
    names = {path.name for path in (tmp_path / "whole").iterdir() if path.suffix in (".tar", ".json", ".npz")}
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_interrupted_while_naming(shards, tmp_path, monkeypatch):
    arguments = [*BACKBONE, "--grid", 2, 2, "--clusters", 4, "--shards", shards]
    assert extract(*arguments, "--output", tmp_path / "whole") == 0

    def stop(*_):
        raise SuddenError

    with monkeypatch.context() as patch:
        patch.setattr(extracting, "_name", stop)
        with pytest.raises(SuddenError):
            extract(*arguments, "--output", tmp_path / "out")
    monkeypatch.setattr(BackboneGrid, "find", stop)
    assert extract(*arguments, "--output", tmp_path / "out") == 0  # nothing is read again
    for name in ("shard-000000.tar", "shard-000001.tar", "clusters.npz"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backbone", "test_vit"], "without weights regions mean nothing: give --checkpoint FILE (or --random"),
        (["--backbone", "test_vit", "--checkpoint", "none"], "none: there is no such file of weights"),
        (["--backbone", "no_such_net", "--random"], "timm knows no backbone 'no_such_net'"),
        (
            ["--detector", "retinanet_resnet50_fpn", "--random"],
            "has no box head, whose features regions need; those that fit: fa",
        ),
        (["--detector", "yolo", "--random"], "--detector yolo is no detector of torchvision"),
        (["--detector", DETECTOR, "--random", "--clusters", "4"], "a detector names its regions itself"),
        ([*BACKBONE, "--grid", "2", "2", "3"], "--grid 2 2 3: expected rows and columns of each grid"),
        ([*BACKBONE, "--clusters", "1"], "--clusters: found 1, expected 2 or more"),
        ([*BACKBONE, "--clusters", "100", "--grid", "1", "1"], "--clusters is 100, and there are 5 different features"),
        ([*BACKBONE, "--clusters-from", "none.npz"], "--clusters-from none.npz: there is no such file"),
        ([*BACKBONE, "--batch-size", "0"], "--batch-size: found 0, expected 1 or more"),
        ([*BACKBONE, "--device", "cuda:77"], "--device cuda:77: "),
        ([*BACKBONE, "--least", "40"], "--least 40 and --most 36: expected"),
        (["--from-run", "{to}/in/index.json"], "not a checkpoint"),
        (["--from-run", "{to}/in/index.json", "--random"], "--from-run has weights of its own"),
    ],
)
def test_refusals(shards, tmp_path, capsys, arguments, message):
    given = [word.format(to=tmp_path) for word in arguments]
    assert extract(*given, "--shards", shards, "--output", tmp_path / "out") == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_run_without_an_image_tower(run, tmp_path, shards, capsys):
    _, encoder = run
    node = {**ENCODER, "init_args": {key: value for key, value in ENCODER["init_args"].items() if key != "image"}}
    state = {f"encoder.{name}": value for name, value in encoder.state_dict().items() if "image" not in name}
    configuration = {"model": {"init_args": {"encoder": node}}}
    torch.save({CONFIGURATION: configuration, "state_dict": state}, tmp_path / "text.ckpt")
    assert extract("--from-run", tmp_path / "text.ckpt", "--shards", shards, "--output", tmp_path / "out") == 2
    assert "its encoder TwoTowers has 0 image towers, expected one" in capsys.readouterr().err
