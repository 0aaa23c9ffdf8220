"""Stores that are served on this machine as if they were far away, and shards of real translations."""

import pytest
from loopback import serve
from parallel_text import write_parallel
from remote_stores import write_store

from interlingua.datamodules.shards import ShardSet, attempts
from interlingua.datamodules.shards.cache import Cache


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Tries follow each other at once; the user's own cache and proxy are left out of it."""
    monkeypatch.setattr(attempts, "FIRST_WAIT", 0.002)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def store(tmp_path):
    """What is served; some tests have another of their own."""
    return write_store(tmp_path / "store")


@pytest.fixture
def local(store):
    """The shards of the store, read without a server."""
    return ShardSet(str(store))


@pytest.fixture
def server(store):
    """Serves the store."""
    with serve(store) as server:
        yield server


@pytest.fixture
def cache(tmp_path):
    """An empty cache."""
    return Cache(tmp_path / "cache")


@pytest.fixture(scope="session")
def parallel(data, tmp_path_factory):
    """A folder of shards of real translations."""
    return write_parallel(tmp_path_factory.mktemp("parallel"), data)
