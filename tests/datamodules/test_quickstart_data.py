"""Nothing of a novel concept is in training: proven over the tars as written, and shown to be needed."""

import io
import json
import tarfile
import unicodedata

import numpy as np
import pytest
from PIL import Image

from interlingua.datamodules.quickstart import write_quickstart
from interlingua.datamodules.quickstart.write import SAME_PICTURE, close_leaks, load_emoji, novel_names, novel_pictures
from interlingua.datamodules.shards import ShardSet

LANGUAGES = tuple(sorted(("en", "de", "fr", "es", "ru", "ar", "hi", "zh", "ja", "ko", "tr", "sw")))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    return folder, write_quickstart(folder)


@pytest.fixture(scope="module")
def loaded():
    return load_emoji()


def fold(text):
    """Written anew here: the test must not share the code's mistakes."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def read_tars(folder):
    """Every JSON and every picture of all tars below a folder, by tarfile alone."""
    records, pictures = [], {}
    for path in sorted(folder.rglob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                content = tar.extractfile(member).read()
                if member.name.endswith(".json"):
                    records.append(json.loads(content))
                else:
                    item = member.name.removesuffix(".png")
                    pictures[item] = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), np.float32)
    return records, pictures


def nearest(some, others):
    """Least root mean square difference between pictures of two sets."""
    some, others = (np.stack(list(pictures.values())).reshape(len(pictures), -1) for pictures in (some, others))
    square = (some**2).sum(1)[:, None] + (others**2).sum(1) - 2 * some @ others.T
    return np.sqrt(square.min() / some.shape[1])


def test_nothing_novel_is_in_training(written):
    folder, _ = written
    training, pictures = read_tars(folder / "train")
    for split in ("validation", "test"):
        novel, novel_pictures = read_tars(folder / split)
        names = {fold(text["text"]) for record in novel for text in record["texts"] if text["role"] == "name"}
        assert len(names) > 1000
        assert not names & {fold(text["text"]) for record in training for text in record["texts"]}
        assert not {record["concept"] for record in novel} & {record["concept"] for record in training}
        assert not {record["item"] for record in novel} & {record["item"] for record in training}
        assert nearest(pictures, novel_pictures) > SAME_PICTURE


def test_unfiltered_data_would_leak(loaded):
    """The proof above is not empty: without the filters it would fail."""
    emoji, pictures = loaded
    novel = novel_names(emoji)
    leaks = [text for one in emoji if one.split == "train" for text in one.texts if fold(text.text) in novel]
    assert len(leaks) == 586
    assert "moto" in {text.text for text in leaks if text.role == "name"}
    items = {one.item: one.concept for one in emoji}
    assert {items[item] for item in novel_pictures(emoji, pictures)} >= {"flag: Norway", "flag: France"}
    training, dropped = close_leaks(emoji)
    assert dropped.names + dropped.keywords == len(leaks)
    assert not [text for one in training for text in one.texts if fold(text.text) in novel]


def test_what_is_written(written):
    folder, dropped = written
    assert dropped == (7, 579, 8)
    assert json.loads((folder / "about.json").read_text())["dropped"] == dropped._asdict()
    assert "UNICODE LICENSE V3" in (folder / "NOTICE").read_text()
    assert "Apache License" in (folder / "NOTICE").read_text()
    sets = {
        name: ShardSet(str(folder / name)) for name in ("train/pictures", "train/names", "train/captions", "validation", "test")
    }
    assert [len(shards) for shards in sets.values()] == [1515, 1524, 1516, 213, 169]
    assert sets["train/pictures"].languages == ("en",)
    assert sets["train/names"].languages == sets["validation"].languages == sets["test"].languages == LANGUAGES
    assert [bool(shards.has_image.any()) for shards in sets.values()] == [True, False, True, True, True]
    assert all(shards.has_image.all() for name, shards in sets.items() if name != "train/names")
    assert sets["test"].roles == ("name",)
    assert (np.diff(sets["test"].texts.start) == 12).all()
    assert not any(shards.faults or shards.unmatched or shards.blank for shards in sets.values())
    assert set(sets["train/pictures"].items.tolist()) <= set(sets["train/names"].items.tolist())


def test_pictures_are_the_sheets_own_pixels(written, loaded):
    folder, _ = written
    emoji, tiles = loaded
    stored = {sample.key: sample.image for sample in ShardSet(str(folder / "test"))}
    for one, tile in zip(emoji, tiles, strict=True):
        if one.split == "test":
            assert (np.asarray(Image.open(io.BytesIO(stored[one.item]))) == tile).all()


def test_writing_again_needs_force(written):
    with pytest.raises(FileExistsError, match="--force"):
        write_quickstart(written[0])
