"""Visual translation language modelling: what is hidden together, what stays the truth, and what it costs."""

from functools import partial

import costs
import pytest
import tiny
import torch
from costs import read, score
from learning import reach_half
from region_pairs import connected
from translation_pairs import ids, pairs

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.objectives.translation_language import TranslationLanguage
from interlingua.tasks.objectives.visual_translation_language import VisualTranslationLanguage, link_halves

VOCABULARY = tiny.VOCABULARY
LENGTHS, OTHERS, COUNTS = (9, 7, 12, 6), (8, 10, 7, 5), (5, 3, 0, 4)


def pictured(lengths=LENGTHS, others=OTHERS, counts=None, links=None, pieces=1, **options):
    """Pairs beside regions; words of so many pieces, linked one to one where links are not given."""
    batch = pairs(lengths, others, **options)
    text, translation = (
        one._replace(word=torch.where(one.word >= 0, one.word // pieces, -1)) for one in (batch.text, batch.translation)
    )
    words = max(*lengths, *others)
    if links is None:
        links = torch.arange(words)[None, :, None].expand(len(lengths), words, 2)
        least = torch.minimum(text.word.amax(1), translation.word.amax(1))
        links = torch.where(links > least[:, None, None], -1, links)
    regions = tiny.regions(counts or [2 + row % 4 for row in range(len(lengths))])
    return batch._replace(text=text, translation=translation, alignment=links, regions=regions)


def objective(**options):
    return connected(VisualTranslationLanguage(**options))


def hidden_words(text, row, half):
    return set(text.word[row][text.hidden[row] & (text.segment[row] == half)].tolist())


def test_the_row_is_that_of_uc2():
    """`[cls] a [sep] [cls] b [sep]`, positions restart at the second [cls]."""
    _, one = objective()
    batch = pictured()
    view = one.view(batch)
    for row in range(4):
        first, second = ids(batch.text, row), ids(batch.translation, row)
        assert ids(view.text, row) == [2, *first[1:-1], 3, 2, *second[1:-1], 3]
        there = view.text.position[row][view.text.present[row]].tolist()
        assert there == [*range(len(first)), *range(len(second))]
    assert view.translation is None
    assert view.regions is batch.regions
    words = torch.tensor(LENGTHS) - 2
    assert view.alignment[0, :6].tolist() == [[word, word + int(words[0])] for word in range(6)]


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("scheme", ["token", "word"])
def test_translations_of_hidden_words_are_hidden_with_them_and_no_others(pieces, scheme):
    _, one = objective(together=1.0, rate=0.3, scheme=scheme)
    batch = pictured([14] * 60, [11] * 60, pieces=pieces)
    text = read(one, batch).text
    linked, words = 9 // pieces, -(-12 // pieces)
    for row in range(60):
        first, second = (hidden_words(text, row, half) for half in (0, 1))
        assert second == {word + words for word in first if word < linked}
        for word in second:  # with all its pieces
            assert text.hidden[row][text.word[row] == word].all()
    assert abs(text.hidden[(text.segment == 0) & (text.word >= 0)].float().mean() - 0.3) < 0.06
    assert text.tokens.equal(one.view(batch).text.tokens)


def test_what_stands_in_the_place_of_linked_words_has_the_shares_of_all():
    """Pitfall O01."""
    _, one = objective(together=1.0, rate=0.5)
    text = read(one, pictured([30] * 200, [30] * 200)).text
    late = text.hidden & (text.segment == 1)
    shown, truth = text.shown[late], text.tokens[late]
    assert late.sum() > 2000
    assert abs((shown == VOCABULARY.mask).float().mean() - 0.8) < 0.025
    assert abs((shown == truth).float().mean() - 0.1) < 0.025
    assert not torch.isin(shown[shown != VOCABULARY.mask], torch.tensor(VOCABULARY.controls)).any()
    assert text.shown[~text.hidden].equal(text.tokens[~text.hidden])


def test_a_word_that_two_links_reach_has_itself_as_its_truth():
    """UC2's released code labels it with the mask token, which stood there when it was hit the second time."""
    encoder, one = objective(together=1.0, rate=1.0, keep=0.0, random=0.0)
    links = torch.tensor([[[0, 1], [1, 1], [2, 1], [3, 0], [-1, -1]]])
    batch = pictured([6], [4], links=links)
    marked = read(one, batch)
    text, truth = marked.text, one.view(batch).text.tokens
    assert (text.shown[text.hidden] == VOCABULARY.mask).all()
    assert text.tokens.equal(truth)
    assert not (text.tokens[text.hidden] == VOCABULARY.mask).any()
    assert hidden_words(text, 0, 1) == {4 + 0, 4 + 1}
    assert score(encoder, one, marked).count == 6
    wrong = marked._replace(text=text._replace(tokens=torch.where(text.word == 5, VOCABULARY.mask, text.tokens)))
    assert (score(encoder, one, wrong).total - score(encoder, one, marked).total).abs() > 1e-3


def test_words_without_a_link_hide_nothing_else():
    """Above all not the first word (as in UC2's released code)."""
    _, one = objective(together=1.0, rate=1.0)
    links = torch.tensor([[[2, 1], [-1, -1]]]).expand(50, 2, 2)
    text = read(one, pictured([6] * 50, [6] * 50, links=links)).text
    assert all(hidden_words(text, row, 1) == {4 + 1} for row in range(50))


def test_half_of_the_pairs_are_hidden_together_and_the_others_each_word_for_itself():
    _, one = objective(rate=0.4)
    batch = pictured([22] * 300, [22] * 300)

    def apart(batch):
        text = read(one, batch).text
        return torch.tensor(
            [
                {word - 20 for word in hidden_words(text, row, 1)} != hidden_words(text, row, 0)
                for row in range(len(text.tokens))
            ]
        )

    found = apart(batch)
    assert abs(found.float().mean() - 0.5) < 0.08
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    assert apart(take(batch, order)).equal(found[order])
    assert (apart(batch._replace(epoch=batch.epoch + 1)) != found).any()
    text = read(objective(together=0.0, rate=0.4)[1], batch).text
    for half in (0, 1):
        own = (text.segment == half) & (text.word >= 0)
        assert abs(text.hidden[own].float().mean() - 0.4) < 0.02


def test_pairs_without_links_are_hidden_each_word_for_itself():
    _, one = objective(together=1.0, rate=0.5)
    batch = pictured([20] * 20, [20] * 20)
    none = read(one, batch._replace(alignment=torch.full_like(batch.alignment, -1))).text
    absent = read(one, batch._replace(alignment=None)).text
    assert none.hidden.equal(absent.hidden)
    assert (none.hidden & (none.segment == 1)).any(1).all()


def test_links_turn_with_the_order():
    _, one = objective(orders="drawn", together=1.0, rate=0.5)
    links = torch.tensor([[[0, 2], [1, 3], [2, 0]]]).expand(40, 3, 2)
    batch = pictured([6] * 40, [6] * 40, links=links)
    text = read(one, batch).text
    german = text.language[:, 0] == 1
    assert 5 < german.sum() < 35
    for row in range(40):
        way = {2: 0, 3: 1, 0: 2} if german[row] else {0: 2, 1: 3, 2: 0}
        assert hidden_words(text, row, 1) == {4 + way[word] for word in hidden_words(text, row, 0) if word in way}


def test_links_of_words_that_are_cut_off_are_left_out():
    _, one = objective(max_tokens=16, together=1.0, rate=1.0)
    batch = pictured([20], [12])
    view = one.view(batch)
    kept = [int((view.text.segment[0][view.text.word[0] >= 0] == half).sum()) for half in (0, 1)]
    assert kept == [6, 6]
    assert view.alignment[0, :6].tolist() == [[word, word + 6] for word in range(6)]
    assert (view.alignment[0, 10:] == -1).all()
    assert (view.alignment[0, 6:, 0] == -1).all()
    assert hidden_words(read(one, batch).text, 0, 1) == {6 + word for word in range(6)}


def test_samples_without_a_half_are_single_texts():
    """Pitfall O11."""
    encoder, one = objective(together=1.0, rate=1.0)
    batch = pictured([9, 9, 0, 2], [0, 2, 8, 8], links=torch.zeros(4, 3, 2, dtype=torch.long))
    marked = read(one, batch)
    assert (marked.alignment == -1).all()
    assert not (marked.text.segment == 1).any()
    assert [ids(marked.text, row) for row in (0, 1)] == [ids(batch.text, row) for row in (0, 1)]
    assert [ids(marked.text, row) for row in (2, 3)] == [ids(batch.translation, row) for row in (2, 3)]
    assert score(encoder, one, marked).count == 7 + 7 + 6 + 6
    assert link_halves(torch.zeros(0, 2, 2, dtype=torch.long), take(marked.text, torch.arange(0))).shape == (0, 2, 2)


def test_the_picture_is_read():
    encoder, one = objective(rate=0.5)
    marked = read(one, pictured())
    other = marked._replace(regions=tiny.regions([2, 3, 4, 5], seed=5))
    assert ((encoder(marked).text - encoder(other).text).abs().amax(2)[marked.text.present] > 1e-4).all()
    nothing = marked._replace(regions=tiny.regions([0, 0, 0, 0]))
    assert score(encoder, one, nothing).total.isfinite()


def test_count_is_the_losses_count_and_an_ignorant_head_costs_log_v_a_token():
    costs.check_log_v(*objective(rate=0.5), pictured())


@pytest.mark.parametrize(("rate", "lengths"), [(0.0, (7, 5)), (1.0, (2, 2)), (1.0, (0, 0))], ids=["rate", "controls", "absent"])
def test_nothing_hidden_costs_exactly_nothing_with_finite_gradients(rate, lengths):
    """Pitfall O03 a and b."""
    costs.check_nothing_hidden(*objective(rate=rate), pictured(lengths, lengths))


@pytest.mark.parametrize("orders", ["given", "drawn"])
def test_the_whole_is_the_sum_of_its_samples_each_marked_alone(orders):
    costs.check_sum_of_samples(*objective(rate=0.4, orders=orders), pictured([9, 3, 12, 5, 20], [4, 0, 30, 6, 3]))


def test_padding_on_either_side_costs_the_same():
    costs.check_padding(*objective(rate=0.5), partial(pictured, LENGTHS, OTHERS))


def test_pairs_that_do_not_belong_are_hidden_and_not_scored_where_that_is_asked_for():
    encoder, one = objective(rate=0.6, on="matched")
    itm, regions = (connected(part, encoder)[1] for part in (ImageTextMatching(replaced="either"), MaskedRegionFeatures()))
    view = one.view(pictured([9, 7, 12, 6, 8, 5], [8, 10, 7, 5, 6, 7]))
    marked = regions.mark(one.mark(itm.mark(view)))
    assert 0 < marked.matched.sum() < 6
    assert one.count(marked) == marked.text.hidden[marked.matched].sum() > 0
    states = encoder(marked)
    for part in (itm, one, regions):
        loss = part.loss(states, marked)
        assert loss.count == part.count(marked)
        assert loss.total.isfinite()


def test_the_cost_halves_in_sixty_steps():
    encoder, one = objective()
    marked = read(one, pictured([20, 30, 25], [18, 30, 28]))
    reach_half(lambda: score(encoder, one, marked).total, encoder, one)


def test_saves_its_head_without_the_table():
    costs.check_saves_alone(objective()[1])


def test_refuses_sources_and_encoders_without_a_picture_or_a_translation():
    _, one = objective()
    with pytest.raises(ValueError, match="source 'parallel' has no picture; let it read regions or an image"):
        one.view(pictured()._replace(regions=None))
    with pytest.raises(ValueError, match="source 'parallel' has no translation"):
        one.view(pictured()._replace(translation=None))
    with pytest.raises(ValueError, match="TextTower reads text, translation; use a fused encoder, or `TranslationLanguage`"):
        connected(VisualTranslationLanguage(), tiny.text_tower())
    with pytest.raises(ValueError, match=r"together is 2\.0"):
        VisualTranslationLanguage(together=2.0)


def test_the_form_needs_no_language_vectors_and_says_nothing(caplog):
    objective()
    assert not caplog.messages
    connected(TranslationLanguage("xlm"))
    assert "positions restart" in caplog.messages[0]
