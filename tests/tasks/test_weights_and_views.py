"""What a configuration of `Pretraining` can ask for: weights of zero, a start from another run, views that join texts."""

import pytest
import streams
import tiny
import torch
import training

from interlingua.modalities.batch import Batch, Step, Text
from interlingua.models.packing import same_document
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining


class Joined(MaskedLanguage):
    """Reads a text and its translation as one sequence, and hides tokens of both."""

    def view(self, batch: Batch) -> Batch:
        width = batch.text.tokens.shape[1]
        fields = zip(batch.text[:7], batch.translation[:7], strict=True)
        text = Text(*(torch.cat(pair, dim=1) for pair in fields))
        segment = (torch.arange(text.tokens.shape[1]) >= width).long().expand_as(text.tokens)
        return batch._replace(text=text._replace(segment=segment), translation=None)


class JoinedToo(Joined):
    """Another objective with a view of its own."""


def names(weight=1.0) -> dict:
    return {"translation": Contrast("text", "translation", weight=weight), "mlm": MaskedLanguage(rate=0.3)}


@pytest.mark.parametrize("passes", [[["translation"], ["mlm"]], [["translation", "mlm"]]], ids=["apart", "together"])
def test_an_objective_of_weight_0_is_neither_read_nor_moved(passes):
    model = training.module(objectives=names(0.0), passes={"names": passes}, weight_decay=0.5)
    before = model.objectives["translation"].scale.clone()
    readings = []
    model.encoder.register_forward_pre_hook(lambda *_: readings.append(1))
    trainer = training.trainer(2)
    trainer.fit(model, training.loader(training.Steps(2, micro=2, sources=("names",))))
    assert len(readings) == 2 * 2  # two micro-batches of each step, for the language modelling alone
    assert torch.equal(model.objectives["translation"].scale, before)
    assert "train/translation" not in trainer.callback_metrics
    assert trainer.callback_metrics["train/loss"] == trainer.callback_metrics["train/mlm"] > 0


def test_a_weight_of_0_trains_as_if_the_objective_were_not_there():
    step = training.Steps(1, sources=("names",))[0]
    zero = training.module(objectives=names(0.0), passes={"names": [["translation", "mlm"]]})
    absent = training.module(objectives={"mlm": MaskedLanguage(rate=0.3)}, passes={"names": [["mlm"]]})
    (means, counts, gradients), (means_too, _, gradients_too) = (streams.one_step(model, step) for model in (zero, absent))
    assert counts["translation"] == 0
    assert means["mlm"] == means_too["mlm"]
    assert gradients.keys() == gradients_too.keys()
    assert all(torch.equal(gradients[name], gradients_too[name]) for name in gradients)


def build(initial=None, encoder=None) -> Pretraining:
    options = Optimization(1e-2, warmup_steps=1)
    return Pretraining(encoder or tiny.two_towers(), names(), {"names": [["translation"], ["mlm"]]}, options, initial=initial)


def test_a_run_may_start_from_the_encoder_of_another(tmp_path, caplog):
    first = training.module()
    trainer = training.trainer(2)
    trainer.fit(first, training.loader(training.Steps(2)))
    trainer.save_checkpoint(tmp_path / "first.ckpt")
    torch.manual_seed(5)
    with caplog.at_level("INFO"):
        second = build(str(tmp_path / "first.ckpt"))
    assert "weights matched, 0 missing, 0 unexpected" in caplog.text
    weights = second.encoder.state_dict()
    for name, value in first.encoder.state_dict().items():
        assert torch.equal(weights[name], value), name
    assert second.objectives["mlm"].head.table is second.encoder.tokens.weight
    assert second.objectives["translation"].scale.exp().item() == pytest.approx(1 / 0.07)  # heads start anew
    streams.one_step(second, training.Steps(1, sources=("names",))[0])
    assert second.encoder.tokens.weight.grad is not None
    with pytest.raises(ValueError, match="is not of this encoder"):
        build(str(tmp_path / "first.ckpt"), tiny.two_towers(vector_width=8))
    with pytest.raises(FileNotFoundError, match=r"none\.ckpt does not exist"):
        build(str(tmp_path / "none.ckpt"))


def pairs() -> Batch:
    """English texts and their German translations."""
    texts = {"text": tiny.text([6, 4, 7], language=0), "translation": tiny.text([5, 8, 3], language=1, seed=1)}
    return tiny.batch([6, 4, 7], source="names")._replace(**texts)


def test_validation_of_a_view_that_joins_texts_names_both_languages():
    objectives = {"tlm": Joined(rate=0.5), "plain": MaskedLanguage(rate=0.5)}
    model = training.module(objectives=objectives, passes={"names": [["tlm"], ["plain"]]})
    found = training.trainer(1).validate(model, training.loader([pairs()]), verbose=False)[0]
    losses = {f"validation/names/0-1/{name}" for name in objectives}
    assert found.keys() == {*losses, *(f"{loss}/accuracy" for loss in losses), "validation/loss"}
    alone = training.trainer(1).validate(model, training.loader([pairs()._replace(source="other")]), verbose=False)[0]
    assert alone == {"validation/loss": 0.0}


def test_names_of_languages_stand_in_the_key():
    model = training.module(objectives={"tlm": Joined(rate=0.5)}, passes={"names": [["tlm"]]})
    batch = pairs()
    marked = model.objectives["tlm"].mark(model.objectives["tlm"].view(batch))
    model.sums.add("tlm", batch, model.objectives["tlm"].loss(model.encoder(marked), marked))
    assert list(model.sums.means(["en", "de"])) == ["names/en-de/tlm"]


def test_objectives_of_a_group_read_the_view_of_the_one_that_has_its_own():
    """The plain objective, named first, hides tokens of the translation too, since its group reads the joined text."""
    objectives = {"plain": MaskedLanguage(rate=1.0), "tlm": Joined(rate=0.0)}
    model = training.module(objectives=objectives, passes={"names": [["plain", "tlm"]]})
    read = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    _, counts, _ = streams.one_step(model, Step(0, (pairs(),)))
    assert len(read) == 1
    assert read[0].translation is None
    assert read[0].text.tokens.shape == (3, 7 + 8)
    assert counts["plain"] == sum([6, 4, 7, 5, 8, 3]) - 6 * 2


def test_two_views_in_one_group_are_refused():
    objectives = {"one": Joined(), "other": JoinedToo(), "mlm": MaskedLanguage()}
    with pytest.raises(ValueError, match=r"passes\.names: one and other each make rows of their own"):
        training.module(objectives=objectives, passes={"names": [["one", "mlm", "other"]]})
    training.module(objectives=objectives, passes={"names": [["one", "mlm"], ["other"]]})


def test_an_objective_that_reads_in_its_own_way_stands_alone():
    class Twice(MaskedLanguage):
        def read(self, encoder, marked):
            return encoder(marked, same_document)

    objectives = {"twice": Twice(), "mlm": MaskedLanguage()}
    with pytest.raises(ValueError, match=r"passes\.names: twice reads in a way of its own and needs a group for itself"):
        training.module(objectives=objectives, passes={"names": [["twice", "mlm"]]})
