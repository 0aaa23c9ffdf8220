"""A clean copy of damaged shards: nothing good is lost or touched, and training on it is the same bit for bit."""

import hashlib
import io
import json
import tarfile
from collections import Counter

import pytest
from damaged_shards import FOUND_BY_DECODING, FOUND_BY_INDEX, GOOD, MAP, members, write_damaged
from ranks import run_on_ranks
from small_shards import as_rank, equal, name_of, picture, record, write_tar
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.faults import TooManyBadSamplesError
from interlingua.datamodules.shards import ShardSet
from interlingua.datamodules.shards.check import check_shards
from interlingua.datamodules.shards.command import main
from interlingua.datamodules.shards.repair import repair_shards
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.modalities.augmentation import ImageTransform

KEPT = [f"good{number:02d}" for number in range(GOOD)]


@pytest.fixture(scope="module")
def damaged(data, tmp_path_factory):
    return write_damaged(tmp_path_factory.mktemp("damaged") / "00007.tar", data)


def found(faults):
    return {fault.key: fault.kind for fault in faults}


def contents(tar):
    with tarfile.open(tar) as opened:
        return [(member.name, opened.extractfile(member).read()) for member in opened]


def test_check_finds_every_kind_ahead_of_time(damaged, data):
    report = check_shards(damaged, MAP, tokenizer=small_tokenizer(data))
    assert found(report.faults) == FOUND_BY_INDEX | FOUND_BY_DECODING | {"foreign": "unknown language"}
    assert {fault.shard for fault in report.faults} == {"00007.tar"}
    assert report.unknown_languages == {"xx": 1}
    undecoded = found(check_shards(damaged, MAP, decode=False).faults)
    assert undecoded == FOUND_BY_INDEX


def test_the_copy_is_clean_and_has_all_that_is_good(damaged, data, tmp_path):
    done = repair_shards(damaged, tmp_path / "copy", MAP, tokenizer=small_tokenizer(data))
    assert found(done.faults) == FOUND_BY_INDEX | FOUND_BY_DECODING | {"foreign": "unknown language"}
    assert (done.shards, done.samples, done.joined, done.empty) == (1, GOOD, [], [])
    report = check_shards(str(tmp_path / "copy"), MAP, tokenizer=small_tokenizer(data))
    assert report.fit
    assert report.samples == GOOD
    good = [(name, content) for name, content in members(data, True) if name.startswith("good")]
    assert contents(tmp_path / "copy" / "00007.tar") == good  # bytes, order, undeclared members and blank texts
    before, after = ShardSet(damaged, MAP), ShardSet(str(tmp_path / "copy"), MAP)
    items = {before.find(number)[1]: item for number, item in enumerate(before.items.tolist())}
    assert after.items.tolist() == [items[key] for key in KEPT]  # hashed from the names of shard and key
    summary = json.loads((tmp_path / "copy" / "index.json").read_text())
    assert summary["modalities"] == {"image": GOOD, "regions.npz": 1, "text": GOOD}
    assert summary["languages"] == {"de": GOOD, "en": GOOD}
    assert summary["samples"] == summary["shards"][0]["samples"] == GOOD
    assert not [path.name for path in (tmp_path / "copy").iterdir() if path.name.startswith(".")]


def test_joining_keeps_what_is_whole_together(data, tmp_path):
    source = write_damaged(tmp_path / "00007.tar", data)
    done = repair_shards(source, tmp_path / "copy", MAP, join=True)
    assert done.joined == ["00007.tar apart", "00007.tar twice", "00007.tar again"]
    assert not {"apart", "twice", "again"} & found(done.faults).keys()
    copy = ShardSet(str(tmp_path / "copy"), MAP)
    keys = [copy.find(number)[1] for number in range(len(copy))]
    assert len(copy) == len(set(keys)) == GOOD + 4  # three joined, one whose language nobody was asked about
    assert check_shards(str(tmp_path / "copy"), MAP).fit


def test_joining_leaves_out_what_is_not_whole_or_not_equal(data, tmp_path):
    texts = [record(("en", name_of(data, "en", number))) for number in range(6)]
    tar = {
        f"{number}.{part}": texts[number] if part == "json" else picture(number)
        for number in (0, 1)
        for part in ("json", "png")
    }
    path = write_tar(tmp_path / "a.tar", tar)
    with tarfile.open(path, "a") as opened:
        for name, content in (("x.json", texts[2]), ("y.json", texts[3]), ("x.json", texts[4]), ("y.json", texts[3])):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            opened.addfile(entry, io.BytesIO(content))
    done = repair_shards(path, tmp_path / "copy", join=True)
    assert done.samples == 2  # x differs, y lacks the picture that all others have
    assert found(done.faults) == {"x": "scattered members", "y": "scattered members"}


def test_the_source_is_only_read(damaged, data, tmp_path):
    source = tmp_path / "source"
    write_damaged(source / "a.tar", data)
    before = {path.name: hashlib.sha256(path.read_bytes()).digest() for path in source.iterdir()}
    repair_shards(str(source), tmp_path / "copy", MAP)
    assert {path.name: hashlib.sha256(path.read_bytes()).digest() for path in source.iterdir()} == before
    with pytest.raises(ValueError, match="never written to"):
        repair_shards(str(source), source, MAP, force=True)
    (tmp_path / "copy" / "mine.txt").write_text("kept")
    with pytest.raises(FileExistsError, match="--force"):
        repair_shards(str(source), tmp_path / "copy", MAP)
    assert repair_shards(str(source), tmp_path / "copy", MAP, force=True).samples == GOOD + 1
    assert (tmp_path / "copy" / "mine.txt").exists()


def test_nothing_good_is_an_error_and_leaves_nothing(tmp_path):
    source = write_tar(tmp_path / "a.tar", {"a.json": b"{"})
    with pytest.raises(ValueError, match="no sample can be used: broken json 1"):
        repair_shards(source, tmp_path / "copy")
    assert not list((tmp_path / "copy").iterdir())


def test_shards_without_good_samples_and_foreign_layouts(tmp_path, capsys):
    write_tar(tmp_path / "in" / "0.tar", {"a.txt": b" "})
    write_tar(tmp_path / "in" / "1.tar", {"b.txt": b"a dog", "c.txt": b"\xff", "./d/e.txt": b"a cat"})
    (tmp_path / "map.yaml").write_text("texts: [{member: txt, language: en}]\n")
    arguments = [str(tmp_path / "in"), str(tmp_path / "out"), "--map", str(tmp_path / "map.yaml")]
    assert main(["repair", *arguments]) == 0
    out = capsys.readouterr().out
    assert "2 samples in 1 shards" in out
    assert "left out, as no sample is left: 0.tar" in out
    assert "1.tar c: broken text" in out
    assert [name for name, _ in contents(tmp_path / "out" / "1.tar")] == ["b.txt", "./d/e.txt"]
    assert main(["check", *arguments[1:]]) == 0
    write_tar(tmp_path / "more" / "1.tar", {"b.txt": b"a dog"})
    assert main(["repair", str(tmp_path / "more"), *arguments[:1], str(tmp_path / "other"), *arguments[2:]]) == 2
    assert "repair one folder at a time" in capsys.readouterr().err


def open_training(paths, tokenizer, rank=0, world=1, first=0, **options):
    sources = {"pictures": Source(paths, 4, 1, TextChoice(["en"]), image=ImageTransform(8), fields=MAP)}
    opened = as_rank(
        Shards(sources, tokenizer, max_tokens=64, **{"max_bad_share": 0.9, "workers": 0, **options}), rank, world, first
    )
    opened.setup("fit")
    return opened


def train(paths, tokenizer, count, **options):
    return [step for step, _ in zip(open_training(paths, tokenizer, **options).train_dataloader(), range(count), strict=False)]


def test_faults_that_the_index_finds_change_nothing(data, tmp_path):
    """Issue: the run on damaged shards equals, bit for bit, the run on shards without the faults."""
    tokenizer = small_tokenizer(data).path
    source = write_damaged(tmp_path / "00007.tar", data, decoding=False)
    repair_shards(source, tmp_path / "copy", MAP)
    before, after = train(source, tokenizer, 9), train(str(tmp_path / "copy"), tokenizer, 9)
    assert equal(tuple(before), tuple(after))
    drawn = Counter(number for step in before for batch in step.batches for number in batch.sample.tolist())
    assert drawn == dict.fromkeys(drawn, 3)
    assert len(drawn) == GOOD


def holes(paths, tokenizer):
    """Per step of this rank: rows of each micro-batch, samples, and keys of faults; gathered over ranks."""
    import torch.distributed as dist

    steps = train(paths, tokenizer, 6, rank=dist.get_rank(), world=dist.get_world_size())
    own = [
        ([batch.size for batch in s.batches], [f.key for f in s.faults], [n for b in s.batches for n in b.sample.tolist()])
        for s in steps
    ]
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, own)
    return gathered


def test_faults_found_in_decoding_are_counted_holes_on_all_ranks(damaged, data):
    tokenizer = small_tokenizer(data).path
    whole = train(damaged, tokenizer, 6)
    assert {fault.key: fault.kind for step in whole for fault in step.faults} == {"half": "truncated image"}
    for gathered in run_on_ranks(holes, 2, damaged, tokenizer):
        assert all(len(sizes) == 2 for rank in gathered for sizes, *_ in rank)  # a hole is an empty micro-batch, everywhere
        for number, step in enumerate(whole):
            parts = [rank[number] for rank in gathered]
            assert [key for _, keys, _ in parts for key in keys] == [fault.key for fault in step.faults]
            assert [size for sizes, *_ in parts for size in sizes] == [batch.size for batch in step.batches]
            assert [n for *_, samples in parts for n in samples] == [n for b in step.batches for n in b.sample.tolist()]


@pytest.mark.parametrize("workers", [0, 2])
def test_resume_over_holes_is_exact(damaged, data, workers):
    tokenizer = small_tokenizer(data).path
    whole = train(damaged, tokenizer, 10)
    assert sum(len(step.faults) for step in whole) >= 2
    for first in (1, 5, 7):
        assert equal(tuple(whole[first:]), tuple(train(damaged, tokenizer, 10 - first, first=first, workers=workers)))


def test_too_many_bad_samples_stop_with_the_summary(data, tmp_path, caplog):
    good = {
        f"{n:03d}.{part}": record(("en", f"dog {n}")) if part == "json" else picture(n)
        for n in range(20)
        for part in ("json", "png")
    }
    half = {
        f"bad{n}.{part}": record(("en", "dog")) if part == "json" else picture(n, "JPEG", 64)[:400]
        for n in range(5)
        for part in ("json", "png")
    }
    opened = open_training(write_tar(tmp_path / "a.tar", good | half), small_tokenizer(data).path, max_bad_share=0.1)
    with pytest.raises(TooManyBadSamplesError, match=r"could not be read \(truncated image: \d+\).* max_bad_share 0.1"):
        for _ in zip(opened.train_dataloader(), range(300), strict=False):
            pass
    named = {
        record.getMessage().split("key ")[1].split(":")[0] for record in caplog.records if "skipped" in record.getMessage()
    }
    assert named == {f"bad{n}" for n in range(5)}


def test_a_forced_copy_leaves_no_shard_of_an_earlier_one(tmp_path):
    """Shards keep their names, so that those of another source stay where nothing replaces them."""
    tars = [write_tar(tmp_path / f"{name}.tar", {"0.json": record(("en", "a dog"))}) for name in ("emoji", "stamps")]
    out = tmp_path / "copy"
    repair_shards(tars, out)
    ShardSet(str(out))
    assert (out / "emoji.tar.index").exists()
    (out / "own.tar").write_bytes(b"no shard that was written here")
    assert repair_shards(tars[1:], out, force=True).shards == 1
    assert sorted(path.name for path in out.iterdir()) == ["index.json", "own.tar", "stamps.tar"]
