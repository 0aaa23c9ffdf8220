"""`interlingua tokenizer dictionary`, and what a run makes of its file."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from trained import small_tokenizer

from interlingua.modalities.dictionary import read_dictionary, write_dictionary
from interlingua.tasks.agreement import check_counted
from interlingua.tasks.objectives.code_switching import CodeSwitching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tokenizer_command import main


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """A tokenizer and a lexicon."""
    folder = tmp_path_factory.mktemp("dictionary")
    for suffix in (".model", ".json"):
        shutil.copy(Path(small_tokenizer(data).path).with_suffix(suffix), folder / f"small{suffix}")
    (folder / "en-de.txt").write_text("dog hund\ncat katze\nsofa sofa\n", encoding="utf-8")
    return folder


def call(folder, *options, output="some.npz"):
    command = ["dictionary", *options, "--tokenizer", folder / "small.model", "--output", folder / output]
    return main([*map(str, command)])


def test_it_writes_a_dictionary_and_says_what_is_in_it(folder, data, capsys):
    lexicons = [folder / "en-de.txt", data / "lexicon.jsonl.gz"]
    assert call(folder, *lexicons, "--languages", "en", "de") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("skipped: the same on both sides: ") for line in lines)
    found = read_dictionary(folder / "some.npz")
    assert f"some.npz: {len(found.language):,} words, {len(found.pairs):,} pairs" in lines[-3]
    assert [line.split(":")[0].strip() for line in lines[-2:]] == ["de to en", "en to de"]
    assert found.tokenizer == small_tokenizer(data).hash
    assert call(folder, *lexicons[:1], "--languages", "en", "de", output="muse.npz") == 0
    assert len(read_dictionary(folder / "muse.npz").pairs) == 4
    assert call(folder, *lexicons[:1], "--languages", "en", "de", "--capitalized", output="both.npz") == 0
    assert len(read_dictionary(folder / "both.npz").pairs) == 8


@pytest.mark.parametrize(
    ("options", "output", "message"),
    [
        (["--languages", "en", "de"], "some.txt", "--output is"),
        ([], "none.npz", "say in which two languages: --languages en de"),
        (["--languages", "en"], "none.npz", "--languages: expected two or more, each once, found en"),
        (["--languages", "en", "en"], "none.npz", "--languages: expected two or more, each once, found en en"),
        (["--languages", "en", "xx"], "none.npz", "unknown language 'xx'"),
    ],
)
def test_mistakes_are_one_line(folder, capsys, options, output, message):
    assert call(folder, folder / "en-de.txt", *options, output=output) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert not (folder / output).exists()


def test_nothing_is_written_over_and_nothing_found_is_said(folder, capsys):
    (folder / "old.npz").write_bytes(b"old")
    lexicon = [folder / "en-de.txt", "--languages", "en", "de"]
    assert call(folder, *lexicon, output="old.npz") == 2
    assert "old.npz would be overwritten; choose another --output, or give --force" in capsys.readouterr().err
    assert call(folder, *lexicon, "--force", output="old.npz") == 0
    (folder / "same.txt").write_text("sofa sofa\n\n", encoding="utf-8")
    capsys.readouterr()
    assert call(folder, folder / "same.txt", "--languages", "en", "de", output="same.npz") == 2
    printed = capsys.readouterr()
    assert "no pair of words in" in printed.err
    assert "skipped: blank line: 1\n" in printed.out


def test_a_dictionary_of_another_tokenizer_is_refused(folder, data):
    assert call(folder, folder / "en-de.txt", "--languages", "en", "de", output="own.npz") == 0
    found = read_dictionary(folder / "own.npz")
    write_dictionary(found._replace(tokenizer="0" * 64, pieces=np.array(found.pieces)), folder / "foreign.npz")
    own, foreign = (CodeSwitching("dictionary", str(folder / name)) for name in ("own.npz", "foreign.npz"))
    tokenizer = small_tokenizer(data)
    check_counted({"alm": own, "plain": CodeSwitching(), "mlm": MaskedLanguage()}, tokenizer)
    with pytest.raises(ValueError, match=rf"objective alm: .*foreign.npz .*tokenizer 0{{12}}, but .*{tokenizer.hash[:12]}"):
        check_counted({"alm": foreign}, tokenizer)
    write_dictionary(found._replace(language=found.language + 12), folder / "beyond.npz")
    with pytest.raises(ValueError, match=r"objective alm: .*beyond.npz has words in language \d\d, but .* numbers 12 from 0"):
        check_counted({"alm": CodeSwitching("dictionary", str(folder / "beyond.npz"))}, tokenizer)
