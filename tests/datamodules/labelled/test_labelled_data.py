"""Labelled text as training steps: every example once an epoch, whatever shares it; few of many; held out by text."""

import logging
from collections import Counter

import pytest
import torch
from labelled_files import put, table
from labelled_texts import LABELS, build, examples, write
from recording import Recorder, check_resumption, train
from small_shards import as_rank
from trained import small_tokenizer

from interlingua.datamodules.labelled.examples import Sentences, Tagged
from interlingua.datamodules.labelled.layout import Laid, Layout
from interlingua.datamodules.labelled.pairs import XtremePairs
from interlingua.datamodules.labelled.sentence_layout import SentenceLayout
from interlingua.datamodules.labelled.wikiann import WikiAnn
from interlingua.modalities.batch import Target
from interlingua.modalities.pair import PAIR_FORMS
from interlingua.modalities.text import collate_text


def steps(module, count, rank=0, world=1, first=0):
    as_rank(module, rank, world, first).setup("fit")
    return [step for _, step in zip(range(count), module.train_dataloader(), strict=False)]


def drawn(steps):
    return [
        (number, epoch)
        for step in steps
        for batch in step.batches
        for number, epoch in zip(batch.sample.tolist(), batch.epoch.tolist(), strict=True)
    ]


def test_an_epoch_holds_every_example_once_and_steps_cross_its_end(data, files):
    found = drawn(steps(build(data, train={"en": files["en"], "de": files["de"]}), 24))  # 96 draws of 31
    for epoch in range(3):
        assert sorted(number for number, one in found if one == epoch) == list(range(31))
    assert len({tuple(number for number, one in found if one == epoch) for epoch in range(3)}) == 3
    assert found == drawn(steps(build(data, train={"en": files["en"], "de": files["de"]}), 24))
    assert found != drawn(steps(build(data, train={"en": files["en"], "de": files["de"]}, seed=1), 24))


@pytest.mark.parametrize(("world", "micro"), [(1, 1), (1, 3), (2, None), (2, 1), (4, None)])
def test_ranks_and_micro_batches_train_on_the_same_rows(data, files, world, micro):
    whole = steps(build(data, train={"en": files["en"]}), 6)
    parts = [steps(build(data, train={"en": files["en"]}, micro_batch_size=micro), 6, rank, world) for rank in range(world)]
    assert {len(step.batches) for rank in parts for step in rank} == {-(-4 // world // (micro or 4))}
    for number, step in enumerate(whole):
        rows = [batch for rank in parts for batch in rank[number].batches]
        assert torch.equal(torch.cat([batch.sample for batch in rows]), step.batches[0].sample)
        assert torch.equal(torch.cat([batch.target.label for batch in rows]), step.batches[0].target.label)
        texts = [
            row[there].tolist() for batch in rows for row, there in zip(batch.text.tokens, batch.text.present, strict=True)
        ]
        text = step.batches[0].text
        assert texts == [row[there].tolist() for row, there in zip(text.tokens, text.present, strict=True)]


def test_a_run_resumes_exactly_with_any_number_of_workers(data, files, tmp_path):
    check_resumption(tmp_path, lambda workers: build(data, train=files["en"], workers=workers), [3, 8, 9], [0, 2, 1])


def test_another_order_is_refused_by_name(data, files, tmp_path):
    _, checkpoint = train(tmp_path, build(data, train=files["en"]), 2)
    train(tmp_path, build(data, train=files["en"], micro_batch_size=1, max_tokens=16), 3, checkpoint)  # not of the order
    changed = examples(20)
    changed[7]["label"] = "name"
    other = write(tmp_path / "other.jsonl", changed)
    for options, found in (
        ({"seed": 1}, "seed: checkpoint 0, now 1"),
        ({"batch_size": 8}, "batch_size: checkpoint 4, now 8"),
        ({"train": {"en": other}}, "texts and labels: checkpoint"),
        (
            {"labels": [*LABELS[::-1]]},
            "data.labels are name, close, open, but the checkpoint's are open, close, name: ",
        ),
        ({"limit": 6}, "examples: checkpoint 20, now 6"),
    ):
        with pytest.raises(ValueError, match=found):
            train(tmp_path, build(data, **{"train": {"en": files["en"]}, **options}), 3, checkpoint, Recorder())


def test_a_step_that_ranks_cannot_share_is_refused(data, files):
    with pytest.raises(ValueError, match=r"batch_size 4 .* is not divisible by 3 processes"):
        steps(build(data, train=files["en"]), 1, 0, 3)


def test_evaluation_reads_every_example_once_one_language_and_split_a_batch(data, files):
    module = as_rank(build(data, train=files["en"], validation=files["all"], test={"en": files["en"], "de": files["de"]}))
    module.setup("fit")
    batches = list(module.val_dataloader())
    assert {batch.source for batch in batches} == {"labelled"}
    assert sorted(n for batch in batches for n in batch.sample.tolist()) == list(range(22))
    assert all(len(batch.text.language[batch.text.present].unique()) == 1 for batch in batches)
    french = [batch for batch in batches if batch.text.language[0, 0] == module.tokenizer.language_id("fr")]
    assert all((batch.target.label == -1).all() for batch in french)

    ranks = []
    for rank in range(2):
        as_rank(module, rank, 2).setup("test")
        ranks.append(list(module.test_dataloader()))
    assert len(ranks[0]) == len(ranks[1])
    seen = Counter((batch.source, n) for rank in ranks for batch in rank for n in batch.sample.tolist())
    assert seen == dict.fromkeys([("labelled/validation", n) for n in range(22)] + [("labelled/test", n) for n in range(31)], 1)
    for batch in ranks[0]:
        for number, label in zip(batch.sample.tolist(), batch.target.label.tolist(), strict=True):
            record = module.examples[batch.source][number]
            assert (LABELS.index(record.label) if record.label else -1) == label


def test_languages_that_the_tokenizer_does_not_know_are_left_out_or_refused(data, tmp_path, caplog):
    mixed = write(tmp_path / "mixed.jsonl", examples(3) + examples(4, "nl"))
    module = as_rank(build(data, train=mixed))
    with caplog.at_level(logging.INFO):
        module.setup("fit")
    assert len(module.readers["train"].records) == 3
    assert "3 examples (en 3); 4 left out, in languages that the tokenizer does not know (nl)" in caplog.text
    with pytest.raises(ValueError, match=r"data.train.nl: the tokenizer does not know this language; it knows ar, de"):
        as_rank(build(data, train={"nl": mixed})).setup("fit")
    with pytest.raises(ValueError, match=r"data.validation: no example is left to read; 4 left out"):
        as_rank(build(data, validation=write(tmp_path / "nl.jsonl", examples(4, "nl")))).setup("validate")


def test_labels_that_are_unknown_missing_or_alike_are_refused(data, files, tmp_path):
    with pytest.raises(
        ValueError, match=r"en.jsonl: found the label 'name' in example 3, but data.labels are close, open; add"
    ):
        as_rank(build(data, train=files["en"], labels=["open", "close"])).setup("fit")
    with pytest.raises(ValueError, match=r"data.labels: nothing sets them"):
        build(data, train=files["en"], labels=None)
    with pytest.raises(ValueError, match=r"different and not blank; found .*'open'"):
        build(data, train=files["en"], labels=["open", "open"])
    named = put(tmp_path / "labels.txt", "open\nclose\n\nname\n")
    assert build(data, train=files["en"], labels=str(named)).labels == LABELS
    for options in ({"labels": str(tmp_path / "none")}, {"train": str(tmp_path / "none.jsonl")}):
        with pytest.raises(FileNotFoundError, match=r"there is no file .*none"):
            as_rank(build(data, **{"train": files["en"], **options})).setup("fit")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "data.limit is 0"),
        ({"limit": {"en": 0}}, "data.limit.en is 0"),
        ({"micro_batch_size": 0}, "data.micro_batch_size is 0"),
        ({"held_out": 1.0}, "held_out is 1.0; it is a share"),
        ({"held_out": 0.1}, "held_out parts the examples of `train` and `validation`"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"seed": -1}, "seed is -1; expected 0 or more"),
        ({"bucket": -1}, "bucket is -1; expected 0 or more"),
        ({"start_method": "spown"}, "start_method is 'spown'; expected one of .*spawn.*, or null"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        build(data, train="file", **options)


def test_pairs_stand_in_the_form_of_the_family_and_single_sentences_beside_them(data):
    tokenizer = small_tokenizer(data)
    pair, single = Sentences("en", "red heart", "green heart " * 20, "open"), Sentences("en", "red heart", None, "")
    for name, form in PAIR_FORMS.items():
        laid = SentenceLayout(name).lay([pair, single], {"": -1, "open": 0}, tokenizer, 16)
        alone = collate_text(["red heart"], ["en"], tokenizer, 16)
        length = int(alone.present.sum())
        assert laid.text.tokens[1, :length].tolist() == alone.tokens[0].tolist()
        assert int(laid.text.present[1].sum()) == length
        assert laid.text.present[0].sum() == 16
        assert laid.text.tokens[0, :length].tolist() == alone.tokens[0].tolist()  # the shorter sentence is whole
        assert (laid.text.tokens[0] == tokenizer.vocabulary.end).sum() == form.ends + 1
        assert laid.target.label.tolist() == [0, -1]
        assert laid.record.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"data.layout: pair is 'xlmr', expected one of bert"):
        SentenceLayout("xlmr")


def test_no_room_for_a_pair_is_told_before_training(data, tmp_path):
    file = table(tmp_path / "pairs.tsv", ("one", "two", "0"))
    module = as_rank(build(data, XtremePairs(), train={"en": str(file)}, labels=["0", "1"], max_tokens=5))
    with pytest.raises(ValueError, match=r"data.layout, of the first example of train: joining texts: max_tokens is 5"):
        module.setup("fit")


class Words(Layout):
    """A row a word."""

    kind = Tagged

    def names(self, record):
        return record.tags

    def lay(self, records, classes, tokenizer, max_tokens):
        rows = [
            (place, word, tag)
            for place, record in enumerate(records)
            for word, tag in zip(record.words, record.tags, strict=True)
        ]
        text = collate_text([word for _, word, _ in rows], ["en"] * len(rows), tokenizer, max_tokens)
        label = torch.tensor([classes[tag] for _, _, tag in rows])
        return Laid(torch.tensor([place for place, _, _ in rows]), text, Target(label=label))


def test_an_example_may_have_several_rows(data, tmp_path):
    sizes = [1, 3, 2, 4, 1]
    blocks = [[(f"en:heart{n}{m}", "O") for m in range(size)] for n, size in enumerate(sizes)]
    written = "\n".join("".join("\t".join(row) + "\n" for row in block) for block in blocks)
    file, copy = (put(tmp_path / f"{name}.txt", written) for name in ("words", "copy"))
    module = build(data, WikiAnn(), train={"en": str(file)}, validation=str(copy), labels=["O"], layout=Words(), batch_size=5)
    for step in steps(module, 3):
        batch = step.batches[0]
        assert Counter(batch.sample.tolist()) == dict(enumerate(sizes))
        assert batch.epoch.tolist() == [step.number] * 11
        assert torch.equal(batch.item, batch.sample)
        assert batch.target.label.shape == batch.text.tokens.shape[:1] == (11,)
    assert [batch.size for batch in module.val_dataloader()] == [11]
    with pytest.raises(ValueError, match=r"data.layout: SentenceLayout is for Sentences, but WikiAnn reads Tagged from"):
        as_rank(build(data, WikiAnn(), train={"en": str(file)})).setup("fit")
    with pytest.raises(ValueError, match=r"found the label 'O' in example 1, but data.labels are open"):
        as_rank(build(data, WikiAnn(), train={"en": str(file)}, labels=["open"], layout=Words())).setup("fit")


def test_a_layout_without_classes_takes_no_labels(data):
    class Bare(Words):
        classifies = False

    assert build(data, train="file", labels=None, layout=Bare()).labels == []
    with pytest.raises(ValueError, match=r"data.labels: Bare knows no classes"):
        build(data, train="file", layout=Bare())


def test_without_files_there_is_nothing_to_do(data, files):
    module = as_rank(build(data, validation=files["en"]))
    module.setup("fit")
    with pytest.raises(ValueError, match=r"data.train: no files are given"):
        module.train_dataloader()
    assert module.state_dict() == {}
    assert module.sources == {}
    module = as_rank(build(data, train=files["en"]))
    module.setup("test")
    with pytest.raises(ValueError, match=r"data.test: nothing to test on"):
        module.test_dataloader()


def test_the_report_tells_epochs_and_padding(data, files):
    module = build(data, train=files["en"])
    read = steps(module, 3)
    module.trainer.global_step = 15
    there = sum(int(step.batches[0].text.present.sum()) for step in read)
    slots = sum(step.batches[0].text.present.numel() for step in read)
    assert module.report() == {"data/labelled/epochs": 3.0, "data/labelled/padding": pytest.approx(1 - there / slots)}
