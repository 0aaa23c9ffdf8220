"""Shards in stores that fsspec reads, by the one that lives in memory."""

import sys

import fsspec
import pytest

from interlingua.datamodules.shards import ShardSet, fsspec_objects
from interlingua.datamodules.shards.attempts import MissingObjectError, RemoteError
from interlingua.datamodules.shards.cache import Cache

pytestmark = pytest.mark.usefixtures("quick")


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
    monkeypatch.setattr(fsspec_objects, "BLOCK", 1000)
    assert list(ShardSet("memory://bucket")) == list(local)
    memory.store.clear()


def test_schemes_that_need_more(monkeypatch):
    with pytest.raises(RemoteError, match=r"nosuch://bucket/index.json: .*expected http\(s\)://, s3://, gs://"):
        ShardSet("nosuch://bucket")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(RemoteError, match=r"s3://bucket/index.json: Install s3fs.*pip install 'interlingua\[remote\]'"):
        ShardSet("s3://bucket/a.tar")
