"""Sentences with a translation in the pivot language: which they are, and each once over all ranks (pitfall M09)."""

from collections import Counter

import pytest
from small_shards import as_rank, equal, name_of, record, write_shards, write_tar
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.sentences import SentenceRetrievalData, reads_as
from interlingua.datamodules.shards.writer import ShardWriter


def batches(paths, data, rank=0, world=1, batch_size=4, **options):
    sources = paths if isinstance(paths, dict) else {"held out": paths}
    options = {"max_tokens": 64, "workers": 0, "least": 1, **options}
    opened = SentenceRetrievalData(sources, small_tokenizer(data).path, batch_size=batch_size, **options)
    as_rank(opened, rank, world).setup("test")
    return list(opened.test_dataloader())


def rows(some, data):
    """Source, language and sample of every text."""
    languages = small_tokenizer(data).languages
    return [
        (batch.source, languages[batch.text.language[row, 0]], number)
        for batch in some
        if batch.size
        for row, number in enumerate(batch.sample.tolist())
    ]


@pytest.mark.parametrize(("world", "workers"), [(1, 0), (2, 0), (2, 1), (4, 0)])
def test_everything_comes_once_over_all_ranks(tmp_path, data, world, workers):
    """Pitfall M09: 21 samples, 2 ranks, batch 4."""
    paths = write_shards(tmp_path, data, (10, 11), images=False, roles=("sentence",))
    ranks = [batches(paths, data, rank, world, workers=workers) for rank in range(world)]
    assert len({len(rank) for rank in ranks}) == 1
    every = [batch for rank in ranks for batch in rank]
    wanted = {("held out", language, n): 1 for language in ("en", "de", "sw") for n in range(21)}
    assert Counter(rows(every, data)) == wanted
    assert all(batch.size == 0 or len(batch.text.language.unique()) == 1 for batch in every)
    turns = [batch for turn in zip(*ranks, strict=True) for batch in turn if batch.size]
    assert equal(tuple(turns), tuple(batches(paths, data)))


def write(folder, data, samples):
    """Samples as lists of (language, number of a real text, role)."""
    with ShardWriter(folder) as writer:
        for number, texts in enumerate(samples):
            captions = [Caption(language, name_of(data, language, n), role) for language, n, role in texts]
            writer.write(f"{number}", captions)
    return str(folder)


def test_only_what_has_a_translation_in_the_pivot(tmp_path, data, caplog):
    """One text a language and sample, the first that is taken."""
    samples = [
        [("de", 1, "name"), ("en", 2, "keyword"), ("en", 3, "name"), ("de", 4, "name")],
        [("de", 5, "name")],
        [("en", 6, "name")],
        [("en", 7, "keyword"), ("fr", 8, "keyword")],
        [("en", 9, "name"), ("de", 10, "name"), ("fr", 11, "name")],
    ]
    path = write(tmp_path / "a", data, samples)
    every = batches(path, data)
    wanted = {("en", 0), ("en", 3), ("en", 4), ("de", 0), ("de", 4), ("fr", 3), ("fr", 4)}
    assert Counter(rows(every, data)) == {("held out", *row): 1 for row in wanted}
    items = {row[1:]: item for batch in every for row, item in zip(rows([batch], data), batch.item.tolist(), strict=True)}
    assert items["de", 0] == reads_as(name_of(data, "de", 1))
    assert items["en", 0] == reads_as(name_of(data, "en", 2))

    def languages(**options):
        return Counter(language for _, language, _ in rows(batches(path, data, **options), data))

    assert languages(texts=TextChoice(roles=["name"])) == {"en": 2, "de": 2, "fr": 1}
    assert languages(texts=TextChoice(["fr"])) == {"en": 2, "fr": 2}
    assert languages(pivot="de") == {"en": 2, "de": 2, "fr": 1}
    assert not caplog.records


def test_languages_that_the_tokenizer_does_not_know_are_left_out_and_named(tmp_path, data, caplog):
    members = {f"{n}.json": record(("en", f"one {n}"), ("de", f"eins {n}"), ("it", f"uno {n}")) for n in range(2)}
    path = write_tar(tmp_path / "a.tar", members)
    assert {language for _, language, _ in rows(batches(path, data), data)} == {"en", "de"}
    assert "source held out: left out, as they are none of the tokenizer's languages: it" in caplog.text
    caplog.clear()
    batches(path, data, texts=TextChoice(["de"]))
    assert not caplog.records


def test_small_languages_are_left_out_and_named(tmp_path, data, caplog):
    samples = [[("en", n, "name"), ("de", n, "name"), *([("fr", n, "name")] if n < 3 else [])] for n in range(6)]
    path = write(tmp_path / "a", data, samples)
    assert {language for _, language, _ in rows(batches(path, data, least=4), data)} == {"en", "de"}
    assert "source held out: left out, as they have fewer than 4 sentences: fr 3" in caplog.text
    with pytest.raises(ValueError, match=r"'held out': no language has 7 sentences or more .*found: de 6, fr 3"):
        batches(path, data, least=7)


def test_a_limit_draws_the_same_sentences_in_all_languages(tmp_path, data):
    samples = [[("en", n, "name"), ("de", n, "name"), *([("fr", n, "name")] if n % 2 else [])] for n in range(30)]
    path = write(tmp_path / "a", data, samples)

    def drawn(seed=0, limit=10):
        found = rows(batches(path, data, limit=limit, seed=seed), data)
        return {code: {n for _, language, n in found if language == code} for code in ("en", "de", "fr")}

    first = drawn()
    assert (len(first["de"]), len(first["fr"])) == (10, 10)
    assert first["en"] == first["de"] | first["fr"]
    assert {n for n in first["de"] if n % 2} <= first["fr"], "of what both have, the lot decides alike"
    assert drawn() == first != drawn(seed=1)
    assert len(drawn(limit=None)["de"]) == 30


def test_texts_that_read_alike_share_an_item(tmp_path, data):
    """Composed or not, in one run of spaces or two; what differs in a letter differs."""
    texts = ["caf\u00e9  au lait", "cafe\u0301 au lait", "cafe au lait"]
    members = {f"{n}.json": record(("en", text), ("fr", text)) for n, text in enumerate(texts)}
    every = batches(write_tar(tmp_path / "a.tar", members), data)
    items = [batch.item.tolist() for batch in every]
    assert items[0][0] == items[0][1] != items[0][2]
    assert items[0] == items[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pivot": "xx"}, "unknown language 'xx'"),
        ({"texts": TextChoice(["xx"])}, "'held out': unknown language 'xx'"),
        ({"texts": TextChoice(["ru"])}, "'held out': language ru is in no sample"),
        ({"pivot": "ru"}, "'held out': no text in ru, the pivot; languages found: de, en, sw"),
        ({"limit": 0}, "limit is 0; expected 1 or more"),
        ({"least": 0}, "least is 0; expected 1 or more"),
        ({"max_tokens": 2}, "max_tokens is 2; expected 3 or more"),
    ],
)
def test_faults(tmp_path, data, options, message):
    paths = write_shards(tmp_path, data, (3,), images=False)
    with pytest.raises(ValueError, match=message):
        batches(paths, data, **options)
