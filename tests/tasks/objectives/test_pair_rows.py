"""Rows of two texts, of whichever objective: as long as asked for, never too short for a pair."""

import logging
from pathlib import Path

import pytest
import tiny
import yaml
from halves import halves, mark

from interlingua.tasks.objectives.cross_lingual_contrast import CrossLingualContrast
from interlingua.tasks.objectives.next_sentence import NextSentence
from interlingua.tasks.objectives.sentence_order import SentenceOrder
from interlingua.tasks.objectives.translation_language import TranslationLanguage


def contrast(**options):
    return CrossLingualContrast(layer=1, queue=4, rate=0.0, **options)


OBJECTIVES = [NextSentence, SentenceOrder, TranslationLanguage, contrast]


def connect(build, tower=64, languages=0, **options):
    encoder, objective = tiny.text_tower(max_tokens=tower, languages=languages), build(**options)
    objective.connect(encoder)
    return objective


@pytest.mark.parametrize("build", OBJECTIVES)
@pytest.mark.parametrize(("pair", "least", "limit"), [("bert", 5, 64), ("xlm-roberta", 6, 64), ("xlm", 6, 128)])
def test_rows_are_as_long_as_asked_for(build, pair, least, limit):
    for longest, row in ((None, limit), (20, 20), (least, least), (limit, limit)):
        assert connect(build, pair=pair, max_tokens=longest).joining.row == row
    with pytest.raises(ValueError, match=f"max_tokens is {least - 1}; pairs of the form {pair} need at least {least}"):
        build(pair=pair, max_tokens=least - 1)
    with pytest.raises(ValueError, match=f"max_tokens is {limit + 1}, but the encoder reads at most 64 positions"):
        connect(build, pair=pair, max_tokens=limit + 1)


@pytest.mark.parametrize("build", [NextSentence, SentenceOrder, TranslationLanguage])
def test_long_halves_are_cut_to_the_row(build):
    marked = mark(connect(build, max_tokens=20), halves([40] * 6, [30] * 6))
    assert (marked.text.present.sum(1) == 20).all()


def test_mixed_sentences_are_cut_to_the_row():
    objective = connect(contrast, max_tokens=20)
    marked = objective.mark(halves([40] * 6, [30] * 6))
    for side in (marked.text, marked.translation):
        assert (objective._sentence(side, objective._lead(marked), 1).present.sum(1) == 20).all()


@pytest.mark.parametrize("build", OBJECTIVES)
@pytest.mark.parametrize(("pair", "least"), [("bert", 5), ("xlm-roberta", 6), ("xlm", 3)])
def test_encoders_too_short_for_a_pair_are_refused(build, pair, least):
    shortest = connect(build, pair=pair, tower=least)
    assert shortest.joining.half == least
    with pytest.raises(ValueError, match=rf"the encoder's max_tokens is {least - 1}, but pairs of the form {pair} need rows"):
        connect(build, pair=pair, tower=least - 1)


def test_sentences_that_are_not_joined_may_be_short():
    assert connect(contrast, mixup=False, tower=3).joining is None


@pytest.mark.parametrize("build", OBJECTIVES)
@pytest.mark.parametrize(
    ("pair", "languages", "said"),
    [
        ("xlm", 0, "pair is xlm, whose positions restart in the second half, but the encoder has no language vectors"),
        ("infoxlm", 3, "pair is infoxlm, but the encoder has language vectors; such towers (XLM) have pair xlm"),
        ("xlm", 3, None),
        ("xlm-classification", 3, None),
        ("infoxlm", 0, None),
        ("xlm-roberta", 0, None),
    ],
)
def test_forms_of_another_kind_of_tower_are_said_in_a_line(build, pair, languages, said, caplog):
    with caplog.at_level(logging.WARNING):
        connect(build, languages=languages, pair=pair)
    assert len(caplog.messages) == (said is not None)
    if said:
        assert said in caplog.text
        assert "\n" not in caplog.messages[0]


def test_the_published_rows_of_two_halves_are_as_long_as_texts():
    """BERT's 128 tokens are those of the row; the data's limit alone would let rows of 255 through."""
    configuration = yaml.safe_load((Path(__file__).parents[3] / "configs/pretrain/mbert.yaml").read_text(encoding="utf-8"))
    nsp = configuration["model"]["init_args"]["objectives"]["nsp"]["init_args"]
    assert nsp["max_tokens"] == configuration["data"]["init_args"]["max_tokens"] == 128
