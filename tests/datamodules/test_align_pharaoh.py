"""Pharaoh files: their words are counted between spaces, ours by script; a pair must mean the same characters."""

from collections import Counter

import pytest

from interlingua.datamodules.align.words import split_words
from interlingua.datamodules.sample import Alignment
from interlingua.datamodules.shards import ShardSet
from interlingua.datamodules.shards.command import main
from interlingua.datamodules.shards.parallel import read_moses
from interlingua.datamodules.shards.pharaoh import Reading, UnusableError, read_pairs, split_tokens


def test_tokens_hold_our_words():
    text = "Hello , (red) dog\u200b-s 3.5 \u200b\u200d end"
    assert split_words([text])[0] == ["Hello", ",", "(", "red)", "dog-s", "3.", "5", "end"]
    assert split_tokens(text) == [[0], [1], [2, 3], [4], [5, 6], [], [7]]
    assert split_tokens("人工 智能 很 好") == [[0, 1], [2, 3], [4], [5]]
    assert split_tokens(" \u00a0 a\u00a0b  c\n") == [[], [0, 1], [2]]  # a no-break space parts words, not tokens
    assert split_tokens("") == []


def test_texts_whose_words_cannot_be_told():
    with pytest.raises(UnusableError, match="not cut into words"):
        split_tokens("人工智能是计算机科学的分支")
    with pytest.raises(UnusableError, match="not cut into words"):
        split_tokens("GNOME 人工智能是计算机科学的分支 3")


def test_pairs():
    texts = "a (red) dog", "ein (roter) Hund 3.5"
    assert read_pairs("0-0 1-1 2-2", texts, Reading(), "f") == ([(0, 0), (1, 1), (2, 2), (3, 3)], [])
    assert read_pairs("1-1 2-2 3?3", texts, Reading(base=1), "f") == ([(0, 0), (1, 1), (2, 2)], [(3, 3)])
    assert read_pairs("0p0 0-0 3p2", texts, Reading(swapped=True), "f") == ([(0, 0)], [(3, 4), (3, 5)])
    assert read_pairs("\n", texts, Reading(), "f") == ([], [])


@pytest.mark.parametrize("line", ["3-0", "0-4", "0-0 2-9"])
def test_numbers_beyond_the_words(line):
    with pytest.raises(UnusableError, match="word that is not there"):
        read_pairs(line, ("a red dog", "ein roter Hund 3.5"), Reading(), "f")
    with pytest.raises(UnusableError, match="word that is not there"):
        read_pairs("0-1", ("a red dog", "ein roter Hund"), Reading(base=1), "f")


@pytest.mark.parametrize("line", ["0-0 1", "a-b", "0:0", "-1-2", "0-0,1-1"])
def test_what_is_no_pair_is_refused_with_its_line(line):
    with pytest.raises(ValueError, match=r"x\.align, line 7: found .* expected pairs of word numbers such as 0-0 1-2"):
        read_pairs(line, ("a b", "c d"), Reading(), "x.align, line 7")


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_moses_with_alignments(tmp_path):
    files = [
        put(tmp_path / "n.en", "a red dog\n\nthe cat\nGNOME desk\n"),
        put(tmp_path / "n.de", "ein roter Hund\nx\ndie Katze\nGNOME Tisch\n"),
        put(tmp_path / "n.zh", "一只 红 狗\ny\n猫\n这是一个很长的没有空格的句子\n"),
    ]
    links = [
        put(tmp_path / "en-de", "0-0 1-1 2?2\n0-0\n0-0 1-5\n0-0 1-1\n"),
        put(tmp_path / "en-zh", "0-0 1-1 2-2\n\n\n0-0\n"),
    ]
    skipped = Counter()
    records = list(read_moses(files, [], skipped, links))
    assert [record.alignments for record in records] == [
        (Alignment(0, 1, ((0, 0), (1, 1)), ((2, 2),)), Alignment(0, 2, ((0, 0), (0, 1), (1, 2), (2, 3)))),
        (),
        (Alignment(0, 1, ((0, 0), (1, 1))),),
    ]
    assert +skipped == Counter(
        {
            "line without translation": 1,
            f"alignment of a word that is not there (first: {links[0]}, line 3)": 1,
            f"alignment of a text that is not cut into words (first: {links[1]}, line 4)": 1,
        }
    )
    with pytest.raises(ValueError, match=r"--alignments: found 1 files for 3 texts; expected one for each text but the first"):
        list(read_moses(files, [], skipped, links[:1]))
    put(links[0], "0-0\n")
    with pytest.raises(ValueError, match=r"en-de has 1, .*expected equally many"):
        list(read_moses(files, [], skipped, links))


def test_faults_of_one_kind_are_counted_together(tmp_path):
    files = [put(tmp_path / "n.en", "a\n" * 5), put(tmp_path / "n.de", "b\n" * 5)]
    links = put(tmp_path / "links", "0-0\n1-0\n0-0\n2-0\n0-1\n")
    skipped = Counter()
    assert len(list(read_moses(files, [], skipped, [links]))) == 5
    assert +skipped == Counter({f"alignment of a word that is not there (first: {links}, line 2)": 3})


def test_command_with_alignments(tmp_path, capsys):
    put(tmp_path / "n.en", "a red dog\nthe cat\n")
    put(tmp_path / "n.de", "ein roter Hund\ndie Katze\n")
    links = put(tmp_path / "links", "3-2 1-1\n9-9\n")
    options = ["--alignments", str(links), "--alignment-base", "1", "--alignment-order", "target-source"]
    sources = [str(tmp_path / "n.en"), str(tmp_path / "n.de")]
    assert main(["write", "moses", *sources, str(tmp_path / "out"), *options]) == 0
    assert "alignment of a word that is not there" in capsys.readouterr().err
    first, second = ShardSet(str(tmp_path / "out"))
    assert first.alignments == (Alignment(0, 1, ((0, 0), (1, 2))),)
    assert second.alignments == ()
