"""Rows of tagged words: first pieces alone have tags, nothing is lost, and what is cut can be joined."""

import numpy as np
import pytest
import torch
from labelled_files import put
from published import HOSTILE, sentences
from trained import small_tokenizer

from interlingua.datamodules.labelled.conll_u import ConllU
from interlingua.datamodules.labelled.data import Labelled
from interlingua.datamodules.labelled.examples import Tagged
from interlingua.datamodules.labelled.tagged_layout import TaggedLayout, cut_rows

CLASSES = {"": -1, "O": 0, "B-LOC": 1, "I-LOC": 2}
BRIDGE = Tagged("de", ("Die", "Br\u00fccke", "\u00fcber", "den", "Rhein", "."), ("O", "O", "O", "O", "B-LOC", "O"))


def lay(data, *records, most=64):
    return TaggedLayout().lay(records, CLASSES, small_tokenizer(data), most)


def long_sentence(data, words=40):
    """Real words, with tags in turn."""
    found = [word for _, text in sentences(data) for word in text.split()][:words]
    tags = ("O", "B-LOC", "I-LOC")
    return Tagged("de", tuple(found), tuple(tags[place % 3] for place in range(len(found))))


def test_a_word_has_its_tag_at_its_first_piece(data):
    tokenizer = small_tokenizer(data)
    laid = lay(data, BRIDGE)
    text, tags = laid.text, laid.target.tags
    counts = tokenizer.encode(BRIDGE.words).counts
    assert counts.max() > 1
    assert laid.record.tolist() == [0]
    assert text.tokens[0, 0] == tokenizer.vocabulary.start
    assert text.tokens[0, -1] == tokenizer.vocabulary.end
    assert text.tokens[0, 1:-1].tolist() == tokenizer.encode(BRIDGE.words).ids.tolist()
    assert text.word[0].tolist() == [-1, *np.repeat(np.arange(6), counts).tolist(), -1]
    firsts = 1 + np.cumsum(counts) - counts
    expected = torch.full_like(tags, -1)
    expected[0, firsts] = torch.tensor([0, 0, 0, 0, 1, 0])
    assert tags.equal(expected)
    assert (text.language[0] == tokenizer.language_id("de")).all()


def test_a_word_of_which_nothing_is_left_is_the_unknown_token(data):
    """Else all tags behind it would be those of other words."""
    tokenizer = small_tokenizer(data)
    record = Tagged("de", ("\u200b", "Rhein", "\u00ad", "\u200d"), ("O", "B-LOC", "I-LOC", "O"))
    laid = lay(data, record, Tagged("en", ("\ufeff",), ("O",)))
    unknown = laid.text.tokens == tokenizer.vocabulary.unknown
    assert laid.target.tags[unknown].tolist() == [0, 2, 0, 0]
    assert laid.text.word[unknown].tolist() == [0, 2, 3, 0]
    assert (laid.target.tags[0] >= 0).sum() == 4
    # What cutting the sentence as a whole would give: fewer words than there are tags.
    assert tokenizer.encode([" ".join(record.words)]).words.max() + 1 < len(record.words)


@pytest.mark.parametrize("most", [5, 8, 16, 64])
def test_long_sentences_stand_in_several_rows_and_nothing_is_lost(most, data):
    tokenizer = small_tokenizer(data)
    record = long_sentence(data)
    counts = tokenizer.encode(record.words).counts
    laid = lay(data, BRIDGE, record, BRIDGE, most=most)
    mine = laid.record == 1
    text, tags = [part[mine] for part in laid.text[:4]], laid.target.tags[mine]
    tokens, present, _, word = text
    pieces = present & (tokens != tokenizer.vocabulary.start) & (tokens != tokenizer.vocabulary.end)
    assert tokens[pieces].tolist() == tokenizer.encode(record.words).ids.tolist()
    assert laid.text.present.sum(1).max() <= most
    assert laid.record.tolist() == sorted(laid.record.tolist())
    first = tags >= 0
    assert word[first].tolist() == list(range(len(record.words)))
    assert tags[first].tolist() == [CLASSES[tag] for tag in record.tags]
    rows = torch.arange(len(word))[:, None].expand_as(word)
    for number, count in enumerate(counts.tolist()):
        assert len(set(rows[word == number].tolist())) == 1, number  # in one row, and in no other
        assert (word == number).sum() == (count if count <= most - 2 else most - 2)
    assert (pieces & (word < 0)).sum() == sum(max(0, count - most + 2) for count in counts.tolist())
    assert mine.sum() > 1


def test_rows_begin_with_words_and_are_filled(data):
    assert cut_rows([2, 2, 2, 1], 4) == [(0, 4), (4, 7)]
    assert cut_rows([4, 4], 4) == [(0, 4), (4, 8)]
    assert cut_rows([1, 10, 1, 1], 4) == [(0, 1), (1, 5), (5, 9), (9, 13)]  # what is left of the long word is not alone
    assert cut_rows([8, 1], 4) == [(0, 4), (4, 8), (8, 9)]
    assert cut_rows([3], 4) == [(0, 3)]


def test_predictions_are_joined_by_sentence_and_number(data):
    """From rows in any order: here the number of each word, said at its first piece."""
    records = [long_sentence(data), BRIDGE, Tagged("de", ("a" * 40, "Rhein"), ("O", "B-LOC"))]
    laid = lay(data, *records, most=7)
    order = torch.randperm(len(laid.record), generator=torch.Generator().manual_seed(0))
    joined = {}
    for row in order.tolist():
        for place, number in enumerate(laid.text.word[row].tolist()):
            if number >= 0:
                joined.setdefault((laid.record[row].item(), number), laid.target.tags[row, place].item())
    for number, record in enumerate(records):
        assert [joined[number, word] for word in range(len(record.words))] == [CLASSES[tag] for tag in record.tags]


def test_a_record_beside_others_is_laid_as_alone(data):
    records = [BRIDGE, long_sentence(data), Tagged("ja", ("\u6771\u4eac", "\u306b"), ("", ""))]
    together = lay(data, *records, most=16)
    for number, record in enumerate(records):
        alone, mine = lay(data, record, most=16), together.record == number
        width = alone.text.tokens.shape[1]
        for one, other in zip(alone.text[:7], together.text[:7], strict=True):
            assert one[alone.text.present].equal(other[mine][:, :width][alone.text.present])
        assert alone.target.tags.equal(together.target.tags[mine][:, :width])
    assert (together.target.tags[together.record == 2] == -1).all()


def test_hostile_words_keep_their_number(data):
    """Words that normalisation joins, parts, or takes away (transformers#9637, tokenizers#1775): one tag each."""
    words = tuple(word for word in HOSTILE if word)
    record = Tagged("en", words, ("B-LOC",) * len(words))
    laid = lay(data, record, most=40)
    assert (laid.target.tags >= 0).sum() == len(words)
    assert laid.text.word[laid.target.tags >= 0].tolist() == list(range(len(words)))


def test_no_room(data):
    with pytest.raises(ValueError, match=r"data.max_tokens is 2; at least 3 are needed for start token, one piece and end"):
        lay(data, BRIDGE, most=2)
    assert lay(data, BRIDGE, most=3).text.present.sum(1).tolist() == [3] * len(lay(data, BRIDGE, most=3).record)


def test_a_file_becomes_batches(data, tmp_path):
    columns = [
        f"{place}\t{word}\t_\t{tag}" + "\t_" * 6 for place, (word, tag) in enumerate([("Rhein", "PROPN"), ("!", "PUNCT")], 1)
    ]
    file = put(tmp_path / "de_ours-ud-dev.conllu", "\n".join([*columns, "", columns[0], ""]))
    module = Labelled(
        ConllU(),
        small_tokenizer(data).path,
        train={"de": str(file)},
        labels=["PROPN", "PUNCT"],
        layout=TaggedLayout(),
        batch_size=2,
    )
    module.setup("fit")
    [batch], _ = module.readers["train"].read_step(0, 0, 1)
    assert sorted(batch.sample.tolist()) == [0, 1]
    assert sorted(batch.target.tags[batch.target.tags >= 0].tolist()) == [0, 0, 1]
