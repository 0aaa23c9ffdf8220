"""Fetching whole, once, in parts where it breaks off, and keeping no more than is allowed."""

import hashlib
import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loopback import serve

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import ShardSet, ShardWriter
from interlingua.datamodules.shards import objects as objects_module
from interlingua.datamodules.shards.cache import Cache
from interlingua.datamodules.shards.locks import locked
from interlingua.datamodules.shards.objects import RemoteError
from interlingua.datamodules.shards.remote import RemoteTar, describe

SIZE = 3_000_000


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(objects_module, "FIRST_WAIT", 0.002)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server(tmp_path):
    """Serves a.tar, which is just bytes: what is fetched is not looked into here."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "a.tar").write_bytes(content_of(0))
    with serve(tmp_path / "store") as server:
        yield server


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def content_of(number, size=SIZE):
    return hashlib.shake_128(bytes([number])).digest(size)


def find(server, name="a.tar", sha256=False):
    """A tar as it is found at the start of a run."""
    url = f"{server.url}/{name}"
    if not sha256:
        return describe([RemoteTar(url)])[0]
    content = (server.folder / name).read_bytes()
    return RemoteTar(url, len(content), sha256=hashlib.sha256(content).hexdigest())


def names(cache):
    """Files of a cache, without locks."""
    return sorted(path.name for path in Path(cache.folder, "tars").rglob("*") if path.is_file() and path.name != "lock")


def fetch(cache, tar):
    cache.fetch(tar)
    return cache.place(tar).read_bytes()


@pytest.mark.parametrize("sha256", [False, True])
def test_a_broken_download_goes_on_where_it_broke_off(server, cache, sha256):
    tar = find(server, sha256=sha256)
    server.cut_after["a.tar"], server.times["a.tar"] = 1_200_000, 2
    server.forget()
    assert fetch(cache, tar) == content_of(0)
    assert server.parts["a.tar"] == ["bytes=1200000-", "bytes=2400000-"]
    assert server.sent["a.tar"] == SIZE
    assert names(cache) == ["a.tar"]


def test_it_goes_on_as_long_as_something_comes(server, cache):
    """More breaks than tries: each brings some more."""
    tar = find(server)
    server.cut_after["a.tar"] = 300_000
    assert fetch(cache, tar) == content_of(0)
    assert server.asked["a.tar"] == 1 + 10


@pytest.mark.parametrize("lacking", ["ranges", "etags", "validators"])
def test_servers_that_can_do_less(server, cache, lacking):
    """Without ranges it begins anew; without ETags, the time of change tells; without either, nothing is put together."""
    server.ranges = lacking != "ranges"
    server.etags = lacking == "ranges"
    server.dates = lacking != "validators"
    tar = find(server)
    assert tar.size == SIZE
    server.cut_after["a.tar"], server.times["a.tar"] = 1_200_000, 1
    server.forget()
    assert fetch(cache, tar) == content_of(0)
    assert server.parts.get("a.tar", []) == (["bytes=1200000-"] if lacking == "etags" else [])
    assert server.sent["a.tar"] == (SIZE if lacking == "etags" else SIZE + 1_200_000)


def test_breaking_off_for_ever_is_an_error(server, cache):
    tar = find(server)
    server.ranges = False
    server.cut_after["a.tar"] = 100_000
    with pytest.raises(RemoteError, match=r"/a.tar: cannot be read: broke off after 100000 of 3000000 bytes \(\d tries\)"):
        cache.fetch(tar)
    assert names(cache) == [f"a.tar.{SIZE}.partial"]
    server.cut_after.clear()
    assert fetch(cache, tar) == content_of(0)


def test_slow_first_bytes(server, cache, monkeypatch):
    tar = find(server)
    server.delay["a.tar"], server.times["a.tar"] = 0.5, 1
    assert fetch(cache, tar) == content_of(0)
    shutil.rmtree(cache.folder)
    monkeypatch.setattr(objects_module, "TIMEOUT", 0.2)
    server.times["a.tar"] = 1
    server.forget()
    assert fetch(cache, tar) == content_of(0)
    assert server.asked["a.tar"] == 2
    shutil.rmtree(cache.folder)
    monkeypatch.setattr(objects_module, "TRIES", 2)
    server.times["a.tar"] = 2
    with pytest.raises(RemoteError, match=r"/a.tar: cannot be read: timed out \(2 tries\)"):
        cache.fetch(tar)
    assert names(cache) == [], "nothing came, nothing is kept, no room is reserved"


@pytest.mark.parametrize("status", [500, 503, 429])
def test_overload_is_waited_out(server, cache, status, caplog):
    tar = find(server)
    server.status["a.tar"], server.times["a.tar"] = status, 3
    with caplog.at_level(logging.WARNING):
        assert fetch(cache, tar) == content_of(0)
    assert caplog.text.count(f"/a.tar: HTTP {status}; trying again in") == 3


def test_a_server_may_say_how_long_to_wait(server, monkeypatch):
    pauses = []
    monkeypatch.setattr(objects_module.time, "sleep", pauses.append)
    server.retry_after = "7"
    server.status["a.tar"], server.times["a.tar"] = 503, 2
    assert find(server).size == SIZE
    assert pauses.count(7.0) == 2


def test_an_index_json_of_another_size(server, cache):
    tar = find(server, sha256=True)
    (server.folder / "a.tar").write_bytes(content_of(0, 1000))
    with pytest.raises(RemoteError, match=r"/a.tar: found 1000 bytes, but its index.json says 3000000; upload"):
        cache.fetch(tar)


@pytest.mark.parametrize("size", [SIZE, SIZE - 5, SIZE + 5])
def test_an_object_that_changed_since_it_was_found_is_an_error(server, cache, size):
    tar = find(server)
    (server.folder / "a.tar").write_bytes(content_of(1, size))
    with pytest.raises(RemoteError, match=r"/a.tar: changed since it was indexed \(.*, now .*\); start again"):
        cache.fetch(tar)
    assert fetch(cache, find(server)) == content_of(1, size)


def test_an_object_that_changes_between_two_parts_is_not_put_together(server, cache, monkeypatch):
    """The half that is there stays out of the file, whichever way the change is found out."""
    for sha256 in (False, True):
        (server.folder / "a.tar").write_bytes(content_of(0))
        tar = find(server, sha256=sha256)
        server.cut_after["a.tar"], server.times["a.tar"] = 1_000_000, 1
        pause = objects_module.Patience.wait

        def change(patience, trouble, pause=pause):
            (server.folder / "a.tar").write_bytes(content_of(2))
            pause(patience, trouble)

        monkeypatch.setattr(objects_module.Patience, "wait", change)
        with pytest.raises(RemoteError, match="checksum" if sha256 else "changed since it was indexed"):
            cache.fetch(tar)
        monkeypatch.setattr(objects_module.Patience, "wait", pause)


def test_a_checksum_that_does_not_fit_is_an_error(server, cache):
    tar = find(server, sha256=True)
    (server.folder / "a.tar").write_bytes(content_of(3))
    with pytest.raises(RemoteError, match=r"/a.tar: checksum \(SHA-256\) \w{12}\.\.\., but its index\.json says"):
        cache.fetch(tar)
    assert names(cache) == []
    assert server.asked["a.tar"] == 1


def test_a_rotten_beginning_of_another_process_is_thrown_away(server, cache):
    """What a killed process left is gone on with; if the checksum then fails, all is fetched anew."""
    tar = find(server, sha256=True)
    partial = cache.place(tar).with_name(f"a.tar.{SIZE}.partial")
    partial.parent.mkdir(parents=True)
    partial.write_bytes(content_of(0)[:1000])
    assert fetch(cache, tar) == content_of(0)
    assert server.parts["a.tar"] == ["bytes=1000-"]
    shutil.rmtree(cache.folder)
    partial.parent.mkdir(parents=True)
    partial.write_bytes(bytes(SIZE))
    assert fetch(cache, tar) == content_of(0)


def test_a_cached_file_that_was_cut_is_fetched_anew(server, cache):
    tar = find(server)
    cache.fetch(tar)
    os.truncate(cache.place(tar), 1000)
    assert fetch(cache, tar) == content_of(0)


def fetch_all(cache, tars):
    for tar in tars:
        cache.fetch(tar)


def test_processes_fetch_each_shard_once(server, cache):
    for number in range(4):
        (server.folder / f"{number}.tar").write_bytes(content_of(number, 500_000))
    tars = [find(server, f"{number}.tar") for number in range(4)]
    server.forget()
    server.latency = 0.05
    processes = [multiprocessing.get_context("fork").Process(target=fetch_all, args=(cache, tars)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert server.asked == {f"{number}.tar": 1 for number in range(4)}
    assert names(cache) == [f"{number}.tar" for number in range(4)]


def test_a_killed_process_leaves_no_lock_and_no_poison(server, cache):
    tar = find(server)
    code = f"""
import time
from interlingua.datamodules.shards import cache, objects
from interlingua.datamodules.shards.remote import RemoteTar
real = objects._http_blocks
def slow(response):
    yield next(real(response))
    print("on its way", flush=True)
    time.sleep(60)
objects._http_blocks = slow
cache.Cache({str(cache.folder)!r}).fetch(RemoteTar{tuple(tar)!r})
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"on its way\n"
        with locked(cache.place(tar).with_name("lock"), wait=False) as held:
            assert not held
        process.send_signal(signal.SIGKILL)
    server.forget()
    assert fetch(cache, tar) == content_of(0)
    assert server.asked["a.tar"] == 1
    assert names(cache) == ["a.tar"]


def test_a_fork_does_not_inherit_locks(tmp_path):
    with locked(tmp_path / "lock"):
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(0)
    try:
        with locked(tmp_path / "lock", wait=False) as held:
            assert held
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_the_shards_unused_for_longest_make_room(server, cache):
    for number in range(4):
        (server.folder / f"{number}.tar").write_bytes(content_of(number, 1_000_000))
    tars = [find(server, f"{number}.tar") for number in range(4)]
    small = Cache(cache.folder, 0.0031)
    for tar in tars[:3]:
        small.fetch(tar)
        time.sleep(0.01)
    assert names(small) == ["0.tar", "1.tar", "2.tar"]
    small.fetch(tars[0])
    small.fetch(tars[3])
    assert names(small) == ["0.tar", "2.tar", "3.tar"]
    assert len(list(Path(cache.folder, "tars").iterdir())) == 3
    assert fetch(small, tars[1]) == content_of(1, 1_000_000)
    assert names(small) == ["0.tar", "1.tar", "3.tar"]
    Path(cache.folder, "bytes").write_text("lost")
    small.fetch(tars[2])
    assert names(small) == ["1.tar", "2.tar", "3.tar"]


def test_what_is_in_use_stays(server, cache, caplog):
    for number in range(3):
        (server.folder / f"{number}.tar").write_bytes(content_of(number, 1_000_000))
    tars = [find(server, f"{number}.tar") for number in range(3)]
    small = Cache(cache.folder, 0.0021)
    opened = [small.open(tar) for tar in tars[:2]]
    with caplog.at_level(logging.WARNING):
        small.fetch(tars[2])
    assert "shards in use at once need 0.003 GB, more than its limit of 0.0021" in caplog.text
    assert names(small) == ["0.tar", "1.tar", "2.tar"]
    os.close(opened[0])
    (server.folder / "3.tar").write_bytes(content_of(3, 1_000_000))
    small.fetch(find(server, "3.tar"))
    assert names(small) == ["1.tar", "3.tar"]
    os.close(opened[1])


def test_a_cache_too_small_for_a_shard(server, cache):
    with pytest.raises(ValueError, match=r"/a.tar has 0.003 GB, but the cache .* is limited to 0.002; allow more gigabytes"):
        Cache(cache.folder, 0.002).fetch(find(server))
    with pytest.raises(ValueError, match=r"cache of 0\.0 gigabytes: give more than 0"):
        Cache(cache.folder, 0.0)


def test_a_folder_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        Cache(tmp_path / "file").fetch(find(server))


@pytest.fixture
def shards(tmp_path):
    """A writer's folder of six shards of two samples, served, and opened with a cache that holds three."""
    with ShardWriter(tmp_path / "six", samples_per_shard=2) as writer:
        for number in range(12):
            writer.write(f"{number:04d}", [Caption("en", f"dog {number}")], image=b"\x89PNG" + content_of(number, 100_000))
    local = ShardSet(str(tmp_path / "six"))
    with serve(tmp_path / "six") as server:
        yield local, ShardSet(server.url, cache=Cache(tmp_path / "cache", 3.2 * int(local.bytes[0]) / 1e9)), server


def test_a_set_larger_than_its_cache_is_read_whole(shards, caplog):
    local, remote, server = shards
    for _ in range(2):
        assert list(remote) == list(local)
        assert len(names(remote.cache)) == 3
    assert {count for name, count in server.asked.items() if name.endswith(".tar")} == {2}, "each once an epoch"
    assert [remote.read(number) for number in range(11, -1, -1)] == list(local)[::-1]
    assert len(remote._open.descriptors) == 1, "no more than half the cache is held open"
    assert "in use at once" not in caplog.text


def test_prefetching(shards):
    local, remote, server = shards
    remote.prefetch([2, 1, 5])
    deadline = time.monotonic() + 10
    while not names(remote.cache) and time.monotonic() < deadline:
        time.sleep(0.01)
    remote._open._fetcher.join(10)
    assert names(remote.cache) == ["shard-000002.tar"], "half the cache is fetched ahead, no more"
    server.forget()
    assert remote.read(4) == local.read(4)
    assert sum(server.asked.values()) == 0
    server.status["shard-000003.tar"] = 404
    remote.prefetch([3])
    remote._open._fetcher.join(10)
    with pytest.raises(RemoteError, match=r"shard-000003.tar: not found"):
        remote.read(6)
    local.prefetch([0])
    assert local._open._fetcher is None


def test_prefetching_does_not_keep_a_process(shards):
    _, remote, server = shards
    server.delay["shard-000000.tar"] = 20
    code = f"""
from interlingua.datamodules.shards import ShardSet
from interlingua.datamodules.shards.cache import Cache
shards = ShardSet({server.url!r}, cache=Cache({str(remote.cache.folder)!r}))
shards.prefetch([0])
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=15)
