"""Answering by spans: what is compared, what is learnt without an answer, the best span."""

import math

import pytest
import tiny
import torch
from halves import halves, pack_first_row
from learning import reach_half

from interlingua.modalities.batch import Target, take
from interlingua.modalities.pair import PAIR_FORMS, join_texts
from interlingua.models.encoder import States
from interlingua.tasks.objectives.span_answering import SpanAnswering, context, find_best
from interlingua.tasks.passes import Pass
from interlingua.tasks.reading import mark_pass

QUESTIONS, TEXTS = (5, 4, 7, 6), (9, 12, 6, 8)
SPANS = [[1, 2], [0, 0], None, [3, 5]]
"""In tokens of the text; the third row has no answer."""


def asked(questions=QUESTIONS, texts=TEXTS, spans=SPANS, left=False, form="xlm-roberta", vocabulary=tiny.VOCABULARY, most=64):
    """Random questions and texts in one row each."""
    both = halves(questions, texts, left=left, vocabulary=vocabulary)
    text = join_texts(both.text, both.translation, PAIR_FORMS[form], vocabulary, most)
    offset = torch.tensor(questions) + PAIR_FORMS[form].ends - 1
    span = torch.tensor([[-1, -1] if one is None else [one[0], one[1]] for one in spans])
    span = torch.where(span < 0, span, span + offset[:, None])
    return both._replace(text=text, translation=None, target=Target(span=span))


def pad_left(batch, width):
    """The same rows with padding before them."""
    text = batch.text
    amount = width - text.present.sum(1)
    columns = (torch.arange(width)[None] - amount[:, None]).clamp_min(0)
    there = torch.arange(width)[None] >= amount[:, None]
    fields = {name: getattr(text, name).gather(1, columns.clamp_max(text.tokens.shape[1] - 1)) for name in text._fields[:7]}
    fields["present"] = there
    fields["word"] = fields["word"].masked_fill(~there, -1)
    fields["tokens"] = fields["tokens"].masked_fill(~there, tiny.VOCABULARY.pad)
    span = torch.where(batch.target.span < 0, batch.target.span, batch.target.span + amount[:, None])
    return batch._replace(text=text._replace(**fields), target=Target(span=span))


def connected(**options):
    torch.manual_seed(0)
    encoder, objective = tiny.text_tower(segments=2), SpanAnswering(**options)
    objective.connect(encoder)
    return encoder, objective


def score(encoder, objective, batch):
    marked = objective.mark(objective.view(batch))
    return objective.loss(objective.read(encoder, marked), marked)


def by_hand(objective, states, batch, row, place, which, first=True):
    """Cross-entropy of one end of one row, over the text's tokens and perhaps the row's first."""
    places = [0] if first else []
    places += [p for p in range(batch.text.tokens.shape[1]) if batch.text.segment[row, p] == 1 and batch.text.word[row, p] >= 0]
    scores = {p: (objective.head(states[row, p])[which]) for p in places}
    return torch.stack(list(scores.values())).logsumexp(0) - scores[place]


@pytest.mark.parametrize("absent", ["first", "skip"])
def test_the_cost_written_out(absent):
    encoder, objective = connected(absent=absent)
    batch = asked()
    states = encoder(batch).text
    total = torch.zeros(())
    for row, span in enumerate(batch.target.span.tolist()):
        if span[0] < 0 and absent == "skip":
            continue
        for which in (0, 1):
            total = total + by_hand(objective, states, batch, row, max(span[which], 0), which, absent == "first") / 2
    loss = score(encoder, objective, batch)
    assert loss.count == objective.count(batch) == (4 if absent == "first" else 3)
    torch.testing.assert_close(loss.total, total, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("absent", "more"), [("first", 1), ("skip", 0)])
def test_an_ignorant_head_costs_the_logarithm_of_the_tokens_that_are_compared(absent, more):
    """Of the text alone (and the first of the row): neither question nor padding makes a row dearer."""
    encoder, objective = connected(absent=absent)
    torch.nn.init.zeros_(objective.head.weight)
    rows = [0, 1, 3] if absent == "skip" else range(4)
    want = sum(math.log(TEXTS[row] - 2 + more) for row in rows)
    assert score(encoder, objective, asked()).total.item() == pytest.approx(want, rel=1e-6)
    wide = pad_left(asked(), 40)
    assert score(encoder, objective, wide).total.item() == pytest.approx(want, rel=1e-6)


def test_a_row_of_which_nothing_is_told_is_not_learnt_from():
    """Pointing it at its first token would teach that there is no answer."""
    encoder, objective = connected()
    batch = asked()
    untold = batch._replace(target=Target(span=torch.where(batch.target.span == -1, -2, batch.target.span)))
    loss = score(encoder, objective, untold)
    assert loss.count == objective.count(untold) == 3
    others = take(batch, torch.tensor([0, 1, 3]))
    torch.testing.assert_close(loss.total, score(encoder, objective, others).total, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("absent", ["first", "skip"])
def test_the_whole_is_the_sum_of_its_rows_whatever_the_padding(absent):
    encoder, objective = connected(absent=absent)
    whole = score(encoder, objective, asked())
    parts = [score(encoder, objective, take(asked(), torch.tensor([row]))) for row in range(4)]
    torch.testing.assert_close(sum(part.total for part in parts), whole.total, rtol=1e-5, atol=1e-5)
    assert sum(part.count for part in parts) == whole.count
    torch.testing.assert_close(score(encoder, objective, pad_left(asked(), 30)).total, whole.total, rtol=1e-5, atol=1e-5)


def nothing():
    """No row; a row without a text; a row without anything."""
    return {
        "no row": take(asked(), torch.arange(0)),
        "no text": asked([5, 4], [0, 0], [None, None]),
        "absent": asked([0, 0], [0, 0], [None, None]),
    }


@pytest.mark.parametrize("name", nothing())
def test_nothing_to_score_costs_exactly_nothing(name):
    encoder, objective = connected()
    batch = nothing()[name]
    loss = score(encoder, objective, batch)
    assert loss.total.item() == 0
    assert loss.count == objective.count(batch) == 0
    gradients = torch.autograd.grad(loss.total, list(objective.parameters()))
    assert all((gradient == 0).all() for gradient in gradients)
    found = objective.find(encoder(batch), batch)
    assert (found.span == -1).all()
    assert found.score.isneginf().all()


def test_the_cost_halves_in_sixty_steps_and_the_answers_are_found():
    encoder, objective = connected()
    batch = asked()
    reach_half(lambda: score(encoder, objective, batch).total, encoder, objective)
    optimizer = torch.optim.Adam([*encoder.parameters(), *objective.parameters()], lr=5e-3)
    for _ in range(40):
        score(encoder, objective, batch).total.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert objective.tally(encoder(batch), batch)["exact_span"].tolist() == [3, 3]


def slow_best(start, end, allowed, longest):
    """All spans, one by one."""
    best, where = -math.inf, [-1, -1]
    for first in range(len(start)):
        for last in range(first, min(first + longest, len(start))):
            if allowed[first] and allowed[last] and start[first] + end[last] > best:
                best, where = (start[first] + end[last]).item(), [first, last]
    return where, best


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_the_best_span_is_legal(longest):
    generator = torch.Generator().manual_seed(0)
    start, end = torch.randn(2, 40, 17, generator=generator)
    allowed = (torch.arange(17) >= torch.randint(0, 17, (40, 1), generator=generator)) & (torch.arange(17) < 15)
    found = find_best(start, end, allowed, longest)
    for row in range(40):
        where, best = slow_best(start[row], end[row], allowed[row], longest)
        assert found.span[row].tolist() == where
        assert found.score[row].item() == pytest.approx(best)
    # The well-known wrong choice: the best token for either end, each by itself.
    apart = torch.stack([one.masked_fill(~allowed, -torch.inf).argmax(1) for one in (start, end)], 1)
    there = allowed.any(1)
    assert (found.span != apart)[there].any()


def test_a_span_is_found_in_the_text_alone():
    """Whatever the question's tokens score, and the row's first."""
    _, objective = connected(longest=4)
    batch = asked()
    objective.head.weight.data = torch.eye(2, tiny.WIDTH)
    objective.head.bias.data.zero_()
    states = torch.zeros(*batch.text.tokens.shape, tiny.WIDTH)
    states[:, :4, :2] = 9.0
    inside = context(batch).nonzero()
    for row in range(4):
        places = inside[inside[:, 0] == row, 1]
        states[row, places[2], 0] = 3.0
        states[row, places[3], 1] = 2.0
        states[row, places[1], 1] = 4.0  # before the start
    found = objective.find(States(text=states), batch)
    firsts = context(batch).int().argmax(1)
    assert found.span.tolist() == [[first + 2, first + 3] for first in firsts.tolist()]
    assert found.score.tolist() == [5.0] * 4


def test_what_cannot_be_meant_is_refused():
    _, objective = connected()
    with pytest.raises(ValueError, match=r"span answering: source 'captions' has no spans; let it read questions"):
        objective.mark(tiny.batch())
    with pytest.raises(ValueError, match=r"span answering: longest is 0; expected 1 token or more"):
        SpanAnswering(longest=0)
    with pytest.raises(ValueError, match="ImageTower reads image; use an encoder with a text stream"):
        SpanAnswering().connect(tiny.two_towers().image)
    batch = asked()
    packed = batch._replace(text=pack_first_row(batch.text))
    with pytest.raises(ValueError, match=r"answers scores one item a row, but rows of source 'pages' are packed"):
        mark_pass(Pass("pages", ("answers",)), [packed], {"answers": objective})
