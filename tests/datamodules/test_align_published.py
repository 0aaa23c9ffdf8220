"""Alignments of shards carried over to the words of published tokenizers, and languages passed to XLM's."""

import pytest
from published import checkpoints, of_xlm
from small_shards import record, write_tar

from interlingua.datamodules.align.words import split_words
from interlingua.datamodules.alignments import collate_alignment
from interlingua.datamodules.shards.lengths import find_lengths
from interlingua.datamodules.shards.reader import ShardSet
from interlingua.modalities.normalization import normalize
from interlingua.modalities.text import collate_text
from interlingua.modalities.tokenizer_import import import_tokenizer

LANGUAGES = ["de", "en", "es", "fr", "ru", "tr", "zh"]


@pytest.mark.parametrize("family", ["xlm-roberta", "bert", "xlm"])
def test_aligned_words_are_the_same_words(data, tmp_path, family):
    folder = checkpoints(data) / ("xlm/hf" if family == "xlm" else family)
    languages = None if family == "xlm" else LANGUAGES
    tokenizer = import_tokenizer(folder, family, tmp_path / "some.json", languages, report=lambda line: None)
    pairs = [(code, text) for code, text in of_xlm(data) if code in LANGUAGES]
    codes, texts = [code for code, _ in pairs], [text for _, text in pairs]
    words = split_words(texts)
    alike = [[(number, number) for number in range(len(one))] for one in words]  # every text is its own translation
    text = collate_text(texts, codes, tokenizer, 512)
    alignment = collate_alignment(alike, texts, texts, text, text, tokenizer)
    kept = right = 0
    for row, (source, own) in enumerate(zip(texts, words, strict=True)):
        found = alignment[row][alignment[row, :, 0] >= 0]
        assert found[:, 0].equal(found[:, 1])
        kept += len(found) > 0
        if codes[row] != "zh" and normalize(source) == " ".join(own):  # no punctuation inside words: parts and words are one
            right += found[:, 0].tolist() == list(range(len(own)))
            assert found[:, 0].tolist() == list(range(len(own))) or family != "bert"
    assert kept > 0.95 * len(texts)
    assert right > 20
    short = collate_text(texts, codes, tokenizer, 8)
    cut = collate_alignment(alike, texts, texts, short, short, tokenizer)
    assert (cut.amax((1, 2)) <= short.word.amax(1)).all()


def test_lengths_are_counted_in_the_language_of_the_text(data, tmp_path):
    """Packed rows hold what was counted only if both read a text alike."""
    folder = checkpoints(data) / "xlm" / "hf"
    tokenizer = import_tokenizer(folder, "xlm", tmp_path / "some.json", report=lambda line: None)
    pairs = [(code, text) for code, text in of_xlm(data) if code in ("fr", "it", "en")] + [("fr", "l'eau d'un jour qu'il")]
    members = {f"{number:04d}.json": record(pair) for number, pair in enumerate(pairs)}
    shards = ShardSet(write_tar(tmp_path / "some.tar", members))
    codes, texts = [code for code, _ in pairs], [text for _, text in pairs]
    rows = collate_text(texts, codes, tokenizer, 512).present.sum(1).tolist()
    assert find_lengths(shards, tokenizer).tolist() == rows == tokenizer.count_tokens(texts, codes).tolist()
    assert rows != tokenizer.count_tokens(texts).tolist()
