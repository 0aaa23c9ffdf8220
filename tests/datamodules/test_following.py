"""Sentences that follow each other in a document: drawn together, never across its border, counted as a pair."""

import numpy as np
import pytest
from document_rows import identify, table
from recording import check_resumption
from small_documents import pages, write_documents
from small_shards import as_rank, record, write_tar
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.choosing import Chooser, strata
from interlingua.datamodules.draws import Sampling
from interlingua.datamodules.following import Following
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.modalities.augmentation import ImageTransform

TOKENS = {"batch_tokens": 1024, "micro_batch_tokens": 256}


@pytest.fixture(scope="module")
def documents(data, tmp_path_factory):
    return write_documents(tmp_path_factory.mktemp("documents"), data)


def reader(paths, data, max_tokens=64, **options):
    options = {"text": TextChoice(), "following": 1, **options}
    return Reader("pages", Source(paths, **options), ShardSet(paths), small_tokenizer(data), max_tokens)


def chain(texts, sentences=1, **options):
    return Following(texts, TextChoice(**options), sentences)


def test_a_sentence_is_followed_within_its_document_and_language_alone():
    following = chain(table(["en", "en", "de", "en", "de"], ["en"], ["en", "en"]))
    assert following.next.tolist() == [1, 3, 4, -1, -1, -1, 7, -1]
    assert following.first.tolist() == [True, True, True, False, False, False, True, False]
    assert following.second.tolist() == [False, True, False, True, True, False, False, True]
    assert chain(table(["en", "en", "de"], ["de", "de"]), languages=["de"]).next.tolist() == [-1, -1, -1, 4, -1]


def test_captions_of_one_picture_do_not_follow_each_other():
    following = chain(table(["en", "en"], ["en", "en"], document=[False, True]))
    assert following.next.tolist() == [-1, -1, 3, -1]
    assert not chain(table(["en", "en"], document=False)).first.any()


def test_halves_have_some_sentences_and_leave_one_to_the_second():
    """A document of six: what each first sentence begins, by the most sentences of a half."""
    expected = {
        1: [([0], [1]), ([1], [2]), ([2], [3]), ([3], [4]), ([4], [5])],
        2: [([0, 1], [2, 3]), ([1, 2], [3, 4]), ([2, 3], [4, 5]), ([3, 4], [5]), ([4], [5])],
        4: [([0, 1, 2, 3], [4, 5]), ([1, 2, 3, 4], [5]), ([2, 3, 4], [5]), ([3, 4], [5]), ([4], [5])],
    }
    for sentences, halves in expected.items():
        following = chain(table(["en"] * 6, ["en"] * 3), sentences)
        second = following.go_on(np.arange(5))
        assert [following.halves(first, begin) for first, begin in enumerate(second.tolist())] == halves
        assert following.go_on(np.array([-1])).tolist() == [-1]


@pytest.mark.parametrize("sentences", [1, 2, 4])
def test_lengths_of_halves_are_those_of_their_sentences(sentences):
    following = chain(table(["en"] * 6, ["en"], ["en"] * 3), sentences)
    lengths = np.arange(3, 13)
    first, second = following.lengths(lengths)
    for text in np.flatnonzero(following.first):
        begin = int(following.go_on(np.array([text]))[0])
        sums = [2 + sum(lengths[half] - 2) for half in following.halves(int(text), begin)]
        assert [first[text], second[begin]] == sums


def test_every_sentence_but_the_last_is_drawn_first_and_as_often():
    texts = table(["en"] * 5)
    luck = np.random.default_rng(0).random((2000, 4))
    text, second = Chooser(texts, TextChoice(), None, chain(texts)).choose(np.zeros(2000, np.int64), luck)
    counts = np.bincount(text, minlength=5)
    assert counts[4] == 0
    assert np.abs(counts[:4] - 500).max() < 70
    assert (second == text + 1).all()


def test_strata_are_the_languages_that_have_sentences_that_follow():
    texts = table(["en", "en", "de"], ["de", "de"], ["en", "de"])
    found = strata(texts, TextChoice(), None, chain(texts))
    assert {pair: samples.tolist() for pair, samples in found.items()} == {(0, 0): [1], (1, 1): [0]}


def halves(batch, row, data):
    tokenizer = small_tokenizer(data)
    return [tokenizer.decode(text.tokens[row].tolist()) for text in (batch.text, batch.translation)]


@pytest.mark.parametrize("sentences", [1, 3])
def test_a_batch_holds_what_follows_in_the_document(documents, data, sentences):
    opened, tokenizer = reader(documents, data, 4096, batch_size=4, following=sentences), small_tokenizer(data)
    assert opened.summary == "reads 60 of 60 samples"
    batch = opened.read(opened.draws.draws(0, 60)).batch
    assert sorted(batch.sample.tolist()) == [*range(60)]
    for row, item in enumerate(batch.sample.tolist()):
        page = [tokenizer.normalize(text) for text in pages(data, "de" if item % 3 == 2 else "en")[item]]
        ways = [
            [" ".join(page[first:middle]), " ".join(page[middle : middle + sentences])]
            for first in range(len(page) - 1)
            for middle in [min(first + sentences, len(page) - 1)]
        ]
        assert halves(batch, row, data) in [
            [tokenizer.decode(tokenizer.encode([one]).ids.tolist()) for one in way] for way in ways
        ]
    languages = [[tokenizer.languages[one] for one in text.language[:, 0].tolist()] for text in (batch.text, batch.translation)]
    assert languages[0] == languages[1] == ["de" if item % 3 == 2 else "en" for item in batch.sample.tolist()]
    assert batch.alignment is None


@pytest.mark.parametrize("sentences", [1, 3])
def test_both_halves_count_in_buckets(documents, data, sentences):
    """Sentences joined by a space are as long as they are one by one, so that no micro-batch outgrows its budget."""
    opened = reader(documents, data, following=sentences, **TOKENS)
    for part in opened.parts.block(0):
        batch = opened.read(*part).batch
        assert batch.size * (batch.text.tokens.shape[1] + batch.translation.tokens.shape[1]) <= 256
    lengths = opened._lengths(opened.draws.chooser)
    draws = opened.draws.draws(0, 60)
    batch = opened.read(draws).batch
    for text, own, number in zip((batch.text, batch.translation), lengths, (draws.text, draws.translation), strict=True):
        assert text.present.sum(1).tolist() == np.minimum(own[number.numpy()], 64).tolist()


def test_languages_are_drawn_in_proportion_by_the_tokens_of_pairs(documents, data):
    opened = reader(documents, data, batch_size=4, sampling=Sampling(0.0, by="tokens"), following=2)
    assert {one.name: len(one.samples) for one in opened.draws.strata} == {"en": 40, "de": 20}
    draws = opened.draws.draws(0, opened.draws.turns.block)
    language = opened.texts.language[draws.text.numpy()]
    assert (opened.texts.language[draws.translation.numpy()] == language).all()
    tokens = [one.tokens for one in opened.draws.strata]
    codes, counts = [one.pair[0] for one in opened.draws.strata], np.bincount(language)
    lengths = opened._lengths(opened.draws.chooser)
    read = sum(np.minimum(own[text], 64) for own, text in zip(lengths, (draws.text, draws.translation), strict=True))
    for code, mean in zip(codes, tokens, strict=True):
        assert read[language == code].mean() == pytest.approx(mean, rel=0.1)
    assert counts[codes[0]] * tokens[0] == pytest.approx(counts[codes[1]] * tokens[1], rel=0.01)


def test_samples_in_which_nothing_follows_are_counted_and_shards_of_them_refused(tmp_path, data):
    pair = [("en", "One dog."), ("en", "Two dogs.")]
    members = {
        "0.json": record(*pair, document=True),
        "1.json": record(*pair),
        "2.json": record(pair[0], document=True),
        "3.json": record(pair[0], ("de", "Zwei Hunde."), document=True),
    }
    path = write_tar(tmp_path / "a.tar", members)
    opened = reader(path, data, batch_size=1)
    assert opened.summary == "reads 1 of 4 samples, leaves out 3 without a sentence that another follows"
    assert opened.samples.tolist() == [0]
    path = write_tar(tmp_path / "b.tar", {name: members[name] for name in ("1.json", "2.json")})
    with pytest.raises(ValueError, match=r"'pages' reads 0 of 2 samples.*only documents \(`interlingua shards write doc"):
        reader(path, data, batch_size=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"following": 0}, "following is 0; give at least 1"),
        ({"following": 1, "translation": TranslationChoice()}, "or what is `following` in the document; give one"),
        ({"following": 1, "pack": True}, "`pack` fills rows with texts alone"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Source("x", text=TextChoice(), **options)


def test_what_follows_needs_a_text():
    with pytest.raises(ValueError, match="a `following` stands beside a `text`"):
        Source("x", 4, following=1, image=ImageTransform(8))


def module(paths, data, workers=0, following=2, **options):
    texts = TextChoice()
    sources = {
        "buckets": Source(paths, text=texts, following=following, sampling=Sampling(0.5), **TOKENS),
        "rows": Source(paths, 4, 2, text=texts, following=1),
    }
    return Shards(sources, small_tokenizer(data).path, 64, None, workers=workers, **options)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(tmp_path, documents, data, workers):
    check_resumption(tmp_path, lambda count: module(documents, data, count), (3, 5, 8), (workers, 0, workers))


def test_another_number_of_sentences_is_another_order(documents, data):
    before = as_rank(module(documents, data))
    before.setup("fit")
    after = as_rank(module(documents, data, following=3))
    after.setup("fit")
    with pytest.raises(ValueError, match=r"buckets\.following: checkpoint 2, now 3"):
        after.load_state_dict(before.state_dict())


def test_two_ranks_share_the_steps_of_one(documents, data):
    def read(rank, world):
        opened = as_rank(module(documents, data), rank, world)
        opened.setup("fit")
        return [opened.train_dataloader().loader.dataset[step].batches for step in range(3)]

    whole, ranks = read(0, 1), [read(rank, 2) for rank in range(2)]
    for step in range(3):
        assert identify(whole[step]) == identify([*ranks[0][step], *ranks[1][step]])


def test_validation_reads_language_by_language(documents, data):
    source = Source(documents, 8, text=TextChoice(), following=1)
    opened = as_rank(Shards({}, small_tokenizer(data).path, 64, validation={"pages": source}))
    opened.setup("validate")
    batches = list(opened.val_dataloader())
    assert sum(batch.size for batch in batches) == 60
    codes = [[text.language.unique().tolist() for text in (batch.text, batch.translation)] for batch in batches]
    assert all(len(own) == 1 and own == other for own, other in codes)
    assert len({own[0] for own, _ in codes}) == 2
