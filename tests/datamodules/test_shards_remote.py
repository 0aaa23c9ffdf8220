"""Remote shards read as local ones do; opening fetches no tar whose index is known."""

import json
import multiprocessing
import operator
import os
import pickle
import time

import pytest
from remote_stores import COUNT, SHARDS, tars
from small_shards import record, write_tar

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import FieldMap, ShardSet, ShardWriter, TextField
from interlingua.datamodules.shards.attempts import RemoteError
from interlingua.datamodules.shards.cache import Cache
from interlingua.datamodules.shards.check import check_shards
from interlingua.datamodules.shards.command import main

pytestmark = pytest.mark.usefixtures("quick")


def test_a_folder_over_http_reads_as_the_local_one(local, server, tmp_path):
    remote = ShardSet(server.url)
    assert remote.remote is True
    assert local.remote is False
    assert remote.sizes.tolist() == local.sizes.tolist() == [3] * SHARDS
    assert remote.bytes.tolist() == [shard.path.stat().st_size for shard in local.shards]
    assert tars(server.asked) == {}, "the indexes were beside the tars, sizes and checksums in index.json"
    assert [remote.find(number) for number in range(COUNT)] == [local.find(number) for number in range(COUNT)]
    assert remote.items.tolist() == local.items.tolist()
    for one, other in zip(remote.texts, local.texts, strict=True):
        assert one.tolist() == other.tolist()
    assert tars(server.asked) == {}
    order = [11, 0, 5, 1, 8, 10, 3, 2, 4, 6, 9, 7, 0]
    assert [remote.read(number) for number in order] == [local.read(number) for number in order]
    assert tars(server.asked) == dict.fromkeys((shard.path.name for shard in local.shards), 1)
    server.forget()
    again = ShardSet([f"{server.url}/"])
    assert list(again) == list(local)
    assert sum(server.asked.values()) == 1, "index.json alone: all else is in the cache"
    assert remote.shards[0].path.is_relative_to(tmp_path / "cache")


def test_patterns_without_index_json_or_indexes(local, server, tmp_path):
    expected = list(local)
    for file in (tmp_path / "store").glob("*.index"):
        file.unlink()
    (tmp_path / "store" / "index.json").unlink()
    pattern = f"{server.url}/shard-{{000000..000003}}.tar"
    remote = ShardSet(pattern)
    assert set(tars(server.asked).values()) == {2}, "a short look, then the tar whole, to index it"
    assert list(remote) == expected
    server.forget()
    again = ShardSet([pattern], cache=remote.cache)
    assert list(again) == list(remote)
    assert set(tars(server.sent).values()) == {1}, "one byte each, to see that it is the same"
    assert not list((tmp_path / "store").glob("*.index*")), "nothing is written there"


def test_local_and_remote_shards_in_one_set(local, server):
    mixed = ShardSet(
        [f"{server.url}/shard-000003.tar", str(local.shards[0].path), f"{server.url}/shard-{{000001..000002}}.tar"]
    )
    assert list(mixed) == [local.read(number) for number in (9, 10, 11, *range(9))]
    with pytest.raises(ValueError, match="named twice"):
        ShardSet([server.url, f"{server.url}/shard-000001.tar"])


def test_foreign_shards_with_a_field_map(server, tmp_path):
    write_tar(tmp_path / "store" / "foreign 1.tar", {"1.txt": b"a", "1.jpg": b"x", "2.txt": b"b"})
    fields = FieldMap(texts=(TextField("txt", language="en"),))
    remote = ShardSet(f"{server.url}/foreign 1.tar", fields, tmp_path / "indexes")
    assert [(sample.shard, sample.texts[0].text) for sample in remote] == [("foreign 1.tar", "a"), ("foreign 1.tar", "b")]
    assert len(list((tmp_path / "indexes").rglob("foreign 1.tar.index-*"))) == 1


def test_opening_many_takes_few_round_trips(server, tmp_path):
    for number in range(24):
        write_tar(tmp_path / "store" / f"{number:02d}.tar", {"a.json": record(("en", f"{number}"))})
        ShardSet(str(tmp_path / "store" / f"{number:02d}.tar"))
    server.latency = 0.2
    start = time.perf_counter()
    remote = ShardSet(f"{server.url}/{{00..23}}.tar")
    assert sum(server.asked.values()) == 2 * 24 + 1
    assert time.perf_counter() - start < 0.2 * 24
    assert [remote.read(number).texts[0].text for number in (0, 23)] == ["0", "23"]


def test_pickles_read_in_spawned_and_forked_processes(local, server):
    remote = ShardSet(server.url)
    remote.prefetch([0])
    remote.read(3)
    assert len(pickle.dumps(remote)) < 5000
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply(operator.methodcaller("read", 11), (remote,)) == local.read(11)


def test_other_files_come_from_beside_the_tars_too(server, tmp_path):
    (tmp_path / "store" / "shard-000001.tar.lengths").write_bytes(b"some lengths")
    remote = ShardSet(server.url)
    remote.fetch_beside("lengths")
    found = [shard.index_path.with_name(f"{shard.path.name}.lengths") for shard in remote.shards]
    assert [file.exists() and file.read_bytes() for file in found] == [False, b"some lengths", False, False]
    server.forget()
    remote.fetch_beside("lengths")
    assert server.asked["shard-000001.tar.lengths"] == 0


def test_an_index_of_another_tar_is_no_index(server, tmp_path):
    """Of another size it is not taken; of the same size it is found out when the tar comes, before a sample is misread."""
    store = tmp_path / "store"
    stale = (store / "shard-000002.tar.index").read_bytes()
    with ShardWriter(tmp_path / "other", samples_per_shard=3) as writer:
        for number in range(3):
            writer.write(f"{number:04d}", [Caption("en", "x")], image=b"\x89PNG" + b"y" * (5000 - number))
    (store / "shard-000000.tar.index").write_bytes(stale.replace(b"shard-000002", b"shard-000000"))
    os.replace(tmp_path / "other" / "shard-000000.tar", store / "shard-000002.tar")
    (store / "index.json").unlink()
    remote = ShardSet(f"{server.url}/shard-{{000000..000002}}.tar")
    assert remote.read(0).key == "0006", "equal sizes: nothing but the keys differ"
    assert remote.read(6).image[4:] == b"y" * 5000
    size = (store / "shard-000002.tar").stat().st_size
    index = (store / "shard-000001.tar.index").read_bytes()
    (store / "shard-000001.tar").write_bytes(b"\1" * (store / "shard-000001.tar").stat().st_size)
    assert b"shard-000001" in index
    assert size
    with pytest.raises(RemoteError, match=r"/shard-000001.tar: the index beside it is of another tar"):
        ShardSet(f"{server.url}/shard-000001.tar").read(0)


def test_redirected_urls(local, server):
    server.moved = {f"m{number}.tar": f"/shard-00000{number}.tar" for number in range(SHARDS)}
    remote = ShardSet(f"{server.url}/m{{0..3}}.tar")
    assert [sample.texts for sample in remote] == [sample.texts for sample in local]
    assert remote.shards[0].remote.version.startswith("etag ")
    server.cut_after["shard-000000.tar"], server.times["shard-000000.tar"] = 1000, 1
    remote = ShardSet(f"{server.url}/m{{0..3}}.tar", cache=Cache(remote.cache.root / "other"))
    assert remote.read(0).texts == local.read(0).texts


def test_an_index_json_without_checksums(local, server, tmp_path):
    (tmp_path / "store" / "index.json").write_text(json.dumps({"shards": [{"name": "shard-000002.tar"}]}))
    remote = ShardSet(server.url)
    assert list(remote) == [local.read(number) for number in (6, 7, 8)]
    assert remote.shards[0].remote.version.startswith("etag ")


def test_command_line(local, server, capsys):
    assert main(["check", server.url, "--no-decode"]) == 0
    assert "fit: no faults" in capsys.readouterr().out
    assert main(["show", f"{server.url}/shard-000001.tar", "-n", "1"]) == 0
    assert "Hund 3" in capsys.readouterr().out
    assert main(["index", server.url]) == 0
    assert main(["index", f"{server.url}/gone-{{0..3}}.tar"]) == 2
    assert f"interlingua shards index: {server.url}/gone-0.tar: not found (HTTP 404)" in capsys.readouterr().err
    assert check_shards(server.url, decode=False).samples == COUNT
