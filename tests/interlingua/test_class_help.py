"""`--help CLASS_PATH`: every option in words, everything that may be put in, and what has no options described."""

import pytest

from interlingua.__main__ import main
from interlingua.class_help import shared_words
from interlingua.tasks.objectives.code_switching import CodeSwitching

OWN = "interlingua."


def told(capsys, path) -> str:
    assert main(["fit", "--help", f"{OWN}{path}"]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("datamodules.labelled.conll_u.ConllU", "Syntactic words with their universal part of speech"),
        ("datamodules.labelled.tagged_layout.TaggedLayout", "A sentence a row, or several rows where it is longer"),
    ],
)
def test_a_class_without_options_is_described(capsys, path, words):
    text = told(capsys, path)
    assert words in text
    assert text.endswith("It takes no options.")


def test_all_that_fits_is_listed_whatever_is_imported(capsys):
    text = told(capsys, "datamodules.labelled.data.Labelled").replace(" ", "")
    for name in ("sentence_layout.SentenceLayout", "tagged_layout.TaggedLayout", "question_layout.QuestionLayout"):
        assert f"interlingua.datamodules.labelled.{name}" in text


def test_presets_are_listed_with_the_encoders(capsys):
    text = told(capsys, "tasks.sentence_retrieval.SentenceRetrieval")
    for name in ("bert", "xlm_roberta", "xlm"):
        assert f" interlingua.models.presets.{name}" in text
    assert "interlingua.models.two_towers.TwoTowers" in text.replace(" ", "")


@pytest.mark.parametrize("name", ["code_switching.CodeSwitching", "cross_attention_language.CrossAttentionLanguage"])
def test_options_that_are_those_of_another_class_have_its_words(capsys, name):
    text = told(capsys, f"tasks.objectives.{name}")
    assert "Probability with which an ordinary token is hidden. Here: over the" in text
    assert "Share of hidden tokens that stay visible." in text


def test_shared_words_name_every_option():
    words = dict(shared_words(CodeSwitching))
    assert words.keys() == {"rate", "scheme", "keep", "random", "alpha", "counts"}
    assert words["counts"].startswith("File with the counts of vocabulary entries")
