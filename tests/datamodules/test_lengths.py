"""Tokens of every text, stored beside the tars: right, kept, refused to another tokenizer, and no crash where reading fails."""

import logging
import multiprocessing
import shutil
from pathlib import Path

import numpy as np
import pytest
from loopback import serve
from small_shards import picture, record, write_shards, write_tar
from trained import names, small_tokenizer

from interlingua.datamodules.sample import BadSampleError, Caption
from interlingua.datamodules.shards import lengths as lengths_module
from interlingua.datamodules.shards.fields import FieldMap, TextField
from interlingua.datamodules.shards.lengths import find_lengths, read_lengths
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.train_tokenizer import train_tokenizer
from interlingua.modalities.text import collate_text
from interlingua.modalities.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(data) -> Tokenizer:
    return small_tokenizer(data)


@pytest.fixture(scope="module")
def other(data, tmp_path_factory) -> Tokenizer:
    """A tokenizer of the same languages that cuts otherwise."""
    path = tmp_path_factory.mktemp("other") / "other.model"
    return train_tokenizer(names(data), path, size=1420, report=lambda line: None)


@pytest.fixture
def folders(data, tmp_path) -> list[str]:
    """Three tars of 10, 10 and 3 samples with 6 texts each."""
    return write_shards(tmp_path, data, images=False)


@pytest.fixture
def uncounted(monkeypatch):
    """Counting is an error from here on."""

    def refuse():
        def count(self, texts):
            raise AssertionError("texts were cut again")

        monkeypatch.setattr(Tokenizer, "count_tokens", count)

    return refuse


def files(folders: list) -> list[Path]:
    return [path for folder in folders for path in sorted(Path(folder).glob("*.lengths*"))]


def test_lengths_are_those_of_the_collated_rows(folders, tokenizer, uncounted):
    shards = ShardSet(folders)
    found = find_lengths(shards, tokenizer)
    texts = [text for sample in shards for text in sample.texts]
    rows = collate_text([text.text for text in texts], [text.language for text in texts], tokenizer, 512)
    assert found.tolist() == rows.present.sum(1).tolist()
    assert found.dtype == np.uint16
    assert len(found) == len(shards.texts.language) == 138
    assert [path.name for path in files(folders)] == ["shard-000000.tar.lengths"] * 3
    uncounted()
    again = find_lengths(ShardSet(folders), tokenizer, build=False)
    assert np.array_equal(again, found)
    one = find_lengths(ShardSet(folders[2]), tokenizer)
    assert np.array_equal(one, found[-18:])
    assert isinstance(one.base.base, np.memmap)


def test_each_field_map_has_its_own_lengths(tmp_path, tokenizer):
    tar = write_tar(tmp_path / "a.tar", {"0.json": record(("en", "a dog"), ("de", "ein Hund")), "0.txt": b"a dog and a cat"})
    plain = FieldMap(texts=[TextField("txt", language="en")], ignore=["json"])
    assert find_lengths(ShardSet(tar, plain), tokenizer).tolist() == tokenizer.count_tokens(["a dog and a cat"]).tolist()
    assert find_lengths(ShardSet(tar), tokenizer).tolist() == tokenizer.count_tokens(["a dog", "ein Hund"]).tolist()
    assert [path.name for path in files([tmp_path])] == ["a.tar.lengths", f"a.tar.lengths-{plain.fingerprint}"]


def test_another_tokenizer_is_refused_with_both_hashes(folders, tokenizer, other, uncounted):
    mine = find_lengths(ShardSet(folders), tokenizer)
    with pytest.raises(ValueError, match="made with a tokenizer of hash") as error:
        find_lengths(ShardSet(folders), other)
    assert tokenizer.hash[:12] in str(error.value)
    assert other.hash[:12] in str(error.value)
    assert f"`interlingua shards index {folders[0]} --tokenizer {other.path}`" in str(error.value)
    theirs = find_lengths(ShardSet(folders), other, replace=True)
    assert theirs.sum() > mine.sum()
    with pytest.raises(ValueError, match="made with a tokenizer of hash"):
        find_lengths(ShardSet(folders), tokenizer)
    uncounted()
    assert np.array_equal(find_lengths(ShardSet(folders), other, replace=True), theirs)  # what is right stays


def test_missing_lengths_are_named_where_they_may_not_be_built(folders, tokenizer):
    find_lengths(ShardSet(folders[:2]), tokenizer)
    with pytest.raises(
        FileNotFoundError, match=r"not counted yet \(shards without: 1\); run `interlingua shards index"
    ) as error:
        find_lengths(ShardSet(folders), tokenizer, build=False)
    assert folders[2] in str(error.value)


def test_lengths_of_a_changed_tar_are_counted_anew(folders, data, tokenizer):
    find_lengths(ShardSet(folders), tokenizer)
    with ShardWriter(folders[0], force=True) as writer:
        writer.write("0", [Caption("en", "a dog and a cat")])
    shards = ShardSet(folders)
    found = find_lengths(shards, tokenizer)
    assert len(found) == 1 + 13 * 6
    assert found[0] == tokenizer.count_tokens(["a dog and a cat"])[0]


@pytest.mark.parametrize("damage", [b"", b"no lengths", lengths_module.MARK + bytes(8), None])
def test_damaged_files_are_written_anew(folders, tokenizer, damage):
    wanted = find_lengths(ShardSet(folders), tokenizer)
    path = files(folders)[1]
    path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    assert read_lengths(path) is None
    assert np.array_equal(find_lengths(ShardSet(folders), tokenizer), wanted)
    assert read_lengths(path) is not None


def test_a_text_of_more_tokens_than_16_bits_hold_is_counted_exactly(tmp_path, tokenizer):
    texts = ["a dog", "zq " * 40_000, "a cat"]
    with ShardWriter(tmp_path / "long") as writer:
        for number, text in enumerate(texts):
            writer.write(str(number), [Caption("en", text)])
    for _ in range(2):
        found = find_lengths(ShardSet(str(tmp_path / "long")), tokenizer)
        assert found.dtype == np.uint32
        assert found.tolist() == tokenizer.count_tokens(texts).tolist()
        assert found[1] > 2**16


def test_a_read_only_folder_has_its_lengths_in_the_cache(folders, tokenizer, tmp_path, monkeypatch, uncounted):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write = lengths_module.write_lengths

    def refuse(lengths, path):
        if not path.is_relative_to(tmp_path / "cache"):
            raise PermissionError(13, "Permission denied")
        write(lengths, path)

    monkeypatch.setattr(lengths_module, "write_lengths", refuse)
    found = find_lengths(ShardSet(folders), tokenizer)
    assert not files(folders)
    uncounted()
    assert np.array_equal(find_lengths(ShardSet(folders), tokenizer, build=False), found)


def test_lengths_stand_beside_indexes_in_a_folder_of_their_own(folders, tokenizer, tmp_path):
    find_lengths(ShardSet(folders, index_folder=tmp_path / "indexes"), tokenizer)
    assert not files(folders)
    assert len(list((tmp_path / "indexes").rglob("*.lengths"))) == 3


def test_texts_that_cannot_be_read_are_counted_and_estimated(folders, tokenizer, monkeypatch, caplog, uncounted):
    wanted = find_lengths(ShardSet(folders), tokenizer)
    for path in files(folders):
        path.unlink()
    read = ShardSet.read

    def fail(self, number, image=True, members=None):
        if number in (3, 12):
            raise BadSampleError("truncated member", "json has 3 of 90 bytes: the tar changed")
        return read(self, number, image, members)

    monkeypatch.setattr(ShardSet, "read", fail)
    with caplog.at_level(logging.WARNING):
        found = find_lengths(ShardSet(folders), tokenizer)
    assert "2 samples could not be read when their tokens were counted (truncated member: 2)" in caplog.text
    assert "interlingua shards index" in caplog.text
    missing = np.repeat(np.isin(np.arange(23), (3, 12)), 6)
    assert np.array_equal(found[~missing], wanted[~missing])
    assert (found[missing] >= 3).all()
    assert 0.5 < found[missing].sum() / wanted[missing].sum() < 2
    monkeypatch.setattr(ShardSet, "read", read)
    assert np.array_equal(find_lengths(ShardSet(folders), tokenizer), found)  # an order that has been trained on stays
    assert np.array_equal(find_lengths(ShardSet(folders), tokenizer, replace=True), wanted)
    uncounted()
    assert np.array_equal(find_lengths(ShardSet(folders), tokenizer), wanted)


def test_a_shard_that_vanished_is_no_crash(folders, tokenizer, caplog):
    shards = ShardSet(folders)
    Path(folders[1], "shard-000000.tar").unlink()
    with caplog.at_level(logging.WARNING):
        found = find_lengths(shards, tokenizer)
    assert "10 samples could not be read when their tokens were counted (unreadable shard: 10)" in caplog.text
    assert (found >= 3).all()


def count_in_process(folders, tokenizer, results) -> None:
    results.put(find_lengths(ShardSet(folders), tokenizer))


@pytest.mark.timeout(60)
def test_processes_count_at_once(data, tmp_path, tokenizer):
    folders = write_shards(tmp_path, data, counts=[8] * 6, images=False)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=count_in_process, args=(folders, tokenizer, results)) for _ in range(3)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    assert all(np.array_equal(one, found[0]) for one in found)
    assert np.array_equal(find_lengths(ShardSet(folders), tokenizer, build=False), found[0])
    assert len(files(folders)) == 6  # nothing partial is left
    shutil.rmtree(tmp_path)


def test_shards_without_texts_have_no_lengths(data, tmp_path, tokenizer):
    with ShardWriter(tmp_path / "pictures") as writer:
        writer.write("0", [], image=picture(0))
    assert find_lengths(ShardSet(str(tmp_path / "pictures")), tokenizer).shape == (0,)


def test_lengths_beside_remote_tars_are_fetched_without_the_tars(folders, tokenizer, tmp_path, monkeypatch, uncounted):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    local = ShardSet(folders[0])  # makes the index, which is served too
    with serve(Path(folders[0])) as server:
        remote = ShardSet(server.url)
        with pytest.raises(FileNotFoundError, match=f"run `interlingua shards index {server.url}/shard-000000.tar --tokenizer"):
            find_lengths(remote, tokenizer, build=False)
        wanted = find_lengths(local, tokenizer)
        uncounted()
        assert np.array_equal(find_lengths(remote, tokenizer, build=False), wanted)
        assert not server.asked["shard-000000.tar"]
