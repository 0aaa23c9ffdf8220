"""Fetching whole, in parts where it breaks off, and never what is put together of two versions."""

import logging
import os
import shutil

import pytest
from remote_stores import SIZE, content_of, fetch, find, names, write_bytes

from interlingua.datamodules.shards import attempts, http_objects
from interlingua.datamodules.shards.attempts import RemoteError

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def store(tmp_path):
    return write_bytes(tmp_path / "store")


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
    monkeypatch.setattr(http_objects, "TIMEOUT", 0.2)
    server.times["a.tar"] = 1
    server.forget()
    assert fetch(cache, tar) == content_of(0)
    assert server.asked["a.tar"] == 2
    shutil.rmtree(cache.folder)
    monkeypatch.setattr(attempts, "TRIES", 2)
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
    monkeypatch.setattr(attempts.time, "sleep", pauses.append)
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
        pause = attempts.Patience.wait

        def change(patience, trouble, pause=pause):
            (server.folder / "a.tar").write_bytes(content_of(2))
            pause(patience, trouble)

        monkeypatch.setattr(attempts.Patience, "wait", change)
        with pytest.raises(RemoteError, match="checksum" if sha256 else "changed since it was indexed"):
            cache.fetch(tar)
        monkeypatch.setattr(attempts.Patience, "wait", pause)


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
