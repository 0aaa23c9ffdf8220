"""Folders of Tatoeba and BUCC as test data: every sentence once over all ranks, numbered by what it translates."""

from collections import Counter
from dataclasses import replace

import pytest
from labelled_files import put
from small_shards import as_rank, equal
from trained import small_tokenizer

from interlingua.datamodules.labelled.examples import Comparable
from interlingua.datamodules.labelled.sentence_mining import BuccData, BuccSplit, number_texts
from interlingua.datamodules.labelled.sentence_pairs import TatoebaData
from interlingua.datamodules.sentences import reads_as

GERMAN = ["Der Hund schläft.", "Die Katze isst.", "Das Haus ist rot.", "Der  Hund schläft.", "Ein Baum."]
ENGLISH = ["The dog sleeps.", "The cat eats.", "The house is red.", "The dog is asleep.", "A tree."]
SWAHILI = ["Mbwa amelala.", "Paka anakula.", "Nyumba ni nyekundu."]


def lines(texts) -> str:
    return "".join(f"{text}\n" for text in texts)


@pytest.fixture
def tatoeba(tmp_path):
    """German has five pairs, Swahili three with two English sentences of German's, Italian two."""
    put(tmp_path / "tatoeba.deu-eng.deu", lines(GERMAN))
    put(tmp_path / "tatoeba.deu-eng.eng", lines(ENGLISH))
    put(tmp_path / "tatoeba.swh-eng.swh.gz", lines(SWAHILI))
    put(tmp_path / "tatoeba.swh-eng.eng", lines([*ENGLISH[:2], "The home is red."]))
    put(tmp_path / "tatoeba.ita-eng.ita", lines(["Il cane dorme.", "Il gatto mangia."]))
    put(tmp_path / "tatoeba.ita-eng.eng", lines(ENGLISH[:2]))
    return tmp_path


def read(module, rank=0, world=1):
    as_rank(module, rank, world).setup("test")
    return list(module.test_dataloader())


def pairs(folder, data, rank=0, world=1, **options):
    options = {"least": 1, "max_tokens": 32, "batch_size": 2, "workers": 0, **options}
    return read(TatoebaData({"tatoeba": str(folder)}, small_tokenizer(data).path, **options), rank, world)


def rows(batches, data) -> list[tuple[str, str, int, int]]:
    """Source, language, sample and item of every text."""
    languages = small_tokenizer(data).languages
    return [
        (batch.source, languages[batch.text.language[row, 0]], number, item)
        for batch in batches
        for row, (number, item) in enumerate(zip(batch.sample.tolist(), batch.item.tolist(), strict=True))
    ]


@pytest.mark.parametrize(("world", "workers"), [(1, 0), (2, 0), (2, 1)])
def test_every_pair_once_over_all_ranks(tatoeba, data, world, workers, caplog):
    """Pitfall M09: a language's English sentences are its own, though others have the same."""
    ranks = [pairs(tatoeba, data, rank, world, workers=workers) for rank in range(world)]
    assert len({len(rank) for rank in ranks}) == 1
    every = [batch for turn in zip(*ranks, strict=True) for batch in turn if batch.size]
    wanted = [("de", n, text) for n, text in enumerate(GERMAN)] + [("sw", 5 + n, text) for n, text in enumerate(SWAHILI)]
    wanted += [("en", n, text) for n, text in enumerate([*ENGLISH, *ENGLISH[:2], "The home is red."])]
    assert rows(every, data) == [("tatoeba", code, number, reads_as(text)) for code, number, text in wanted]
    assert equal(tuple(every), tuple(pairs(tatoeba, data)))
    assert max(batch.size for batch in every) == 2
    assert all(len(batch.text.language.unique()) == 1 for batch in every)
    assert "source tatoeba: left out, as they are none of the tokenizer's languages: it" in caplog.text


def test_texts_that_read_alike_share_an_item(tatoeba, data):
    items = [item for _, code, _, item in rows(pairs(tatoeba, data), data) if code == "de"]
    assert items[0] == items[3]
    assert len(set(items)) == 4


def test_languages_that_are_asked_for(tatoeba, data, caplog):
    found = rows(pairs(tatoeba, data, languages=["sw"]), data)
    assert Counter(code for _, code, _, _ in found) == {"sw": 3, "en": 3}
    assert not caplog.records
    found = rows(pairs(tatoeba, data, least=4), data)
    assert Counter(code for _, code, _, _ in found) == {"de": 5, "en": 5}
    assert "source tatoeba: left out, as they have fewer than 4 sentences: sw 3" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"languages": ["fr"]}, "source 'tatoeba': no sentences in fr; languages found: de, it, sw"),
        ({"languages": ["it"]}, "unknown language 'it'"),
        ({"least": 6}, r"source 'tatoeba': no language has 6 sentences or more; .*found: de 5, sw 3"),
        ({"least": 0}, "least is 0; expected 1 or more"),
        ({"pivot": "ita"}, "unknown language 'it'"),
        ({"pivot": "fra"}, "source 'tatoeba': .* expected files tatoeba.LANGUAGE-fra.LANGUAGE and .fra, found none"),
        ({"batch_size": 0}, "batch_size is 0; expected 1 or more"),
    ],
)
def test_tatoeba_faults(tatoeba, data, options, message):
    with pytest.raises(ValueError, match=message):
        pairs(tatoeba, data, **options)


def test_only_languages_that_the_tokenizer_does_not_know(tmp_path, data):
    put(tmp_path / "tatoeba.ita-eng.ita", "Il cane dorme.\n")
    put(tmp_path / "tatoeba.ita-eng.eng", "The dog sleeps.\n")
    with pytest.raises(ValueError, match="no language that the tokenizer knows; languages found: it"):
        pairs(tmp_path, data)


def keyed(name, texts) -> str:
    return "".join(f"{name}-{number}\t{text}\n" for number, text in enumerate(texts))


@pytest.fixture
def bucc(tmp_path):
    """Two splits of German, one of Italian."""
    for split, gold in (("dev", "de-1\ten-0\nde-0\ten-2\nde-0\ten-1\n"), ("test", "de-2\ten-2\n")):
        put(tmp_path / f"de-en.{split}.de", keyed("de", GERMAN))
        put(tmp_path / f"de-en.{split}.en", keyed("en", ENGLISH[:4]))
        put(tmp_path / f"de-en.{split}.gold", gold)
    put(tmp_path / "it-en.dev.it", keyed("it", ["Il cane dorme."]))
    put(tmp_path / "it-en.dev.en", keyed("en", ENGLISH[:1]))
    put(tmp_path / "it-en.dev.gold", "it-0\ten-0\n")
    return tmp_path


def collections(folder, data, rank=0, world=1, splits=("dev", "test"), **options):
    options = {"max_tokens": 32, "batch_size": 3, "workers": 0, **options}
    sources = {f"bucc/{split}": BuccSplit(str(folder), split) for split in splits}
    return read(BuccData(sources, small_tokenizer(data).path, **options), rank, world)


@pytest.mark.parametrize(("world", "workers"), [(1, 0), (2, 1)])
def test_both_sides_of_every_split(bucc, data, world, workers, caplog):
    """Gold pairs share a number, of which a text may have several; all others have one of their own (pitfall M09)."""
    ranks = [collections(bucc, data, rank, world, workers=workers) for rank in range(world)]
    every = [batch for turn in zip(*ranks, strict=True) for batch in turn if batch.size]
    found = rows(every, data)
    assert all(len(batch.text.language.unique()) == 1 for batch in every)
    assert list(dict.fromkeys(source for source, *_ in found)) == ["bucc/dev/de", "bucc/test/de"]
    german, english = ([row[2:] for row in found if row[:2] == ("bucc/dev/de", code)] for code in ("de", "en"))
    # sorted pairs: 0 (de-0, en-1), 1 (de-0, en-2), 2 (de-1, en-0)
    texts = (0, GERMAN[0]), (1, GERMAN[0]), (2, GERMAN[1]), (3, GERMAN[2]), (4, GERMAN[3]), (5, GERMAN[4])
    assert german == [(number, reads_as(text)) for number, text in texts]
    assert english == [(number, reads_as(text)) for number, text in zip((2, 0, 1, 6), ENGLISH, strict=False)]
    shared = Counter(sample for source, _, sample, _ in found if source == "bucc/test/de")
    assert sorted(shared.values()) == [1] * 7 + [2]
    assert "source bucc/dev: left out, as they are none of the tokenizer's languages: it" in caplog.text


def test_numbers_of_a_collection():
    found = Comparable("de", "en", {"a": "A", "b": "B"}, {"x": "X", "y": "Y"}, frozenset({("b", "x"), ("b", "y")}))
    assert number_texts(found) == ([(2, "A"), (0, "B"), (1, "B")], [(0, "X"), (1, "Y")])
    assert number_texts(found._replace(pairs=None)) == ([(0, "A"), (1, "B")], [(2, "X"), (3, "Y")])


def test_bucc_faults(bucc, data):
    """What is tuned on must not be what is reported, and every language needs both."""
    path, one = small_tokenizer(data).path, BuccSplit(str(bucc), "dev")
    with pytest.raises(ValueError, match=r"sources a, b read the same split twice; what thresholds are tuned on"):
        BuccData({"a": one, "b": replace(one, folder=f"{bucc}/../{bucc.name}")}, path)
    with pytest.raises(ValueError, match="batch_size is 0"):
        BuccData({"a": one}, path, batch_size=0)
    with pytest.raises(ValueError, match=r"source 'bucc/none': .*no file LANGUAGE-en.none.en; languages found with this split"):
        collections(bucc, data, splits=("dev", "none"))
    with pytest.raises(ValueError, match=r"source 'bucc/dev': no sentences in sw; languages found: de, it"):
        collections(bucc, data, languages=["sw"])
    put(bucc / "sw-en.test.sw", keyed("sw", SWAHILI))
    put(bucc / "sw-en.test.en", keyed("en", ENGLISH))
    with pytest.raises(ValueError, match=r"'bucc/test': .*sw-en.test.gold is missing, so that nothing can be scored; add it"):
        collections(bucc, data)
    put(bucc / "sw-en.test.gold", "")
    with pytest.raises(ValueError, match=r"sw-en.test.gold names no pair"):
        collections(bucc, data)
    put(bucc / "sw-en.test.gold", "sw-0\ten-0\n")
    with pytest.raises(ValueError, match=r"source 'bucc/dev' has no sw, which another source has; .*all \(here: de\)"):
        collections(bucc, data)
    assert {batch.source for batch in collections(bucc, data, languages=["de"]) if batch.size} == {
        "bucc/dev/de",
        "bucc/test/de",
    }


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"tatoeba.deu-eng.deu.gz": "Ein Hund.\n"},
            r"tatoeba.deu-eng.deu and tatoeba.deu-eng.deu.gz are the same side; .*away",
        ),
        (
            {"tatoeba.de-eng.de": "Ein Hund.\n", "tatoeba.de-eng.eng": "A dog.\n"},
            r"tatoeba.deu-eng.\* is in de, as 'de' is, and one language has one set; move one away",
        ),
        ({"tatoeba.en-eng.en": "A dog.\n", "tatoeba.en-eng.eng": "A dog.\n"}, "tatoeba.en-eng.* is in en, as 'eng' is"),
        (
            {"tatoeba.swh-eng.swh.gz": "", "tatoeba.swh-eng.eng": ""},
            "swh.gz and tatoeba.swh-eng.eng: both are empty; copy them",
        ),
        ({"tatoeba.deu-eng.deu": "\n" * 5}, "deu-eng.deu and tatoeba.deu-eng.eng: all of 5 pairs have a blank side"),
    ],
)
def test_files_of_tatoeba_that_cannot_be_meant(tatoeba, data, files, message):
    for name, content in files.items():
        put(tatoeba / name, content)
    with pytest.raises(ValueError, match=f"source 'tatoeba': .*{message}"):
        pairs(tatoeba, data)


def test_two_folders_of_the_same_sentences_are_told(tatoeba, data, tmp_path_factory, caplog):
    other = tmp_path_factory.mktemp("other")
    for name in ("tatoeba.deu-eng.deu", "tatoeba.deu-eng.eng", "tatoeba.swh-eng.swh.gz"):
        (other / name).write_bytes((tatoeba / name).read_bytes())
    put(other / "tatoeba.swh-eng.eng", lines(ENGLISH[2:]))
    sources = {"one": str(tatoeba), "other": str(other)}
    read(TatoebaData(sources, small_tokenizer(data).path, least=1, max_tokens=32, workers=0))
    assert [line for line in caplog.messages if "same" in line] == ["sources one and other hold the same sentences in de"]


def test_files_of_bucc_that_cannot_be_meant(bucc, data):
    for name, content, message in (
        ("de-en.dev.gold.gz", "de-0\ten-0\n", r"de-en.dev.gold and de-en.dev.gold.gz are both there; .* move one away"),
        ("de-en.dev.de", "", "de-en.dev.de: it is empty; copy it anew"),
        ("de-en.test.en", "en-2\t\u200b\n", "de-en.test.en: all of 1 sentences are blank"),
    ):
        before = (bucc / name).read_bytes() if (bucc / name).exists() else None
        put(bucc / name, content)
        with pytest.raises(ValueError, match=message):
            collections(bucc, data)
        (bucc / name).unlink() if before is None else (bucc / name).write_bytes(before)
    collections(bucc, data)


def test_what_is_tuned_on_is_not_what_is_reported_under_other_keys(bucc, data, caplog):
    put(bucc / "de-en.dev.gold", "de-2\ten-2\nde-0\ten-1\n")
    put(bucc / "de-en.test.de", keyed("t", GERMAN))
    put(bucc / "de-en.test.gold", "t-2\ten-2\nt-1\ten-1\n")
    collections(bucc, data)
    assert (
        "sources bucc/dev and bucc/test share 1 gold pairs in de, of 2 and 2: what is reported was in part tuned on"
        in caplog.text
    )
    put(bucc / "de-en.test.gold", "t-2\ten-2\nt-0\ten-1\n")
    with pytest.raises(ValueError, match=r"'bucc/dev' and 'bucc/test' have the same gold pairs in de \(2\); .* its own split"):
        collections(bucc, data)
