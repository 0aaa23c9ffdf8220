"""The first-dot rule, field maps, and texts that are never split into letters."""

import pytest

from interlingua.datamodules.sample import BadSampleError, Caption
from interlingua.datamodules.shards.fields import FieldMap, TextField, check_language, read_item, read_texts, split_name


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("0001.jpg", ("0001", "jpg")),
        ("0001.JPG", ("0001", "jpg")),
        ("train.v1/0001.jpg", ("train.v1/0001", "jpg")),
        ("0001.seg.png", ("0001", "seg.png")),
        ("22.05.png", ("22", "05.png")),
        ("./0001.jpg", ("./0001", "jpg")),
        ("LICENSE", None),
        (".hidden", None),
        ("folder.d/.hidden", None),
        ("a/", None),
        ("name.", None),
    ],
)
def test_key_ends_at_first_dot_of_base_name(name, split):
    """Pitfall D02: dots of folders never split."""
    assert split_name(name) == split


def read(value, **options):
    fields = FieldMap(texts=(TextField("json", "caption", **options),))
    return read_texts({}, {"json": {"caption": value}}, fields)


def test_one_string_is_one_text_and_a_list_is_many():
    """Pitfall D05: 1 + 5 captions, not one for each letter."""
    assert read("a dog", language="en") == [Caption("en", "a dog")]
    assert [caption.text for caption in read(["a", "b", "c", "d", "e"])] == ["a", "b", "c", "d", "e"]
    assert read(None) == []


def test_texts_say_their_own_language_and_role():
    found = read([{"text": "Hund", "lang": "de", "role": "name"}, {"text": "dog"}], language="en", role="caption")
    assert found == [Caption("de", "Hund", "name"), Caption("en", "dog", "caption")]


def test_texts_by_language():
    found = read({"en": ["a dog", "dog"], "de": "Hund"}, by_language=True)
    assert found == [Caption("en", "a dog"), Caption("en", "dog"), Caption("de", "Hund")]


def test_language_at_a_path_of_the_record():
    fields = FieldMap(texts=(TextField("json", "a.text", language_path="a.language"),))
    assert read_texts({}, {"json": {"a": {"text": "chien", "language": "fr"}}}, fields) == [Caption("fr", "chien")]
    with pytest.raises(BadSampleError, match=r"no language at 'a.language'"):
        read_texts({}, {"json": {"a": {"text": "chien"}}}, fields)


@pytest.mark.parametrize("value", [7, {"en": "a"}, [["a"], 3.5], {"text": 5}])
def test_what_is_no_text_is_a_fault(value):
    with pytest.raises(BadSampleError, match="broken text"):
        read(value)


def test_text_member_must_be_utf8():
    fields = FieldMap(texts=(TextField("txt", language="en"),))
    assert read_texts({"txt": "\ufeffein Hund\n".encode()}, {}, fields) == [Caption("en", "ein Hund")]
    with pytest.raises(BadSampleError, match="not UTF-8"):
        read_texts({"txt": b"\xff\xfe\x00"}, {}, fields)


def test_item_is_the_records_own_or_the_samples():
    fields = FieldMap()
    assert read_item({"item": "x"}, fields, "a.tar", "1") == read_item({"item": "x"}, fields, "b.tar", "2")
    assert read_item({"item": 7}, fields, "a.tar", "1") == read_item({"item": "7"}, fields, "b.tar", "2")
    assert read_item({}, fields, "a.tar", "1") != read_item(None, fields, "b.tar", "1")
    assert 0 <= read_item({"item": "x"}, fields, "a.tar", "1") < 2**63


def test_maps_are_checked():
    with pytest.raises(ValueError, match=r"must be a list, found the string 'jpg'; write \[jpg\]"):
        FieldMap(image="jpg")
    with pytest.raises(ValueError, match="member: json, path: caption"):
        TextField("json")
    with pytest.raises(ValueError, match="`require` knows image and text"):
        FieldMap(require=["picture"])
    with pytest.raises(ValueError, match="'english' is not a language code"):
        TextField("txt", language="english")
    assert FieldMap(members=["wav"]) == FieldMap(members=("wav",)) != FieldMap()


@pytest.mark.parametrize("code", ["en", "zh_CN", "zh-Hant", "ca@valencia", "und", "sr-Latn-RS"])
def test_language_codes(code):
    assert check_language(code, "here") == code


@pytest.mark.parametrize("code", ["", "e", "german", "en us", "en.", "日本", "en-"])
def test_no_language_codes(code):
    with pytest.raises(ValueError, match=r"here: .* is not a language code"):
        check_language(code, "here")
