"""What is wrong with remote shards is told in one line that names the URL."""

import pickle
import socket
import ssl
import urllib.error
import urllib.request

import pytest
from torch._utils import ExceptionWrapper

from interlingua.datamodules.shards import ShardSet, attempts, http_objects
from interlingua.datamodules.shards.attempts import DeniedObjectError, MissingObjectError, RemoteError
from interlingua.datamodules.shards.command import main

pytestmark = pytest.mark.usefixtures("quick")


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
    monkeypatch.setattr(attempts, "TRIES", 2)
    remote = ShardSet(server.url)
    server.shutdown()
    server.server_close()
    with pytest.raises(RemoteError, match=rf"{server.url}/shard-000000.tar: cannot be read: no connection .*2 tries"):
        remote.read(0)
    with pytest.raises(RemoteError, match="no connection"):
        ShardSet(server.url)
    with pytest.raises(ValueError, match="not a URL"):
        ShardSet("http://[bad/a.tar")


def test_a_mistyped_port_or_host_is_told_soon(monkeypatch):
    """Where no host ever answered, waiting does not mend it; the full patience is for hosts that did."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    message = rf"/train/index.json: nothing answers at {url[7:]}: no connection .* \(3 tries\); check host and port"
    with pytest.raises(RemoteError, match=message):
        ShardSet(f"{url}/train")
    with pytest.raises(RemoteError, match=r"nothing answers at .* \(3 tries\)"):
        ShardSet(f"{url}/a.tar")

    def unknown(*_, **__):
        raise urllib.error.URLError(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))

    monkeypatch.setattr(urllib.request, "urlopen", unknown)
    with pytest.raises(RemoteError, match=r"nothing answers at no-host: no connection \(Name .*\) \(3 tries\)"):
        ShardSet("http://no-host/train")


@pytest.mark.parametrize("place", ["127.0.0.1:99999", "127.0.0.1:port", "127.0.0.1:0", ""])
def test_what_can_be_no_host_is_not_tried_again(monkeypatch, place):
    monkeypatch.setattr(attempts, "TRIES", 0)
    with pytest.raises(RemoteError, match=r"/index.json: not a URL \(.*\); expected http"):
        ShardSet(f"http://{place}/train")


def test_a_server_that_starts_late_or_hiccups_is_waited_for(server, monkeypatch):
    """Refused connections of a host that answered before, and of one that fetches, are tried as often as other trouble."""
    remote, refusals, plain = ShardSet(server.url), [0] * 6, urllib.request.urlopen

    def refuse(*arguments, **options):
        if refusals:
            refusals.pop()
            raise urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))
        return plain(*arguments, **options)

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    assert len(ShardSet(server.url)) == len(remote)
    monkeypatch.setattr(http_objects, "_reached", set())  # as in a worker that is a process of its own
    refusals.extend([0] * 6)
    assert remote.read(0).key == "0000"
    refusals.extend([0] * 2)
    assert len(ShardSet(server.url)) == len(remote)


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


def test_signatures_are_not_told(server):
    with pytest.raises(MissingObjectError) as error:
        ShardSet(f"{server.url}/gone.tar?signature=secret")
    assert "/gone.tar?...: not found" in str(error.value)
    assert "secret" not in str(error.value)
