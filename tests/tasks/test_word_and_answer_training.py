"""Tagging and answering by `Pretraining` from labelled files: learnt on real text, the same however a step is split."""

import json
import shutil

import pytest
import streams
import tiny
import torch
import training
from published import sentences
from ranks import run_on_ranks
from trained import small_tokenizer

from interlingua.datamodules.labelled.conll_u import ConllU
from interlingua.datamodules.labelled.data import Labelled
from interlingua.datamodules.labelled.question_layout import QuestionLayout
from interlingua.datamodules.labelled.squad import Squad
from interlingua.datamodules.labelled.tagged_layout import TaggedLayout
from interlingua.modalities.batch import Step
from interlingua.modalities.tokenizer import Tokenizer
from interlingua.models.embeddings import TextEmbeddings
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.span_answering import SpanAnswering
from interlingua.tasks.objectives.tagging import Tagging
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining

TASKS = ("tags", "answers")
TAGS = ["NOUN", "PROPN", "NUM", "PUNCT"]
LANGUAGES = ("de", "en", "fr")
YEARS = ("1907", "1913", "1925", "1946")


def tag(word: str) -> str:
    """What the letters tell."""
    if any(character.isdigit() for character in word):
        return "NUM"
    if not any(character.isalnum() for character in word):
        return "PUNCT"
    return "PROPN" if word[0].isupper() else "NOUN"


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    """Real sentences in three languages: tagged by their letters; as texts of questions, a year put into each."""
    folder = tmp_path_factory.mktemp("labelled")
    found = {code: [text.split() for own, text in sentences(data) if own == code] for code in LANGUAGES}
    for code, texts in found.items():
        lines, paragraphs = [], []
        for number, words in enumerate(texts):
            lines += [f"{place}\t{word}\t_\t{tag(word)}" + "\t_" * 6 for place, word in enumerate(words, 1)] + [""]
            year, place = YEARS[number % 4], number % (len(words) + 1)
            context = " ".join([*words[:place], year, *words[place:]])
            answers = [{"text": year, "answer_start": context.rindex(year)}]
            paragraphs.append({"context": context, "qas": [{"id": str(number), "question": "When?", "answers": answers}]})
        (folder / f"{code}_ours-ud-dev.conllu").write_text("\n".join(lines), encoding="utf-8")
        (folder / f"{code}.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    for name in ("en_ours-ud-dev.conllu", "en.json"):
        shutil.copy(folder / name, folder / f"train_{name}")  # what is learnt by heart is watched
    return folder, str(small_tokenizer(data).path)


def build(files, task, micro=None):
    """A small tower with its objective, and the data: rows so short that long sentences are several."""
    folder, tokenizer = files
    torch.manual_seed(0)
    encoder = TextTower(
        TextEmbeddings(Tokenizer(tokenizer).vocabulary, tiny.WIDTH, 40, segments=2, dropout=0.0), tiny.transformer(1)
    )
    objective = Tagging(TAGS, dropout=0.0) if task == "tags" else SpanAnswering(absent="skip")
    optimization = Optimization(1e-2, warmup_steps=2, max_gradient_norm=1.0)
    model = Pretraining(encoder, {task: objective}, {"labelled": [[task]]}, optimization, tokenizer)
    pattern = "{}_ours-ud-dev.conllu" if task == "tags" else "{}.json"
    every = {code: str(folder / pattern.format(code)) for code in LANGUAGES}
    options = {"format": ConllU(), "layout": TaggedLayout(), "labels": TAGS}
    if task == "answers":
        options = {"format": Squad(), "layout": QuestionLayout(stride=16, max_question=8)}
    data = Labelled(
        tokenizer=tokenizer,
        train={"en": str(folder / f"train_{pattern.format('en')}")},
        validation=every,
        max_tokens=40,
        batch_size=16,
        micro_batch_size=micro,
        workers=0,
        **options,
    )
    return model, data


def one_step(files, task, rank=0, world=1, micro=None):
    model, data = build(files, task, micro)
    data.setup("fit")
    batches, _ = data.readers["train"].read_step(0, rank, world)
    if world * (16 // (micro or 16)) == 1:
        assert batches[0].size > 16  # records of several rows
    return streams.one_step(model, Step(0, tuple(batches)))


def on_ranks(files):
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return {task: one_step(files, task, rank, world, 4) for task in TASKS}


def test_one_process_equals_micro_batches_and_two_ranks(files):
    whole = {task: one_step(files, task) for task in TASKS}
    for task in TASKS:
        for micro in (8, 4):
            streams.assert_equal_steps(whole[task], one_step(files, task, micro=micro))
    for rank in run_on_ranks(on_ranks, 2, files):
        for task in TASKS:
            streams.assert_equal_steps(whole[task], rank[task])


def train(files, task, steps):
    model, data = build(files, task)
    limits = {"val_check_interval": steps, "check_val_every_n_epoch": None, "num_sanity_val_steps": 0}
    trainer = training.trainer(steps, **limits)
    trainer.fit(model, data)
    return model, data, {name: value.item() for name, value in trainer.callback_metrics.items()}


def test_tags_are_learnt_in_english_and_figures_are_by_language(files):
    _, data, logged = train(files, "tags", 60)
    tags = [name for record in data.readers["validation"].records if record.language == "en" for name in record.tags]
    often = max(tags.count(name) for name in TAGS) / len(tags)
    assert logged["validation/labelled/en/accuracy"] > (1 + often) / 2  # half of the errors of whoever says one tag
    for code in LANGUAGES:
        accuracy, runs = (logged[f"validation/labelled/{code}/{name}"] for name in ("accuracy", "pos_seqeval_f1@0.0.12"))
        assert 0 < runs < 1
        assert runs != accuracy


def test_answers_are_learnt_in_english_and_found_in_other_languages(files):
    model, data, logged = train(files, "answers", 40)
    model.eval()
    for code in LANGUAGES:
        assert logged[f"validation/labelled/{code}/exact_span"] > 0.5
    [objective] = model.objectives.values()
    records = [record for record in data.readers["validation"].records if record.language == "de"]
    right = 0
    for record in records:
        laid = data.layout.lay([record], {}, data.tokenizer, 40)
        batch = tiny.batch([3] * len(laid.record))._replace(text=laid.text, target=laid.target)
        with torch.no_grad():
            found = objective.find(model.encoder(batch), batch)
        right += data.layout.answer(record, found.span, found.score, data.tokenizer, 40) == record.answers[0][0]
    assert right > len(records) / 2
