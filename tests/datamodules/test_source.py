"""One source: which samples it reads, which text it chooses, and what a batch holds."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from small_shards import picture, record, write_shards, write_tar
from torch.utils.data import DataLoader
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.shards.fields import FieldMap, TextField
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.source import Source
from interlingua.datamodules.steps import Steps, as_is
from interlingua.modalities.augmentation import ImageTransform


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("shards"), data)


def reader(paths, data, size=32, augment=True, seed=0, **options):
    options = {"batch_size": 4, "text": TextChoice(), "image": ImageTransform(size), **options}
    source = Source(paths, **options)
    return Reader("pictures", source, ShardSet(paths, source.fields), small_tokenizer(data), 64, seed, augment)


def read(opened, sample, epoch=None):
    """What a source reads of some samples."""
    return opened.read(opened.rows(sample, torch.zeros_like(sample) if epoch is None else epoch))


def test_a_batch_is_complete(folder, data):
    opened = reader(folder, data, text=TextChoice(["en"]), translation=TranslationChoice(["de", "sw"]), augment=False)
    batch, slots, faults = read(opened, torch.tensor([7, 3, 22]), torch.tensor([0, 0, 5]))
    assert (batch.source, batch.sample.tolist(), batch.epoch.tolist()) == ("pictures", [7, 3, 22], [0, 0, 5])
    assert (slots, faults) == ([0, 1, 2], [])
    assert batch.item.tolist() == [opened.shards.read(number).item for number in (7, 3, 22)]
    assert batch.image.pixels.shape == (3, 3, 32, 32)
    assert batch.image.pixels[:, 0, 0, 0].tolist() == [7, 3, 22]
    tokenizer = small_tokenizer(data)
    for row, number in enumerate((7, 3, 22)):
        text, other = (tokenizer.decode(part.tokens[row].tolist()) for part in (batch.text, batch.translation))
        captions = {caption.text: caption for caption in opened.shards.read(number).texts}
        assert captions[text].language == "en"
        assert captions[other].language in ("de", "sw")
        assert captions[text].role == captions[other].role
        assert tokenizer.languages[batch.translation.language[row, 0]] == captions[other].language


def test_what_is_read_does_not_depend_on_batch_mates(folder, data):
    opened = reader(folder, data)
    numbers, epochs = torch.arange(20), torch.arange(20) // 7
    whole = read(opened, numbers, epochs).batch
    for row in (0, 3, 19):
        alone = read(opened, numbers[row : row + 1], epochs[row : row + 1]).batch
        length = alone.text.tokens.shape[1]
        assert alone.text.tokens.equal(whole.text.tokens[row : row + 1, :length])
        assert alone.image.pixels.equal(whole.image.pixels[row : row + 1])


def test_every_epoch_and_seed_choose_anew(folder, data):
    one = torch.zeros(60, dtype=torch.int64)
    texts = {tuple(row) for row in read(reader(folder, data), one, torch.arange(60)).batch.text.tokens.tolist()}
    assert len(texts) == 6  # three languages, two roles
    first, second = (read(reader(folder, data, seed=seed), torch.arange(23)).batch for seed in (0, 1))
    assert first.text.tokens.shape != second.text.tokens.shape or not first.text.tokens.equal(second.text.tokens)


def test_text_alone_reads_no_pictures(folder, data):
    batch = read(reader(folder, data, image=None), torch.arange(3)).batch
    assert batch.image is None
    assert batch.text is not None


def test_pictures_alone_need_no_tokenizer(folder):
    opened = Reader("p", Source(folder, 4, image=ImageTransform(8)), ShardSet(folder))
    assert read(opened, torch.arange(3)).batch.text is None
    with pytest.raises(ValueError, match="source 'p': text is read, but no tokenizer is given"):
        Reader("p", Source(folder, 4, text=TextChoice()), ShardSet(folder))


def test_samples_that_lack_what_is_read_are_left_out_and_counted(tmp_path, data):
    """Pitfall D05: shards with differing members; a caption as a string, and a list of five."""
    members = {
        "a": {"0.jpg": picture(0, "JPEG"), "0.txt": b"a dog", "0.npy": b"x"},
        "b": {"0.jpg": picture(1, "JPEG"), "0.txt": b"a cat"},
        "c": {"0.txt": b"nothing to see"},
        "d": {"0.jpg": picture(2, "JPEG"), "0.json": json.dumps({"caption": "a dog"}).encode()},
        "e": {"0.jpg": picture(3, "JPEG"), "0.json": json.dumps({"caption": [f"dog {n}" for n in range(5)]}).encode()},
        "f": {"0.jpg": picture(4, "JPEG")},
    }
    paths = [write_tar(tmp_path / f"{name}.tar", content) for name, content in members.items()]
    texts = (TextField("txt", language="en"), TextField("json", "caption", language="en"))
    opened = reader(paths, data, fields=FieldMap(texts=texts))
    assert opened.summary == "reads 4 of 6 samples, leaves out 1 without text, 1 without picture"
    assert opened.samples.tolist() == [0, 1, 3, 4]
    assert np.diff(opened.shards.texts.start).tolist() == [1, 1, 1, 1, 5, 0]
    assert opened.shards.unmatched == {"npy": 1}


def test_nothing_left_is_an_error_that_names_the_languages_found(tmp_path, data):
    paths = write_shards(tmp_path, data, counts=(2,), languages=("en", "de"), images=False)
    with pytest.raises(ValueError, match=r"source 'pictures' reads 0 of 2 samples.* 2 without picture.*found.*: de, en"):
        reader(paths, data)
    with pytest.raises(ValueError, match="source 'pictures': language xx is in no sample"):
        reader(paths, data, text=TextChoice(["xx"]), image=None)


def test_a_language_that_the_tokenizer_does_not_know_is_refused_where_it_is_asked_for_and_else_left_out(tmp_path, data):
    members = {"0.json": record(("en", "dog"), ("tlh", "targh")), "1.json": record(("tlh", "qa'vIn"))}
    path = write_tar(tmp_path / "a.tar", members)
    with pytest.raises(ValueError, match="source 'pictures': unknown language 'tlh'"):
        reader(path, data, text=TextChoice(["tlh", "en"]), image=None)
    opened = reader(path, data, text=TextChoice(), image=None)
    assert opened.samples.tolist() == [0]
    assert [tuple(fault) for fault in opened.faults] == [("unknown language", "a.tar", "1", "tlh is none of the tokenizer's")]
    batch = read(opened, torch.zeros(40, dtype=torch.int64), torch.arange(40)).batch
    assert {small_tokenizer(data).decode(row) for row in batch.text.tokens.tolist()} == {"dog"}


def test_a_text_without_a_language_is_never_taken_for_one_that_has(tmp_path, data):
    """Pitfall T09 b: foreign captions whose language nobody declares are an error at start, or left out and counted."""
    members = {"0.txt": b"a dog", "1.txt": b"a cat", "2.json": record(("en", "a cow"))}
    path = write_tar(tmp_path / "a.tar", members)
    fields = FieldMap(texts=(TextField("txt"), TextField("json", "texts")))
    for choice in (TextChoice(), TextChoice(["en"])):
        opened = reader(path, data, text=choice, image=None, fields=fields)
        assert opened.summary == "reads 1 of 3 samples, leaves out 2 without text"
    assert [fault.key for fault in reader(path, data, text=TextChoice(), image=None, fields=fields).faults] == ["0", "1"]
    path = write_tar(tmp_path / "b.tar", {"0.txt": b"a dog"})
    with pytest.raises(ValueError, match=r"reads 0 of 1 samples.*languages found in .*: und; languages of the tokenizer: .*en"):
        reader(path, data, text=TextChoice(), image=None, fields=fields)


def test_texts_with_nothing_to_read_are_left_out_and_change_nothing(tmp_path, data):
    """Pitfall T07: an empty text, spaces, a zero-width space alone, and an ordinary text."""
    texts = ["", "   ", "\u200b", "a dog"]
    path = write_tar(tmp_path / "a.tar", {f"{n}.json": record(("en", text)) for n, text in enumerate(texts)})
    opened = reader(path, data, text=TextChoice(), image=None)
    assert [(fault.kind, fault.key) for fault in opened.shards.faults] == [("empty caption", str(n)) for n in range(3)]
    batch = read(opened, torch.zeros(1, dtype=torch.int64)).batch
    assert small_tokenizer(data).decode(batch.text.tokens[0].tolist()) == "a dog"


def test_ten_bad_samples(tmp_path, data):
    """Pitfall I05: four pictures of ten are broken; six arrive, four are told, and every rank makes the same steps."""
    pictures = [picture(number, "JPEG", 64) for number in range(10)]
    bomb = io.BytesIO()
    Pillow.new("1", (20000, 20000)).save(bomb, "PNG")
    pictures[1], pictures[4], pictures[6], pictures[9] = (
        pictures[1][: len(pictures[1]) * 6 // 10],
        bomb.getvalue(),
        b"",
        b"text",
    )
    members = {}
    for number, content in enumerate(pictures):
        members |= {f"{number}.jpg": content, f"{number}.json": record(("en", "a dog"))}
    opened = reader(write_tar(tmp_path / "bad.tar", members), data, batch_size=10)
    loader = DataLoader(Steps([opened]), batch_size=None, sampler=range(3), num_workers=1, collate_fn=as_is)
    for step in loader:
        assert sorted(step.batches[0].sample.tolist()) == [0, 2, 3, 5, 7, 8]
        assert {(fault.kind, fault.shard, fault.key) for fault in step.faults} == {
            ("truncated image", "bad.tar", "1"),
            ("oversized image", "bad.tar", "4"),
            ("empty image", "bad.tar", "6"),
            ("not an image", "bad.tar", "9"),
        }
        assert step.batches[0].image.present.all()
    parts = [[Steps([opened], rank, 2)[step] for step in range(3)] for rank in range(2)]
    for step, whole in enumerate(loader):
        assert sum(batch.size for part in parts for batch in part[step].batches) == whole.batches[0].size
        assert sum(len(part[step].faults) for part in parts) == 4
