"""Reading a set that is larger than its cache, and fetching ahead of reading."""

import subprocess
import sys
import time

import pytest
from loopback import serve
from remote_stores import content_of, names

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import ShardSet, ShardWriter
from interlingua.datamodules.shards.attempts import RemoteError
from interlingua.datamodules.shards.cache import Cache

pytestmark = pytest.mark.usefixtures("quick")


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
