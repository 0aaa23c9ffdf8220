"""Code switching of real translations, aligned by the command of the shards, by a dictionary, and by an encoder."""

import gzip
import json

import pytest
import tiny
import torch
from code_switched import words_of
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.lexicons import compile_dictionary
from interlingua.datamodules.reading import Reader
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards import ShardSet, ShardWriter
from interlingua.datamodules.shards.align import align_shards
from interlingua.datamodules.source import Source
from interlingua.modalities.batch import Batch
from interlingua.modalities.dictionary import write_dictionary
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.code_switching import CodeSwitching

PAIRS = 600


@pytest.fixture(scope="module")
def batch(data, tmp_path_factory) -> Batch:
    """A step of English and German sentences with the alignments that the shards' own command finds."""
    folder, written = tmp_path_factory.mktemp("aligned"), 0
    with gzip.open(data / "parallel.jsonl.gz", "rt", encoding="utf-8") as lines, ShardWriter(folder / "plain") as writer:
        for line in lines:
            row = json.loads(line)
            if (row["src_lang"], row["tgt_lang"]) == ("en", "de") and 20 < len(row["src"]) < 120:
                texts = [Caption(row[f"{side}_lang"], row[side], "sentence") for side in ("src", "tgt")]
                writer.write(f"{written:06d}", texts, item=written)
                written += 1
            if written == PAIRS:
                break
    assert written == PAIRS
    align_shards([str(folder / "plain")], folder / "out", ["en", "de"], "intersection", False)
    path = str(folder / "out")
    source = Source(path, batch_size=64, text=TextChoice(["en"]), translation=TranslationChoice())
    reader = Reader("parallel", source, ShardSet(path), small_tokenizer(data), 64)
    (found,) = reader.read_step(0, 0, 1)[0]
    return found


def read(batch, data, **options):
    """What is read of a batch, all of it switched."""
    torch.manual_seed(0)
    tokenizer = small_tokenizer(data)
    tower = TextTower(tiny.embeddings(vocabulary=tokenizer.vocabulary, max_tokens=80), tiny.transformer(layers=2))
    objective = CodeSwitching(source=0.0, target=0.0, **options)
    objective.connect(tower)
    marked = objective.mark(objective.view(batch))
    states = objective.read(tower, marked)
    loss = objective.loss(states, marked)
    assert loss.count == objective.count(marked) > 100
    assert loss.total.isfinite()
    return tokenizer, objective, states.read.text


def show(tokenizer, text, row, language):
    """The pieces of a row in one language, as they are read."""
    code = tokenizer.language_id(language)
    there = text.present[row] & (text.word[row] >= 0) & (text.language[row] == code)
    return tokenizer.decode(text.tokens[row][there].tolist())


@pytest.mark.parametrize("mode", ["given", "self"])
def test_real_sentences_hold_words_of_both_sides(batch, data, mode):
    tokenizer, objective, text = read(batch, data, alignments=mode)
    english, german = (tokenizer.language_id(code) for code in ("en", "de"))
    target, both = objective._kinds(batch).target, 0
    for row in range(batch.size):
        known = words_of(batch.text, row) + words_of(batch.translation, row)
        words = words_of(text, row)
        assert all(word in known for word in words)  # pieces and language of each
        put = sum(word[0][1] == (english if target[row] else german) for word in words)
        both += 0 < put < len(words)
    assert both > 0.5 * batch.size


def test_real_sentences_are_switched_by_a_lexicon(batch, data, tmp_path):
    tokenizer = small_tokenizer(data)
    pairs = [(("en", "the"), ("de", "der")), (("en", "to"), ("de", "zu")), (("de", "die"), ("en", "the"))]
    write_dictionary(compile_dictionary(pairs, tokenizer).dictionary, tmp_path / "some.npz")
    options = {"alignments": "dictionary", "dictionary": str(tmp_path / "some.npz"), "share": 1.0}
    _, objective, text = read(batch, data, **options)
    target, changed = objective._kinds(batch).target, 0
    for row in range(batch.size):
        own, other = ("de", "en") if target[row] else ("en", "de")
        put = show(tokenizer, text, row, other).split()
        assert set(put) <= ({"the"} if target[row] else {"der", "zu"})
        assert not {"the", "to"} & set(show(tokenizer, text, row, own).split()) or target[row]
        changed += bool(put)
    assert changed > 10
