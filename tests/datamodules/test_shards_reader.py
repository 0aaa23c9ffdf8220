"""Random access: what was written is what is read, in any process, and selection reads nothing."""

import multiprocessing
import operator
import os
import pickle
import tarfile

import numpy as np
import pytest
from small_shards import write_tar

from interlingua.datamodules.sample import BadSampleError, Caption
from interlingua.datamodules.shards import FieldMap, ShardSet, ShardWriter, TextField
from interlingua.datamodules.shards import opening as opening_module
from interlingua.datamodules.shards import reader as reader_module

EMOJI = FieldMap(texts=(TextField("json", "captions", by_language=True),), item="id")


@pytest.fixture(scope="module")
def foreign(data, tmp_path_factory):
    """Real pictures and captions, in a layout that is not ours."""
    return ShardSet(str(data / "emoji-noto-val.tar"), EMOJI, tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="module")
def ours(foreign, tmp_path_factory):
    """The same in our layout."""
    folder = tmp_path_factory.mktemp("ours")
    with ShardWriter(folder, samples_per_shard=100) as writer:
        for number, sample in enumerate(foreign):
            writer.write(sample.key, sample.texts, str(number // 2), sample.image)
    return ShardSet(str(folder))


def test_foreign_shards_read_as_tarfile_reads_them(foreign, data):
    with tarfile.open(data / "emoji-noto-val.tar") as tar:
        names = [name for name in tar.getnames() if name.endswith(".webp")]
        assert len(foreign) == len(names) == 413
        for number in (0, 1, 200, 412):
            sample = foreign.read(number)
            assert f"{sample.key}.webp" == names[number]
            assert sample.image == tar.extractfile(names[number]).read()
            assert {"en", "de", "sw", "zh"} < {text.language for text in sample.texts}
    assert foreign.faults == ()


def test_round_trip(foreign, ours):
    assert len(ours) == len(foreign)
    assert len(ours.shards) == 5
    for number in (0, 99, 100, 412):
        old, new = foreign.read(number), ours.read(number)
        assert (new.key, new.texts, new.image) == (old.key, old.texts, old.image)
    assert ours.read(6).item == ours.read(7).item != ours.read(8).item
    assert [ours.read(number).item for number in range(20)] == ours.items[:20].tolist()
    assert ours.read(3, image=False).image is None
    assert ours.find(100) == ("shard-000001.tar", ours.read(100).key)


def test_numbers_beyond_the_end(ours):
    for number in (-1, len(ours)):
        with pytest.raises(IndexError, match="samples 0 to 412"):
            ours.read(number)


def test_texts_agree_with_what_is_read(ours):
    table = ours.texts
    for number in np.linspace(0, len(ours) - 1, 9).astype(int):
        rows = slice(table.start[number], table.start[number + 1])
        texts = ours.read(number).texts
        assert [ours.languages[code] for code in table.language[rows]] == [text.language for text in texts]
        assert [ours.roles[code] for code in table.role[rows]] == [text.role for text in texts]
        assert table.size[rows].tolist() == [len(text.text.encode()) for text in texts]


def test_select(tmp_path):
    with ShardWriter(tmp_path, samples_per_shard=2) as writer:
        writer.write("a", [Caption("en", "dog", "name")], image=b"\x89PNG")
        writer.write("b", [Caption("en", "dog", "name"), Caption("de", "Hund", "name")])
        writer.write("c", [Caption("de", "Hund", "name"), Caption("de", "Tier", "keyword")], image=b"\x89PNG")
        writer.write("d", image=b"\x89PNG")
    shards = ShardSet(str(tmp_path))
    assert shards.languages == ("de", "en")
    assert shards.select().tolist() == [0, 1, 2]
    assert shards.select(texts=0).tolist() == [0, 1, 2, 3]
    assert shards.select(["de"]).tolist() == [1, 2]
    assert shards.select(["de"], roles=["keyword"]).tolist() == [2]
    assert shards.select(["en"], image=True).tolist() == [0]
    assert shards.select(texts=2, image=False).tolist() == [1]
    assert shards.select(["xx"]).tolist() == []


def test_pickles_hold_paths_and_read_in_spawned_and_forked_processes(ours):
    expected = ours.read(250)
    assert len(pickle.dumps(ours)) < 5000
    assert pickle.loads(pickle.dumps(ours)).read(250) == expected
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply(operator.methodcaller("read", 250), (ours,)) == expected


def test_bad_sample_survives_the_way_back_from_a_process():
    error = pickle.loads(pickle.dumps(BadSampleError("truncated member", "jpg has 3 of 5 bytes")))
    assert (error.kind, error.detail) == ("truncated member", "jpg has 3 of 5 bytes")


def test_few_files_are_open_at_once(ours, monkeypatch):
    monkeypatch.setattr(opening_module, "OPEN_SHARDS", 2)
    shards = pickle.loads(pickle.dumps(ours))
    for number in (0, 100, 200, 300, 412, 0):
        shards.read(number)
        assert len(shards._open.descriptors) <= 2
    descriptors = list(shards._open.descriptors.values())
    shards.close()
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_texts_are_parsed_once_while_there_is_room(ours, monkeypatch):
    parsed = []

    def understand(contents, fields, shard, key):
        parsed.append(key)
        return understand_anew(contents, fields, shard, key)

    understand_anew = reader_module.understand
    monkeypatch.setattr(reader_module, "understand", understand)
    whole = pickle.loads(pickle.dumps(ours))
    first = list(whole)
    assert [whole.read(number) for number in np.arange(len(whole))] == first == list(ours)
    assert parsed[: len(ours)] == [sample.key for sample in first]
    assert len(whole.read(3, image=False).texts) > 1
    assert len(pickle.dumps(whole)) < 5000
    monkeypatch.setattr(reader_module, "KEPT_BYTES", 20_000)
    parsed.clear()
    small = pickle.loads(pickle.dumps(ours))
    assert list(small) == list(small) == first
    kept = 2 * len(ours) - len(parsed)
    assert 0 < kept < 10
    assert [small.read(number) for number in range(kept)] == first[:kept]
    assert len(parsed) == 2 * len(ours) - kept


def test_a_tar_that_changes_after_indexing_is_a_bad_sample(tmp_path):
    with ShardWriter(tmp_path) as writer:
        for key in ("a", "b"):
            writer.write(key, [Caption("en", "dog")], image=b"\x89PNG" + b"x" * 5000)
    shards = ShardSet(str(tmp_path))
    tar = tmp_path / "shard-000000.tar"
    os.truncate(tar, 9000)
    assert shards.read(0).key == "a"
    with pytest.raises(BadSampleError, match="truncated member: png has"):
        shards.read(1)
    tar.unlink()
    shards.close()
    with pytest.raises(BadSampleError, match="unreadable shard"):
        shards.read(0)


def test_paths(ours, tmp_path):
    folder = ours.shards[0].path.parent
    for paths in (
        str(folder),
        f"{folder}/*.tar",
        f"{folder}/shard-{{000000..000004}}.tar",
        [f"{folder}/shard-00000{number}.tar" for number in range(5)],
    ):
        assert [shard.path for shard in ShardSet(paths).shards] == [shard.path for shard in ours.shards]
    with pytest.raises(FileNotFoundError, match=r"shard-000005.tar \(from the pattern"):
        ShardSet(f"{folder}/shard-{{000004..000005}}.tar")
    with pytest.raises(FileNotFoundError, match=r"no \*.tar in this folder"):
        ShardSet(str(tmp_path))
    with pytest.raises(ValueError, match="named twice"):
        ShardSet([str(folder), f"{folder}/shard-000001.tar"])
    with pytest.raises(FileNotFoundError, match="list of paths is empty"):
        ShardSet([])
    (tmp_path / "index.json").write_text('{"shards": [{"name": "gone.tar"}]}')
    with pytest.raises(FileNotFoundError, match=r"names gone.tar, which is not there"):
        ShardSet(str(tmp_path))


def test_a_shard_without_a_good_sample_stands_anywhere_among_others(tmp_path):
    good = {"0.json": b'{"item": 1, "texts": [{"lang": "en", "text": "a dog"}, {"lang": "de", "text": "ein Hund"}]}'}
    for name, members in (("a", {"0.json": b"{"}), ("b", good), ("c", {"0.json": b"{"}), ("d", good)):
        write_tar(tmp_path / f"{name}.tar", members)
    shards = ShardSet(str(tmp_path))
    assert shards.sizes.tolist() == [0, 1, 0, 1]
    assert shards.texts.start.tolist() == [0, 2, 4]
    assert [len(sample.texts) for sample in shards] == [2, 2]
