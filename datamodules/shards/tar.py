"""Where the members of a tar stand, in one pass over its headers, and what is wrong with it.

`tarfile` stops at the first fault without a word, or raises; here what stands behind a fault is still found. Reads the
formats that people have: ustar, GNU long names, PAX names and sizes, base-256 sizes; joined tars (`cat a.tar b.tar`).
"""

import os
from typing import NamedTuple

BLOCK = 512
GZIP = b"\x1f\x8b"
_WINDOW = 1 << 15  # Small members are read with their headers; large ones are stepped over.


class Member(NamedTuple):
    """One regular file in a tar."""

    name: str
    offset: int
    """Byte at which its content starts."""
    size: int
    """Bytes of its content."""


class Gap(NamedTuple):
    """A place at which the tar is broken."""

    kind: str
    detail: str
    after: int
    """Number of whole members before it."""
    name: str = ""
    """Name of the member that it cuts, where that is known."""


class Window:
    """Positional reads of an open file through a small buffer."""

    def __init__(self, descriptor: int):
        self.descriptor, self.start, self.content = descriptor, 0, b""

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes at `offset`; fewer at the end of the file."""
        if not self.start <= offset <= offset + size <= self.start + len(self.content):
            self.start, self.content = offset, read_at(self.descriptor, max(size, _WINDOW), offset)
        return self.content[offset - self.start : offset - self.start + size]


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """`os.pread` that comes back short only at the end of the file."""
    content = os.pread(descriptor, size, offset)
    while 0 < len(content) < size:
        more = os.pread(descriptor, size - len(content), offset + len(content))
        if not more:
            break
        content += more
    return content


def scan_tar(window: Window, length: int) -> tuple[list[Member], list[Gap]]:
    """All whole members of a tar of `length` bytes, in order, and its broken places (none in a sound tar)."""
    members: list[Member] = []
    gaps: list[Gap] = []
    offset, ended, lost = 0, False, False
    override: dict[str, str] = {}  # name and size announced by a GNU or PAX header for the member after it
    while offset + BLOCK <= length:
        header = window.read(offset, BLOCK)
        if header.count(0) == BLOCK:
            offset, ended = offset + BLOCK, True
            continue
        parsed = _parse(header)
        if parsed is None:
            if not lost:
                gaps.append(_describe(header, offset, len(members)))
            offset, lost, override = offset + BLOCK, True, {}
            continue
        lost = ended = False
        name, size, kind = parsed
        name, size = override.get("path", name), int(override.get("size", size))
        start, offset = offset + BLOCK, offset + BLOCK + -(-size // BLOCK) * BLOCK
        if start + size > length:
            detail = f"ends at byte {length}, inside {name}, which needs {start + size}"
            gaps.append(Gap("truncated tar", detail, len(members), name if kind in b"0\x007" else ""))
            return members, gaps
        if kind in b"KLx":
            content = window.read(start, size)
            if kind != b"K":  # A long link target: nothing of the member after it.
                override |= {"path": _text(content)} if kind == b"L" else _parse_pax(content)
            continue
        if kind in b"0\x007":
            members.append(Member(name, start, size))
        override = {}
    if 2 <= length < BLOCK and window.read(0, 2) == GZIP:
        gaps.append(_describe(GZIP, 0, 0))
    elif not ended and not lost:
        what = "truncated tar" if length else "empty file"
        gaps.append(Gap(what, f"ends at byte {length} without an end-of-archive mark", len(members)))
    return members, gaps


def _parse(header: bytes) -> tuple[str, int, bytes] | None:
    """Name, size and type of a header block; None where its checksum is wrong."""
    try:
        checksum = int(header[148:156].strip(b" \0") or b"0", 8)
        if checksum != sum(header) - sum(header[148:156]) + 8 * 32:
            return None
        field = header[124:136]
        size = int.from_bytes(field[1:], "big") if field[0] & 0x80 else int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        return None
    if size < 0:
        return None
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and header[345]:
        name = f"{_text(header[345:500])}/{name}"
    return name, size, header[156:157]


def _parse_pax(content: bytes) -> dict[str, str]:
    """`path` and `size` of a PAX header: records `LENGTH KEY=VALUE\\n`."""
    found = {}
    while content:
        digits, blank, _ = content.partition(b" ")
        if not blank or not digits.isdigit() or not 0 < int(digits) <= len(content):
            break
        key, _, value = content[len(digits) + 1 : int(digits) - 1].partition(b"=")
        if key == b"path" or (key == b"size" and value.isdigit()):
            found[key.decode()] = value.decode("utf-8", "surrogateescape")
        content = content[int(digits) :]
    return found


def _describe(header: bytes, offset: int, after: int) -> Gap:
    if offset:
        return Gap("corrupt header", f"no tar header at byte {offset}", after)
    if header[:2] == GZIP:
        return Gap("compressed tar", "found gzip; random access needs a plain tar: gunzip it", after)
    return Gap("not a tar", f"starts with {header[:16]!r}", after)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
