"""Passages in two languages in turn, read: what each row holds, how many fit into a budget, stopped and resumed."""

import gzip
import json
from functools import cache

import numpy as np
import pytest
import tiny
import torch
from document_rows import identify
from learning import reach_half
from recording import check_resumption
from small_shards import as_rank, record, write_tar
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.draws import Sampling
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.shards.command import main
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.modalities.augmentation import ImageTransform
from interlingua.tasks.objectives.masked_language import MaskedLanguage

TOKENS = {"batch_tokens": 1024, "micro_batch_tokens": 256}
BOTH = {"text": TextChoice(), "translation": TranslationChoice()}
ENGLISH = {"text": TextChoice(["en"]), "translation": TranslationChoice()}


@pytest.fixture(scope="module")
def lines(data):
    """What help pages of names before `f` have in German and in French."""
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        found = [line for line in file if '"gnome"' in line and ('"tgt_lang": "de"' in line or '"tgt_lang": "fr"' in line)]
    return [line for line in found if json.loads(line)["id"] < "f"]


@pytest.fixture(scope="module")
def pages(lines):
    """Pairs of sentences in their order, by page and language."""
    found: dict[tuple[str, str], dict[int, tuple[str, str]]] = {}
    for row in map(json.loads, lines):
        if row["source"] == "gnome" and row["split"] == "train":
            page, number = row["id"].split("#")
            found.setdefault((page, row["tgt_lang"]), {})[int(number)] = row["src"], row["tgt"]
    return {key: [pairs[number] for number in sorted(pairs)] for key, pairs in found.items()}


@pytest.fixture(scope="module")
def documents(lines, tmp_path_factory):
    """The same as shards, from the command line."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "t.jsonl").write_text("".join(lines), encoding="utf-8")
    options = ["--documents", "id", "--parallel", "--where", "source=gnome", "split=train"]
    assert main(["write", "jsonl", str(folder / "t.jsonl"), str(folder / "pages"), *options]) == 0
    return str(folder / "pages")


def reader(paths, data, max_tokens=64, **options):
    options = {**BOTH, "alternate": 3, **options}
    return Reader("pages", Source(paths, **options), ShardSet(paths), small_tokenizer(data), max_tokens)


def in_turn(pairs, lead):
    """Language and text of each sentence, the first of the one language, the second of the other, ..."""
    return [pair[(lead + place) % 2] for place, pair in enumerate(pairs)]


@cache
def encode(tokenizer, text):
    return tokenizer.encode([text]).ids.tolist()


def joined(sentences, data, max_tokens):
    """Token and language of each place of a row."""
    tokenizer, found = small_tokenizer(data), [(small_tokenizer(data).vocabulary.start, sentences[0][0])]
    for code, text in sentences:
        pieces = encode(tokenizer, text)
        found += [(one, code) for one in (*pieces, tokenizer.vocabulary.end)]
    if len(found) > max_tokens:
        found = found[: max_tokens - 1]
        if found[-1][0] != tokenizer.vocabulary.end:
            found.append((tokenizer.vocabulary.end, found[-1][1]))
    return tuple(found)


def rows_of(batch, data):
    languages = small_tokenizer(data).languages
    return [
        tuple((token, languages[code]) for token, code in zip(tokens[here].tolist(), codes[here].tolist(), strict=True))
        for tokens, codes, here in zip(batch.text.tokens, batch.text.language, batch.text.present, strict=True)
    ]


SENTENCES = [("A dog.", "Ein Hund."), ("It is in the house.", "Er ist im Haus."), ("A cat.", "Eine Katze."), ("Good.", "Gut.")]


@pytest.mark.parametrize("max_tokens", [16, 64])
def test_a_row_holds_the_sentences_in_turn(tmp_path, data, max_tokens):
    """Alone of a document of four: three passages from each language, in one row that is cut at its end."""
    english, german = zip(*SENTENCES, strict=True)
    texts = [("en", text) for text in english] + [("de", text) for text in german]
    path = write_tar(tmp_path / "a.tar", {"0.json": record(*texts, document=True, item=7)})
    opened = reader(path, data, max_tokens, batch_size=1)
    batch = opened.read(opened.draws.draws(0, 80)).batch
    assert batch.translation is batch.alignment is batch.image is None
    assert len(set(batch.item.tolist())) == 1
    pairs = [(("en", one), ("de", other)) for one, other in SENTENCES]
    expected = {
        joined(in_turn(pairs[begin:end], lead), data, max_tokens) for lead in (0, 1) for begin, end in ((0, 3), (1, 4), (2, 4))
    }
    assert set(rows_of(batch, data)) == expected
    first = reader(path, data, max_tokens, batch_size=1, **ENGLISH)
    assert {row[0][1] for row in rows_of(first.read(first.draws.draws(0, 20)).batch, data)} == {"en"}


@pytest.mark.parametrize("sentences", [2, 5])
def test_real_pages_are_read_in_two_languages(documents, pages, data, sentences):
    opened = reader(documents, data, 48, batch_size=4, alternate=sentences, **ENGLISH)
    written, long = len(pages), sum(len(pairs) > 1 for pairs in pages.values())
    assert opened.summary == (
        f"reads {long} of {written} samples, leaves out {written - long} without two or more sentences of a document, as many "
        "in both languages"
    )
    possible = {
        joined(in_turn([(("en", one), (code, other)) for one, other in pairs[begin : begin + sentences]], 0), data, 48)
        for (_, code), pairs in pages.items()
        for begin in range(len(pairs) - 1)
    }
    batch = opened.read(opened.draws.draws(0, long)).batch
    assert sorted(batch.sample.tolist()) == opened.samples.tolist()
    assert set(rows_of(batch, data)) <= possible
    assert len(set(batch.item.tolist())) == len({page for (page, _), pairs in pages.items() if len(pairs) > 1})


@pytest.mark.parametrize("sentences", [2, 5])
def test_whole_rows_count_in_buckets(documents, data, sentences):
    """A row is as long as its sentences; cut, it may be one shorter than it could be, where no piece of a sentence fits."""
    opened = reader(documents, data, alternate=sentences, **TOKENS)
    for part in opened.parts.block(0):
        batch = opened.read(*part).batch
        assert batch.text.tokens.numel() <= 256
    draws = opened.draws.draws(0, len(opened))
    first, second = opened._lengths(opened.draws.chooser)
    whole = first[draws.text.numpy()] + second[draws.translation.numpy()]
    read = opened.read(draws).batch.text.present.sum(1).numpy()
    assert (read[whole <= 64] == whole[whole <= 64]).all()
    assert set(read[whole > 64]) == {63, 64}


def test_pairs_of_languages_are_drawn_in_proportion_by_their_tokens(documents, data):
    opened = reader(documents, data, 32, batch_size=4, sampling=Sampling(0.0, by="tokens"), **ENGLISH)
    assert [one.name for one in opened.draws.strata] == ["en-de", "en-fr"]
    draws = opened.draws.draws(0, opened.draws.turns.block)
    language = opened.texts.language[draws.translation.numpy()]
    first, second = opened._lengths(opened.draws.chooser)
    read = np.minimum(first[draws.text.numpy()] + second[draws.translation.numpy()], 32)
    for one in opened.draws.strata:
        assert read[language == one.pair[1]].mean() == pytest.approx(one.tokens, rel=0.03)
    sums = [read[language == one.pair[1]].sum() for one in opened.draws.strata]
    assert sums[0] == pytest.approx(sums[1], rel=0.02)


def test_masked_language_modelling_hides_both_languages_and_no_control_token(documents, data):
    """The objective is as ever; what it learns here it reads off two languages in one row."""
    opened, tokenizer = reader(documents, data, 128, batch_size=8, alternate=2), small_tokenizer(data)
    torch.manual_seed(0)
    tower = tiny.text_tower(vocabulary=tokenizer.vocabulary, max_tokens=128, languages=len(tokenizer.languages))
    objective = MaskedLanguage(rate=0.3)
    objective.connect(tower)
    marked = objective.mark(opened.read(opened.draws.draws(0, 8)).batch)
    assert not (marked.text.hidden & (marked.text.word < 0)).any()
    assert ((marked.text.word < 0) & marked.text.present).sum() > 2 * 8
    rows = zip(marked.text.language, marked.text.hidden, strict=True)
    both = [len(language[hidden].unique()) == 2 for language, hidden in rows]
    assert sum(both) >= 6  # of 8: a sentence may be too short, or so long that nothing is left of the other

    def cost():
        loss = objective.loss(objective.read(tower, marked), marked)
        return loss.total / loss.count

    reach_half(cost, tower, objective)


def test_documents_of_unlike_numbers_are_counted_and_shards_of_them_refused(tmp_path, data):
    pair = [("en", "A dog."), ("de", "Ein Hund."), ("en", "A cat."), ("de", "Eine Katze.")]
    members = {
        "0.json": record(*pair, document=True),
        "1.json": record(*pair),
        "2.json": record(*pair[:3], document=True),
        "3.json": record(*pair[:2], document=True),
        "4.json": record(*pair[:1], ("en", "A cat."), document=True),
    }
    opened = reader(write_tar(tmp_path / "a.tar", members), data, batch_size=1)
    what = "two or more sentences of a document, as many in both languages"
    assert opened.summary == f"reads 1 of 5 samples, leaves out 1 without translation, 4 without {what}"
    assert opened.samples.tolist() == [0]
    path = write_tar(tmp_path / "b.tar", {name: members[name] for name in ("1.json", "2.json")})
    with pytest.raises(ValueError, match=r"'pages' reads 0 of 2 samples.*`shards write jsonl|--documents FIELD --parallel`"):
        reader(path, data, batch_size=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alternate": 1}, "alternate is 1; give at least 2 sentences, one in each language"),
        ({"alternate": 2, "translation": None}, "`alternate` reads every second sentence in its translation"),
        ({"alternate": 2, "image": ImageTransform(8), "batch_size": 4}, "and no picture; give `translation`, if only as {}"),
        ({"alternate": 2, "following": 1}, "or what is `following` in the document; give one"),
        ({"alternate": 2, "pack": True}, "`pack` fills rows with texts alone"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Source("x", **{**BOTH, **options})


def test_a_passage_is_one_text():
    assert Source("x", **BOTH).two_texts
    assert not Source("x", **BOTH, alternate=2).two_texts


def test_validation_is_refused_since_it_is_of_one_language(data):
    with pytest.raises(ValueError, match=r"validation\.pages: validation reads one language at a time, but the passages"):
        Shards({}, small_tokenizer(data).path, 64, validation={"pages": Source("x", 8, **BOTH, alternate=2)})


def module(paths, data, workers=0, alternate=3, **options):
    sources = {
        "buckets": Source(paths, alternate=alternate, sampling=Sampling(0.5), **BOTH, **TOKENS),
        "rows": Source(paths, 4, 2, alternate=2, **ENGLISH),
    }
    return Shards(sources, small_tokenizer(data).path, 64, None, workers=workers, **options)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(tmp_path, documents, data, workers):
    check_resumption(tmp_path, lambda count: module(documents, data, count), (3, 5, 8), (workers, 0, workers))


def test_another_number_of_sentences_is_another_order(documents, data):
    before = as_rank(module(documents, data))
    before.setup("fit")
    after = as_rank(module(documents, data, alternate=4))
    after.setup("fit")
    with pytest.raises(ValueError, match=r"buckets\.alternate: checkpoint 3, now 4"):
        after.load_state_dict(before.state_dict())


def test_two_ranks_share_the_steps_of_one(documents, data):
    def read(rank, world):
        opened = as_rank(module(documents, data), rank, world)
        opened.setup("fit")
        return [opened.train_dataloader().loader.dataset[step].batches for step in range(3)]

    whole, ranks = read(0, 1), [read(rank, 2) for rank in range(2)]
    for step in range(3):
        assert identify(whole[step]) == identify([*ranks[0][step], *ranks[1][step]])
