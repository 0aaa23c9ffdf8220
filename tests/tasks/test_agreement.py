"""Parts that do not fit each other are told apart before anything is read."""

from types import SimpleNamespace

import lightning
import numpy as np
import pytest
import streams
import tiny
import training
from trained import small_tokenizer

from interlingua.modalities.entry_counts import EntryCounts, write_counts
from interlingua.models.towers import TextTower
from interlingua.tasks.agreement import check_agreement, check_classes, check_counted
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.tagging import Tagging
from interlingua.tasks.retrieval import Retrieval


@pytest.fixture(scope="module")
def tokenizer(data):
    return small_tokenizer(data)


def tower(tokenizer, **options):
    return TextTower(tiny.embeddings(vocabulary=tokenizer.vocabulary, **options), tiny.transformer(layers=1))


@pytest.mark.parametrize(("pad", "limit"), [(1, 512), (3, 510)])
def test_texts_that_are_longer_than_the_table_are_refused_with_the_derived_limit(tokenizer, pad, limit):
    """Pitfall T02: a table of 514 rows, positions from pad id + 1."""
    encoder = tower(tokenizer, max_tokens=514 - pad - 1, position_offset=pad + 1)
    assert encoder.embeddings.positions.num_embeddings == 514
    check_agreement(encoder, tokenizer, SimpleNamespace(max_tokens=limit))
    check_agreement(encoder, tokenizer, None)
    with pytest.raises(ValueError, match=rf"max_tokens is {limit + 1}, but the encoder reads at most {limit} tokens"):
        check_agreement(encoder, tokenizer, SimpleNamespace(max_tokens=limit + 1))


def test_every_encoder_tells_its_longest_text(tokenizer):
    towers = tiny.two_towers()
    assert [one.max_tokens for one in (tiny.text_tower(), towers, tiny.single_stream(), towers.image)] == [64, 64, 64, None]
    check_agreement(towers.image, tokenizer, SimpleNamespace(max_tokens=999))


def test_tables_of_other_sizes_are_refused_with_both_numbers(tokenizer):
    """Pitfalls T04 and T09: the tokenizer has 1,500 pieces and 12 languages."""
    check_agreement(tower(tokenizer, languages=12), tokenizer, None)
    check_agreement(tower(tokenizer), tokenizer, None)
    with pytest.raises(ValueError, match="knows 12 languages, the encoder's table has 11 rows; set `languages: 12`"):
        check_agreement(tower(tokenizer, languages=11), tokenizer, None)
    with pytest.raises(ValueError, match="size: tokenizer 1500, tower 100"):
        check_agreement(tiny.text_tower(), tokenizer, None)


def test_counts_of_another_tokenizer_are_refused(tokenizer, tmp_path):
    counts = np.ones(tokenizer.vocabulary.size, np.int64)
    for name, code in (("own", tokenizer.hash), ("other", "0" * 64)):
        write_counts(EntryCounts(code, 1, counts), tmp_path / name)
    objectives = {name: MaskedLanguage(alpha=0.5, counts=str(tmp_path / name)) for name in ("own", "other")}
    check_counted({"mlm": objectives["own"], "plain": MaskedLanguage()}, tokenizer)
    with pytest.raises(
        ValueError, match=rf"objective mlm: .*other was counted with the tokenizer 0{{12}}, .*{tokenizer.hash[:12]}"
    ):
        check_counted({"mlm": objectives["other"]}, tokenizer)


class Untouched(lightning.LightningDataModule):
    """Data whose texts are too long; nobody may read them."""

    max_tokens = 65

    def train_dataloader(self):
        raise AssertionError("read")

    test_dataloader = train_dataloader


def test_training_and_evaluation_are_refused_before_anything_is_read(tokenizer, tmp_path):
    model = streams.two_towers(tokenizer)
    message = "max_tokens is 65, but the encoder reads at most 64 tokens; set `data.max_tokens: 64`"
    with pytest.raises(ValueError, match=message):
        training.trainer(1).fit(model, datamodule=Untouched())
    with pytest.raises(ValueError, match=message):
        training.trainer(1).test(Retrieval(model.encoder, tokenizer.path, output=str(tmp_path)), datamodule=Untouched())


def test_tags_and_labels_have_the_same_names_in_the_same_order():
    tagging, data = Tagging(["O", "B-PER", "I-PER"]), SimpleNamespace(labels=["O", "I-PER", "B-PER"])
    with pytest.raises(ValueError, match=r"objective ner: class 1 is 'B-PER', but label 1 of the data is 'I-PER'"):
        check_classes({"ner": tagging}, data)
    check_classes({"ner": tagging}, SimpleNamespace(labels=["O", "B-PER", "I-PER"]))
