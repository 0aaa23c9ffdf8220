"""Whole steps and runs of `Pretraining` on what people have stumbled over, with the right values."""

import logging
import math

import lightning
import pytest
import streams
import tiny
import torch
import training
from torch.utils.data import DataLoader
from trained import small_tokenizer

from interlingua.datamodules.order import draw
from interlingua.datamodules.steps import Reading, StepNumbers, Steps, as_is, split
from interlingua.modalities.batch import Batch, Image, Step, take
from interlingua.modalities.chance import salt
from interlingua.modalities.text import collate_text
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining

EMPTY = ["", "   ", "\u200b"]


@pytest.fixture(scope="module")
def tokenizer(data):
    return small_tokenizer(data)


def captions(tokenizer, texts) -> Batch:
    """Captions with pictures."""
    batch = tiny.batch([2] * len(texts), image=tiny.image(len(texts)))
    return batch._replace(text=collate_text(texts, ["en"] * len(texts), tokenizer, 16))


def aligned(tokenizer) -> Pretraining:
    return streams.two_towers(tokenizer, hidden=0.9)


def fused(tokenizer) -> Pretraining:
    torch.manual_seed(0)
    return streams.single_stream(tiny.single_stream(vocabulary=tokenizer.vocabulary), hidden=0.9)


@pytest.mark.parametrize("others", [[], ["a cat"]], ids=["one text", "two texts"])
@pytest.mark.parametrize("build", [aligned, fused])
def test_empty_captions_leave_the_others_as_they_are_alone(tokenizer, build, others):
    """Pitfall T07: nothing, three spaces, a zero-width space and `a dog`, through MLM, ITM and contrast."""
    whole = captions(tokenizer, [*EMPTY, "a dog", *others])
    assert whole.text.tokens.dtype == torch.int64
    assert whole.text.present.any(1).tolist() == [False] * 3 + [True] * (1 + len(others))
    rest = take(whole, torch.arange(3, whole.size))
    steps = [streams.one_step(build(tokenizer), Step(0, (batch,))) for batch in (whole, rest)]
    streams.assert_equal_steps(*steps)
    means, counts, gradients = steps[0]
    assert counts["mlm"] > 0
    assert all(math.isfinite(mean) for mean in means.values())
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    assert {counts[name] for name in ("itm", "itc") if name in counts} == {1 + len(others)}
    if "itc" in means and not others:
        assert means["itc"] == 0  # one pair, no negatives
    model = build(tokenizer)
    trainer = training.trainer(2)
    trainer.fit(model, training.loader([Step(number, (captions(tokenizer, EMPTY), whole)) for number in range(2)]))
    assert all(value.isfinite().all() for value in model.state_dict().values())
    assert trainer.callback_metrics["train/loss"].isfinite()


@pytest.mark.parametrize("translations", [["", "ein Hund", "", "eine Katze"], [""] * 4])
def test_empty_translations_are_no_negatives(tokenizer, translations):
    """Pitfall T07, for a text and its translation: a pair lacks a side, and is neither scored nor contrasted with."""
    batch = captions(tokenizer, ["a dog", "a cat", "", "a cow"])._replace(image=None)
    batch = batch._replace(translation=collate_text(translations, ["de"] * 4, tokenizer, 16))

    def step(one):
        torch.manual_seed(0)
        towers = streams.two_towers(tokenizer)
        model = Pretraining(
            towers.encoder, {"x": Contrast("text", "translation")}, {"captions": [["x"]]}, Optimization(1e-2, warmup_steps=1)
        )
        return streams.one_step(model, Step(0, (one,)))

    scored = batch.text.present.any(1) & batch.translation.present.any(1)
    assert scored.sum() == sum(map(bool, translations))
    streams.assert_equal_steps(step(batch), step(take(batch, scored)))


def test_an_empty_row_does_not_enter_the_divisor():
    """Pitfall O03 c: four hidden tokens and an empty row cost what four cost; a divisor of five would give 0.8 of it."""
    whole = tiny.batch([3, 3, 3, 3, 2])
    steps = []
    for batch in (whole, take(whole, torch.arange(4))):
        model = training.module(objectives={"mlm": MaskedLanguage(rate=1.0)}, passes={"captions": [["mlm"]]})
        steps.append(streams.one_step(model, Step(0, (batch,))))
    (means, counts, gradients), (means_too, counts_too, gradients_too) = steps
    assert counts == counts_too == {"mlm": 4}
    assert means["mlm"] / means_too["mlm"] == pytest.approx(1.0, abs=1e-6)
    norms = [torch.cat([one.flatten() for one in some.values()]).norm().item() for some in (gradients, gradients_too)]
    assert norms[0] / norms[1] == pytest.approx(1.0, abs=1e-5)


def test_a_tower_without_language_vectors_says_so_once(tokenizer, caplog):
    """Pitfall T09 d: ids are ignored, with one notice."""
    batch = Step(0, (captions(tokenizer, ["a dog"])._replace(image=None),))
    for rows, said in ((0, 1), (12, 0)):
        caplog.clear()
        torch.manual_seed(0)
        tower = TextTower(tiny.embeddings(vocabulary=tokenizer.vocabulary, languages=rows), tiny.transformer(layers=1))
        text = batch.batches[0].text
        other = text._replace(language=(text.language + 1) % 12)
        assert torch.equal(tiny.encode(tower, text), tiny.encode(tower, other)) == (rows == 0)
        options = Optimization(1e-3, warmup_steps=1)
        model = Pretraining(tower, {"mlm": MaskedLanguage()}, {"captions": [["mlm"]]}, options, tokenizer=tokenizer.path)
        with caplog.at_level(logging.INFO):
            training.trainer(2).fit(model, training.loader([batch, batch]))
        assert sum("the encoder is not told which of" in message for message in caplog.messages) == said


def holed(batch: Batch) -> Batch:
    """Texts of padding alone, pictures that are not there, and a row with neither."""
    lengths = [7, 0, 9, 4, 0, 6, 3, 5]
    present = torch.tensor([True, True, False, True, False, True, True, True])
    batch = batch._replace(text=tiny.text(lengths, 20, seed=3))
    if batch.image is not None:
        batch = batch._replace(image=Image(batch.image.pixels, present))
    if batch.translation is not None:
        batch = batch._replace(translation=tiny.text(lengths[::-1], 24, seed=4))
    return batch


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("micro", [1, 4])
def test_absent_rows_train_in_every_precision(precision, micro):
    """Pitfall O10: rows of padding alone through whole runs; of micro-batches some hold next to nothing."""
    for model, sources in ((training.module(), ("captions", "names")), (streams.single_stream(), ("captions",))):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        trainer = training.trainer(2, precision=precision)
        trainer.fit(model, training.loader(training.Steps(2, micro=micro, sources=sources, change=holed)))
        assert all(value.isfinite().all() for value in model.state_dict().values())
        assert any(not torch.equal(value, before[name]) for name, value in model.state_dict().items())
        metrics = trainer.callback_metrics
        assert all(value.isfinite() for value in metrics.values())
        assert metrics["train/gradient_norm"] > 0


def test_bfloat16_steps_are_those_of_float32_to_its_precision():
    """Pitfall O10, in numbers: the same step under autocast, all micro-batches and gradient caching included."""
    steps = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            steps.append(streams.one_step(training.module(), training.Steps(1, micro=4, change=holed)[0]))
    (means, counts, _), (means_too, counts_too, _) = steps
    assert counts == counts_too
    for name, mean in means.items():
        assert means_too[name] == pytest.approx(mean, rel=0.02), name


class Rates(lightning.Callback):
    """Rates by step, checkpoints after some of them."""

    def __init__(self, folder=None, keep=(), stop=None):
        self.rates, self.folder, self.keep, self.stop = {}, folder, keep, stop

    def on_train_batch_start(self, trainer, module, step, index):
        assert step.number == trainer.global_step
        self.rates[trainer.global_step] = [group["lr"] for group in trainer.optimizers[0].param_groups]

    def on_train_batch_end(self, trainer, module, outputs, step, index):
        if trainer.global_step in self.keep:
            trainer.save_checkpoint(self.folder / f"{trainer.global_step}.ckpt")
        if trainer.global_step == self.stop:
            trainer.should_stop = True


def without_pictures(batch: Batch) -> Batch:
    return batch._replace(image=None)


def run(steps, callback, resume=None):
    """Masked language modelling over texts, validated every five steps."""
    model = training.module(
        objectives={"mlm": MaskedLanguage(rate=0.3)},
        passes={"captions": [["mlm"]]},
        warmup_steps=10,
        schedule="cosine",
        rates={"encoder.text": 0.5},
    )
    trainer = training.trainer(
        steps, callbacks=[callback], val_check_interval=5, check_val_every_n_epoch=None, num_sanity_val_steps=0
    )
    numbers = StepNumbers(lambda: trainer.global_step)
    dataset = training.Steps(steps, sources=("captions",), change=without_pictures)
    data = DataLoader(dataset, batch_size=None, sampler=numbers, collate_fn=as_is)
    validation = training.loader([without_pictures(training.samples("captions", 99))])
    trainer.fit(model, data, validation, ckpt_path=resume, weights_only=True)
    return model, trainer


def state_of(optimizer):
    """Moments and step counts, parameter by parameter."""
    return [value for state in optimizer.state_dict()["state"].values() for value in state.values()]


def cosine(step, steps):
    return step / 10 if step < 10 else 0.5 * (1 + math.cos(math.pi * (step - 10) / (steps - 10)))


def test_a_resumed_run_has_the_rates_moments_and_weights_of_the_uninterrupted_one(tmp_path):
    """Pitfall G01: warm-up of 10, cosine to 40, checkpoints at 7 (between validations), 10 (end of warm-up) and 25."""
    rates = Rates(tmp_path, (7, 10, 25))
    model, whole = run(40, rates)
    for step in range(40):
        expected = [1e-2 * share * cosine(step, 40) for share in (1.0, 0.5)]
        assert sorted(set(rates.rates[step]), reverse=True) == pytest.approx(sorted(set(expected), reverse=True), abs=1e-12)
    for at in (7, 10, 25):
        again = Rates()
        resumed, trainer = run(40, again, tmp_path / f"{at}.ckpt")
        assert trainer.global_step == 40
        assert again.rates == {step: rate for step, rate in rates.rates.items() if step >= at}
        for name, value in model.state_dict().items():
            assert torch.equal(value, resumed.state_dict()[name]), (at, name)
        moments, moments_too = state_of(whole.optimizers[0]), state_of(trainer.optimizers[0])
        assert len(moments) == len(moments_too) > 0
        assert all(torch.equal(one, other) for one, other in zip(moments, moments_too, strict=True))
    longer = Rates(stop=27)
    run(60, longer, tmp_path / "25.ckpt")
    assert sorted(longer.rates) == [25, 26]  # a longer run goes on along the longer curve, from the next step on
    for step in (25, 26):
        assert max(longer.rates[step]) == pytest.approx(1e-2 * cosine(step, 60), abs=1e-12)


class Numbered:
    """A source of numbered samples, as the loader reads it."""

    name = "captions"

    def __init__(self, size, batch_size, micro_batch_size):
        self.size, self.batch_size, self.micro_batch_size, self.key = size, batch_size, micro_batch_size, salt("captions")

    def check_world(self, world):
        assert world == 1

    def read_step(self, number, rank, world):
        reading = self.read(*draw(number * self.batch_size, self.batch_size, self.size, self.key))
        return split(reading, self.batch_size, self.micro_batch_size or self.batch_size), reading.faults

    def read(self, number, epoch):
        every = tiny.batch([4 + sample % 7 for sample in range(self.size)])
        return Reading(take(every, number)._replace(epoch=epoch), list(range(len(number))), [])


def language_model():
    return training.module(objectives={"mlm": MaskedLanguage(rate=0.5)}, passes={"captions": [["mlm"]]})


@pytest.mark.parametrize(("rows", "micro", "sizes"), [(10, 4, [4, 4, 2]), (3, 4, [3]), (7, 3, [3, 3, 1])])
def test_a_last_micro_batch_that_is_smaller_counts_by_what_it_holds(rows, micro, sizes):
    """Pitfall G02: the gradient of a step that micro-batches do not divide is the true mean over its tokens."""
    (whole,) = Steps([Numbered(20, rows, None)])[3].batches
    parts = Steps([Numbered(20, rows, micro)])[3].batches
    assert [part.size for part in parts] == sizes
    one, other = (streams.one_step(language_model(), Step(3, batches)) for batches in ((whole,), parts))
    streams.assert_equal_steps(one, other)
    assert one[1]["mlm"] > 0


@pytest.mark.parametrize(("size", "epochs", "steps"), [(10, 2, 5), (3, 4, 3)])
def test_no_step_is_incomplete_where_an_epoch_ends_within_it(size, epochs, steps):
    """Pitfall G02: 10 samples in fours over 2 epochs are 5 whole steps, 3 samples in fours over 4 epochs are 3: a step goes
    on into the next epoch, and the global step and the rate follow optimiser steps."""
    dataset = Steps([Numbered(size, 4, 1)])
    read = [dataset[number] for number in range(steps)]
    assert [len(step.batches) for step in read] == [4] * steps
    drawn = [number for step in read for batch in step.batches for number in batch.sample.tolist()]
    assert len(drawn) == size * epochs
    for epoch in range(epochs):
        assert sorted(drawn[epoch * size : (epoch + 1) * size]) == list(range(size))
    rates = Rates()
    trainer = training.trainer(steps, callbacks=[rates])
    trainer.fit(language_model(), DataLoader(dataset, batch_size=None, sampler=range(steps), collate_fn=as_is))
    assert trainer.global_step == steps
    expected = [1e-2 * (step / 2 if step < 2 else (steps - step) / (steps - 2)) for step in range(steps)]
    assert [max(rates.rates[step]) for step in range(steps)] == pytest.approx(expected, abs=1e-12)
