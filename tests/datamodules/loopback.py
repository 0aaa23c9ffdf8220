"""A real HTTP server on this machine whose faults can be chosen, and which counts what is asked of it."""

import email.utils
import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit


class Loopback(ThreadingHTTPServer):
    """Serves a folder.

    Attributes:
        url: Of the folder.
        ranges, etags, dates: What the server is able to.
        status: Answers with this status, by file name; as often as `times` says, else always.
        cut_after: Bytes of a body after which it breaks off, by file name; as often as `times` says, else always.
        delay: Seconds before an answer. latency: the same, of all answers, in which nothing fails.
        retry_after: How long a faulty answer asks to wait. moved: Where else a file is.
        asked: How often each file was asked for. sent: Bytes of bodies, by file name. parts: Ranges asked for, by file name.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.url = folder, f"http://127.0.0.1:{self.server_port}"
        self.ranges = self.etags = self.dates = True
        self.status: dict[str, int] = {}
        self.cut_after: dict[str, int] = {}
        self.times: dict[str, int] = {}
        self.delay: dict[str, float] = {}
        self.latency, self.retry_after = 0.0, ""
        self.moved: dict[str, str] = {}
        self.asked, self.sent, self.parts = Counter[str](), Counter[str](), dict[str, list[str]]()

    def due(self, name: str) -> bool:
        """Whether a fault that was chosen for a file is to be shown once more."""
        left = self.times.get(name, 1)
        if name in self.times:
            self.times[name] = left - 1
        return left > 0

    def forget(self) -> None:
        """Count from nothing."""
        self.asked.clear()
        self.sent.clear()
        self.parts.clear()

    def handle_error(self, request, client_address) -> None:
        """Clients may hang up."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Loopback

    def do_GET(self) -> None:
        server, file = self.server, self.server.folder / unquote(urlsplit(self.path).path).lstrip("/")
        name = file.name
        server.asked[name] += 1
        time.sleep(server.latency)
        if name in server.delay and server.due(name):
            time.sleep(server.delay[name])
        if name in server.status and server.due(name):
            self.send_error(server.status[name])
        elif name in server.moved:
            self.send_response(302)
            self.send_header("Location", server.moved[name])
            self.end_headers()
        elif not file.is_file():
            self.send_error(404)
        else:
            self._send(file, file.read_bytes())

    def _send(self, file: Path, content: bytes) -> None:
        server, whole, tag = self.server, content, f'"{hashlib.md5(content).hexdigest()}"'
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        changed = email.utils.formatdate(file.stat().st_mtime, usegmt=True)
        if part and server.ranges and self.headers.get("If-Range", tag) in (tag, changed):
            server.parts.setdefault(file.name, []).append(self.headers["Range"])
            first, last = int(part[1]), min(int(part[2] or len(whole)), len(whole) - 1)
            if first >= len(whole):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(whole)}")
                content = b""
            else:
                content = whole[first : last + 1]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(whole)}")
        else:
            self.send_response(200)
        if server.etags:
            self.send_header("ETag", tag)
        if server.dates:
            self.send_header("Last-Modified", changed)
        self.send_header("Content-Length", str(len(content)))
        if file.name in server.cut_after and len(content) > 1 and server.due(file.name):
            content = content[: server.cut_after[file.name]]
        server.sent[file.name] += len(content)
        self.end_headers()
        self.wfile.write(content)

    def end_headers(self) -> None:
        """As ever, with what a faulty answer asks for."""
        if self.server.retry_after:
            self.send_header("Retry-After", self.server.retry_after)
        super().end_headers()

    def log_message(self, *arguments) -> None:
        """In silence."""


@contextmanager
def serve(folder: Path) -> Iterator[Loopback]:
    """Serve a folder while in the context."""
    with Loopback(folder) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
