"""What a tokenizer makes of texts, against counts by hand; what is told to be wrong, and what is not."""

import io
import json
from collections import Counter

import numpy as np
import pytest
from small_shards import record, write_shards, write_tar
from trained import names, small_tokenizer

from interlingua.datamodules.check_tokenizer import check_tokenizer, choose_texts
from interlingua.datamodules.sample import BadSampleError
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.modalities.cutters.own import MASK
from interlingua.modalities.text import collate_text
from interlingua.modalities.tokenizer import Tokenizer, write_tokenizer


@pytest.fixture(scope="module")
def tokenizer(data) -> Tokenizer:
    return small_tokenizer(data)


def shards_of(folder, *texts: tuple[str, str]) -> ShardSet:
    """A sample a text."""
    members = {f"{number:04d}.json": record(text) for number, text in enumerate(texts)}
    return ShardSet(write_tar(folder / "texts.tar", members))


def test_counts_are_those_by_hand(tmp_path, tokenizer):
    texts = ["a dog  and a cat", "the \uff44og", "a cat \u03a9\u03a9"]  # two spaces are one, a full-width d is a d
    report = check_tokenizer(tokenizer, shards_of(tmp_path, *(("en", text) for text in texts)), max_tokens=9)
    (english,) = report.languages.values()
    pieces = tokenizer.encode(texts)
    rows = collate_text(texts, ["en"] * 3, tokenizer, 512)
    assert (english.texts, english.read, english.words, english.characters) == (3, 3, 10, 23)
    assert english.pieces == len(pieces.ids)
    assert english.bytes == 4  # two bytes a letter
    assert english.unknown == 0
    assert english.lacking == {"\u03a9": 2}
    assert english.returned == 3
    assert english.longest == rows.present.sum(1).max()
    assert english.cut == (rows.present.sum(1) > 9).sum() > 0
    assert not english.unspaced
    assert english.fertility == len(pieces.ids) / 10
    assert english.shares["bytes"] == 4 / len(pieces.ids)


def test_real_names_of_twelve_languages_fit(data, tmp_path, tokenizer):
    texts = names(data)[::7]
    report = check_tokenizer(tokenizer, shards_of(tmp_path, *texts), max_tokens=64)
    assert report.fit
    assert not report.notes
    assert report.unreadable == {}
    assert {code: one.texts for code, one in report.languages.items()} == Counter(code for code, _ in texts)
    assert {code for code, one in report.languages.items() if one.unspaced} == {"ja", "zh"}
    for one in report.languages.values():
        assert one.returned == one.read == one.texts
        assert 1 <= one.fertility < 8
        assert one.shares["bytes"] < 0.1  # rare syllables of Korean
    found = json.loads(json.dumps(report.to_json()))
    assert found["fit"] is True
    assert found["languages"]["en"]["shares"] == {"unknown": 0, "bytes": 0, "returned": 1, "cut": 0}
    assert found["tokenizer"]["hash"] == tokenizer.hash
    assert found["tokenizer"]["vocabulary"]["mask"] == 4


def test_what_is_wrong_is_told(tmp_path, tokenizer, monkeypatch):
    shards = shards_of(tmp_path, ("en", "a dog"), ("de", "ο σκύλος τρέχει"), ("el", "ο σκύλος"), ("en", "a cat in the house"))
    report = check_tokenizer(tokenizer, shards, max_tokens=5)
    assert not report.fit
    foreign, greek = report.problems
    assert "languages of the data that the tokenizer does not know" in foreign
    assert "el; train or import it with them" in foreign
    assert greek.startswith("de: ")
    assert "bytes of characters that are not in the vocabulary (ο " in greek
    assert any(note.startswith("en: ") and "longer than 5 tokens and are cut" in note for note in report.notes)
    assert any("languages of the tokenizer without text here: ar, es" in note for note in report.notes)
    only = check_tokenizer(tokenizer, shards, max_tokens=64, languages=["en"])
    assert only.fit
    assert not only.notes
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: "a dog")
    lost = check_tokenizer(tokenizer, shards, languages=["en"])
    assert lost.problems == [
        "en: only 50.0% of the texts come back from their pieces; 'a cat in the house' comes back as 'a dog'"
    ]


def test_a_model_without_bytes_has_unknown_pieces(tmp_path, data):
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=(text for code, text in names(data) if code == "en"),
        model_writer=model,
        vocab_size=300,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        control_symbols=[MASK],
        minloglevel=2,
    )
    write_tokenizer(tmp_path / "plain.model", model.getvalue(), ["en"], {})
    report = check_tokenizer(Tokenizer(tmp_path / "plain.model"), shards_of(tmp_path, ("en", "a dog \u03a9 \u0416")))
    assert report.languages["en"].unknown == 2
    assert report.languages["en"].lacking == {"\u03a9": 1, "\u0416": 1}
    assert "of the pieces are unknown: their content is lost" in report.problems[0]
    assert "come back from their pieces" in report.problems[1]


def test_texts_are_spread_evenly_over_each_language(data, tmp_path):
    shards = ShardSet(write_shards(tmp_path, data, images=False))  # 23 samples of en, de, sw, a name and a keyword each
    chosen, counts = choose_texts(shards, 5)
    assert counts == {"en": 46, "de": 46, "sw": 46}
    table = shards.texts
    for number in range(3):
        own = np.flatnonzero(table.language == number)
        assert np.searchsorted(own, chosen[table.language[chosen] == number]).tolist() == [0, 11, 22, 34, 45]
    chosen, counts = choose_texts(shards, 1000, ["sw"], ["name"])
    assert counts == {"sw": 23}
    assert (table.role[chosen] == shards.roles.index("name")).all()
    with pytest.raises(ValueError, match=r"no text in fr; the shards have languages de, en, sw, roles keyword, name"):
        choose_texts(shards, 5, ["fr", "en"])
    with pytest.raises(ValueError, match=r"no text at all in the roles caption; the shards have"):
        choose_texts(shards, 5, None, ["caption"])


def test_limited_reading_reads_the_chosen_texts(data, tmp_path, tokenizer):
    shards = ShardSet(write_shards(tmp_path, data, images=False))
    report = check_tokenizer(tokenizer, shards, limit=5)
    chosen, _ = choose_texts(shards, 5)
    texts = [text for sample in shards for text in sample.texts]
    for code, one in report.languages.items():
        own = [texts[number].text for number in chosen if texts[number].language == code]
        assert (one.texts, one.read) == (46, 5)
        assert one.pieces == len(tokenizer.encode(own).ids)


def test_samples_that_cannot_be_read_are_counted(data, tmp_path, tokenizer, monkeypatch):
    members = {"a.json": record(("en", "a dog")), "b.json": record(("en", " ")), "c.json": record(("en", "a cat"))}
    shards = ShardSet(write_tar(tmp_path / "some.tar", members))
    read = ShardSet.read

    def fail(self, number, image=True, members=None):
        if number == 1:
            raise BadSampleError("unreadable shard", "gone")
        return read(self, number, image, members)

    monkeypatch.setattr(ShardSet, "read", fail)
    report = check_tokenizer(tokenizer, shards)
    assert report.unreadable == {"empty caption": 1, "unreadable shard": 1}
    assert (report.languages["en"].texts, report.languages["en"].read) == (2, 1)
