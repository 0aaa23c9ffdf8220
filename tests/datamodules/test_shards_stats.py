"""Shards in numbers: each number by hand, and a page that opens from disk."""

import base64
import io
import json
import re

import numpy as np
import pytest
from damaged_shards import MAP, write_damaged
from PIL import Image
from trained import small_tokenizer

from interlingua.datamodules.sample import BadSampleError, Caption
from interlingua.datamodules.shards import ShardSet, ShardWriter
from interlingua.datamodules.shards.command import main
from interlingua.datamodules.shards.lengths import find_lengths
from interlingua.datamodules.shards.stats import measure, quantiles, read_header
from interlingua.datamodules.shards.stats_page import write_page


def picture(size=(40, 30), form="PNG", orientation=None):
    stored, exif = io.BytesIO(), Image.Exif()
    if orientation:
        exif[0x0112] = orientation
    Image.new("RGB", size, (200, 30, 30)).save(stored, form, exif=exif)
    return stored.getvalue()


@pytest.fixture
def folder(tmp_path):
    samples = [
        ([("en", "a dog", "caption"), ("hi", "कुत्ता", "name")], picture()),
        ([("en", "a dog", "caption"), ("de", "a dog", "caption")], picture()),
        ([("en", "a cat", "caption")], picture((20, 60), "JPEG", 6)),
        ([("en", "a dog", "caption"), ("en", "<b>&amp;$x$</b>", "名前")], None),
    ]
    with ShardWriter(tmp_path / "s", samples_per_shard=3) as writer:
        for number, (texts, image) in enumerate(samples):
            captions = [Caption(language, text, role) for language, text, role in texts]
            writer.write(f"{number}", captions, item=number // 2, image=image)
    return str(tmp_path / "s")


def test_numbers_by_hand(folder, data):
    stats = measure(folder, tokenizer=small_tokenizer(data))
    assert (stats.shards, stats.samples, stats.items, stats.texts, stats.pictures) == (2, 4, 2, 7, 3)
    assert stats.languages == {"en": 5, "de": 1, "hi": 1}
    assert stats.roles == {"caption": 5, "name": 1, "名前": 1}
    assert stats.bytes[""]["sum"] == 5 * 5 + len("कुत्ता".encode()) + 15
    assert (stats.bytes["hi"]["median"], stats.bytes["en"]["most"], stats.bytes["en"]["mean"]) == (18, 15, 7)
    assert stats.tokens[""]["sum"] == find_lengths(ShardSet(folder), small_tokenizer(data)).sum()
    assert stats.texts_per_sample == {1: 1, 2: 3}
    assert stats.languages_per_sample == {1: 2, 2: 2}
    assert stats.formats == {"PNG": 2, "JPEG": 1}
    assert sorted(map(tuple, stats.sizes.tolist())) == [(40, 30), (40, 30), (60, 20)]  # the last as it is shown
    assert (stats.side["least"], stats.side["median"]) == (20, 30)
    assert (stats.equal_texts.distinct, stats.equal_texts.extra) == (5, 2)
    assert stats.equal_texts.most == [("en", "a dog", 3)]  # "a dog" in German is another
    assert (stats.equal_pictures.distinct, stats.equal_pictures.extra) == (2, 1)


def test_quantiles_are_values_that_are_there():
    found = quantiles(np.array([1, 2, 3, 100]))
    assert (found["least"], found["median"], found["most"], found["sum"], found["mean"]) == (1, 2, 100, 106, 26.5)
    assert quantiles(np.array([])) == {}


def test_the_page_opens_from_disk_and_holds_its_plots(folder, tmp_path, capsys):
    assert main(["stats", folder, "--output", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "7 texts in 3 languages, 2 of them repeat another" in out
    assert str(tmp_path / "out" / "stats.html") in out
    page = (tmp_path / "out" / "stats.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:)|url\(|@import|<script""", page)
    shown = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(shown) == 4
    for stored in shown:
        with Image.open(io.BytesIO(base64.b64decode(stored))) as plot:
            assert plot.width == 1584
            assert len(set(plot.convert("L").tobytes())) > 20  # something is drawn
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "stats.html",
        "stats.json",
        *(f"stats-{name}.png" for name in ("languages", "lengths", "samples", "pictures")),
    }
    assert "名前" in page
    assert json.loads((tmp_path / "out" / "stats.json").read_text())["equal_texts"]["most"] == [["en", "a dog", 3]]


def test_pictures_are_sampled_and_that_is_said(folder, tmp_path, capsys):
    assert main(["stats", folder, "--output", str(tmp_path / "out"), "--pictures", "2"]) == 0
    assert "3 pictures, 2 looked at" in capsys.readouterr().out
    assert "Headers of 2 pictures, spread evenly over all 3, were read" in (tmp_path / "out" / "stats.html").read_text()
    assert main(["stats", folder, "--output", str(tmp_path / "out"), "--pictures", "-1"]) == 2
    assert measure(folder, pictures=0).pictures_read == 0


def test_texts_cannot_command_the_page(tmp_path):
    with ShardWriter(tmp_path / "s") as writer:
        for number in range(2):
            writer.write(f"{number}", [Caption("en", "<script>alert(1)</script>", "<i>$x$")], item=number)
    page = write_page(measure(str(tmp_path / "s")), tmp_path / "out").read_text()
    assert "<script>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page


def test_damaged_shards_are_measured_without_what_is_broken(data, tmp_path):
    stats = measure(write_damaged(tmp_path / "00007.tar", data), MAP)
    assert stats.kinds["empty caption"] == 2
    assert [(fault.shard, fault.key, fault.kind) for fault in stats.faults] == [
        ("00007.tar", "half", "unreadable picture header")
    ]
    assert stats.pictures_read == stats.pictures - 1
    page = write_page(stats, tmp_path / "out").read_text()
    assert "empty caption" in page
    assert "00007.tar half" in page


def test_shards_without_samples_or_texts(tmp_path):
    (tmp_path / "a.tar").write_bytes(bytes(1024))
    with pytest.raises(ValueError, match="no sample to read"):
        measure(str(tmp_path / "a.tar"))
    with ShardWriter(tmp_path / "s") as writer:
        writer.write("a", image=picture())
    stats = measure(str(tmp_path / "s"))
    assert (stats.texts, stats.pictures_read) == (0, 1)
    assert "All have 40 x 30 pixels" in write_page(stats, tmp_path / "out").read_text()


def test_header_of_no_picture():
    with pytest.raises(BadSampleError, match="unreadable picture header: 5 bytes"):
        read_header(b"hello")
