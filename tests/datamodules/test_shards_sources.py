"""What shards are written from; every error says where it stands, what was found and what to do."""

import gzip
import json
from collections import Counter

import pytest

from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.parallel import read_moses, read_tsv
from interlingua.datamodules.shards.sources import read_csv, read_folder, read_jsonl


def put(path, content=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def texts(records):
    return [[tuple(text) for text in record.texts] for record in records]


def test_folder(tmp_path):
    put(tmp_path / "v1.0" / "dog.JPG")
    put(tmp_path / "v1.0" / "dog.txt", "a dog\n\na big dog\n")
    put(tmp_path / "v1.0" / "dog.de.txt", "ein Hund\n")
    put(tmp_path / "img.1.png")
    put(tmp_path / "img.1.txt", "one")
    put(tmp_path / "alone.png")
    put(tmp_path / "gone.txt", "no picture")
    put(tmp_path / "notes.docx")
    put(tmp_path / ".DS_Store")
    skipped = Counter()
    records = list(read_folder(tmp_path, "en", skipped))
    assert [record.item for record in records] == ["img.1.png", "v1.0/dog.JPG"]
    assert texts(records) == [
        [("en", "one", "caption")],
        [("en", "a dog", "caption"), ("en", "a big dog", "caption"), ("de", "ein Hund", "caption")],
    ]
    assert +skipped == Counter(
        {"blank caption": 1, "text without picture": 1, "picture without text": 1, "unknown extension .docx": 1}
    )


def test_folder_faults(tmp_path):
    with pytest.raises(ValueError, match=r"expected a folder .* found nothing"):
        list(read_folder(tmp_path / "no", "en", Counter()))
    put(tmp_path / "a.jpg")
    put(tmp_path / "a.german.txt", "Hund")
    with pytest.raises(ValueError, match=r"a.german.txt, between the dots: 'german' is not a language code"):
        list(read_folder(tmp_path, "en", Counter()))
    put(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a.png: a.jpg has the same name"):
        list(read_folder(tmp_path, "en", Counter()))


def test_csv(tmp_path):
    put(tmp_path / "p" / "dog.jpg")
    table = put(tmp_path / "t.csv", '\ufeffimage,caption,language,item\np/dog.jpg,"a dog, barking",en,7\n,ein Hund,de,\n, ,,\n')
    skipped = Counter()
    records = list(read_csv(table, "und", None, skipped))
    assert texts(records) == [[("en", "a dog, barking", "caption")], [("de", "ein Hund", "caption")]]
    assert [(record.item, record.image) for record in records] == [("7", tmp_path / "p" / "dog.jpg"), (None, None)]
    assert +skipped == Counter({"blank caption": 1})


def test_csv_with_a_column_a_language(tmp_path):
    table = put(tmp_path / "t.csv", "image,caption_en,caption_de,role\ndog.jpg,dog,Hund,name\ndog.jpg,dog,,\n")
    put(tmp_path / "p" / "dog.jpg")
    skipped = Counter()
    records = list(read_csv(table, "und", tmp_path / "p", skipped))
    assert texts(records) == [[("en", "dog", "name"), ("de", "Hund", "name")], [("en", "dog", "caption")]]
    assert records[0].item == records[1].item == "dog.jpg"
    assert skipped == Counter({"blank caption": 1})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "picture,text\n",
            r"t.csv, line 1 \(header\): found columns 'picture', 'text'; expected caption or .*; remove 'text'",
        ),
        ("", r"line 1 \(header\): found columns \(none\)"),
        ("caption,caption\na,b\n", r"line 1 \(header\): column caption stands twice"),
        ("caption\na,b\n", r"t.csv, line 2: found 2 columns, the header has 1; quote texts"),
        ("caption,image\na\n", r"t.csv, line 2: found 1 columns, the header has 2"),
        ("caption,image\nok,\na dog,no.jpg\n", r"t.csv, line 3, column image: there is no picture .*no.jpg.*--pictures"),
        ("caption,image\na dog,no.xyz\n", r"line 2, column image: no.xyz has no known extension; expected any of jpg"),
        ("caption,language\na dog,english\n", r"t.csv, line 2, column language: 'english' is not a language code"),
        ("caption_english\na\n", r"line 1 \(header\), column caption_english: 'english' is not"),
        (b"caption\nok\n\xff\xfe\n", r"t.csv, line 3: not UTF-8"),
        ('caption\n"a "b"\n', r"t.csv, line 2: .*expected comma-separated"),
    ],
)
def test_csv_faults(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        list(read_csv(put(tmp_path / "t.csv", content), "und", None, Counter()))


def test_jsonl(tmp_path):
    put(tmp_path / "dog.jpg")
    rows = [
        {"image": "dog.jpg", "caption": "a dog", "item": 3},
        {"caption": ["a", "b", " "], "language": "fr", "role": "name"},
        {"captions": {"en": "dog", "de": ["Hund", "Tier"]}},
        {"texts": [{"text": "dog", "lang": "en", "role": "keyword"}, {"text": "犬", "lang": "ja"}]},
        {"src": "dog", "tgt": "Hund", "src_lang": "en", "tgt_lang": "de"},
        {"src": "dog", "tgt": " ", "src_lang": "en", "tgt_lang": "de"},
    ]
    file = tmp_path / "t.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode() + b"\n\n"))
    skipped = Counter()
    records = list(read_jsonl(file, "en", None, skipped))
    assert texts(records) == [
        [("en", "a dog", "caption")],
        [("fr", "a", "name"), ("fr", "b", "name")],
        [("en", "dog", "caption"), ("de", "Hund", "caption"), ("de", "Tier", "caption")],
        [("en", "dog", "keyword"), ("ja", "犬", "caption")],
        [("en", "dog", "sentence"), ("de", "Hund", "sentence")],
    ]
    assert (records[0].item, records[0].image, records[1].item) == (3, tmp_path / "dog.jpg", None)
    assert skipped == Counter({"blank caption": 1, "blank src or tgt": 1, "blank line": 1, "pair that lacks a text": 1})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"t.jsonl, line 2: not JSON \(Expecting .* at column \d+\); expected an object with a caption on each line"),
        ("[" * 100_000, r"t.jsonl, line 2: not JSON that can be read, as it is too deep"),
        ("null", r"line 2: found null, expected an object"),
        ("7", r"line 2: found a number, expected an object"),
        ('{"caption": "a", "language": true}', r"line 2, field language: found true, expected a text"),
        ("[1]", r"line 2: found a list, expected an object with a caption"),
        ('{"title": "a"}', r"line 2: found fields title; expected caption, captions"),
        ('{"caption": 7}', r"line 2: 'caption' of json: expected texts, found 7"),
        ('{"caption": "a", "language": "english"}', r"line 2: 'english' is not a language code"),
        ('{"captions": {"english": "a"}}', r"line 2, language of 'a': 'english' is not"),
        ('{"src": "a", "tgt": "b", "src_lang": "en"}', r"line 2: there is no field tgt_lang, found src, tgt, src_lang"),
        ('{"src": 5, "tgt": "b", "src_lang": "en", "tgt_lang": "de"}', r"line 2, field src: found 5, expected a text"),
        ('{"caption": "a", "image": "no.png"}', r"line 2, field image: there is no picture"),
        ('{"caption": "a", "role": 5}', r"line 2, field role: found 5, expected a text"),
    ],
)
def test_jsonl_faults(tmp_path, line, message):
    with pytest.raises(ValueError, match=message):
        list(read_jsonl(put(tmp_path / "t.jsonl", f'{{"caption": "fine"}}\n{line}\n'), "en", None, Counter()))


def test_moses(tmp_path):
    english = put(tmp_path / "n.en", "one\n \nthree\u2028x\n")
    german = put(tmp_path / "n.de.gz", gzip.compress(b"eins\nzwei\ndrei\n", mtime=0))
    skipped = Counter()
    records = list(read_moses([english, german], [], skipped))
    assert texts(records) == [
        [("en", "one", "sentence"), ("de", "eins", "sentence")],
        [("en", "three\u2028x", "sentence"), ("de", "drei", "sentence")],
    ]
    assert skipped == Counter({"line without translation": 1})
    assert records[0].texts[0] == Caption("en", "one", "sentence")


def test_moses_faults(tmp_path):
    english, german = put(tmp_path / "n.en", "1\n2\n3\n"), put(tmp_path / "n.de", "1\n2\n")
    with pytest.raises(ValueError, match=r"n.en has 3, .*n.de has 2 lines; expected equally many: line 3 has no"):
        list(read_moses([english, german], [], Counter()))
    with pytest.raises(ValueError, match="needs two or more files, found 1"):
        list(read_moses([english], [], Counter()))
    with pytest.raises(ValueError, match="each language may stand once, found en, en"):
        list(read_moses([english, english], [], Counter()))
    with pytest.raises(ValueError, match=r"found 1 codes \(en\) for 2 files"):
        list(read_moses([english, german], ["en"], Counter()))
    with pytest.raises(ValueError, match=r"n.english, extension \(or give --languages\): 'english' is not"):
        list(read_moses([put(tmp_path / "n.english"), german], [], Counter()))
    with pytest.raises(ValueError, match=r"gone.en: cannot be read"):
        list(read_moses([tmp_path / "gone.en", german], [], Counter()))


def test_tsv(tmp_path):
    file = put(tmp_path / "t.tsv", 'en\tde\tfr\none\teins\tun\n"two\tzwei"\t\n')
    skipped = Counter()
    assert texts(read_tsv(file, [], skipped)) == [
        [("en", "one", "sentence"), ("de", "eins", "sentence"), ("fr", "un", "sentence")]
    ]
    assert skipped == Counter({"line without translation": 1})
    assert len(list(read_tsv(file, ["en", "de", "fr"], Counter()))) == 2


def test_tsv_faults(tmp_path):
    file = put(tmp_path / "t.tsv", "en\tde\none\teins\none\n")
    with pytest.raises(ValueError, match=r"t.tsv, line 3: found 1 columns, expected 2 \(one a language\)"):
        list(read_tsv(file, [], Counter()))
    with pytest.raises(ValueError, match=r"line 1 \(the header, as --languages is not given\), column 2: 'two words' is not"):
        list(read_tsv(put(tmp_path / "u.tsv", "en\ttwo words\n"), [], Counter()))
    with pytest.raises(ValueError, match="needs two or more columns, found 1"):
        list(read_tsv(put(tmp_path / "v.tsv", "en\n"), [], Counter()))
