"""Words as alignments count them, and as training counts them: the same words, whatever the tokenizer."""

import gzip
import json
from itertools import islice

import pytest
import torch
from trained import small_tokenizer

from interlingua.datamodules.align.words import find_words, split_words
from interlingua.datamodules.alignments import collate_alignment, read_alignment
from interlingua.datamodules.sample import Alignment, Caption, Sample
from interlingua.modalities.normalization import normalize
from interlingua.modalities.text import collate_text

KNOWN = ("ar", "de", "en", "es", "fr", "hi", "ja", "ko", "ru", "sw", "tr", "zh")


def parallel(data, languages, count):
    """The first translations from English in each language: language, English, other."""
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = (json.loads(line) for line in file)
        left = dict.fromkeys(languages, count)
        kept = []
        for row in rows:
            if row["split"] == "train" and left.get(row["tgt_lang"]):
                left[row["tgt_lang"]] -= 1
                kept.append((row["tgt_lang"], row["src"], row["tgt"]))
            if not any(left.values()):
                break
    return kept


def test_words_of_many_scripts():
    texts = ["A man, in (a)\u00a0suit.", "", "人工 知能です。ok?", "สวัสดี x", " e\u0301te\u0301! ", "don't 3.5"]
    assert split_words(texts) == [
        ["A", "man,", "in", "(", "a)", "suit."],
        [],
        ["人", "工", "知", "能", "で", "す。", "ok?"],
        ["ส", "วั", "ส", "ดี", "x"],
        ["été!"],
        ["don't", "3.", "5"],
    ]
    assert split_words([]) == []
    assert split_words(["", ""]) == [[], []]


def test_words_of_a_text_do_not_depend_on_its_neighbours(data):
    texts = [text for row in islice(parallel(data, KNOWN, 20), 200) for text in row[1:]]
    assert split_words(texts) == [split_words([text])[0] for text in texts]
    assert ["".join(words) for words in split_words(texts)] == [normalize(text).replace(" ", "") for text in texts]


def test_spaced_scripts_have_the_words_of_training(data):
    """Text.word of a text equals its words here, for every text without an unspaced script."""
    tokenizer = small_tokenizer(data)
    texts = [text for language, *pair in parallel(data, set(KNOWN) - {"zh", "ja", "sw"}, 40) for text in pair]
    pieces = tokenizer.encode(texts)
    start = 0
    same = 0
    for count, words in zip(pieces.counts.tolist(), split_words(texts), strict=True):
        same += pieces.words[start : start + count].max(initial=-1) + 1 == len(words)
        start += count
    assert same == len(texts)


@pytest.mark.parametrize("language", ["de", "hi", "zh", "ja", "ko", "ar"])
def test_an_alignment_means_the_same_characters_in_training(data, language):
    """Word i here holds the first character of the piece that training numbers for it; checked on the spelt pieces."""
    tokenizer = small_tokenizer(data)
    rows = parallel(data, [language], 25)
    english, other = [row[1] for row in rows], [row[2] for row in rows]
    text = collate_text(english, ["en"] * len(rows), tokenizer, 512)
    translation = collate_text(other, [language] * len(rows), tokenizer, 512)
    split = split_words(other)
    pairs = [[(0, place) for place in range(len(words))] for words in split]
    alignment = collate_alignment(pairs, english, other, text, translation, tokenizer)
    for row, words in enumerate(split):
        found = [pair for pair in alignment[row].tolist() if pair[0] >= 0]
        assert sorted({pair[1] for pair in found}) == list(range(int(translation.word[row].max()) + 1))
        spelt = {}
        for token, word in zip(translation.tokens[row].tolist(), translation.word[row].tolist(), strict=True):
            if word >= 0:
                spelt.setdefault(word, []).append(token)
        starts = []
        before = ""
        for word in range(len(spelt)):
            starts.append(len(before))
            before += tokenizer.decode(spelt[word]).replace(" ", "")
        if "\ufffd" not in before:
            places = [len("".join(words[:place])) for place in range(len(words))]
            assert set(starts) <= set(places)
            assert before == "".join(words)


def test_pairs_of_words_that_were_cut_off_are_dropped(data):
    tokenizer = small_tokenizer(data)
    texts, others = ["red heart", "dog"], ["rotes Herz und noch viele Wörter", "Hund"]
    text = collate_text(texts, ["en", "en"], tokenizer, 32)
    whole, short = (collate_text(others, ["de", "de"], tokenizer, length) for length in (64, 8))
    pairs = [[(0, 0), (1, 1), (1, 5)], []]
    assert collate_alignment(pairs, texts, others, text, whole, tokenizer).tolist() == [
        [[0, 0], [1, 1], [1, 5]],
        [[-1, -1]] * 3,
    ]
    assert [1, 5] not in collate_alignment(pairs, texts, others, text, short, tokenizer)[0].tolist()
    assert collate_alignment([[], []], texts, others, text, whole, tokenizer) is None
    assert collate_alignment([[(7, 0)], []], texts, others, text, whole, tokenizer).shape == torch.Size([2, 0, 2])


def test_read_alignment_in_both_directions():
    texts = (Caption("en", "a red dog"), Caption("de", "ein roter Hund"), Caption("fr", "un chien rouge"))
    alignments = (Alignment(0, 1, ((2, 2), (0, 0)), ((1, 1),)), Alignment(2, 0, ((1, 2),)))
    sample = Sample("s.tar", "k", 1, texts, alignments=alignments)
    assert read_alignment(sample, 0, 1) == [(0, 0), (2, 2)]
    assert read_alignment(sample, 0, 1, possible=True) == [(0, 0), (1, 1), (2, 2)]
    assert read_alignment(sample, 0, 2) == [(2, 1)]
    assert read_alignment(sample, 2, 0) == [(1, 2)]
    assert read_alignment(sample, 1, 2) == []


def test_numbers_of_words_stand_at_each_character():
    found = find_words(["ab c", "d"])
    assert found.characters == "abcd"
    assert found.number.tolist() == [0, 0, 1, 0]
    assert found.counts.tolist() == [3, 1]
