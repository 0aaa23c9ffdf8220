"""One source: which samples it reads, which text it chooses, and what a batch holds."""

import numpy as np
import pytest

from interlingua.datamodules.choice import TextChoice, TranslationChoice, choose
from interlingua.datamodules.filtering import TextRows
from interlingua.datamodules.sample import Caption

TEXTS = (
    Caption("en", "dog", "name"),
    Caption("en", "pet", "keyword"),
    Caption("de", "Hund", "name"),
    Caption("fr", "animal", "keyword"),
    Caption("sw", "  ", "name"),
)


def chosen(text, translation=None, texts=TEXTS, draws=4000):
    luck = np.random.default_rng(0).random((draws, 4)).tolist()
    return [choose(texts, text, translation, one) for one in luck]


def shares(values):
    return {value: round(values.count(value) / len(values), 1) for value in set(values)}


def test_a_language_is_chosen_first_and_blank_texts_never():
    texts = [text.text for text, _ in chosen(TextChoice())]
    assert shares(texts) == {"dog": 0.2, "pet": 0.2, "Hund": 0.3, "animal": 0.3}


def test_roles_may_be_weighted():
    texts = [text.text for text, _ in chosen(TextChoice(["en"], {"name": 4.0, "keyword": 1.0}))]
    assert shares(texts) == {"dog": 0.8, "pet": 0.2}
    assert {text.text for text, _ in chosen(TextChoice(roles=["name"]))} == {"dog", "Hund"}


def test_a_translation_is_in_another_language_and_of_the_same_role():
    pairs = {(text.text, other.text) for text, other in chosen(TextChoice(["en"]), TranslationChoice())}
    assert pairs == {("dog", "Hund"), ("pet", "animal")}
    pairs = {(text.text, other.text) for text, other in chosen(TextChoice(["en", "de"]), TranslationChoice(same_role=False))}
    assert pairs == {
        *(("dog", other) for other in ("Hund", "animal")),
        *(("pet", other) for other in ("Hund", "animal")),
        *(("Hund", other) for other in ("dog", "pet", "animal")),
    }


def test_nothing_to_choose_is_none():
    assert choose(TEXTS, TextChoice(["sw"]), None, [0.0] * 4) is None
    assert choose(TEXTS[:2], TextChoice(), TranslationChoice(), [0.0] * 4) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"languages": []}, "languages is empty"),
        ({"roles": []}, "roles is empty"),
        ({"roles": {"name": 0.0}}, "must be above 0"),
    ],
)
def test_a_choice_that_cannot_be_meant_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TextChoice(**options)


LANGUAGES, ROLES = ["de", "en", "fr"], ["keyword", "name"]


def table(*samples):
    rows = [
        (number, LANGUAGES.index(language), ROLES.index(role))
        for number, texts in enumerate(samples)
        for language, role in texts
    ]
    columns = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    return TextRows(len(samples), *columns, LANGUAGES, ROLES)


def test_the_table_finds_the_samples_that_a_choice_can_be_made_of():
    """The table and the choice agree on every one of 300 random samples."""
    chance = np.random.default_rng(1)
    samples = [
        [(LANGUAGES[chance.integers(3)], ROLES[chance.integers(2)]) for _ in range(chance.integers(4))] for _ in range(300)
    ]
    for text in (TextChoice(), TextChoice(["en"]), TextChoice(["en", "de"], ["name"])):
        for translation in (
            None,
            TranslationChoice(),
            TranslationChoice(same_role=False),
            TranslationChoice(["en"], ["name"], same_role=False),
        ):
            found = table(*samples).have_text(text) if translation is None else table(*samples).have_pair(text, translation)
            for texts, there in zip(samples, found, strict=True):
                captions = [Caption(language, "x", role) for language, role in texts]
                assert there == (choose(captions, text, translation, [0.5] * 4) is not None)


def test_a_language_in_no_sample_is_an_error_that_names_those_found():
    with pytest.raises(ValueError, match="language xx is in no sample of the shards; found: de, en, fr"):
        table([("en", "name")]).taken(TextChoice(["en", "xx"]))
    with pytest.raises(ValueError, match="role title is in no sample"):
        table([("en", "name")]).taken(TextChoice(roles=["title"]))


def test_no_texts_at_all_are_no_trouble():
    empty = TextRows(2, *np.zeros((3, 0), dtype=np.int32), [], [])
    assert not empty.have_text(TextChoice()).any()
    assert not empty.have_pair(TextChoice(), TranslationChoice()).any()
