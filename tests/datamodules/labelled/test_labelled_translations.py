"""Folders of Tatoeba and BUCC."""

from collections import Counter

import pytest
from labelled_files import put

from interlingua.datamodules.labelled.bucc import Bucc
from interlingua.datamodules.labelled.examples import Comparable, Translation
from interlingua.datamodules.labelled.tatoeba import Tatoeba


@pytest.fixture
def tatoeba(tmp_path):
    put(tmp_path / "tatoeba.deu-eng.deu", "Der Fluss ist breit.\n\nAlt!\u2028Neu!\n")
    put(tmp_path / "tatoeba.deu-eng.eng", "The river is wide.\nYes.\nOld! New!\n")
    put(tmp_path / "tatoeba.cmn-eng.cmn.gz", "河很宽。\r\n")
    put(tmp_path / "tatoeba.cmn-eng.eng", "The river is wide.\n")
    put(tmp_path / "tatoeba.ber-eng.ber", "Asif\n")
    put(tmp_path / "tatoeba.ber-eng.eng", "River")
    put(tmp_path / "README.md", "ours")
    return tmp_path


def test_tatoeba(tatoeba):
    """Line n translates line n; only line feeds end lines, and what is blank takes its number with it."""
    skipped = Counter()
    assert list(Tatoeba().read(tatoeba, None, skipped)) == [
        Translation("ber", "1", "Asif", "en", "River"),
        Translation("zh", "1", "河很宽。", "en", "The river is wide."),
        Translation("de", "1", "Der Fluss ist breit.", "en", "The river is wide."),
        Translation("de", "3", "Alt!\u2028Neu!", "en", "Old! New!"),
    ]
    assert skipped == Counter({"pair with a blank side": 1})
    for code in ("cmn", "zh"):
        assert [pair.text for pair in Tatoeba().read(tatoeba, code)] == ["河很宽。"]


def test_tatoeba_faults(tatoeba):
    with pytest.raises(ValueError, match=r"no file in 'fr'; languages found: ber, cmn, deu"):
        list(Tatoeba().read(tatoeba, "fr"))
    with pytest.raises(ValueError, match=r"expected files tatoeba.LANGUAGE-fra.LANGUAGE and .fra, found none"):
        list(Tatoeba("fra").read(tatoeba))
    put(tatoeba / "tatoeba.deu-eng.eng", "The river is wide.\nYes.\n")
    with pytest.raises(ValueError, match=r"tatoeba.deu-eng.deu has 3 lines, tatoeba.deu-eng.eng has 2; expected equally many"):
        list(Tatoeba().read(tatoeba, "de", Counter()))
    (tatoeba / "tatoeba.deu-eng.eng").unlink()
    with pytest.raises(ValueError, match=r"tatoeba.deu-eng.eng is missing"):
        list(Tatoeba().read(tatoeba))


def test_tatoeba_with_a_side_that_is_sorted(tmp_path):
    """Pitfall M12: XTREME sorts the English side and keeps the truth to itself, so line n is no translation."""
    put(tmp_path / "de-en.de", "Der Fluss\nDie Brücke\n")
    put(tmp_path / "de-en.en", "The bridge\nThe river\n")
    with pytest.raises(ValueError, match=r"XTREME's copies .* whose English sides are sorted"):
        list(Tatoeba().read(tmp_path))


@pytest.fixture
def bucc(tmp_path):
    put(tmp_path / "de-en.dev.de", "de-1\tDer Fluss\nde-2\tDie Brücke\nde-3\t\n")
    put(tmp_path / "de-en.dev.en", 'en-1\tThe "bridge\nen-2\tThe river\n')
    put(tmp_path / "de-en.dev.gold", "de-1\ten-2\nde-3\ten-1\n")
    put(tmp_path / "de-en.test.de", "de-1\tDas Tal\n")
    put(tmp_path / "de-en.test.en.gz", "en-1\tThe valley\n")
    put(tmp_path / "zh-en.dev.zh", "zh-1\t河\n")
    put(tmp_path / "zh-en.dev.en", "en-1\tThe sea\n")
    return tmp_path


def test_bucc(bucc):
    """Each split has its own candidates, though keys are the same in others."""
    skipped = Counter()
    german, chinese = Bucc().read(bucc, None, skipped)
    assert german == Comparable(
        "de",
        "en",
        {"de-1": "Der Fluss", "de-2": "Die Brücke"},
        {"en-1": 'The "bridge', "en-2": "The river"},
        frozenset({("de-1", "en-2")}),
    )
    assert chinese.pairs is None
    assert skipped == Counter({"blank sentence": 1, "pair with a blank sentence": 1})
    assert list(Bucc("test").read(bucc, "de")) == [Comparable("de", "en", {"de-1": "Das Tal"}, {"en-1": "The valley"}, None)]


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("de-en.dev.gold", "en-2\tde-1\n", r"dev.gold, line 1: found \['en-2', 'de-1'\], expected the key of a sentence"),
        ("de-en.dev.gold", "de-1\ten-9\n", r"both must be in the files beside it, of the same split"),
        ("de-en.dev.de", "de-1\ta\nde-1\tb\n", r"dev.de, line 2: the key 'de-1' stands twice"),
        ("de-en.dev.en", "The river\n", r"dev.en, line 1: found 1 columns, expected a key, a tab and a sentence"),
    ],
)
def test_bucc_faults(bucc, name, content, match):
    put(bucc / name, content)
    with pytest.raises(ValueError, match=match):
        list(Bucc().read(bucc, "de", Counter()))


def test_bucc_without_files(bucc):
    with pytest.raises(ValueError, match=r"no file fr-en.dev.en; languages found with this split: de, zh"):
        list(Bucc().read(bucc, "fr"))
    with pytest.raises(ValueError, match=r"no file LANGUAGE-en.sample.en; languages found with this split: none"):
        list(Bucc("sample").read(bucc))
    (bucc / "de-en.dev.de").unlink()
    with pytest.raises(ValueError, match=r"de-en.dev.de is missing"):
        list(Bucc().read(bucc, "de"))
