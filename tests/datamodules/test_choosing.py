"""Which texts are chosen of many samples at once, by the index alone: as one would choose them one by one."""

import numpy as np
import pytest

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.choosing import Chooser, strata
from interlingua.datamodules.filtering import TextRows
from interlingua.datamodules.sample import Caption

TEXTS = (
    Caption("en", "dog", "name"),
    Caption("en", "pet", "keyword"),
    Caption("de", "Hund", "name"),
    Caption("fr", "animal", "keyword"),
)


def among(choice, captions):
    captions = [caption for caption in captions if choice.languages is None or caption.language in choice.languages]
    return [caption for caption in captions if choice.roles is None or caption.role in choice.roles]


def pick(options, wish, which_language, which_text):
    languages = list(dict.fromkeys(caption.language for caption in options))
    options = [caption for caption in options if caption.language == languages[int(which_language * len(languages))]]
    left = which_text * sum(wish.weight(caption.role) for caption in options)
    for caption in options:
        left -= wish.weight(caption.role)
        if left < 0:
            return caption
    return options[-1]


def choose(texts, text, translation, luck):
    """One sample at a time, in words: what the choice of many at once must equal. None where nothing can be chosen."""

    def partners(caption):
        others = among(translation, texts)
        return [
            other
            for other in others
            if other.language != caption.language and (not translation.same_role or other.role == caption.role)
        ]

    options = among(text, texts)
    if translation is not None:
        options = [caption for caption in options if partners(caption)]
    if not options:
        return None
    first = pick(options, text, *luck[:2])
    return first, None if translation is None else pick(partners(first), translation, *luck[2:])


def table_of(samples):
    """Texts of samples as the index has them, and all captions in their order."""
    captions = [caption for texts in samples for caption in texts]
    languages, roles = (sorted({getattr(caption, name) for caption in captions}) for name in ("language", "role"))
    start = np.cumsum([0, *(len(texts) for texts in samples)])
    columns = (
        np.array([words.index(getattr(caption, name)) for caption in captions], np.uint16)
        for words, name in ((languages, "language"), (roles, "role"))
    )
    return TextRows(len(samples), start, *columns, languages, roles), captions


def chosen(text, translation=None, texts=TEXTS, draws=400):
    rows, captions = table_of([texts])
    luck = np.random.default_rng(0).random((draws, 4))
    found = Chooser(rows, text, translation).choose(np.zeros(draws, np.int64), luck)
    return [tuple(None if number < 0 else captions[number] for number in pair) for pair in zip(*found, strict=True)]


def shares(values):
    return {value: values.count(value) / len(values) for value in set(values)}


def test_a_language_is_chosen_first():
    texts = [text.text for text, _ in chosen(TextChoice())]
    assert shares(texts) == pytest.approx({"dog": 1 / 6, "pet": 1 / 6, "Hund": 1 / 3, "animal": 1 / 3}, abs=0.08)


def test_roles_may_be_weighted():
    texts = [text.text for text, _ in chosen(TextChoice(["en"], {"name": 4.0, "keyword": 1.0}))]
    assert shares(texts) == pytest.approx({"dog": 0.8, "pet": 0.2}, abs=0.08)
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
    assert chosen(TextChoice(["en"]), TranslationChoice(["en"]), draws=3) == [(None, None)] * 3
    assert chosen(TextChoice(), TranslationChoice(), TEXTS[:2], draws=3) == [(None, None)] * 3


CHOICES = [
    TextChoice(),
    TextChoice(["en"]),
    TextChoice(["de", "en"], ["name"]),
    TextChoice(roles={"name": 3.0, "keyword": 1.0}),
]
TRANSLATIONS = [
    None,
    TranslationChoice(),
    TranslationChoice(same_role=False),
    TranslationChoice(["en"], ["name"], same_role=False),
]


def random_samples(count=60):
    some = np.random.default_rng(1)
    return [
        [
            Caption(("de", "en", "fr")[some.integers(3)], f"{sample} {text}", ("keyword", "name")[some.integers(2)])
            for text in range(some.integers(5))
        ]
        for sample in range(count)
    ]


@pytest.mark.parametrize("text", CHOICES)
@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_many_are_chosen_at_once_as_one_by_one(text, translation):
    samples = random_samples()
    rows, captions = table_of(samples)
    numbers = np.random.default_rng(2).integers(60, size=900)
    luck = np.random.default_rng(3).random((900, 4))
    found = zip(*Chooser(rows, text, translation).choose(numbers, luck), strict=True)
    pairs = [tuple(None if number < 0 else captions[number] for number in pair) for pair in found]
    for pair, number, one in zip(pairs, numbers, luck.tolist(), strict=True):
        assert (choose(samples[number], text, translation, one) or (None, None)) == pair


@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_strata_are_the_samples_in_which_a_language_can_be_chosen(translation):
    samples = random_samples()
    rows, _ = table_of(samples)
    found = strata(rows, TextChoice(), translation)
    assert len(found) >= 2
    for (language, other), members in found.items():
        luck = np.random.default_rng(4).random((len(members), 4))
        wanted = (np.full(len(members), code) for code in (language, other))
        first, second = Chooser(rows, TextChoice(), translation).choose(
            members, luck, next(wanted), next(wanted) if translation else None
        )
        assert {rows.languages[rows.language[number]] for number in first} == {rows.languages[language]}
        if translation:
            assert {rows.languages[rows.language[number]] for number in second} == {rows.languages[other]}
    able = {(pair, number) for pair, members in found.items() for number in members.tolist()}
    for number, texts in enumerate(samples):
        for luck in np.random.default_rng(5).random((20, 4)).tolist():
            pair = choose(texts, TextChoice(), translation, luck)
            if pair:
                codes = tuple(-1 if one is None else rows.languages.index(one.language) for one in pair)
                assert (codes, number) in able


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
    owner, language, role = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    start = np.searchsorted(owner, np.arange(len(samples) + 1))
    return TextRows(len(samples), start, language, role, LANGUAGES, ROLES)


def test_the_table_finds_the_samples_that_a_choice_can_be_made_of():
    """The table and the choice agree on every one of 60 random samples."""
    chance = np.random.default_rng(1)
    samples = [
        [(LANGUAGES[chance.integers(3)], ROLES[chance.integers(2)]) for _ in range(chance.integers(4))] for _ in range(60)
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


@pytest.mark.parametrize("count", [0, 2])
def test_no_texts_at_all_are_no_trouble(count):
    empty = TextRows(count, np.zeros(count + 1, int), *np.zeros((2, 0), dtype=np.int32), [], [])
    assert not empty.have_text(TextChoice()).any()
    assert not empty.have_pair(TextChoice(), TranslationChoice()).any()
