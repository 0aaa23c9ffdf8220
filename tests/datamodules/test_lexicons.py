"""Lexicons in the forms that people have, cut by a real tokenizer."""

import gzip
import json
from collections import Counter

import pytest
import torch
from trained import small_tokenizer

from interlingua.datamodules.lexicons import compile_dictionary, read_lexicon, with_capitals
from interlingua.modalities.text import collate_text
from interlingua.tasks.objectives.dictionary_search import DictionarySearch


def test_lines_of_two_words_are_pairs_both_ways(tmp_path):
    muse, tabs = tmp_path / "en-de.txt", tmp_path / "en-de.tsv.gz"
    muse.write_text("dog hund\n\ncat  katze \n", encoding="utf-8")
    tabs.write_bytes(gzip.compress(b"to go\tgehen\ndog\tder Hund\n"))
    dog, cat = (("en", "dog"), ("de", "hund")), (("en", "cat"), ("de", "katze"))
    assert list(read_lexicon(str(muse), ["en", "de"])) == [dog, dog[::-1], cat, cat[::-1]]
    assert [pair[1] for pair in read_lexicon(str(tabs), ["en", "de"])][::2] == [("de", "gehen"), ("de", "der Hund")]


def test_json_lines_are_pairs_of_all_their_languages(tmp_path):
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps({"words": {"en": "ten", "de": "zehn", "fr": "dix"}, "id": 5}) + "\n\n", encoding="utf-8")
    assert len(list(read_lexicon(str(path), None))) == 6
    assert list(read_lexicon(str(path), ["fr", "en"])) == [(("en", "ten"), ("fr", "dix")), (("fr", "dix"), ("en", "ten"))]


@pytest.mark.parametrize(
    ("name", "content", "languages", "message"),
    [
        ("a.txt", "dog hund\n", None, "a.txt: lines of a word and its translation; say in which two languages"),
        ("a.txt", "dog hund\n", ["en", "de", "fr"], "say in which two languages"),
        ("a.txt", "dog hund\nto go gehen\n", ["en", "de"], "a.txt, line 2: found 3 words"),
        ("a.txt", "dog\thund\t\n", ["en", "de"], "a.txt, line 1: found 3 columns between tabs, expected a word"),
        ("a.txt", "dog\n", ["en", "de"], "a.txt, line 1: found 1 word, expected a word and its translation"),
        ("a.jsonl", '{"words": {"en": "a"}}\n{"word": 1}\n', None, 'line 2: found the fields word, expected {"words": {"en"'),
        ("a.jsonl", "{}\n", None, r"a.jsonl, line 1: found the fields \(none\), expected"),
        ("a.jsonl", '{"words": null}\n', None, "a.jsonl, line 1: found null as words, expected"),
        ("a.jsonl", "[1]\n", None, "a.jsonl, line 1: found a list, expected"),
        ("a.jsonl", '{"words": {"en": ["a", true]}}\n', None, r'line 1, word in en: found \["a", true\], expected a text'),
        ("a.jsonl", '{"words": {"en": "\\ud800"}}\n', None, "line 1: found half of a surrogate pair"),
        ("a.jsonl", "[" * 100_000, None, "a.jsonl, line 1: not JSON that can be read, as it is too deep"),
        ("a.jsonl", "nothing\n", None, r"a.jsonl, line 1: not JSON \(Expecting value at column 1\)"),
    ],
)
def test_mistakes_are_named_with_file_and_line(tmp_path, name, content, languages, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        list(read_lexicon(str(tmp_path / name), languages))
    with pytest.raises(ValueError, match=r"none.txt: cannot be read"):
        list(read_lexicon(str(tmp_path / "none.txt"), ["en", "de"]))


def test_lines_that_give_no_pair_are_counted(tmp_path):
    path, skipped = tmp_path / "some.jsonl", Counter()
    rows = [{"en": "a", "de": "b"}, {"en": "a", "fr": "c"}, {"en": "a"}, {}]
    path.write_text("\n".join(json.dumps({"words": words}) for words in rows) + "\n \n", encoding="utf-8")
    assert len(list(read_lexicon(str(path), ["en", "de"], skipped))) == 2
    assert +skipped == {"line without words in two of the languages": 3, "blank line": 1}


def both(*pairs):
    return [one for pair in pairs for one in (pair, pair[::-1])]


def translations(found, tokenizer, language, text):
    """Translations of a whole text, as they are decoded."""
    search, batch = DictionarySearch(found, 4), collate_text([text], [language], tokenizer, 64)
    words, decoded = search.find_words(batch), set()
    for seed in range(20):
        phrases = search.search(batch, words, torch.tensor([-1]), torch.tensor([seed]))
        for _, start, size in phrases.valid.nonzero().tolist():
            span = slice(int(phrases.begin[0, start, size]), int(phrases.stop[0, start, size]))
            ids = search.pool.tokens[span].tolist()
            decoded.add((start, size + 1, tokenizer.decode(ids).strip(), tokenizer.languages[search.pool.language[span][0]]))
    return decoded


def test_words_are_found_in_sentences_as_the_tokenizer_cuts_them(data):
    """Inside, at the end with a full stop, at the start; phrases; scripts without spaces."""
    tokenizer = small_tokenizer(data)
    pairs = [
        (("en", "dog"), ("de", "Hund")),
        (("en", "red dog"), ("de", "roter Hund")),
        (("en", "dog"), ("zh", "狗")),
        (("en", "dog"), ("tlh", "targh")),
        (("en", "sofa"), ("de", "sofa")),
        (("en", "cat"), ("de", " ")),
        (("en", "dog"), ("en", "hound")),
    ]
    found, skipped = compile_dictionary(both(*pairs), tokenizer)
    assert found.tokenizer == tokenizer.hash
    assert len(found.punctuation) == tokenizer.vocabulary.size
    assert found.punctuation[tokenizer.encode(["dog ."]).ids[-1]] or found.punctuation[tokenizer.encode(["dog."]).ids[-1]]
    assert dict(skipped) == {
        "a language that the tokenizer does not know": 2,
        "the same on both sides": 2,
        "nothing left of a word, or unknown pieces": 2,
    }
    german, chinese = ("Hund", "de"), ("狗", "zh")
    assert translations(found, tokenizer, "en", "dog") == {(0, 1, *german), (0, 1, *chinese)}
    assert translations(found, tokenizer, "en", "the dog.") == {(1, 1, *german), (1, 1, *chinese)}
    assert (2, 2, "roter Hund", "de") in translations(found, tokenizer, "en", "I saw red dog, today")
    assert translations(found, tokenizer, "en", "the red, dog") == {(2, 1, *german), (2, 1, *chinese)}
    assert not translations(found, tokenizer, "en", "the dogs")
    assert not translations(found, tokenizer, "fr", "dog")
    assert {one[2:] for one in translations(found, tokenizer, "zh", "狗")} == {("dog", "en")}
    assert {one[2:] for one in translations(found, tokenizer, "zh", "大狗在")} == {("dog", "en")}


def test_lexicons_in_lower_case_are_taken_with_capitals_too(data):
    tokenizer = small_tokenizer(data)
    pairs = list(
        with_capitals(both((("en", "dog"), ("de", "hund")), (("en", "DVD"), ("de", "film")), (("zh", "狗"), ("en", "dog"))))
    )
    assert (("en", "Dog"), ("de", "Hund")) in pairs
    assert len(pairs) == 6 + 4  # `DVD` and the Chinese word have no lower case to begin with
    found, _ = compile_dictionary(pairs, tokenizer)
    assert {one[2:] for one in translations(found, tokenizer, "de", "der Hund")} == {("Dog", "en")}
    assert {one[2:] for one in translations(found, tokenizer, "de", "der hund")} == {("dog", "en")}


def test_the_lexicon_of_the_data(data):
    tokenizer = small_tokenizer(data)
    found, skipped = compile_dictionary(read_lexicon(str(data / "lexicon.jsonl.gz"), ["en", "de", "ru"]), tokenizer)
    assert not skipped["a language that the tokenizer does not know"]
    assert len(found.pairs) > 3000
    assert ("zehn", "de") in {one[2:] for one in translations(found, tokenizer, "en", "ten")}
