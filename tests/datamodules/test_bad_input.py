"""Input as people have it by mistake: every fault is one line that names its place, and nothing is lost without a word."""

import gzip
import io
import json
import os
import tarfile

import pytest
from PIL import Image
from small_shards import record, write_tar

from interlingua.datamodules.shards import ShardSet
from interlingua.datamodules.shards.command import main
from interlingua.datamodules.shards.writer import ShardWriter


@pytest.fixture
def run(capsys):
    """Status, standard output and standard error of `interlingua shards ...`."""

    def call(*argv):
        try:
            status = main([str(argument) for argument in argv])
        except SystemExit as leaving:
            status = leaving.code
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def write(tmp_path, run):
    """Write shards from one file of the given name and content."""

    def call(name, content, *options):
        source = tmp_path / name
        source.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        kind = name.partition(".")[2].partition(".")[0]
        return run("write", kind, source, tmp_path / "out", *options)

    return call


def refused(answer, *words):
    status, _, error = answer
    assert status == 2
    last = error.splitlines()[-1]
    assert "Traceback" not in error
    assert all(word in last for word in words), last


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "caption,language\ra,en\rb,de\r", ["carriage returns", "tr '\\r'"]),
        ("a.csv", "image;caption\na;b\n", ["line 1", "commas", "';'"]),
        ("a.csv", "image\tcaption\na\tb\n", ["commas", "'\\t'"]),
        ("a.csv", " Caption\na\n", ["rename ' Caption' to caption"]),
        ("a.csv.gz", b"caption\na\n", ["a.csv.gz", "gzip"]),
        ("a.csv.gz", gzip.compress(b"caption\n" + bytes(range(65, 90)) * 40, mtime=0)[:40], ["a.csv.gz", "end-of-stream"]),
        ("a.jsonl", '{"caption": ' + "[" * 100_000 + "]" * 100_000 + "}", ["line 1", "not JSON"]),
        ("a.jsonl", '{"caption": "a"}\n{"caption": "\\ud83d!"}', ["line 2", "surrogate"]),
        ("a.jsonl", '{"caption": "a", "item": {"x": 1}}', ["line 1, field item", '{"x": 1}']),
        ("a.jsonl", '{"caption": "a", "item": true}', ["line 1, field item", "true"]),
        ("a.jsonl", '{"caption": "a", "image": ["a.jpg"]}', ["line 1, field image", "path of a picture"]),
        ("a.jsonl", '{"caption": "a", "image": 0}', ["line 1, field image"]),
        ("a.jsonl", '{"caption": "a", "image": "a\\u0000.jpg"}', ["line 1, field image"]),
        ("a.tsv", "en\tde\ra\tb\r", ["carriage returns"]),
    ],
)
def test_faults_of_a_source_are_named(write, name, content, words):
    refused(write(name, content), *words)


def test_moses_files_of_one_line_are_no_pair(tmp_path, run):
    for code in ("en", "de"):
        (tmp_path / f"a.{code}").write_bytes(b"one\rtwo\r")
    refused(run("write", "moses", tmp_path / "a.en", tmp_path / "a.de", tmp_path / "out"), "a.en", "carriage returns")


def test_a_caption_may_be_a_document(write, tmp_path):
    assert write("a.csv", "caption\n" + "word " * 200_000 + "\n")[0] == 0
    assert len(next(iter(ShardSet(str(tmp_path / "out")))).texts[0].text) == 999_999


def test_a_pair_of_surrogates_is_a_character(write, tmp_path):
    assert write("a.jsonl", '{"caption": "\\ud83d\\ude00 smile"}')[0] == 0
    assert next(iter(ShardSet(str(tmp_path / "out")))).texts[0].text == "😀 smile"


def test_all_fields_with_captions_are_read_and_unknown_ones_counted(write, tmp_path):
    line = {"caption": "a dog", "captions": {"de": "ein Hund"}, "texts": [{"text": "mbwa", "language": "sw"}], "Image": "a.jpg"}
    status, out, error = write("a.jsonl", json.dumps(line))
    assert status == 0
    assert "de 1" in out
    assert "und 2" in out
    assert "skipped: field Image, not read: 1" in error
    assert "skipped: field language of a text, not read: 1" in error


def test_what_cannot_be_seen_is_no_caption(write):
    status, out, error = write("a.jsonl", '{"caption": "\\u200b"}\n{"caption": "\\u0000"}\n{"caption": "a"}')
    assert status == 0
    assert "1 samples" in out
    assert "skipped: blank caption: 2" in error


def test_what_was_skipped_is_told_where_nothing_is_left(write):
    refused(answer := write("a.jsonl", '{"caption": " "}'), "no sample was written")
    assert "skipped: blank caption: 1" in answer[2]


def test_links_are_counted_and_odd_names_refused(tmp_path, run):
    folder, stored = tmp_path / "photos with ünïcode", io.BytesIO()
    Image.new("RGB", (8, 8)).save(stored, "PNG")
    folder.mkdir()
    for name in ("-dash", "a.b"):
        (folder / f"{name}.png").write_bytes(stored.getvalue())
        (folder / f"{name}.txt").write_text("a dog")
    (folder / "loop").symlink_to(".")
    (folder / "self.png").symlink_to("self.png")
    status, out, error = run("write", "folder", folder, tmp_path / "out")
    assert (status, "2 samples" in out) == (0, True)
    assert "link to a folder, or to nothing: 2" in error
    try:
        with open(os.fsencode(folder) + b"/\xff.png", "wb") as file:
            file.write(stored.getvalue())
    except OSError:
        return  # a file system that knows no such names
    (folder / os.fsdecode(b"\xff.txt")).write_text("a dog")
    refused(run("write", "folder", folder, tmp_path / "other"), "the name of the file is not UTF-8")


def test_older_shards_stay_until_new_ones_are_whole(tmp_path, write, run):
    out = tmp_path / "out"
    assert write("a.csv", "caption\nold\n")[0] == 0
    (out / "backup.tar.gz").write_text("not ours")
    (out / "shard-000000.tar.partial").write_text("left by a killed run")
    refused(run("write", "csv", tmp_path / "gone.csv", out, "--force"), "gone.csv")
    refused(write("b.csv", b"caption\nnew\n\xff\n", "--force", "--samples-per-shard", "1"), "line 3")
    assert [sample.texts[0].text for sample in ShardSet(str(out))] == ["old"]
    assert write("c.csv", "caption\nnew\nmore\n", "--force", "--samples-per-shard", "1")[0] == 0
    assert [sample.texts[0].text for sample in ShardSet(str(out))] == ["new", "more"]
    left = {path.name for path in out.iterdir() if not path.name.endswith(".index")}
    assert left == {"backup.tar.gz", "index.json", "shard-000000.tar", "shard-000001.tar"}


@pytest.mark.parametrize("name", ["../outside", "a/b", "", "-x"])
def test_the_name_of_shards_stays_in_their_folder(tmp_path, name):
    with pytest.raises(ValueError, match="first part of a file name"):
        ShardWriter(tmp_path / "out", name)


def test_a_list_given_twice_is_one_list(tmp_path, run):
    for code in ("en", "de"):
        (tmp_path / f"a.{code}").write_text("one\n")
    files = (tmp_path / "a.en", tmp_path / "a.de", tmp_path / "out")
    status, out, _ = run("write", "moses", *files, "--languages", "fr", "--languages", "sw")
    assert (status, "fr 1, sw 1" in out) == (0, True)


def test_misuse_is_one_line(run):
    for argv in ((), ("nosuch",), ("write", "csv"), ("write", "csv", "a", "b", "--language", "english")):
        status, _, error = run(*argv)
        assert (status, len(error.splitlines())) == (2, 1)
        assert "--help" in error


@pytest.mark.parametrize(
    ("member", "kind"),
    [
        (record(("en", "x"), item=True), "broken item"),
        (record(("en", "x"), item=1.5), "broken item"),
        (record(("en", "x"), item={"a": 1}), "broken item"),
        (record(("", "x")), "broken text"),
        (record(("\n\x1b[31m", "x")), "broken text"),
        (b'{"texts": [{"lang": "\\ud800", "text": "x"}]}', "broken text"),
        (b'{"texts": [{"lang": "en", "text": "x", "role": "\\ud800"}]}', "broken text"),
    ],
)
def test_fields_that_cannot_be_meant_are_faults(tmp_path, member, kind):
    shards = ShardSet(write_tar(tmp_path / "a.tar", {"a.json": member, "b.json": record(("en", "y"))}))
    assert [fault.kind for fault in shards.faults] == [kind]
    assert len(shards) == 1


def test_a_damaged_index_is_built_anew(tmp_path):
    tar = write_tar(tmp_path / "a.tar", {f"{n}.json": record(("en", f"name {n}")) for n in range(5)})
    expected = [sample.key for sample in ShardSet(tar)]
    index = tmp_path / "a.tar.index"
    whole = index.read_bytes()
    mark = whole.index(b"\n") + 1
    damaged = [whole[:50], whole[:100], whole[:-100], b"", whole.replace(b'"layout"', b'"layxxt"')]
    damaged += [whole[:mark] + bytes([255] * 7 + [last]) + whole[mark + 8 :] for last in (127, 255)]
    damaged += [whole[:mark] + (4).to_bytes(8, "little") + b"[1] " + whole[mark + 8 :]]
    for content in damaged:
        index.write_bytes(content)
        assert [sample.key for sample in ShardSet(tar)] == expected
        assert index.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"shards": 5}', b'{"shards": [{"raw_data": {}}]}', b"\xff\xfe"])
def test_an_index_json_of_something_else_is_named(tmp_path, run, content):
    write_tar(tmp_path / "a.tar", {"a.json": record(("en", "x"))})
    (tmp_path / "index.json").write_bytes(content)
    refused(run("check", tmp_path), "index.json", "remove it")


def test_paths_that_are_no_files_are_refused(tmp_path, run, monkeypatch):
    tar = write_tar(tmp_path / "a.tar", {"a.json": record(("en", "x"))})
    os.mkfifo(tmp_path / "pipe.tar")
    refused(run("check", tmp_path / "pipe.tar"), "pipe.tar", "save it as one")
    refused(run("check", ""), "empty path")
    refused(run("check", "{a..b"), "{a..b", "pattern looks like")
    refused(run("check", tar, tmp_path / "." / ".." / tmp_path.name / "a.tar"), "named twice")


def test_a_small_compressed_tar_is_told_from_a_cut_one(tmp_path):
    (tmp_path / "a.tar").write_bytes(gzip.compress(bytes(10240)))
    assert [fault.kind for fault in ShardSet(str(tmp_path / "a.tar")).faults] == ["compressed tar"]


def test_a_negative_size_is_no_header(tmp_path):
    entry = tarfile.TarInfo("a.json")
    header = bytearray(entry.tobuf())
    header[124:136] = b"-0000002000\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a.tar").write_bytes(bytes(1024) + bytes(header) + bytes(1024))
    assert [fault.kind for fault in ShardSet(str(tmp_path / "a.tar")).faults] == ["corrupt header"]


@pytest.mark.parametrize(
    "content", ["", "[]", "item: no", "item: 5", "image: [5]", "texts: [{member: json, path: 5}]", "a: b: c"]
)
def test_a_field_map_of_the_wrong_kind_is_one_line(tmp_path, run, content):
    (tmp_path / "map.yaml").write_text(content)
    tar = write_tar(tmp_path / "a.tar", {"a.json": record(("en", "x"))})
    refused(answer := run("check", tar, "--map", tmp_path / "map.yaml"), "field map")
    assert len(answer[2].splitlines()) == 1


def test_texts_do_not_command_the_terminal(tmp_path, run):
    tar = write_tar(tmp_path / "a.tar", {"a.json": record(("ar", "\u202eevil\x1b[2J \u0645\u0631\u062d\u0628\u0627 👩‍👧"))})
    out = run("show", tar)[1]
    assert "\\u202eevil\\x1b[2J \u0645\u0631\u062d\u0628\u0627 👩‍👧" in out
