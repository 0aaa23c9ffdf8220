"""Cross-lingual paraphrase classification: which translations are replaced, by which, and what is refused."""

import logging

import pytest
import tiny
import torch
from costs import score
from halves import (
    check_choices_of_a_split,
    check_long_pairs,
    check_order_in_the_pass,
    mark,
    pack_first_row,
    pieces,
    seconds,
)
from paraphrases import NEGATIVES, objective, translations
from real_pairs import real_pairs
from trained import small_tokenizer

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.paraphrase import UNIT, Paraphrase, compare_texts


def many(count=60):
    """Pairs of two an item, in two languages."""
    lengths = [4 + row % 9 for row in range(count)]
    return translations(lengths, lengths[::-1], [row // 2 for row in range(count)], [1 + row % 3 % 2 for row in range(count)])


def cosine(table, left, right):
    """Of the means of the vectors of some ids, in plain Python."""
    means = []
    for ids in (left, right):
        rows = [table[one].tolist() for one in ids]
        means.append([sum(column) / len(rows) for column in zip(*rows, strict=True)])
    dot, *squares = (sum(a * b for a, b in zip(*two, strict=True)) for two in (means, [means[0]] * 2, [means[1]] * 2))
    return dot / (squares[0] * squares[1]) ** 0.5


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_half_of_many_translations_are_those_of_another_item_in_their_language(negatives):
    _, clpc = objective(negatives)
    batch = many(400)
    marked = mark(clpc, batch)
    assert abs((~marked.matched).float().mean() - 0.5) < 0.08
    owners = {tuple(pieces(batch.translation, row)): row for row in range(400)}
    for row, second in enumerate(seconds(marked)):
        owner = owners[tuple(second)]
        assert pieces(marked.text, row, 0) == pieces(batch.text, row)
        assert (batch.item[owner] == batch.item[row]).item() == marked.matched[row].item() == (owner == row)
        assert batch.translation.language[owner, 0] == batch.translation.language[row, 0]
    assert marked.translation is None
    assert marked.item.equal(batch.item)


def test_what_is_mined_is_the_most_similar_by_the_means_of_token_vectors():
    encoder, clpc = objective(rate=1.0)
    batch = many()
    marked, found = mark(clpc, batch), 0
    for row, second in enumerate(seconds(marked)):
        own = pieces(batch.text, row)
        language = batch.translation.language[:, 0]
        others = [
            pieces(batch.translation, other)
            for other in range(batch.size)
            if batch.item[other] != batch.item[row] and language[other] == language[row]
        ]
        similar = [cosine(encoder.tokens.weight, own, other) for other in others]
        assert second == others[similar.index(max(similar))]
        found += 1
    assert found == batch.size
    assert not marked.matched.any()


def test_mined_are_harder_than_drawn_and_as_the_table_is_at_the_step():
    encoder, clpc = objective(rate=1.0)
    _, random = objective("random", rate=1.0)
    batch = many()
    means = []
    for one in (clpc, random):
        others = seconds(mark(one, batch))
        similar = [cosine(encoder.tokens.weight, pieces(batch.text, row), other) for row, other in enumerate(others)]
        means.append(sum(similar) / len(similar))
    assert means[0] > means[1] + 0.1
    before = seconds(mark(clpc, batch))
    encoder.tokens.weight.data = torch.randn(100, tiny.WIDTH, generator=torch.Generator().manual_seed(5))
    assert seconds(mark(clpc, batch)) != before


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_similarities_are_the_same_to_the_last_bit_whatever_stands_beside(left):
    """Sums of floats would differ in their last digits by the batch's shape, and with them what is most similar."""
    table = torch.randn(100, 48, generator=torch.Generator().manual_seed(0)) / 30
    lengths = [3 + row % 40 for row in range(60)]
    text, other = tiny.text(lengths, seed=1), tiny.text(lengths[::-1], seed=2)
    whole = compare_texts(text, other, table)
    rows, order = torch.arange(7, 20), torch.randperm(60, generator=torch.Generator().manual_seed(1))
    wide = tiny.text(lengths, 64, left, seed=1), tiny.text(lengths[::-1], 70, left, seed=2)
    assert torch.equal(compare_texts(take(wide[0], rows), take(wide[1], order), table), whole[rows][:, order])
    expected = [[cosine(table.double(), pieces(text, row), pieces(other, column)) for column in range(20)] for row in range(5)]
    torch.testing.assert_close(whole[:5, :20] / UNIT**2, torch.tensor(expected, dtype=torch.float64), atol=1e-3, rtol=0)
    absent = compare_texts(tiny.text([0, 2]), other, table)
    assert torch.equal(absent, torch.zeros(2, 60, dtype=torch.float64))
    assert compare_texts(text, take(other, rows[:0]), table).shape == (60, 0)


def test_of_equally_similar_ones_each_is_drawn_whatever_their_order():
    """The same words in another order are as similar."""
    _, clpc = objective(rate=1.0)
    batch = translations([8] * 3, [8] * 3, [0, 1, 2])
    tokens = batch.translation.tokens.clone()
    tokens[2, 1:7] = tokens[1, 1:7].flip(0)
    batch = batch._replace(translation=batch.translation._replace(tokens=tokens))
    first = take(batch, torch.zeros(200, dtype=torch.long))._replace(epoch=torch.arange(200))
    pool = clpc.lend(batch)
    found = seconds(mark(clpc, first, pool))
    ties = [pieces(batch.translation, row) for row in (1, 2)]
    assert abs(found.count(ties[0]) - 100) < 40
    assert found.count(ties[0]) + found.count(ties[1]) == 200
    assert seconds(mark(clpc, first, take(pool, torch.tensor([2, 1, 0])))) == found


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_of_items_7_7_and_9_the_other_translation_is_always_the_other_item_s(negatives):
    """Pitfall O07: 300 draws, and the translation of the same item is the one most similar."""
    _, clpc = objective(negatives, rate=1.0)
    few = translations([6, 6, 6], [4, 5, 6], [7, 7, 9])
    few = few._replace(text=few.text._replace(tokens=few.text.tokens[:1].repeat(3, 1)))
    few.translation.tokens[:, 1:3] = few.text.tokens[:, 1:3]
    few.translation.tokens[2, 1:5] = torch.tensor([90, 91, 92, 93])
    rows = take(few, torch.arange(3).repeat(300))._replace(epoch=torch.arange(300).repeat_interleave(3))
    marked = mark(clpc, rows, clpc.lend(few))
    lengths = (marked.text.present & (marked.text.segment == 1)).sum(1).view(300, 3)
    assert not marked.matched.any()
    assert (lengths[:, :2] == 6).all()
    if negatives == "random":
        assert lengths[:, 2].unique().tolist() == [4, 5]


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_a_translation_that_reads_the_same_is_no_negative_though_its_item_differs(negatives):
    _, clpc = objective(negatives, rate=1.0)
    batch = translations([5, 6, 7], [5, 5, 7], [1, 2, 1])
    batch = batch._replace(translation=take(batch.translation, torch.tensor([0, 0, 2])))
    assert mark(clpc, batch).matched.tolist() == [True, False, False]


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_without_a_candidate_all_stay_and_it_is_said_once(negatives, caplog):
    encoder, clpc = objective(negatives, rate=1.0)
    for batch in (translations(items=[7] * 6), translations(languages=[1, 2, 3, 4, 5, 6]), translations([6], [5])):
        with caplog.at_level(logging.WARNING):
            marked = mark(clpc, batch)
        assert marked.matched.all()
        loss = score(encoder, clpc, marked)
        assert loss.count == clpc.count(marked) == batch.size
        assert loss.total.isfinite()
    said = "6 samples of a step have no translation of another item in their language"
    assert [said in message for message in caplog.messages] == [True]


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_the_choice_depends_on_neither_order_nor_split_nor_padding_of_the_pool(negatives):
    check_choices_of_a_split(*objective(negatives, rate=0.8), translations(), translations(left=True, padded=20))


def test_half_of_the_rows_begin_with_the_translation_by_sample_and_epoch():
    _, clpc = objective("random", orders="drawn")
    _, given = objective("random")
    whole = translations([6] * 400, [5] * 400)
    marked, straight = mark(clpc, whole), mark(given, whole)
    found = marked.text.language[:, 0] == 1
    assert abs(found.float().mean() - 0.5) < 0.08
    assert not (straight.text.language[:, 0] == 1).any()
    assert (mark(clpc, whole._replace(epoch=whole.epoch + 1)).text.language[:, 0] != marked.text.language[:, 0]).any()
    assert marked.matched.equal(straight.matched)
    assert abs((found & marked.matched).float().mean() - 0.25) < 0.08  # order says nothing about the class
    for row in found.nonzero()[:20, 0].tolist():
        assert pieces(marked.text, row, 0) == pieces(straight.text, row, 1)
        assert pieces(marked.text, row, 1) == pieces(straight.text, row, 0)


def test_long_pairs_are_cut_after_the_exchange():
    check_long_pairs(objective()[1], translations([60] * 12, [50] * 12))


def test_the_order_in_its_pass_is_that_in_which_marks_can_be_kept():
    check_order_in_the_pass(*objective(), translations())


def test_real_sentences_are_replaced_by_more_similar_ones_than_by_chance(data):
    tokenizer = small_tokenizer(data)
    rows, batch = real_pairs(data, tokenizer, ("de", "es"), 60)
    second = batch.translation
    assert len(rows) == 60
    encoder = tiny.text_tower(vocabulary=tokenizer.vocabulary, max_tokens=96, segments=2)
    shared = {}
    for negatives in NEGATIVES:
        marked = mark(objective(negatives, encoder, rate=1.0)[1], batch)
        assert not marked.matched.any()
        half = (marked.text.segment == 1) & marked.text.present
        assert (marked.text.language.masked_fill(~half, 0).amax(1) == second.language[:, 0]).all()
        both = [set(pieces(marked.text, row, 0)) & set(one) for row, one in enumerate(seconds(marked))]
        shared[negatives] = sum(map(len, both))
    assert shared["mined"] > 1.1 * shared["random"]


def test_what_cannot_be_meant_is_refused():
    _, clpc = objective()
    with pytest.raises(ValueError, match="paraphrase: source 'captions' has no translation"):
        clpc.view(tiny.batch())
    packed = translations()
    with pytest.raises(ValueError, match="rows of source 'parallel' are packed"):
        clpc.view(packed._replace(text=pack_first_row(packed.text)))
    for options, message in (
        ({"rate": 1.5}, r"rate is 1\.5"),
        ({"pair": "roberta"}, "paraphrase: pair is 'roberta', expected one of bert"),
        ({"max_tokens": 5}, "max_tokens is 5; pairs of the form xlm need at least 6"),
    ):
        with pytest.raises(ValueError, match=message):
            Paraphrase(**options)
    with pytest.raises(ValueError, match="ImageTower reads image; use an encoder with a text stream"):
        Paraphrase().connect(tiny.two_towers().image)
