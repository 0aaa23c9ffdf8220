"""Word contrast: which words a pair is compared with, and what is refused."""

import gzip
import json
import math
from itertools import islice

import pytest
import tiny
import torch
from halves import pack_first_row
from trained import small_tokenizer
from translation_pairs import XLM, ids, pairs
from word_pairs import connected, read, score, words

from interlingua.modalities.batch import take
from interlingua.modalities.text import collate_text
from interlingua.modalities.vocabulary import Vocabulary
from interlingua.tasks.objectives.word_contrast import WordContrast, bag_of_words, draw_others
from interlingua.tasks.passes import Pass
from interlingua.tasks.reading import mark_pass

SCATTERED = Vocabulary(20, pad=1, unknown=9, start=0, end=4, mask=19)


def test_the_bag_holds_each_piece_once_and_no_control_token():
    text = tiny.text([6, 4, 0, 2], padded=8)
    text.tokens[0, 1:5] = torch.tensor([50, 7, 50, tiny.VOCABULARY.unknown])
    text.tokens[1, 1:3] = torch.tensor([99, 5])
    none = tiny.VOCABULARY.size
    expected = [[7, 50], [5, 99], [], []]
    for one in (text, text._replace(tokens=text.tokens.int())):
        bag = bag_of_words(one, tiny.VOCABULARY)
        assert bag.tolist() == [row + [none] * (8 - len(row)) for row in expected]


@pytest.mark.parametrize("vocabulary", [tiny.VOCABULARY, XLM, SCATTERED], ids=["first", "xlm", "scattered"])
def test_others_are_all_entries_but_the_bag_and_control_tokens_each_as_often(vocabulary):
    top = vocabulary.size
    bags = torch.tensor([[6, 7, 8, top], [top] * 4, [top - 2, top, top, top]])
    drawn = draw_others(torch.tensor([1, 2, 3]), bags, vocabulary, 40_000)
    for row, bag in zip(drawn, bags.tolist(), strict=True):
        free = sorted(set(range(top)) - set(bag) - set(vocabulary.controls))
        counts = row.bincount(minlength=top)
        assert counts.nonzero()[:, 0].tolist() == free
        expected = 40_000 / len(free)
        assert (counts[free] - expected).abs().max() < 5 * math.sqrt(expected)
    again = draw_others(torch.tensor([3]), bags[2:], vocabulary, 40_000)
    assert torch.equal(again[0], drawn[2])
    assert not torch.equal(drawn[0][:100], drawn[1][:100])


def test_text_and_translation_are_read_as_one_row_without_a_mark():
    _, objective = connected(pair="infoxlm")
    batch = pairs()
    marked = read(objective, batch)
    assert marked.translation is marked.alignment is marked.text.shown is marked.text.hidden is None
    start, end = tiny.VOCABULARY.start, tiny.VOCABULARY.end
    for row in range(4):
        halves = ids(batch.text, row)[1:-1], ids(batch.translation, row)[1:-1]
        assert ids(marked.text, row) == [start, *halves[0], end, *halves[1], end]
        bag = bag_of_words(marked.text, tiny.VOCABULARY)[row]
        assert set(bag.tolist()) - {100} == set(halves[0] + halves[1])


def test_words_that_are_cut_off_are_not_in_the_bag():
    _, objective = connected(max_tokens=12, others=1)
    marked = read(objective, pairs([12], [12]))
    assert int(marked.text.present.sum()) == 12
    assert (bag_of_words(marked.text, tiny.VOCABULARY) < 100).sum() <= 8


def test_other_words_are_drawn_for_each_sample_epoch_and_source():
    encoder, objective = connected()
    batch = pairs([9] * 4, [9] * 4)
    same = take(batch, torch.zeros(4, dtype=torch.long))
    changed = {
        "sample": same._replace(sample=same.sample + 1),
        "epoch": same._replace(epoch=same.epoch + 1),
        "source": same._replace(source="other"),
    }
    total = score(encoder, objective, same).total
    assert torch.equal(score(encoder, objective, same).total, total)
    for name, one in changed.items():
        assert abs(score(encoder, objective, one).total - total) > 1e-5, name


def test_the_table_stays_the_encoder_s():
    encoder, objective = connected(factor=16)
    assert [name for name, _ in objective.named_parameters()] == ["projection.weight", "projection.bias"]
    assert objective.projection.weight.shape == (16, tiny.WIDTH)
    assert objective.state_dict().keys() == {"projection.weight", "projection.bias"}
    assert objective._tied[0] is encoder.tokens


def test_real_sentences_have_words_of_both_languages(data):
    """English and others, from the tokenizer on; no word of a pair is drawn against it."""
    tokenizer = small_tokenizer(data)
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as file:
        wanted = (record for record in map(json.loads, file) if record["tgt_lang"] in ("de", "ar", "ja"))
        rows = [((one["src_lang"], one["src"]), (one["tgt_lang"], one["tgt"])) for one in islice(wanted, 0, 3000, 100)]
    first, second = (
        collate_text([row[half][1] for row in rows], [row[half][0] for row in rows], tokenizer, 64) for half in (0, 1)
    )
    encoder, objective = connected(tokenizer.vocabulary, others=500)
    marked = read(objective, tiny.batch([4] * len(rows))._replace(text=first, translation=second))
    bag = bag_of_words(marked.text, tokenizer.vocabulary)
    drawn = draw_others(marked.sample, bag, tokenizer.vocabulary, 500)
    for row in range(len(rows)):
        own = words(marked.text, row, tokenizer.vocabulary)
        assert set(bag[row].tolist()) - {tokenizer.vocabulary.size} == own
        assert not own & set(drawn[row].tolist())
    loss = objective.loss(encoder(marked), marked)
    assert loss.count == len(rows)
    assert loss.total.item() / len(rows) == pytest.approx(math.log(501), rel=0.1)  # cosines of random vectors are small


# What is refused.


def test_sources_without_translations_packed_rows_and_encoders_that_cannot_serve_are_refused():
    _, objective = connected()
    with pytest.raises(ValueError, match="word contrast: source 'captions' has no translation"):
        objective.view(tiny.batch())
    packed = pairs()._replace(text=pack_first_row(pairs().text))
    with pytest.raises(ValueError, match="rows of source 'parallel' are packed"):
        mark_pass(Pass("parallel", ("wctl",)), [packed], {"wctl": objective})
    with pytest.raises(ValueError, match="word contrast reads two halves as one text, but ImageTower reads image"):
        WordContrast().connect(tiny.two_towers().image)


@pytest.mark.parametrize("others", [95, 10**12])
def test_more_other_words_than_the_vocabulary_has_are_refused_with_both_numbers(others):
    """A hundred entries, five of them control tokens, and one the pair's own: 94 are left."""
    connected(others=94)
    with pytest.raises(ValueError, match=f"others is {others}, but .* vocabulary has 95 words .* set others to 94 at most"):
        connected(others=others)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"others": 0}, "word contrast: others is 0; expected 1 word or more"),
        ({"temperature": 0.0}, "word contrast: temperature is 0.0; expected a number from"),
        ({"pair": "xml"}, "pair is 'xml', expected one of bert"),
        ({"max_tokens": 4}, "word contrast: max_tokens is 4; pairs of the form xlm-roberta need at least 6"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        WordContrast(**options)
