"""Places of pieces in the text as it was written, in every family of vocabularies, whatever normalisation makes of it."""

import pickle

import pytest
from imported import FAMILIES, import_all
from published import HOSTILE, LITERALS, sentences
from trained import names, small_tokenizer

from interlingua.modalities.piece_places import PiecePlacer

MIXED = [
    "Der \ufb01nale Wert \u2116\u00a05 im Cafe\u0301 \uff21\uff11\u3002",
    "\u1100\u1161\u11a8\u1112\u1161\u11ab \uac01\ud55c",  # Hangul, taken apart and whole
    "\uff76\uff9e\uff77\uff9e \u30ab\u3099",  # narrow kana, and kana with a voice mark of its own
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0e2a\u0e33\u0e19\u0e31\u0e01",
    "So\u00adft\u200bware \ufb03x \u2467\u00bd",
    "\u6771\u4eac\u90fd\u306f1990\u5e74\u306b\u958b\u3044\u305f\u3002\U0001f309\u6a4b",
]
"""What normalisation makes longer, shorter, or drops."""


def tokenizer_of(name, data):
    return small_tokenizer(data) if name == "ours" else import_all(data)[name].tokenizer


def solid(text):
    return "".join(text.replace("\u2581", " ").split())


def spelt(tokenizer, number):
    return solid(tokenizer.decode([number]).removeprefix("##" if tokenizer.family == "bert" else ""))


@pytest.mark.parametrize("name", ["ours", *FAMILIES])
def test_what_stands_at_the_place_of_a_piece_is_read_as_the_piece(name, data):
    tokenizer = tokenizer_of(name, data)
    placer = PiecePlacer(tokenizer)
    real = [(code, text) for code, text in sentences(data)[::15] if code in tokenizer.languages]
    texts = [("en", text) for text in MIXED + HOSTILE + LITERALS] + real + (names(data)[::60] if name == "ours" else [])
    whole = 0
    for language, text in texts:
        placed = placer(text, language)
        parts = text.split()
        cut = tokenizer.encode(parts, [language] * len(parts))
        assert placed.ids.tolist() == cut.ids.tolist()
        assert len(placed.ids) == len(placed.words) == len(placed.starts) == len(placed.stops)
        assert ((placed.starts >= 0) & (placed.stops <= len(text)) & (placed.starts <= placed.stops)).all()
        assert (placed.starts[1:] >= placed.starts[:-1]).all()
        for number, start, stop in zip(placed.ids.tolist(), placed.starts, placed.stops, strict=True):
            if number == tokenizer.vocabulary.unknown or tokenizer.byte_pieces[number]:
                assert not any(character.isspace() for character in text[start:stop])
            else:
                assert spelt(tokenizer, number) in solid(tokenizer.normalize(text[start:stop], language)), (text, start, stop)
        pieces = zip(placed.starts.tolist(), placed.stops.tolist(), strict=True)
        whole += sum(stop - start > 1 and text[start:stop] in parts for start, stop in pieces)
    assert whole  # whole words


@pytest.mark.parametrize("name", ["ours", "xlm-roberta", "bert"])
def test_pieces_tile_a_text_that_is_read_as_it_stands(name, data):
    tokenizer = tokenizer_of(name, data)
    placer = PiecePlacer(tokenizer)
    text = "Die alte Br\u00fccke \u6771\u4eac\u90fd\u306f\u958b\u3044\u305f f\u00fchrt seit 1907 \u00fcber den Fluss."
    placed = placer(text, "de")
    there = set()
    for number, start, stop in zip(placed.ids.tolist(), placed.starts.tolist(), placed.stops.tolist(), strict=True):
        alone = number != tokenizer.vocabulary.unknown and not tokenizer.byte_pieces[number]  # others may share a place
        assert not (alone and there & set(range(start, stop)))
        there |= set(range(start, stop))
    assert there == {place for place, character in enumerate(text) if character != " "}


@pytest.mark.parametrize("name", ["ours", "xlm-roberta", "bert", "uncased"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (MIXED[0], "Cafe\u0301"),
        ("\ufb03\ufb03\ufb03 \u2467\u2467 der Fluss hier", "Fluss"),
        ("So\u00adft\u200bware war im Cafe\u0301 gut", "Cafe\u0301"),
        ("\u1100\u1161\u11a8\u1100\u1161\u11a8 Fluss \uff76\uff9e", "Fluss"),
    ],
)
def test_words_behind_changed_characters_are_found_where_they_were_written(name, text, wanted, data):
    tokenizer = tokenizer_of(name, data)
    placed = PiecePlacer(tokenizer)(text, "de")
    start = text.index(wanted)
    first, last = placed.find(start, start + len(wanted))
    assert text[placed.starts[first] : placed.stops[last]] == wanted


def test_places_in_what_is_read_are_others(data):
    """The well-known wrong choice."""
    tokenizer = tokenizer_of("ours", data)
    for text, wanted in ((MIXED[0], "Cafe\u0301"), ("\ufb03\ufb03 Fluss hier", "Fluss"), ("So\u00adft\u200bware hier", "hier")):
        place = tokenizer.normalize(text).index(tokenizer.normalize(wanted))
        assert text[place : place + len(wanted)] != wanted


def test_a_stretch_inside_a_clause_without_spaces_is_found(data):
    tokenizer = tokenizer_of("ours", data)
    text = "\u6771\u4eac\u90fd\u306f1990\u5e74\u306b\u958b\u3044\u305f\u3002"
    placed = PiecePlacer(tokenizer)(text, "ja")
    first, last = placed.find(text.index("1990"), text.index("1990") + 4)
    found = text[placed.starts[first] : placed.stops[last]]
    assert "1990" in found
    assert len(found) < len(text) / 2


def test_the_bytes_of_a_character_have_its_place(data):
    tokenizer = tokenizer_of("ours", data)
    text = "ab\U00010348cd\ue000"
    placed = PiecePlacer(tokenizer)(text, "en")
    spans = list(zip(placed.starts.tolist(), placed.stops.tolist(), strict=True))
    spelling = [span for number, span in zip(placed.ids.tolist(), spans, strict=True) if tokenizer.byte_pieces[number]]
    assert spelling.count((2, 3)) == 4
    assert spelling.count((5, 6)) == 3
    assert placed.words[1:].tolist().count(placed.words[-1]) >= 3


def test_what_the_vocabulary_lacks_reaches_to_the_next_piece(data):
    tokenizer = tokenizer_of("bert", data)
    text = "die (\U00010348\U00010349) Br"
    placed = PiecePlacer(tokenizer)(text, "de")
    unknown = placed.ids.tolist().index(tokenizer.vocabulary.unknown)
    assert text[placed.starts[unknown] : placed.stops[unknown]] == "\U00010348\U00010349"


def test_a_part_that_is_rewritten_is_the_place_of_each_of_its_pieces(data):
    """Moses makes one quotation mark of two commas."""
    tokenizer = tokenizer_of("xlm", data)
    text = "was ''Fluss'' hier"
    placed = PiecePlacer(tokenizer)(text, "de")
    first, last = placed.find(6, 11)
    assert last > first
    assert {
        text[start:stop] for start, stop in zip(placed.starts[first : last + 1], placed.stops[first : last + 1], strict=True)
    } == {"''Fluss''"}


def test_nothing_is_found_where_nothing_is_read(data):
    placed = PiecePlacer(tokenizer_of("ours", data))("a  \u200b  b", "en")
    assert placed.find(3, 4) is None
    assert placed.find(1, 3) is None
    assert PiecePlacer(tokenizer_of("ours", data))("", "en").find(0, 1) is None


def test_it_pickles_without_what_it_remembers(data):
    placer = PiecePlacer(tokenizer_of("ours", data))
    before = placer(MIXED[5], "ja")
    copy = pickle.loads(pickle.dumps(placer))
    assert placer._known
    assert not copy._known
    assert copy(MIXED[5], "ja").starts.tolist() == before.starts.tolist()
