"""Fine-tuning by `Pretraining`: real intents are learnt; figures by language are exact over ranks; runs resume and split."""

from types import SimpleNamespace

import pytest
import tiny
import torch
import training
from lightning.pytorch.callbacks import ModelCheckpoint
from quiet import quiet_trainer
from ranks import run_on_ranks
from trained import small_tokenizer

from interlingua.datamodules.labelled.data import Labelled
from interlingua.datamodules.labelled.json_lines import JsonLines
from interlingua.modalities.batch import Target
from interlingua.models.embeddings import TextEmbeddings
from interlingua.models.towers import TextTower
from interlingua.models.transformer import Transformer
from interlingua.tasks.agreement import check_classes
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.objective import Loss
from interlingua.tasks.objectives.sentence_classification import SentenceClassification
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.validation import Sums

LABELS = ["HassTurnOn", "HassTurnOff", "HassLightSet", "HassGetState", "HassMediaNext", "HassStartTimer"]
pytestmark = pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")


@pytest.fixture(scope="module")
def intents(data, tmp_path_factory):
    """Six intents of the development data in three languages, and the tokenizer's path."""
    import gzip
    import json

    file = tmp_path_factory.mktemp("intents") / "intents.jsonl"
    with gzip.open(data / "intents.jsonl.gz", "rt", encoding="utf-8") as lines:
        kept = [
            line for line in lines if json.loads(line)["intent"] in LABELS and json.loads(line)["lang"] in ("en", "de", "ru")
        ]
    file.write_text("".join(kept), encoding="utf-8")
    return str(file), str(small_tokenizer(data).path)


def build(intents, objectives=None, labels=LABELS, micro_batch_size=None, workers=0, dropout=0.1, **options):
    file, tokenizer = intents
    torch.manual_seed(0)
    vocabulary = small_vocabulary(tokenizer)
    encoder = TextTower(TextEmbeddings(vocabulary, 32, 32, dropout=0.0), Transformer(32, 1, 4, dropout=0.0))
    objectives = objectives or {"intent": SentenceClassification(6, "mean", dropout)}
    module = Pretraining(
        encoder,
        objectives,
        {"labelled": [[name] for name in objectives]},
        Optimization(1e-2, warmup_steps=5, max_gradient_norm=1.0),
        tokenizer=tokenizer,
    )
    read = {"label": "intent", "language": "lang"}
    data = Labelled(
        JsonLines(**read, conditions={"split": "train"}),
        tokenizer,
        train={"en": file},
        validation=file,
        test=file,
        labels=labels,
        held_out=0.2,
        test_format=JsonLines(**read, conditions={"split": "test"}),
        max_tokens=32,
        batch_size=32,
        micro_batch_size=micro_batch_size,
        workers=workers,
        **options,
    )
    return module, data


def small_vocabulary(tokenizer):
    from interlingua.modalities.tokenizer import Tokenizer

    return Tokenizer(tokenizer).vocabulary


def train(intents, steps, folder=None, resume=None, callbacks=(), world=1, **options):
    module, data = build(intents, **options)
    extra = {"strategy": "ddp", "devices": world} if world > 1 else {}
    limits = {"val_check_interval": 20, "check_val_every_n_epoch": None, "num_sanity_val_steps": 0}
    trainer = training.trainer(
        steps, folder, callbacks=list(callbacks), enable_checkpointing=bool(callbacks), **limits, **extra
    )
    trainer.fit(module, data, ckpt_path=resume, weights_only=True)
    return module, data, {name: value.item() for name, value in trainer.callback_metrics.items()}


def keeper(folder):
    """As configs/transfer has it."""
    return ModelCheckpoint(folder, "{step}", save_top_k=-1, save_last=True, enable_version_counter=False)


@pytest.fixture(scope="module")
def whole(intents, tmp_path_factory):
    """Sixty steps, a checkpoint at each of three validations."""
    folder = tmp_path_factory.mktemp("kept")
    return folder, *train(intents, 60, folder, callbacks=[keeper(folder)])


def test_english_intents_are_learnt_and_each_language_has_its_figures(whole, intents):
    _, _, data, logged = whole
    records = data.readers["validation"].records
    assert {record.language for record in records} == {"en", "de", "ru"}
    english = [record.label for record in records if record.language == "en"]
    often = max(english.count(label) for label in LABELS) / len(english)
    assert logged["validation/labelled/en/accuracy"] > often + 0.2  # of whoever always says the most frequent
    assert logged["validation/labelled/en/intent"] < 1.2
    for language in ("de", "ru"):
        count = sum(record.language == language for record in records)
        share = logged[f"validation/labelled/{language}/accuracy"] * count
        assert share == pytest.approx(round(share), abs=1e-3)  # a ratio of whole numbers, over every example once


def test_each_validation_keeps_a_checkpoint_from_which_training_goes_on_bit_for_bit(whole, intents):
    folder, module, _, logged = whole
    assert sorted(path.name for path in folder.iterdir()) == ["last.ckpt", "step=20.ckpt", "step=40.ckpt", "step=60.ckpt"]
    assert torch.load(folder / "step=40.ckpt", weights_only=True)["global_step"] == 40
    again, _, logged_again = train(intents, 60, folder, folder / "step=40.ckpt", [keeper(folder)], workers=1)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in module.state_dict().items())
    assert logged_again["validation/labelled/ru/accuracy"] == logged["validation/labelled/ru/accuracy"]


def validated(intents, world=1):
    """What `validate` tells of an untrained model; batches of seven are no whole number a rank."""
    module, data = build(intents, micro_batch_size=7)
    extra = {"strategy": "ddp", "devices": world} if world > 1 else {}
    (found,) = quiet_trainer(**extra).validate(module, data, verbose=False)
    return found


def on_rank(intents):
    module, _, logged = train(intents, 4, world=2, micro_batch_size=8, dropout=0.0)
    return module.state_dict(), logged, validated(intents, 2)


def test_one_process_equals_micro_batches_and_two_ranks_whose_figures_are_exact(intents):
    module, _, logged = train(intents, 4, dropout=0.0)
    parts, _, logged_parts = train(intents, 4, micro_batch_size=8, dropout=0.0)
    alone = validated(intents)
    assert {f"validation/labelled/{code}/accuracy" for code in ("en", "de", "ru")} <= alone.keys()
    for weights, values, figures in [(parts.state_dict(), logged_parts, alone), *run_on_ranks(on_rank, 2, intents)]:
        for name, value in module.state_dict().items():
            assert torch.allclose(value, weights[name], atol=1e-5), name
        assert values["train/intent"] == pytest.approx(logged["train/intent"], abs=1e-5)
        assert figures == pytest.approx(alone, abs=1e-6)


def test_another_objective_may_train_on_the_same_texts(intents):
    objectives = {"mlm": MaskedLanguage(), "intent": SentenceClassification(6)}
    _, _, logged = train(intents, 2, objectives=objectives)
    assert {"train/mlm", "train/intent"} <= logged.keys()


def test_as_many_classes_as_labels_or_none_begins(intents):
    module, data = build(intents, {"intent": SentenceClassification(5)})
    with pytest.raises(
        ValueError, match=r"objective intent: classes is 5, but the data have 6 labels \(HassTurnOn, .*\.\.\.\)"
    ):
        training.trainer(1).fit(module, data)
    check_classes({"intent": SentenceClassification(5), "mlm": MaskedLanguage()}, SimpleNamespace(labels=[]))
    check_classes({"intent": SentenceClassification(5)}, None)


def test_few_examples_of_other_languages_are_trained_on_beside_english(intents):
    file, tokenizer = intents
    _, data = build(intents)
    data = Labelled(data.format, tokenizer, {"en": file, "de": file, "ru": file}, labels=LABELS, limit={"de": 6, "ru": 12})
    data.setup("fit")
    records = data.readers["train"].records
    for language, count in (("de", 6), ("ru", 12)):
        few = [record.label for record in records if record.language == language]
        assert len(few) == count
        assert {few.count(label) for label in LABELS} == {count // 6}
    assert sum(record.language == "en" for record in records) > 100


def tallied(sums, objective, right, count, language=0, source="labelled"):
    batch = tiny.batch((4,), text=tiny.text([4], language=language), source=source, target=Target())
    loss = Loss(torch.tensor(2.0), torch.tensor(count))
    sums.add(objective, batch, loss, {"accuracy": torch.tensor([right, count])})


def test_figures_are_ratios_of_sums_and_not_means_of_ratios():
    sums = Sums()
    tallied(sums, "intent", 1, 1)
    tallied(sums, "intent", 0, 4)
    tallied(sums, "intent", 0, 0, language=1)
    assert sums.means(["en", "de"]) == {"labelled/en/intent": 0.8, "labelled/en/accuracy": 0.2}  # the mean would be 0.5
    assert sums.overall({"intent": 1.0}) == pytest.approx(6.0 / 5)


def test_figures_of_one_name_stand_behind_their_objectives():
    sums = Sums()
    tallied(sums, "intent", 1, 2)
    tallied(sums, "topic", 2, 2)
    tallied(sums, "topic", 2, 2, source="others")
    found = {name: value for name, value in sums.means(["en"]).items() if "accuracy" in name}
    assert found == {"labelled/en/intent/accuracy": 0.5, "labelled/en/topic/accuracy": 1.0, "others/en/accuracy": 1.0}
