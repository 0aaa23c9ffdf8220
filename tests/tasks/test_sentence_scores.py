"""Scores of translations found: the margin by hand (pitfall M12), ties, equal texts and collapsed encoders (M02)."""

import pytest
import torch

from interlingua.tasks.ranking import measure_neighbourhoods, rank, recall
from interlingua.tasks.sentence_scores import Sentences, ask, match, measure

GOLDEN = torch.tensor([[0.80, 0.82, 0.20], [0.30, 0.90, 0.10], [0.10, 0.85, 0.83]])
TO, FROM = "sentence_retrieval_to_en", "sentence_retrieval_from_en"


def sentences(vectors, identity=None, sample=None) -> Sentences:
    """Texts that all read differently, numbered from 0, where nothing else is said."""
    rows = list(range(len(vectors)))
    return Sentences(torch.tensor(sample or rows), torch.tensor(identity or rows), vectors)


def golden() -> tuple[Sentences, Sentences]:
    """Vectors of length 1 whose cosines are half the golden similarities: neither cosine nor margin asks for the unit."""
    rest = torch.diag((1 - (GOLDEN / 2).square().sum(1)).sqrt())
    return sentences(torch.cat([GOLDEN / 2, rest], dim=1)), sentences(torch.eye(3, 6))


def figures(records) -> dict:
    return {(record.task, record.language, record.metric): record.value for record in records}


def test_margin_on_given_similarities():
    """Pitfall M12: the right neighbour by margin where cosine takes the hub."""
    pairs = torch.arange(3)[:, None].expand(-1, 2)
    near = measure_neighbourhoods(GOLDEN, torch.eye(3), k=2)
    assert near.queries.tolist() == pytest.approx([0.81, 0.60, 0.84])
    assert near.gallery.tolist() == pytest.approx([0.55, 0.875, 0.515])
    assert recall(rank(GOLDEN, torch.eye(3), pairs), 1).tolist() == [0, 1, 0]
    assert recall(rank(GOLDEN, torch.eye(3), pairs, near), 1).tolist() == [1, 1, 1]
    # Divided by the queries' side alone nothing moves; by the gallery's alone the hub loses as well.
    assert recall(rank(GOLDEN, torch.eye(3), pairs, near._replace(gallery=torch.full((3,), 0.5))), 1).tolist() == [0, 1, 0]


def test_golden_case_both_ways():
    """Pitfall M12: cosine 1/3 into English and 3/3 out of it, margin 3/3 both ways."""
    other, english = golden()
    found = figures(measure({"de": other, "en": english}, "en", "golden", margin=2))
    assert found[TO, "de", "accuracy@1"] == pytest.approx(1 / 3)
    assert found[FROM, "de", "accuracy@1"] == 1
    assert found[TO, "de", "margin accuracy@1"] == found[FROM, "de", "margin accuracy@1"] == 1
    assert found[TO, "de", "chance accuracy@1"] == pytest.approx(1 / 3)
    assert found[TO, "de", "gallery size"] == 3


def test_shuffling_with_the_gold_changes_nothing():
    """Pitfall M12: another order of what is searched, with its numbers or without."""
    other, english = golden()
    order = [2, 0, 1]

    def score(english, other=other):
        return measure({"de": other, "en": english}, "en", "x", 2)

    reordered = english._replace(vectors=english.vectors[order], identity=english.identity[order])
    whole = ask(other, english, 2)
    shuffled = ask(Sentences(*(field[order] for field in other)), reordered, 2)
    for one, again in zip(whole, shuffled, strict=True):
        assert torch.equal(one.hits[order], again.hits)
    assert score(*(one._replace(sample=one.sample * 7 + 3) for one in (english, other))) == score(english)
    wrong = english._replace(vectors=english.vectors[order])
    assert figures(score(wrong))[FROM, "de", "accuracy@1"] == 0


def test_agrees_with_the_definition():
    """Random vectors, equal ones and equal texts among them, against loops over every pair."""
    torch.manual_seed(0)
    identity = [torch.randint(25, (40,)), torch.randint(30, (40,))]
    tables = [torch.randn(30, 12) + 0.5 for _ in identity]
    tables[0][3], tables[1][5:8] = tables[0][4], tables[1][8]  # texts that differ, and that the encoder cannot tell apart
    left, right = (sentences(table[one], one.tolist()) for table, one in zip(tables, identity, strict=True))
    for way, queries, gallery in zip(ask(left, right, 4), (left, right), (right, left), strict=True):
        unit = [torch.nn.functional.normalize(one.vectors.double(), dim=1) for one in (queries, gallery)]
        asked = {int(text): unit[0][row] for row, text in enumerate(queries.identity)}
        searched = {int(text): unit[1][row] for row, text in enumerate(gallery.identity)}
        assert way.gallery == len(searched)
        right_for = {}
        for query, answer in zip(queries.identity.tolist(), gallery.identity.tolist(), strict=True):
            right_for.setdefault(query, set()).add(answer)

        def nearest(vector, others):
            return sum(sorted((float(vector @ other) for other in others.values()), reverse=True)[:4]) / 4

        back = {text: nearest(vector, asked) for text, vector in searched.items()}
        for row, query in enumerate(queries.identity.tolist()):
            forth = nearest(asked[query], searched)
            for column, form in enumerate((lambda c, a, b: c / ((a + b) / 2), lambda c, a, b: c)):
                scores = {text: form(float(asked[query] @ vector), forth, back[text]) for text, vector in searched.items()}
                first = [text for text, score in scores.items() if score > max(scores.values()) - 1e-6]
                wanted = sum(text in right_for[query] for text in first) / len(first)
                assert way.hits[row, column].item() == pytest.approx(wanted), (row, column)
            assert way.by_chance[row].item() == pytest.approx(len(right_for[query]) / len(searched))


@pytest.mark.parametrize("type", [torch.float32, torch.bfloat16])
def test_collapsed_encoder_scores_chance(type):
    """Pitfall M02: all vectors equal, in any precision, by cosine and by margin."""
    same = torch.randn(1, 48).expand(20, -1).to(type).float()
    found = figures(measure({"de": sentences(same), "en": sentences(same)}, "en", "x"))
    for task in (TO, FROM):
        for metric in ("accuracy@1", "margin accuracy@1"):
            assert found[task, "de", metric] == pytest.approx(1 / 20)
            assert found[task, "all", f"mean {metric}"] == pytest.approx(1 / 20)


def test_equal_texts_are_one_entry_and_right_for_each():
    """Four English sentences of which three read "Options", with German renderings of their own: any of these is right."""
    torch.manual_seed(1)
    english = sentences(torch.eye(4, 8)[[0, 0, 0, 1]], [7, 7, 7, 8])
    german = sentences(torch.stack([torch.eye(8)[n] for n in (0, 5, 6, 1)]) + 0.01)
    to, back = ask(german, english, None)
    assert (to.gallery, back.gallery) == (2, 4)
    assert back.hits[:, 0].tolist() == [1, 1, 1, 1], "counted apart, two of three would be wrong"
    assert to.hits[:, 0].tolist()[0] == to.hits[:, 0].tolist()[3] == 1
    assert to.by_chance.tolist() == [0.5] * 4
    assert back.by_chance.tolist() == [0.75, 0.75, 0.75, 0.25]


def test_languages_are_compared_with_their_own_translations_alone():
    """The gallery of a language is what has a translation in it; the mean counts languages alike."""
    torch.manual_seed(2)
    vectors = torch.eye(10)
    english = sentences(vectors)
    german = sentences(vectors[:8].flip(1), sample=list(range(8)))  # half of it finds itself nowhere
    swahili = sentences(vectors[[4, 9]], sample=[4, 9])
    alone = sentences(torch.randn(3, 10), sample=[20, 21, 22])
    records = measure({"en": english, "de": german, "sw": swahili, "xx": alone}, "en", "x", margin=None)
    found = figures(records)
    assert found[TO, "sw", "accuracy@1"] == 1
    assert found[TO, "sw", "gallery size"] == 2
    assert (TO, "xx", "accuracy@1") not in found
    assert found[TO, "all", "mean accuracy@1"] == pytest.approx((found[TO, "de", "accuracy@1"] + 1) / 2)
    assert not any("margin" in metric for _, _, metric in found)
    mean = next(record for record in records if record.metric == "mean accuracy@1" and record.task == FROM)
    assert mean.n == 10
    assert mean.low <= mean.value <= mean.high
    both = {"en": english, "de": german}
    means = [record for record in measure(both, "en", "x", None) if record.language == "all"]
    assert measure(both, "en", "x", None, only_means=True) == means
    with pytest.raises(ValueError, match=r"x: no sentence has a translation in en; languages found: en, xx"):
        measure({"en": english, "xx": alone}, "en", "x")


def test_intervals_hold_what_a_new_sample_of_sentences_would_give():
    """A clear half right, 400 sentences: 50 % with about 4.9 points to either side."""
    vectors = torch.eye(400)
    english = sentences(vectors)
    moved = vectors.clone()
    moved[::2] = vectors[::2].roll(1, 0)
    record = next(r for r in measure({"en": english, "de": sentences(moved)}, "en", "x", None) if r.metric == "accuracy@1")
    assert record.value == pytest.approx(0.5)
    assert record.value - record.low == pytest.approx(0.049, abs=0.008)
    assert record.high - record.value == pytest.approx(0.049, abs=0.008)


def test_match_finds_partners_by_number():
    left, right = sentences(torch.randn(4, 3), sample=[1, 4, 6, 9]), sentences(torch.randn(3, 3), sample=[0, 4, 9])
    own, place = match(left, right)
    assert (own.sample.tolist(), place.tolist()) == ([4, 9], [1, 2])


def test_margins_that_cannot_be_meant():
    vectors = torch.eye(2)
    with pytest.raises(ValueError, match=r"x, de and en: a ratio margin has no meaning: .* is -0.354, .*`margin: null`"):
        measure({"en": sentences(vectors), "de": sentences(-vectors[:, [0, 0]])}, "en", "x", margin=1)
    with pytest.raises(ValueError, match="over 0 neighbours; expected 1 or more"):
        measure_neighbourhoods(vectors, vectors, 0)
