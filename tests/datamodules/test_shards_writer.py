"""Shards are the same bytes for the same samples, and webdataset reads them."""

import io
import json
import warnings

import numpy as np
import pytest
from PIL import Image

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import FieldMap, ShardSet, ShardWriter, TextField
from interlingua.datamodules.shards.writer import checksum
from interlingua.modalities.region import FoundRegions, pack_regions

DOG = [Caption("en", "a dog"), Caption("ja", "犬", "name")]
NOTHING = pack_regions(FoundRegions(np.zeros((0, 4), np.float32), (640, 480), np.zeros((0, 4), np.float16)))


def picture(size=(8, 6), form="PNG"):
    stored = io.BytesIO()
    Image.new("RGB", size, (200, 30, 30)).save(stored, form)
    return stored.getvalue()


def write_real(source, folder, count=60):
    with ShardWriter(folder, "emoji", samples_per_shard=25) as writer:
        for number in range(count):
            sample = source.read(number)
            writer.write(f"set.one/{sample.key}", sample.texts, sample.key, sample.image, char=number)


@pytest.fixture(scope="module")
def source(data, tmp_path_factory):
    fields = FieldMap(texts=(TextField("json", "captions", by_language=True),), item="id")
    return ShardSet(str(data / "emoji-noto-val.tar"), fields, tmp_path_factory.mktemp("index"))


def test_same_samples_same_bytes(source, tmp_path):
    write_real(source, tmp_path / "a")
    write_real(source, tmp_path / "b")
    names = [path.name for path in sorted((tmp_path / "a").iterdir())]
    assert names == ["emoji-000000.tar", "emoji-000001.tar", "emoji-000002.tar", "index.json"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_webdataset_reads_the_same(source, tmp_path):
    import webdataset

    write_real(source, tmp_path)
    ours = ShardSet(str(tmp_path))
    tars = [str(shard.path) for shard in ours.shards]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it never closes its shards
        read = list(webdataset.WebDataset(tars, shardshuffle=False))
    assert [sample["__key__"] for sample in read] == [sample.key for sample in ours]
    for theirs, sample in zip(read, ours, strict=True):
        assert theirs["webp"] == sample.image
        texts = json.loads(theirs["json"])["texts"]
        assert [(text["lang"], text["text"], text["role"]) for text in texts] == [tuple(text) for text in sample.texts]


def test_summary_beside_the_tars(tmp_path):
    with ShardWriter(tmp_path, samples_per_shard=2) as writer:
        writer.write("a", DOG, image=picture())
        writer.write("b", DOG)
        writer.write("c", members={"wav": b"RIFF", "regions.npz": NOTHING})
    summary = json.loads((tmp_path / "index.json").read_text())
    assert summary["samples"] == 3
    assert summary["languages"] == {"en": 2, "ja": 2}
    assert summary["modalities"] == {"image": 1, "regions.npz": 1, "text": 2, "wav": 1}
    assert [shard["samples"] for shard in summary["shards"]] == [2, 1]
    assert [shard["sha256"] for shard in summary["shards"]] == [checksum(path) for path in sorted(tmp_path.glob("*.tar"))]
    assert dict(ShardSet(str(tmp_path)).read(2).members) == {"wav": b"RIFF", "regions.npz": NOTHING}


def test_samples_are_checked(tmp_path):
    with ShardWriter(tmp_path) as writer:
        writer.write("a", DOG)
        for key in ("", "a.b", "/a", "a/", "x/.y"):
            with pytest.raises(ValueError, match="expected a name without a dot"):
                writer.write(key, DOG)
        with pytest.raises(ValueError, match="'a': this key is in the shard already"):
            writer.write("a", DOG)
        with pytest.raises(ValueError, match=r"'b', text 0: 'english' is not a language code"):
            writer.write("b", [Caption("english", "a dog")])
        with pytest.raises(ValueError, match=r"'b', text 1 \(de\): it is blank"):
            writer.write("b", [Caption("en", "a dog"), Caption("de", " \n")])
        with pytest.raises(ValueError, match=r"cannot store members exe;"):
            writer.write("b", DOG, members={"exe": b""})
        with pytest.raises(ValueError, match="picture extension ''; expected any of jpg"):
            writer.write("b", DOG, image=b"hello")
        with pytest.raises(ValueError, match="no text, no picture"):
            writer.write("b")
    assert len(ShardSet(str(tmp_path))) == 1


def test_folder_must_be_empty_unless_forced(tmp_path):
    with ShardWriter(tmp_path, samples_per_shard=1) as writer:
        writer.write("a", DOG)
        writer.write("b", DOG)
    assert len(ShardSet(str(tmp_path))) == 2
    with pytest.raises(FileExistsError, match="--force to replace"):
        ShardWriter(tmp_path)
    (tmp_path / "notes.txt").write_text("kept")
    with ShardWriter(tmp_path, force=True) as writer:
        writer.write("c", DOG)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.json", "notes.txt", "shard-000000.tar"]
    with pytest.raises(FileExistsError, match="found a file"):
        ShardWriter(tmp_path / "notes.txt")


def test_nothing_half_written_stays(tmp_path):
    def fail():
        with ShardWriter(tmp_path / "a") as writer:
            writer.write("a", DOG)
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    assert list((tmp_path / "a").iterdir()) == []
    with pytest.raises(ValueError, match="no sample was written"), ShardWriter(tmp_path / "b"):
        pass


def test_resize_makes_large_pictures_smaller(tmp_path):
    pictures = [picture((80, 60), "JPEG"), picture((60, 90), "WEBP"), picture((20, 30))]
    with ShardWriter(tmp_path, resize=30) as writer:
        for key, image in zip("abc", pictures, strict=True):
            writer.write(key, image=image)
    stored = [sample.image for sample in ShardSet(str(tmp_path))]
    opened = [Image.open(io.BytesIO(image)) for image in stored]
    assert [(image.format, image.size) for image in opened] == [("JPEG", (40, 30)), ("PNG", (30, 45)), ("PNG", (20, 30))]
    assert stored[2] == pictures[2]
