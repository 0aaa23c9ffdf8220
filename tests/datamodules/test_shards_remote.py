"""Remote shards read as local ones do; opening fetches no tar whose index is known; what is wrong is told in one line."""

import json
import multiprocessing
import operator
import os
import pickle
import ssl
import sys
import time
import urllib.error
import urllib.request

import fsspec
import pytest
from loopback import serve
from small_shards import record, write_tar
from torch._utils import ExceptionWrapper

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import FieldMap, ShardSet, ShardWriter, TextField
from interlingua.datamodules.shards import objects as objects_module
from interlingua.datamodules.shards.cache import Cache
from interlingua.datamodules.shards.check import check_shards
from interlingua.datamodules.shards.command import main
from interlingua.datamodules.shards.objects import DeniedObjectError, MissingObjectError, RemoteError

COUNT, SHARDS = 12, 4


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.setattr(objects_module, "FIRST_WAIT", 0.002)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def write(folder, first=0, size=2000):
    with ShardWriter(folder, samples_per_shard=COUNT // SHARDS, force=True) as writer:
        for number in range(first, first + COUNT):
            texts = [Caption("en", f"dog {number}"), Caption("de", f"Hund {number}")]
            writer.write(f"{number:04d}", texts, image=b"\x89PNG" + number.to_bytes(2, "big") * (size // 2))
    return folder


@pytest.fixture
def local(tmp_path):
    return ShardSet(str(write(tmp_path / "store")))


@pytest.fixture
def server(local, tmp_path):
    with serve(tmp_path / "store") as server:
        yield server


def tars(counter):
    """Counts of tars alone."""
    return {name: count for name, count in counter.items() if name.endswith(".tar")}


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


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (404, MissingObjectError, "not found (HTTP 404); check the name"),
        (403, DeniedObjectError, "access denied (HTTP 403); sign the URL anew"),
        (401, DeniedObjectError, "access denied (HTTP 401)"),
        (400, RemoteError, "the server refuses it (HTTP 400)"),
        (503, RemoteError, "HTTP 503 (8 tries); check the URL, the network and the store"),
    ],
)
def test_what_cannot_be_had_is_told_with_its_url(server, status, kind, words, capsys):
    server.status["shard-000001.tar"] = status
    remote = ShardSet(server.url)
    assert remote.read(0).key == "0000"
    with pytest.raises(kind) as error:
        remote.read(3)
    assert str(error.value).startswith(f"{server.url}/shard-000001.tar: ")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert server.asked["shard-000001.tar"] == (8 if status == 503 else 1)
    with pytest.raises(kind):
        remote.read(3)
    server.status["index.json"] = 403
    assert main(["show", server.url]) == 2
    assert f"interlingua shards show: {server.url}/index.json: access denied" in capsys.readouterr().err
    assert ShardSet(f"{server.url}/shard-000000.tar").read(0).key == "0000"


def test_an_unreachable_server(server, tmp_path, monkeypatch):
    monkeypatch.setattr(objects_module, "TRIES", 2)
    remote = ShardSet(server.url)
    server.shutdown()
    server.server_close()
    with pytest.raises(RemoteError, match=rf"{server.url}/shard-000000.tar: cannot be read: no connection .*2 tries"):
        remote.read(0)
    with pytest.raises(RemoteError, match="no connection"):
        ShardSet(server.url)
    with pytest.raises(ValueError, match="not a URL"):
        ShardSet("http://[bad/a.tar")


def test_certificates_are_not_tried_again(server, monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError(ssl.SSLCertVerificationError("certificate has expired"))

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(RemoteError, match=r"/index.json: .*certificate has expired.*; mend its certificate"):
        ShardSet(server.url)


def test_an_error_in_a_worker_names_the_url(server):
    """It comes to the main process as a loader brings it: pickled, and raised anew with more words."""
    remote = ShardSet(server.url)
    server.status["shard-000001.tar"] = 404
    with pytest.raises(RemoteError) as error:
        remote.read(3)
    assert pickle.loads(pickle.dumps(error.value)).args == error.value.args
    brought = ExceptionWrapper((error.type, error.value, error.tb), "in a worker")
    with pytest.raises(RemoteError, match=rf"{server.url}/shard-000001\.tar: not found"):
        brought.reraise()


def test_redirected_urls(local, server):
    server.moved = {f"m{number}.tar": f"/shard-00000{number}.tar" for number in range(SHARDS)}
    remote = ShardSet(f"{server.url}/m{{0..3}}.tar")
    assert [sample.texts for sample in remote] == [sample.texts for sample in local]
    assert remote.shards[0].remote.version.startswith("etag ")
    server.cut_after["shard-000000.tar"], server.times["shard-000000.tar"] = 1000, 1
    remote = ShardSet(f"{server.url}/m{{0..3}}.tar", cache=Cache(remote.cache.root / "other"))
    assert remote.read(0).texts == local.read(0).texts


def test_folders_that_cannot_be_listed(server, tmp_path):
    with pytest.raises(RemoteError, match=r"\*\.tar: HTTP cannot list a folder; name tars by \{000\.\.041\}"):
        ShardSet(f"{server.url}/*.tar")
    with pytest.raises(RemoteError, match=r"found no index.json in this folder; a tar's URL ends with \.tar"):
        ShardSet(f"{server.url}/gone")
    (tmp_path / "store" / "index.json").write_text('{"shards": []}')
    with pytest.raises(MissingObjectError, match="lists no shard"):
        ShardSet(f"{server.url}/index.json")
    (tmp_path / "store" / "index.json").write_text("<html>")
    with pytest.raises(ValueError, match=r"/index.json: not an index of shards"):
        ShardSet(server.url)


def test_an_index_json_without_checksums(local, server, tmp_path):
    (tmp_path / "store" / "index.json").write_text(json.dumps({"shards": [{"name": "shard-000002.tar"}]}))
    remote = ShardSet(server.url)
    assert list(remote) == [local.read(number) for number in (6, 7, 8)]
    assert remote.shards[0].remote.version.startswith("etag ")


def test_signatures_are_not_told(server):
    with pytest.raises(MissingObjectError) as error:
        ShardSet(f"{server.url}/gone.tar?signature=secret")
    assert "/gone.tar?...: not found" in str(error.value)
    assert "secret" not in str(error.value)


def test_memory_through_fsspec(local, tmp_path):
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for file in (tmp_path / "store").iterdir():
        memory.pipe_file(f"/bucket/{file.name}", file.read_bytes())
    for paths in ("memory://bucket", "memory://bucket/shard-{000000..000003}.tar", "memory://bucket/*.tar"):
        assert list(ShardSet(paths)) == list(local), paths
    memory.rm("/bucket/index.json")
    assert list(ShardSet("memory://bucket", cache=Cache(tmp_path / "fresh"))) == list(local)
    with pytest.raises(MissingObjectError, match=r"memory://bucket/gone\.tar: not found"):
        ShardSet("memory://bucket/gone.tar")
    with pytest.raises(MissingObjectError, match=r"memory://empty: found neither index.json nor \*.tar"):
        ShardSet("memory://empty")
    with pytest.raises(MissingObjectError, match="this pattern finds nothing"):
        ShardSet("memory://bucket/x*.tar")
    remote = ShardSet("memory://bucket", cache=Cache(tmp_path / "other"))
    assert remote.read(3) == local.read(3)
    memory.pipe_file("/bucket/shard-000000.tar", b"changed")
    with pytest.raises(RemoteError, match=r"memory://bucket/shard-000000.tar: changed since it was indexed"):
        remote.read(0)
    memory.store.clear()


def test_file_systems_with_other_places_of_arguments(local, tmp_path, monkeypatch):
    """That of s3 has a version where others have the start."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for file in (tmp_path / "store").iterdir():
        memory.pipe_file(f"/bucket/{file.name}", file.read_bytes())
    read = type(memory).cat_file
    monkeypatch.setattr(
        type(memory), "cat_file", lambda own, path, version_id=None, start=None, end=None: read(own, path, start, end)
    )
    monkeypatch.setattr(objects_module, "FSSPEC_BLOCK", 1000)
    assert list(ShardSet("memory://bucket")) == list(local)
    memory.store.clear()


def test_schemes_that_need_more(monkeypatch):
    with pytest.raises(RemoteError, match=r"nosuch://bucket/index.json: .*expected http\(s\)://, s3://, gs://"):
        ShardSet("nosuch://bucket")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(RemoteError, match=r"s3://bucket/index.json: Install s3fs.*pip install 'interlingua\[remote\]'"):
        ShardSet("s3://bucket/a.tar")


def test_command_line(local, server, capsys):
    assert main(["check", server.url, "--no-decode"]) == 0
    assert "fit: no faults" in capsys.readouterr().out
    assert main(["show", f"{server.url}/shard-000001.tar", "-n", "1"]) == 0
    assert "Hund 3" in capsys.readouterr().out
    assert main(["index", server.url]) == 0
    assert main(["index", f"{server.url}/gone-{{0..3}}.tar"]) == 2
    assert f"interlingua shards index: {server.url}/gone-0.tar: not found (HTTP 404)" in capsys.readouterr().err
    assert check_shards(server.url, decode=False).samples == COUNT
