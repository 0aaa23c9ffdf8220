"""The index of a shard: where each sample's members are, and what each text is, so that nothing is read to choose.

An index is one file beside the tar (`NAME.tar.index`, or `NAME.tar.index-MAP` under a declared field map), or in a cache
folder where the store is read-only. It is rebuilt when the tar's size or time of change differ. Layout: a mark, the
length of the head, the head (JSON), then the arrays, aligned to 64 bytes so that they can be memory-mapped:

    first_member [S+1], extension [M], offset [M], size [M]   members of sample s: first_member[s] to first_member[s+1]
    key_start [S+1], key_bytes                                  keys, UTF-8
    item [S], image [S], document [S]                           identity; whether there is a picture, and texts in order
    first_text [S+1], language [T], role [T], text_size [T]     texts, in reading order, sizes in UTF-8 bytes
"""

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...modalities.batch import Fault
from ..sample import Alignment, BadSampleError, Caption
from .fields import FieldMap, is_blank, parse_json, read_item, read_texts, split_name
from .relations import read_alignments, read_document
from .tar import Gap, Member, Window, scan_tar

TYPES = {
    "first_member": "<u4",
    "extension": "<u2",
    "offset": "<i8",
    "size": "<i8",
    "key_start": "<u4",
    "key_bytes": "|u1",
    "item": "<i8",
    "image": "|b1",
    "document": "|b1",
    "first_text": "<u4",
    "language": "<u2",
    "role": "<u2",
    "text_size": "<u4",
}


class Index(NamedTuple):
    """What is known of one shard."""

    head: dict[str, Any]
    """`samples`; `languages`, `roles`, `extensions` (lists that the arrays count into); `faults`; `fields` (samples that
    have a member, by extension), `unmatched` (undeclared members, by extension), `blank` (blank texts left out); and
    what the index was made from."""
    arrays: Mapping[str, np.ndarray]

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Samples that are absent from the numbering, and why."""
        return tuple(Fault(kind, self.head["shard"], key, detail) for kind, key, detail in self.head["faults"])


class _Group:
    """Members that stand together under one key."""

    def __init__(self, key: str, first: int):
        self.key, self.first = key, first
        self.members: dict[str, Member] = {}
        self.fault: tuple[str, str] | None = None


def build_index(tar: Path, fields: FieldMap) -> Index:
    """Scan a tar: one pass over its headers, JSON and text members.

    Args:
        tar: A local file.
        fields: What its members are.
    """
    status = os.stat(tar)
    descriptor = os.open(tar, os.O_RDONLY)
    try:
        window = Window(descriptor)
        members, gaps = scan_tar(window, status.st_size)
        groups, unnamed = _group(members)
        faults = _judge(groups, gaps)
        table = _Table(tar.name, fields)
        for group in groups:
            if group.fault is None:
                try:
                    table.add(group, window)
                except BadSampleError as error:
                    group.fault = (error.kind, error.detail)
            if group.fault is not None:
                faults.append((group.fault[0], group.key, group.fault[1]))
        table.unmatched.update(unnamed)
    finally:
        os.close(descriptor)
    return table.finish(faults, identify(tar, fields))


def identify(tar: Path, fields: FieldMap) -> dict[str, Any]:
    """What an index is valid for."""
    status = os.stat(tar)
    return {"shard": tar.name, "bytes": status.st_size, "changed": status.st_mtime_ns, "map": fields.fingerprint}


def _group(members: list[Member]) -> tuple[list[_Group], Counter[str]]:
    """Neighbours of one key, with duplicate and scattered members marked; and members without key or extension."""
    groups: list[_Group] = []
    unnamed: Counter[str] = Counter()
    seen: dict[str, _Group] = {}
    for number, member in enumerate(members):
        key, extension = split_name(member.name) or ("", "")
        if not extension:
            unnamed[""] += 1
            continue
        if not groups or groups[-1].key != key:
            groups.append(_Group(key, number))
            if key in seen:
                detail = "members of this key stand apart in the tar; write it anew, sorted by name"
                seen[key].fault = groups[-1].fault = ("scattered members", detail)
            seen[key] = groups[-1]
        if extension in groups[-1].members:
            groups[-1].fault = ("duplicate member", f"{extension} stands twice under this key")
        groups[-1].members[extension] = member
    return groups, unnamed


def _judge(groups: list[_Group], gaps: list[Gap]) -> list[tuple[str, str, str]]:
    """One fault per broken place and sample it costs; those samples are taken out of `groups`.

    A group beside a gap may lack members that nobody can see any more. It is kept if some group that touches no gap has
    the same set of extensions, unless the gap is known to cut it.
    """
    if not gaps:
        return []
    edges: list[tuple[Gap, _Group, bool]] = []
    for gap in gaps:
        before = [group for group in groups if group.first < gap.after][-1:]
        behind = [group for group in groups if group.first >= gap.after][:1]
        cut = (split_name(gap.name) or ("",))[0]
        edges += [(gap, group, group.key == cut) for group in (*before, *behind) if not cut or group.key == cut]
    touched = {id(group) for _, group, _ in edges}
    whole = {frozenset(group.members) for group in groups if id(group) not in touched}
    lost = [(gap, group) for gap, group, cut in edges if cut or frozenset(group.members) not in whole]
    faults = [(gap.kind, group.key, gap.detail) for gap, group in lost]
    for gap in gaps:
        if all(gap is not other for other, _ in lost):
            faults.append((gap.kind, (split_name(gap.name) or ("",))[0], gap.detail))
    gone = {id(group) for _, group in lost}
    groups[:] = [group for group in groups if id(group) not in gone]
    return faults


class _Table:
    """The arrays of an index while they grow."""

    def __init__(self, shard: str, fields: FieldMap):
        self.shard, self.fields = shard, fields
        self.columns: dict[str, list[int]] = {name: [] for name in TYPES if name != "key_bytes"}
        self.keys = bytearray()
        self.words: dict[str, dict[str, int]] = {"languages": {}, "roles": {}, "extensions": {}}
        self.present: Counter[str] = Counter()
        self.unmatched: Counter[str] = Counter()
        self.blank = 0

    def add(self, group: _Group, window: Window) -> None:
        """Take in one sample.

        Raises:
            BadSampleError: It cannot be used; the table is as before but for its counts.
        """
        fields = self.fields
        known = {name: member for name, member in group.members.items() if name in fields.known}
        self.unmatched.update(name for name in group.members if name not in known and name not in fields.ignore)
        if not known:
            found = ", ".join(group.members)
            raise BadSampleError("no known member", f"found {found}; the extension starts at the name's first dot")
        wanted = {source.member for source in fields.texts} | {"json"}
        contents = {name: window.read(member.offset, member.size) for name, member in known.items() if name in wanted}
        captions, blank, item, document, _ = understand(contents, fields, self.shard, group.key)
        image = any(name in known for name in fields.image)
        self.blank += blank
        _refuse_empty(captions, blank, image, known, fields)
        try:
            sizes = [len(caption.text.encode()) for caption in captions]
        except UnicodeEncodeError as error:
            raise BadSampleError("broken text", f"half of a surrogate pair in {error.object[:40]!r}") from None
        self._append(group.key, item, image, known, captions)
        self.columns["document"].append(document)
        self.columns["text_size"] += sizes

    def _append(self, key: str, item: int, image: bool, known: Mapping[str, Member], captions: list[Caption]) -> None:
        columns = self.columns
        columns["first_member"].append(len(columns["offset"]))
        columns["first_text"].append(len(columns["language"]))
        columns["key_start"].append(len(self.keys))
        self.keys += key.encode("utf-8", "surrogateescape")
        columns["item"].append(item)
        columns["image"].append(image)
        columns["offset"] += [member.offset for member in known.values()]
        columns["size"] += [member.size for member in known.values()]
        self.present.update(known.keys())
        for kind, column, found in (
            ("extensions", "extension", list(known)),
            ("languages", "language", [caption.language for caption in captions]),
            ("roles", "role", [caption.role for caption in captions]),
        ):
            words = self.words[kind]
            columns[column] += [words.setdefault(word, len(words)) for word in found]

    def finish(self, faults: list[tuple[str, str, str]], identity: dict[str, Any]) -> Index:
        """The index of all that was taken in."""
        columns = self.columns
        samples = len(columns["item"])
        for name, end in (("first_member", "offset"), ("first_text", "text_size")):
            columns[name].append(len(columns[end]))
        columns["key_start"].append(len(self.keys))
        arrays = {name: np.array(column, dtype=TYPES[name]) for name, column in columns.items()}
        arrays["key_bytes"] = np.frombuffer(bytes(self.keys), dtype="|u1")
        head = {
            **identity,
            "samples": samples,
            **{kind: list(words) for kind, words in self.words.items()},
            "faults": faults,
            "fields": dict(self.present),
            "unmatched": dict(self.unmatched),
            "blank": self.blank,
        }
        return Index(head, arrays)


class Understood(NamedTuple):
    """What the JSON and text members of a sample say."""

    captions: list[Caption]
    """Texts that are not blank."""
    blank: int
    """How many texts are blank."""
    item: int
    document: bool
    alignments: tuple[Alignment, ...]


def understand(contents: Mapping[str, bytes], fields: FieldMap, shard: str, key: str) -> Understood:
    """Read the JSON and text members of a sample.

    Raises:
        BadSampleError: `broken json`, `broken text`, `broken item`, `broken alignment`.
    """
    records = {name: parse_json(content, name) for name, content in contents.items() if name.endswith("json")}
    texts = read_texts(contents, records, fields)
    captions = [caption for caption in texts if not is_blank(caption.text)]
    record = records.get("json")
    item, document = read_item(record, fields, shard, key), read_document(record, fields)
    return Understood(captions, len(texts) - len(captions), item, document, read_alignments(record, texts, fields))


def _refuse_empty(captions: list[Caption], blank: int, image: bool, known: Mapping, fields: FieldMap) -> None:
    if blank and not captions:
        raise BadSampleError("empty caption", f"all {blank} texts are blank")
    for name, found in (("image", image), ("text", bool(captions))):
        if name in fields.require and not found:
            raise BadSampleError("missing member", f"the field map requires {name}, found {', '.join(known)}")
    if not captions and not image and not any(name in fields.members for name in known):
        raise BadSampleError("empty sample", f"{', '.join(known)} hold no text, picture or other declared member")
