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
from interlingua.datamodules.choosing import Chooser, strata
from interlingua.datamodules.filtering import TextRows
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.fields import FieldMap, TextField
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.source import Source
from interlingua.datamodules.steps import Steps, as_is
from interlingua.modalities.augmentation import ImageTransform

TEXTS = (
    Caption("en", "dog", "name"),
    Caption("en", "pet", "keyword"),
    Caption("de", "Hund", "name"),
    Caption("fr", "animal", "keyword"),
)


def among(choice, captions):
    captions = [caption for caption in captions if choice.languages is None or caption.language in choice.languages]
    return [caption for caption in captions if choice.roles is None or caption.role in choice.roles]


def pick(options, wish, which_language, which_text):
    languages = list(dict.fromkeys(caption.language for caption in options))
    options = [caption for caption in options if caption.language == languages[int(which_language * len(languages))]]
    left = which_text * sum(wish.weight(caption.role) for caption in options)
    for caption in options:
        left -= wish.weight(caption.role)
        if left < 0:
            return caption
    return options[-1]


def choose(texts, text, translation, luck):
    """One sample at a time, in words: what the choice of many at once must equal. None where nothing can be chosen."""

    def partners(caption):
        others = among(translation, texts)
        return [
            other
            for other in others
            if other.language != caption.language and (not translation.same_role or other.role == caption.role)
        ]

    options = among(text, texts)
    if translation is not None:
        options = [caption for caption in options if partners(caption)]
    if not options:
        return None
    first = pick(options, text, *luck[:2])
    return first, None if translation is None else pick(partners(first), translation, *luck[2:])


def table_of(samples):
    """Texts of samples as the index has them, and all captions in their order."""
    captions = [caption for texts in samples for caption in texts]
    languages, roles = (sorted({getattr(caption, name) for caption in captions}) for name in ("language", "role"))
    start = np.cumsum([0, *(len(texts) for texts in samples)])
    columns = (
        np.array([words.index(getattr(caption, name)) for caption in captions], np.uint16)
        for words, name in ((languages, "language"), (roles, "role"))
    )
    return TextRows(len(samples), start, *columns, languages, roles), captions


def chosen(text, translation=None, texts=TEXTS, draws=400):
    rows, captions = table_of([texts])
    luck = np.random.default_rng(0).random((draws, 4))
    found = Chooser(rows, text, translation).choose(np.zeros(draws, np.int64), luck)
    return [tuple(None if number < 0 else captions[number] for number in pair) for pair in zip(*found, strict=True)]


def shares(values):
    return {value: values.count(value) / len(values) for value in set(values)}


def test_a_language_is_chosen_first():
    texts = [text.text for text, _ in chosen(TextChoice())]
    assert shares(texts) == pytest.approx({"dog": 1 / 6, "pet": 1 / 6, "Hund": 1 / 3, "animal": 1 / 3}, abs=0.08)


def test_roles_may_be_weighted():
    texts = [text.text for text, _ in chosen(TextChoice(["en"], {"name": 4.0, "keyword": 1.0}))]
    assert shares(texts) == pytest.approx({"dog": 0.8, "pet": 0.2}, abs=0.08)
    assert {text.text for text, _ in chosen(TextChoice(roles=["name"]))} == {"dog", "Hund"}


def test_a_translation_is_in_another_language_and_of_the_same_role():
    pairs = {(text.text, other.text) for text, other in chosen(TextChoice(["en"]), TranslationChoice())}
    assert pairs == {("dog", "Hund"), ("pet", "animal")}
    pairs = {(text.text, other.text) for text, other in chosen(TextChoice(["en", "de"]), TranslationChoice(same_role=False))}
    assert pairs == {
        *(("dog", other) for other in ("Hund", "animal")),
        *(("pet", other) for other in ("Hund", "animal")),
        *(("Hund", other) for other in ("dog", "pet", "animal")),
    }


def test_nothing_to_choose_is_none():
    assert chosen(TextChoice(["en"]), TranslationChoice(["en"]), draws=3) == [(None, None)] * 3
    assert chosen(TextChoice(), TranslationChoice(), TEXTS[:2], draws=3) == [(None, None)] * 3


CHOICES = [
    TextChoice(),
    TextChoice(["en"]),
    TextChoice(["de", "en"], ["name"]),
    TextChoice(roles={"name": 3.0, "keyword": 1.0}),
]
TRANSLATIONS = [
    None,
    TranslationChoice(),
    TranslationChoice(same_role=False),
    TranslationChoice(["en"], ["name"], same_role=False),
]


def random_samples(count=60):
    some = np.random.default_rng(1)
    return [
        [
            Caption(("de", "en", "fr")[some.integers(3)], f"{sample} {text}", ("keyword", "name")[some.integers(2)])
            for text in range(some.integers(5))
        ]
        for sample in range(count)
    ]


@pytest.mark.parametrize("text", CHOICES)
@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_many_are_chosen_at_once_as_one_by_one(text, translation):
    samples = random_samples()
    rows, captions = table_of(samples)
    numbers = np.random.default_rng(2).integers(60, size=900)
    luck = np.random.default_rng(3).random((900, 4))
    found = zip(*Chooser(rows, text, translation).choose(numbers, luck), strict=True)
    pairs = [tuple(None if number < 0 else captions[number] for number in pair) for pair in found]
    for pair, number, one in zip(pairs, numbers, luck.tolist(), strict=True):
        assert (choose(samples[number], text, translation, one) or (None, None)) == pair


@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_strata_are_the_samples_in_which_a_language_can_be_chosen(translation):
    samples = random_samples()
    rows, _ = table_of(samples)
    found = strata(rows, TextChoice(), translation)
    assert len(found) >= 2
    for (language, other), members in found.items():
        luck = np.random.default_rng(4).random((len(members), 4))
        wanted = (np.full(len(members), code) for code in (language, other))
        first, second = Chooser(rows, TextChoice(), translation).choose(
            members, luck, next(wanted), next(wanted) if translation else None
        )
        assert {rows.languages[rows.language[number]] for number in first} == {rows.languages[language]}
        if translation:
            assert {rows.languages[rows.language[number]] for number in second} == {rows.languages[other]}
    able = {(pair, number) for pair, members in found.items() for number in members.tolist()}
    for number, texts in enumerate(samples):
        for luck in np.random.default_rng(5).random((20, 4)).tolist():
            pair = choose(texts, TextChoice(), translation, luck)
            if pair:
                codes = tuple(-1 if one is None else rows.languages.index(one.language) for one in pair)
                assert (codes, number) in able


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"languages": []}, "languages is empty"),
        ({"roles": []}, "roles is empty"),
        ({"roles": {"name": 0.0}}, "must be above 0"),
    ],
)
def test_a_choice_that_cannot_be_meant_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TextChoice(**options)


LANGUAGES, ROLES = ["de", "en", "fr"], ["keyword", "name"]


def table(*samples):
    rows = [
        (number, LANGUAGES.index(language), ROLES.index(role))
        for number, texts in enumerate(samples)
        for language, role in texts
    ]
    owner, language, role = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    start = np.searchsorted(owner, np.arange(len(samples) + 1))
    return TextRows(len(samples), start, language, role, LANGUAGES, ROLES)


def test_the_table_finds_the_samples_that_a_choice_can_be_made_of():
    """The table and the choice agree on every one of 60 random samples."""
    chance = np.random.default_rng(1)
    samples = [
        [(LANGUAGES[chance.integers(3)], ROLES[chance.integers(2)]) for _ in range(chance.integers(4))] for _ in range(60)
    ]
    for text in (TextChoice(), TextChoice(["en"]), TextChoice(["en", "de"], ["name"])):
        for translation in (
            None,
            TranslationChoice(),
            TranslationChoice(same_role=False),
            TranslationChoice(["en"], ["name"], same_role=False),
        ):
            found = table(*samples).have_text(text) if translation is None else table(*samples).have_pair(text, translation)
            for texts, there in zip(samples, found, strict=True):
                captions = [Caption(language, "x", role) for language, role in texts]
                assert there == (choose(captions, text, translation, [0.5] * 4) is not None)


def test_a_language_in_no_sample_is_an_error_that_names_those_found():
    with pytest.raises(ValueError, match="language xx is in no sample of the shards; found: de, en, fr"):
        table([("en", "name")]).taken(TextChoice(["en", "xx"]))
    with pytest.raises(ValueError, match="role title is in no sample"):
        table([("en", "name")]).taken(TextChoice(roles=["title"]))


@pytest.mark.parametrize("count", [0, 2])
def test_no_texts_at_all_are_no_trouble(count):
    empty = TextRows(count, np.zeros(count + 1, int), *np.zeros((2, 0), dtype=np.int32), [], [])
    assert not empty.have_text(TextChoice()).any()
    assert not empty.have_pair(TextChoice(), TranslationChoice()).any()


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
