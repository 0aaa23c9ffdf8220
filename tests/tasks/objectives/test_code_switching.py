"""Code switching: which phrases are replaced by what, what is hidden, and what it costs."""

import logging
import math

import pytest
import tiny
import torch
from code_switched import (
    choose,
    connected,
    draw_text,
    marked_by,
    pairs,
    phrase_pairs,
    replace,
    score,
    words_of,
)
from costs import check_nothing_hidden, gradients
from halves import pack_first_row
from learning import reach_half
from torch import nn
from torch.nn.functional import cross_entropy

from interlingua.modalities.batch import Text, take
from interlingua.tasks.objectives.aligned_phrases import find_aligned
from interlingua.tasks.objectives.code_switching import CodeSwitching
from interlingua.tasks.objectives.phrases import find_words

ALL = {"source": 0.0, "target": 0.0}
MODES = ("given", "self")


def hand_made():
    """Three English words, three German ones: `ten red books`, `zehn Buecher rot`, each a piece but the second of two."""
    text = draw_text([[1, 1, 2]], 0, 1)._replace(tokens=torch.tensor([[2, 10, 11, 12, 13, 3]]))
    translation = draw_text([[1, 2, 1]], 1, 2)._replace(tokens=torch.tensor([[2, 20, 22, 23, 21, 3]]))
    links = torch.tensor([[[0, 0], [1, 2], [2, 1]]])
    return tiny.batch((6,), source="parallel")._replace(text=text, translation=translation, alignment=links)


def test_a_word_is_replaced_by_its_counterpart_in_its_place_with_its_language():
    _, objective = connected(**ALL, share=0.34, phrase=1, rate=0.0)
    batch, seen = hand_made(), set()
    english = {(20, 11, 12, 13): (1, 0, 0, 0), (10, 21, 12, 13): (0, 1, 0, 0), (10, 11, 22, 23): (0, 0, 1, 1)}
    german = {(10, 22, 23, 21): (0, 1, 1, 1), (20, 12, 13, 21): (1, 0, 0, 1), (20, 22, 23, 11): (1, 1, 1, 0)}
    words = {10: 0, 20: 0, 11: 1, 21: 1, 12: 2, 13: 2, 22: 2, 23: 2}
    for epoch in range(60):
        view = objective.view(batch._replace(epoch=torch.tensor([epoch])))
        assert view.translation is None
        assert view.alignment is None
        text = view.text
        ids = tuple(text.tokens[0, 1:-1].tolist())
        wanted = {**english, **german}[ids]
        assert text.tokens[0, 0] == 2
        assert text.tokens[0, -1] == 3
        assert text.language[0, 1:-1].tolist() == list(wanted)
        assert text.present.all()
        assert text.position[0].tolist() == list(range(6))
        number = [words[piece] for piece in ids] if ids in english else [(0, 2, 1)[words[piece]] for piece in ids]
        assert text.word[0].tolist() == [-1, *number, -1]
        seen.add(ids)
    assert seen == {*english, *german}


def test_phrases_are_consistent_and_tight_as_their_definition_has_it():
    """Against the definition, for all pairs of phrases; the wrong choice, the hull of the links alone, finds more."""
    batch = pairs((40, 33, 26, 3, 2), (36, 40, 22, 5, 9), links=0.8, padded=44, seed=3)
    words, others = find_words(batch.text), find_words(batch.translation)
    hulls = 0
    for most in (1, 2, 4):
        found = find_aligned(batch.alignment, words, others, most, 44)
        for row in range(batch.size):
            links = [tuple(link) for link in batch.alignment[row].tolist()]
            wanted = phrase_pairs(links, int(words.count[row]), most)
            there = {(start, start + size) for start, size in found.valid[row].nonzero().tolist()}
            assert there == set(wanted)
            hulls += len({i for i, _ in links if i >= 0}) - len([1 for start, end in wanted if start == end])
            for (start, end), (low, high) in wanted.items():
                at = (row, start, end - start)
                assert found.begin[at] == row * 44 + others.first[row, low]
                assert found.stop[at] == row * 44 + others.end[row, high]
    assert hulls > 0


@pytest.mark.parametrize("max_tokens", [64, 24])
@pytest.mark.parametrize("phrase", [1, 4])
def test_a_sentence_is_switched_as_plain_python_switches_it(phrase, max_tokens):
    _, objective = connected(**ALL, share=0.5, phrase=phrase, rate=0.0, max_tokens=max_tokens)
    batch = pairs((20, 22, 18, 24, 9) * 8, (24, 16, 22, 20, 12) * 8)
    view, switched, longest = objective.view(batch), 0, 0
    target, seeds = objective._kinds(batch).target.tolist(), objective._seed(batch)
    for row in range(batch.size):
        sides = [words_of(text, row) for text in (batch.text, batch.translation)]
        links = [tuple(link) for link in batch.alignment[row].tolist()]
        if target[row]:
            sides, links = sides[::-1], [(j, i) for i, j in links]
        found = phrase_pairs(links, len(sides[0]), phrase)
        room = max_tokens - 2 - sum(map(len, sides[0]))
        taken = choose(found, *sides, seeds[row], 0.5, phrase, room)
        assert words_of(view.text, row) == replace(*sides, found, taken)
        assert view.text.present[row].sum() <= max_tokens
        switched += len(taken)
        longest = max(longest, int(view.text.present[row].sum()))
    assert switched > 60
    assert longest == max_tokens or max_tokens == 64


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
def test_no_more_than_the_share_of_the_words_is_replaced_and_much_of_it_is(share):
    _, objective = connected(**ALL, share=share, rate=0.0)
    batch = pairs((40,) * 64, (40,) * 64, links=1.0, near=False)
    view, target, shares = objective.view(batch), objective._kinds(batch).target.tolist(), []
    for row in range(batch.size):
        words, own = words_of(view.text, row), int(target[row])
        sides = [words_of(text, row) for text in (batch.text, batch.translation)]
        stayed = sum(word[0][1] == own for word in words)
        shares.append((len(sides[own]) - stayed) / len(sides[own]))
    assert max(shares) <= share
    assert sum(shares) / len(shares) > 0.6 * share


def test_a_tenth_is_pure_source_a_tenth_pure_target_and_the_rest_half_and_half():
    _, objective = connected(rate=0.0)
    batch = pairs((22,) * 1000, (22,) * 1000, links=1.0)
    text = objective.view(batch).text
    language = text.language.masked_fill(text.word < 0, -1)
    english, german = ((language == one).sum(1) for one in (0, 1))
    shares = [
        (german == 0).float().mean(),
        (english == 0).float().mean(),
        ((english > german) & (german > 0)).float().mean(),
        ((german > english) & (english > 0)).float().mean(),
    ]
    for share, wanted in zip(shares, (0.1, 0.1, 0.4, 0.4), strict=True):
        assert abs(share - wanted) < 0.045
    for options, side in (({"source": 1.0, "target": 0.0}, batch.text), ({"source": 0.0, "target": 1.0}, batch.translation)):
        view = connected(**options)[1].view(batch).text
        assert all(torch.equal(one[view.present], own[side.present]) for one, own in zip(view[:7], side[:7], strict=True))


@pytest.mark.parametrize("mode", MODES)
def test_tokens_are_hidden_at_the_rate_and_control_tokens_never(mode):
    """Pitfall O01: over 10,000 tokens; what is put in is hidden as often as all, where it is there before."""
    _, objective = connected(alignments=mode, share=0.5)
    marked = marked_by(objective, pairs([10 + row % 20 for row in range(600)], [29 - row % 20 for row in range(600)])).text
    ordinary = marked.present & (marked.word >= 0)
    assert not (marked.hidden & ~ordinary).any()
    assert ordinary.sum() > 10_000
    assert abs(marked.hidden[ordinary].float().mean() - 0.15) < 0.015
    fates = marked.hidden & (marked.shown == tiny.VOCABULARY.mask)
    assert abs(fates.sum() / marked.hidden.sum() - 0.8) < 0.04
    assert (marked.shown[~marked.hidden & marked.present] == marked.tokens[~marked.hidden & marked.present]).all()


@pytest.mark.parametrize("mode", MODES)
def test_count_is_the_losses_count_and_an_ignorant_head_costs_log_v_a_token(mode):
    encoder, objective = connected(alignments=mode, share=0.6, rate=0.5)
    nn.init.zeros_(encoder.tokens.weight)
    marked = marked_by(objective, pairs())
    loss = objective.loss(objective.read(encoder, marked), marked)
    assert objective.count(marked) == loss.count > 0
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(100), rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_value_and_gradients_are_those_of_a_plain_loss_over_what_was_read(mode):
    encoder, objective = connected(alignments=mode, share=0.6, rate=0.3, double=True, languages=2, **ALL)
    marked = marked_by(objective, pairs())
    states = objective.read(encoder, marked)
    loss, read = objective.loss(states, marked), states.read.text
    assert (read.language[read.present].unique() == torch.tensor([0, 1])).all()
    own = gradients(encoder, objective, loss.total)
    total, plain = 0.0, Text(*read[:7])
    for row in range(marked.size):
        text = take(plain._replace(tokens=read.shown), torch.tensor([row]))
        scores = objective.head(encoder.encode(text)[0][0])
        for column in read.hidden[row].nonzero()[:, 0].tolist():
            total = total + cross_entropy(scores[column][None], read.tokens[row, column][None], reduction="sum")
    torch.testing.assert_close(loss.total, total, rtol=1e-10, atol=1e-10)
    for one, other in zip(own, gradients(encoder, objective, total), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_rows_without_translation_or_links_are_read_pure(mode):
    _, objective = connected(alignments=mode, rate=0.0, share=1.0, **ALL)
    encoder = connected()[0]
    batch = pairs((9, 9, 9, 0), (2, 0, 9, 8))
    alone = batch._replace(alignment=None if mode == "given" else batch.alignment)
    if mode == "self":
        alone = take(batch, torch.tensor([0, 1, 3]))
    marked = objective.mark(objective.view(alone))
    text = objective.read(encoder, marked).read.text
    for row in range(alone.size):
        sides = [words_of(side, row) for side in (alone.text, alone.translation)]
        assert words_of(text, row) in [side for side in sides if side]
    if mode == "given":
        assert words_of(objective.view(batch).text, 2) not in [words_of(batch.text, 2), words_of(batch.translation, 2)]


def test_a_source_of_which_nothing_is_replaced_is_said_once_in_training(caplog):
    def told(batch, **options):
        caplog.clear()
        _, objective = connected(**options)
        for _ in range(30):  # of six sentences
            objective.view(batch)
        return [record.getMessage() for record in caplog.records]

    bare = pairs()._replace(alignment=torch.full((6, 1, 2), -1))
    (said,) = told(bare)
    assert "source parallel: no phrase of its first 66 sentences that could be replaced is aligned, so that all of" in said
    assert told(pairs(), share=1.0) == told(bare, source=0.5, target=0.5) == told(bare, share=0.0) == []
    _, objective = connected()
    objective.eval()
    for _ in range(30):
        objective.view(bare)
    assert not caplog.records


def test_a_source_without_any_alignment_is_said_once(caplog):
    _, objective = connected()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            objective.view(pairs()._replace(alignment=None))
        objective.view(pairs())
    assert len(caplog.records) == 1
    assert "source parallel: a micro-batch of pairs has no word alignment" in caplog.text


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rate", "lengths"), [(0.0, (7, 5)), (1.0, (2, 2)), (1.0, (0, 0))], ids=["rate", "controls", "absent"])
def test_nothing_hidden_costs_exactly_nothing_with_finite_gradients(mode, rate, lengths):
    """Pitfall O03 a and b."""
    check_nothing_hidden(*connected(alignments=mode, rate=rate, share=1.0), pairs(lengths, lengths))


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_of_no_rows(mode):
    encoder, objective = connected(alignments=mode)
    assert score(encoder, objective, take(pairs(), torch.arange(0))).total.item() == 0


@pytest.mark.parametrize("mode", MODES)
def test_the_whole_is_the_sum_of_its_samples_on_either_side_of_padding(mode):
    """Pitfall O09; what is switched and hidden of a sample alone is what is in a batch, padded left or right."""
    encoder, objective = connected(alignments=mode, rate=0.4, share=0.6)
    batch, other = pairs(), pairs(left=True, padded=30)
    whole = score(encoder, objective, batch)
    parts = [score(encoder, objective, take(batch, torch.tensor([row]))) for row in range(batch.size)]
    moved = score(encoder, objective, other)
    assert whole.count == sum(part.count for part in parts) == moved.count > 0
    torch.testing.assert_close(sum(part.total for part in parts), whole.total, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(moved.total, whole.total, rtol=1e-6, atol=1e-6)
    means = [part.total / part.count for part in parts if part.count]
    assert abs(sum(means) / len(means) - whole.total / whole.count) > 1e-4


@pytest.mark.parametrize("mode", MODES)
def test_the_cost_halves_in_sixty_steps(mode):
    encoder, objective = connected(alignments=mode)
    marked = marked_by(objective, pairs([20, 30, 25], [18, 30, 28]))
    reach_half(lambda: objective.loss(objective.read(encoder, marked), marked).total, encoder, objective)


def test_every_epoch_is_switched_anew():
    _, objective = connected(**ALL, share=0.5, rate=0.0)
    batch = pairs((30,), (30,), links=1.0)
    views = [objective.view(batch._replace(epoch=torch.tensor([epoch]))).text.tokens.tolist() for epoch in range(8)]
    assert len({str(view) for view in views}) > 6
    assert views[0] == objective.view(batch).text.tokens.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alignments": "dictionary"}, "alignments is dictionary, but dictionary is None"),
        ({"dictionary": "some.npz"}, "alignments is given, but dictionary is some.npz"),
        ({"layer": 1}, "layer is 1 and alignments is given"),
        ({"alignments": "self", "layer": -1}, "layer is -1"),
        ({"phrase": 0}, "phrase is 0; expected a number from 1 to 512 words"),
        ({"phrase": 10**9}, "phrase is 1000000000; expected a number from 1 to 512 words"),
        ({"share": 1.5}, "share is 1.5, but a share lies between 0 and 1"),
        ({"source": 0.6, "target": 0.6}, r"source \+ target is 1.2"),
        ({"rate": 2.0}, "code switching: rate is 2.0"),
    ],
)
def test_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        CodeSwitching(**options)


def test_refuses_what_it_cannot_read():
    _, objective = connected()
    batch = pairs()
    with pytest.raises(ValueError, match="source 'parallel' has no translation"):
        objective.view(batch._replace(translation=None))
    with pytest.raises(ValueError, match="are packed"):
        objective.view(batch._replace(text=pack_first_row(batch.text)))
    with pytest.raises(ValueError, match="marked already"):
        objective.view(batch._replace(text=batch.text._replace(hidden=torch.zeros_like(batch.text.present))))
    with pytest.raises(ValueError, match="reads text with a token table; ImageTower reads image"):
        CodeSwitching().connect(tiny.two_towers().image)
    assert objective.one_item_a_row
