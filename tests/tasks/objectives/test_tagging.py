"""Tagging: words by their first piece, figures of words and of spans, sentences in several rows."""

import math

import pytest
import tiny
import torch
from learning import reach_half

from interlingua.modalities.batch import Target, take
from interlingua.models.encoder import States
from interlingua.tasks.objectives.rows import join_rows
from interlingua.tasks.objectives.tagging import Tagging, find_figure, first_pieces, group_words

IOB = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
LENGTHS = (7, 5, 9, 4)


def tagged(lengths=LENGTHS, left=False, seed=0, **options):
    """Every other piece of the texts begins a word that has a tag."""
    text = tiny.text(lengths, left=left, **options)
    draws = torch.randint(len(IOB), (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    tags = torch.where((text.word >= 0) & (text.word % 2 == 0), draws.gather(1, text.word.clamp_min(0)), -1)
    text = text._replace(word=torch.where(text.word >= 0, text.word // 2, -1))
    return tiny.batch(lengths)._replace(text=text, target=Target(tags=tags))


def sentence(tags, words=None, sample=0, width=12):
    """A row of words of one piece each, `<s>` before them."""
    numbers = range(len(tags)) if words is None else words
    batch = tiny.batch([len(tags) + 2])
    text = tiny.text([len(tags) + 2], width)
    row = torch.full_like(text.word, -1)
    row[0, 1 : len(tags) + 1] = torch.tensor(list(numbers), dtype=torch.long)
    own = torch.full_like(text.word, -1)
    own[0, 1 : len(tags) + 1] = torch.tensor([IOB.index(tag) for tag in tags], dtype=torch.long)
    return batch._replace(text=text._replace(word=row), target=Target(tags=own), sample=torch.tensor([sample]))


def connected(classes=IOB, dropout=0.0):
    torch.manual_seed(0)
    encoder, objective = tiny.text_tower(), Tagging(classes, dropout)
    objective.connect(encoder)
    return encoder, objective


def score(encoder, objective, batch):
    marked = objective.mark(objective.view(batch))
    return objective.loss(objective.read(encoder, marked), marked)


def oracle(objective, guesses):
    """States for which the head gives these classes: `guesses` as of `Target.tags`, anything where -1."""
    weight = torch.zeros_like(objective.head.weight)
    weight[torch.arange(objective.classes), torch.arange(objective.classes)] = 1
    objective.head.weight.data, objective.head.bias.data = weight, torch.zeros(objective.classes)
    return States(text=torch.nn.functional.one_hot(guesses.clamp_min(0), tiny.WIDTH).float())


def tally(batch, guesses, classes=IOB):
    _, objective = connected(classes)
    return {name: sums.tolist() for name, sums in objective.tally(oracle(objective, guesses), batch).items()}


def test_an_ignorant_head_costs_the_logarithm_of_the_classes_a_word():
    encoder, objective = connected()
    torch.nn.init.zeros_(objective.head.weight)
    loss = score(encoder, objective, tagged())
    assert loss.count == objective.count(tagged()) == sum(math.ceil((length - 2) / 2) for length in LENGTHS)
    assert loss.total.item() / loss.count.item() == pytest.approx(math.log(len(IOB)), rel=1e-6)


def test_the_cost_written_out():
    encoder, objective = connected()
    batch = tagged()
    states = encoder(batch).text
    total = torch.zeros(())
    for row in range(4):
        for place in range(9):
            tag = batch.target.tags[row, place]
            if tag >= 0:
                scores = objective.head.weight @ states[row, place] + objective.head.bias
                total = total + scores.exp().sum().log() - scores[tag]
    torch.testing.assert_close(score(encoder, objective, batch).total, total, rtol=1e-5, atol=1e-5)


def test_the_whole_is_the_sum_of_its_rows_whatever_the_padding():
    encoder, objective = connected()
    whole = score(encoder, objective, tagged())
    parts = [score(encoder, objective, take(tagged(), torch.tensor([row]))) for row in range(4)]
    torch.testing.assert_close(sum(part.total for part in parts), whole.total, rtol=1e-5, atol=1e-5)
    assert sum(part.count for part in parts) == whole.count
    left = score(encoder, objective, tagged(left=True, padded=12))
    torch.testing.assert_close(left.total, whole.total, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [[], [1], [1, 2]])
def test_nothing_to_score_costs_exactly_nothing(rows):
    encoder, objective = connected()
    batch = take(tagged((7, 5, 0, 4)), torch.tensor(rows, dtype=torch.long))
    batch = batch._replace(target=Target(tags=torch.full_like(batch.text.tokens, -1)))
    loss = score(encoder, objective, batch)
    assert loss.total.item() == 0
    assert loss.count == objective.count(batch) == 0
    gradients = torch.autograd.grad(loss.total, list(objective.parameters()))
    assert all((gradient == 0).all() for gradient in gradients)
    figures = objective.tally(objective.read(encoder, batch), batch)
    assert {name: sums.tolist() for name, sums in figures.items()} == {"accuracy": [0, 0], "span_f1": [0, 0]}


def test_the_cost_halves_in_sixty_steps():
    encoder, objective = connected()
    reach_half(lambda: score(encoder, objective, tagged()).total, encoder, objective)


def test_dropout_is_that_of_training():
    encoder, objective = connected(dropout=0.5)
    assert score(encoder, objective, tagged()).total != score(encoder, objective, tagged()).total
    objective.eval(), encoder.eval()
    assert score(encoder, objective, tagged()).total == score(encoder, objective, tagged()).total
    assert Tagging(IOB).dropout.p == 0.1


def test_accuracy_and_span_f1_are_two_figures():
    """One wrong word of four: accuracy 3/4; of two entities one is right, and one that is found is wrong: F1 1/2."""
    batch = sentence(["B-PER", "I-PER", "O", "B-LOC"])
    guesses = batch.target.tags.clone()
    guesses[0, 2] = IOB.index("O")
    assert tally(batch, guesses) == {"accuracy": [3, 4], "span_f1": [2, 4]}
    assert tally(batch, batch.target.tags) == {"accuracy": [4, 4], "span_f1": [4, 4]}


def test_parts_of_speech_have_the_f1_that_xtreme_reports():
    batch = sentence(["O", "O", "B-PER", "O"])  # by number: ADP ADP NOUN ADP
    guesses = batch.target.tags.clone()
    guesses[0, 2] = 1
    names = ("ADP", "NOUN", "VERB", "X", "SYM")
    assert tally(batch, guesses, names) == {"accuracy": [3, 4], "pos_seqeval_f1@0.0.12": [2 * 1, 3 + 3]}
    assert tally(batch, guesses, ("one", "two", "three", "four", "five")) == {"accuracy": [3, 4]}
    assert find_figure(("ADP", "B-PER")) == ("", None)


def test_rows_of_a_sentence_count_as_one_and_what_is_cut_between_batches_as_two():
    """An entity over the cut: one span in a batch with both rows, in any order; else a half in each."""
    start, rest = sentence(["O", "B-PER"], [0, 1], 7), sentence(["I-PER", "O"], [2, 3], 7)
    for rows in ([start, rest], [rest, start]):
        batch = join_rows(rows)
        assert tally(batch, batch.target.tags) == {"accuracy": [4, 4], "span_f1": [2, 2]}
    alone = [tally(one, one.target.tags)["span_f1"] for one in (start, rest)]
    assert alone == [[2, 2], [2, 2]]
    # Rows of other sentences, and of one of which a row is missing between, stay apart.
    other = join_rows([start, rest._replace(sample=torch.tensor([8]))])
    assert tally(other, other.target.tags)["span_f1"] == [4, 4]
    gap = join_rows([start, sentence(["I-PER", "O"], [3, 4], 7)])
    assert tally(gap, gap.target.tags)["span_f1"] == [4, 4]
    again = join_rows([start, rest._replace(epoch=torch.tensor([1]))])
    assert tally(again, again.target.tags)["span_f1"] == [4, 4]


def test_words_are_put_in_order():
    batch = join_rows([sentence(["O"] * 3, [4, 5, 6], 3), sentence(["O"] * 2, [0, 1], 1), sentence(["O"] * 2, [2, 3], 3)])
    order, lengths = group_words(batch, batch.target.tags >= 0)
    assert lengths == [2, 5]
    assert order.tolist() == [3, 4, 5, 6, 0, 1, 2]


def test_first_pieces():
    batch = tagged(left=True)
    first = first_pieces(batch)
    assert first.equal(batch.target.tags >= 0)
    _, objective = connected()
    assert objective.predict(oracle(objective, batch.target.tags))[first].equal(batch.target.tags[first])


def test_what_cannot_be_meant_is_refused():
    _, objective = connected()
    with pytest.raises(ValueError, match=r"tagging: source 'captions' has no tags; let it read tagged words"):
        objective.mark(tiny.batch())
    with pytest.raises(ValueError, match=r"tagging: classes are \['O'\]; expected two names or more, each once"):
        Tagging(["O"])
    with pytest.raises(ValueError, match="expected two names or more, each once"):
        Tagging(["O", "O", "B-PER"])
    with pytest.raises(ValueError, match=r"tagging: dropout is 1\.0, but a share lies from 0 to below 1"):
        Tagging(IOB, dropout=1.0)
    with pytest.raises(ValueError, match="ImageTower reads image; use an encoder with a text stream"):
        Tagging(IOB).connect(tiny.two_towers().image)


def test_tags_at_last_pieces_are_another_cost():
    """The well-known wrong choice: what is scored is the first piece of a word."""
    encoder, objective = connected()
    batch = tagged()
    shifted = torch.where(batch.text.word >= 0, batch.target.tags.roll(1, 1), -1)
    other = score(encoder, objective, batch._replace(target=Target(tags=shifted)))
    assert (other.total - score(encoder, objective, batch).total).abs() > 1e-3
