"""What is wrong with a tar is found when it is indexed, counted with shard and key, and costs nothing that is good."""

import io
import json
import os
import tarfile
from collections import Counter

import pytest

from interlingua.datamodules.shards import FieldMap, ShardSet, TextField
from interlingua.datamodules.shards import store as store_module
from interlingua.datamodules.shards.index import build_index
from interlingua.datamodules.shards.store import find_index, map_index, store_index

PLAIN = FieldMap(texts=(TextField("txt", language="en"),))


def make_tar(path, members, form=tarfile.GNU_FORMAT):
    """A tar of (name, content) pairs, in their order."""
    with tarfile.open(path, "w", format=form) as tar:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def pairs(count, start=0):
    return [
        member
        for number in range(start, start + count)
        for member in ((f"{number:04d}.jpg", b"picture" * 100), (f"{number:04d}.txt", f"caption {number}".encode()))
    ]


def kinds(shards):
    return [(fault.kind, fault.key) for fault in shards.faults]


def keys(shards):
    return [sample.key for sample in shards]


def test_same_key_in_two_shards_is_two_samples(tmp_path):
    """Pitfall D02: two tars that each hold 0001.jpg and 0001.txt."""
    make_tar(tmp_path / "a.tar", pairs(1, 1))
    make_tar(tmp_path / "b.tar", pairs(1, 1))
    shards = ShardSet(str(tmp_path), PLAIN)
    assert [(sample.shard, sample.key) for sample in shards] == [("a.tar", "0001"), ("b.tar", "0001")]
    assert len(set(shards.items.tolist())) == 2


def test_duplicate_member_costs_its_sample_alone(tmp_path):
    """Pitfall D02: one tar with 0001.jpg twice."""
    members = [*pairs(1), ("0001.jpg", b"one"), ("0001.jpg", b"two"), ("0001.txt", b"text"), *pairs(1, 2)]
    shards = ShardSet(str(make_tar(tmp_path / "a.tar", members)), PLAIN)
    assert keys(shards) == ["0000", "0002"]
    assert kinds(shards) == [("duplicate member", "0001")]
    assert shards.faults[0].shard == "a.tar"


def test_scattered_members_cost_their_samples_alone(tmp_path):
    members = [("0001.jpg", b"picture"), *pairs(1), ("0001.txt", b"text"), *pairs(1, 2)]
    shards = ShardSet(str(make_tar(tmp_path / "a.tar", members)), PLAIN)
    assert keys(shards) == ["0000", "0002"]
    assert set(kinds(shards)) == {("scattered members", "0001")}


def test_undeclared_members_are_counted(tmp_path):
    """Pitfall D02: `22.05.png`, `0001.seg.png`, `0001.JPG`, names without extension."""
    members = [("22.05.png", b"x"), ("0001.JPG", b"x"), ("0001.seg.png", b"x"), ("train.v1/2.jpg", b"x"), ("README", b"x")]
    shards = ShardSet(str(make_tar(tmp_path / "a.tar", members)), PLAIN)
    assert keys(shards) == ["0001", "train.v1/2"]
    assert shards.unmatched == Counter({"05.png": 1, "seg.png": 1, "": 1})
    assert kinds(shards) == [("no known member", "22")]
    assert "05.png" in shards.faults[0].detail


def test_differing_members_are_absent_or_faults_as_declared(tmp_path):
    """Pitfall D05: jpg + txt + npy, jpg + txt, txt alone."""
    members = [("1.jpg", b"x"), ("1.txt", b"a"), ("1.codes.npy", b"n"), ("2.jpg", b"x"), ("2.txt", b"b"), ("3.txt", b"c")]
    tar = str(make_tar(tmp_path / "a.tar", members))
    shards = ShardSet(tar, PLAIN)
    assert [(sample.image, dict(sample.members)) for sample in shards] == [(b"x", {"codes.npy": b"n"}), (b"x", {}), (None, {})]
    assert shards.fields == Counter({"txt": 3, "jpg": 2, "codes.npy": 1})
    assert shards.has_image.tolist() == [True, True, False]
    strict = ShardSet(tar, FieldMap(texts=PLAIN.texts, require=("image",)))
    assert keys(strict) == ["1", "2"]
    assert kinds(strict) == [("missing member", "3")]


def test_bad_content_is_found(tmp_path):
    members = [
        ("1.json", b"{"),
        ("2.json", b"[1]"),
        ("3.json", b'{"texts": [{"lang": "en", "text": " \\u200b"}]}'),
        ("4.json", b'{"texts": [{"lang": "en", "text": "a \\ud83d"}]}'),
        ("5.json", b"{}"),
        ("6.json", b'{"texts": [{"lang": "en", "text": " "}, {"lang": "en", "text": "good"}]}'),
        ("7.json", b'{"texts": "\xff"}'),
    ]
    shards = ShardSet(str(make_tar(tmp_path / "a.tar", members)))
    assert [[text.text for text in sample.texts] for sample in shards] == [["good"]]
    assert shards.blank == 2
    assert kinds(shards) == [
        ("broken json", "1"),
        ("broken json", "2"),
        ("empty caption", "3"),
        ("broken text", "4"),
        ("empty sample", "5"),
        ("broken json", "7"),
    ]


def test_every_truncation_is_one_fault_and_loses_nothing_good(tmp_path):
    whole = make_tar(tmp_path / "whole.tar", pairs(6)).read_bytes()
    with tarfile.open(tmp_path / "whole.tar") as tar:
        ends = [member.offset_data + member.size for member in tar.getmembers()][1::2]  # of each sample's last member
        end = tar.getmembers()[-1].offset_data + 512
    cut = tmp_path / "cut.tar"
    for size in [*range(0, end, 97), *(last + shift for last in ends for shift in (-1, 0, 1)), end - 1, end, end + 511]:
        cut.write_bytes(whole[:size])
        index = build_index(cut, PLAIN)
        arrived, before = index.head["samples"], sum(last <= size for last in ends)
        # Nobody can know that a tar's only sample has all its members if the tar breaks behind it.
        assert arrived == before or (before == 1 and arrived == 0), (size, arrived, before)
        assert len(index.faults) == 1, (size, index.faults)
    cut.write_bytes(whole[: end + 512])
    assert build_index(cut, PLAIN).faults == ()


def test_what_stands_behind_a_broken_header_is_found(tmp_path):
    path = make_tar(tmp_path / "a.tar", pairs(6))
    content = bytearray(path.read_bytes())
    content[content.index(b"0002.jpg") : content.index(b"0002.jpg") + 4] = b"\xff\xfe\xfd\xfc"
    path.write_bytes(content)
    shards = ShardSet(str(path), PLAIN)
    assert keys(shards) == ["0000", "0001", "0003", "0004", "0005"]
    assert kinds(shards) == [("corrupt header", "0002")]


def test_joined_tars_are_read_whole(tmp_path):
    first, second = (make_tar(tmp_path / f"{n}.tar", pairs(2, 2 * n)).read_bytes() for n in (0, 1))
    (tmp_path / "both.tar").write_bytes(first + second)
    shards = ShardSet(str(tmp_path / "both.tar"), PLAIN)
    assert keys(shards) == ["0000", "0001", "0002", "0003"]
    assert shards.faults == ()


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_and_foreign_names_in_every_format(tmp_path, form):
    long = "/".join(["folder.v1" * 6] * 2) + "/" + "k" * 60 if form != tarfile.USTAR_FORMAT else "f.v1" * 20 + "/" + "k" * 60
    names = [long, "bücher/写真"] if form != tarfile.USTAR_FORMAT else [long]
    members = [(f"{name}.txt", f"text {number}".encode()) for number, name in enumerate(names)]
    shards = ShardSet(str(make_tar(tmp_path / "a.tar", members, form)), PLAIN)
    assert [(sample.key, sample.texts[0].text) for sample in shards] == [(n, f"text {i}") for i, n in enumerate(names)]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty file"),
        (b"<html>" * 200, "not a tar"),
        (b"\x1f\x8b" + b"x" * 2000, "compressed tar"),
        (b"x", "truncated tar"),
    ],
)
def test_what_is_no_tar_is_one_fault(tmp_path, content, kind):
    (tmp_path / "a.tar").write_bytes(content)
    shards = ShardSet(str(tmp_path / "a.tar"))
    assert kinds(shards) == [(kind, "")]
    assert len(shards) == 0
    assert len(shards.items) == 0
    assert len(shards.select()) == 0


def test_index_is_kept_until_the_tar_changes(tmp_path):
    tar = make_tar(tmp_path / "a.tar", pairs(2))
    assert find_index(tar, PLAIN, None) is None
    place = store_index(tar, PLAIN, None)
    assert place == find_index(tar, PLAIN, None)
    assert place.parent == tmp_path
    assert find_index(tar, FieldMap(), None) is None  # another map, another index
    make_tar(tar, pairs(3))
    assert find_index(tar, PLAIN, None) is None
    assert len(ShardSet(str(tar), PLAIN)) == 3
    os.utime(tar, ns=(1, 1))
    assert find_index(tar, PLAIN, None) is None


def test_half_written_index_is_built_anew(tmp_path):
    tar = make_tar(tmp_path / "a.tar", pairs(2))
    place = store_index(tar, PLAIN, None)
    place.write_bytes(place.read_bytes()[:60])
    assert len(ShardSet(str(tar), PLAIN)) == 2
    assert not list(tmp_path.glob("*.partial"))
    place.write_bytes(b"something else")
    with pytest.raises(ValueError, match="delete it"):
        map_index(place)


def test_read_only_store_is_indexed_in_the_cache(tmp_path, monkeypatch):
    """Permissions do not hold for an administrator, so the refusal is played."""
    store = tmp_path / "store"
    store.mkdir()
    tar = make_tar(store / "a.tar", pairs(2))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write = store_module.write_index

    def refuse(index, path):
        if path.parent == store:
            raise PermissionError(13, "Permission denied")
        write(index, path)

    monkeypatch.setattr(store_module, "write_index", refuse)
    shards = ShardSet(str(tar), PLAIN)
    assert keys(shards) == ["0000", "0001"]
    assert [path.name for path in store.iterdir()] == ["a.tar"]
    assert shards.shards[0].index_path.is_relative_to(tmp_path / "cache")
    assert find_index(tar, PLAIN, None) == shards.shards[0].index_path


def test_index_folder_keeps_equal_names_apart(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        make_tar(tmp_path / folder / "a.tar", pairs(2, start=ord(folder)))
    shards = ShardSet([str(tmp_path / "x"), str(tmp_path / "y")], PLAIN, tmp_path / "indexes")
    assert keys(shards) == ["0120", "0121", "0121", "0122"]
    assert len(list((tmp_path / "indexes").rglob("a.tar.index-*"))) == 2


def test_index_knows_languages_roles_and_lengths(tmp_path):
    texts = [{"lang": "en", "text": "dog", "role": "name"}, {"lang": "ja", "text": "犬", "role": "name"}]
    members = [("1.json", json.dumps({"item": "dog", "texts": texts}).encode()), ("1.png", b"x")]
    index = map_index(store_index(make_tar(tmp_path / "a.tar", members), FieldMap(), None))
    assert index.head["languages"] == ["en", "ja"]
    assert index.arrays["text_size"].tolist() == [3, 3]
    assert index.arrays["first_text"].tolist() == [0, 2]
    assert index.arrays["image"].tolist() == [True]


def test_long_link_beside_a_long_name(tmp_path):
    """GNU tar announces a long link target, then a long name; neither may hide the other, nor the member after them."""
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        link = tarfile.TarInfo("l" * 150 + ".jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "t" * 150
        tar.addfile(link)
        entry = tarfile.TarInfo("0001.txt")
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"text"))
    shards = ShardSet(str(tmp_path / "a.tar"), PLAIN)
    assert keys(shards) == ["0001"]
    assert shards.faults == ()
