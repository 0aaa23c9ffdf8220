"""Fetching once, whoever asks and whoever dies, and keeping no more than is allowed."""

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from remote_stores import content_of, fetch, find, names, write_bytes

from interlingua.datamodules.shards.cache import Cache
from interlingua.datamodules.shards.locks import locked

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def store(tmp_path):
    return write_bytes(tmp_path / "store")


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
from interlingua.datamodules.shards import cache, http_objects
from interlingua.datamodules.shards.remote import RemoteTar
real = http_objects._blocks
def slow(response):
    yield next(real(response))
    print("on its way", flush=True)
    time.sleep(60)
http_objects._blocks = slow
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
