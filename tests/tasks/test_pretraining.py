"""Pretraining is exact: whatever way a step is split, the same losses, gradients and weights; nothing hidden costs 0."""

import math
from types import SimpleNamespace

import pytest
import tiny
import torch
import training
from ranks import run_on_ranks

from interlingua.modalities.batch import Batch, Step, take
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.objective import Loss, Objective
from interlingua.tasks.pretraining import Pretraining


def run(steps, micro=1, world=1, rank=0, dropout=0.0, **options):
    """Weights and last logged values after some steps."""
    model = training.module(dropout, **options)
    extra = {"strategy": "ddp", "devices": world} if world > 1 else {}
    trainer = training.trainer(steps, **extra)
    trainer.fit(model, training.loader(training.Steps(steps, rank, world, micro)))
    logged = {name: value.item() for name, value in trainer.callback_metrics.items() if name.startswith("train/")}
    return {name: value.clone() for name, value in model.state_dict().items()}, logged


def train_on_rank(steps, micro):
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return run(steps, micro, world, rank)


def assert_same(one, other, tolerance=1e-5):
    (weights, logged), (weights_too, logged_too) = one, other
    assert weights.keys() == weights_too.keys()
    for name in weights:
        assert torch.allclose(weights[name].float(), weights_too[name].float(), atol=tolerance), name
    assert logged.keys() == logged_too.keys()
    for name in logged:
        assert logged[name] == pytest.approx(logged_too[name], abs=10 * tolerance, rel=1e-4), name


def test_one_process_of_8_equals_micro_batches_and_two_ranks():
    """Pitfalls O05, O06 and O09."""
    whole = run(4)
    assert {"train/itc", "train/mlm", "train/translation", "train/loss"} <= whole[1].keys()
    assert_same(whole, run(4, micro=4))
    for ranks in (run_on_ranks(train_on_rank, 2, 4, 1), run_on_ranks(train_on_rank, 2, 4, 2)):
        assert_same(whole, ranks[0])
        assert_same(whole, ranks[1])


def gradients(model, step):
    """Gradients and mean losses of one step, without a trainer."""
    model.manual_backward = lambda loss: loss.backward()
    losses, counts = model.backward_step(step)
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    return losses, dict(zip(model.objectives, counts.tolist(), strict=True)), found


def test_the_loss_of_a_step_is_the_mean_over_all_of_its_items():
    """Pitfall O09: a micro-batch with 1 hidden token and one with 3 weigh 1 to 3, not 1 to 1."""

    class Scripted(Objective):
        """Costs 4.0 for the first micro-batch's one item, 2.0 for each of the second's three."""

        def connect(self, encoder):
            self.slope = torch.nn.Parameter(torch.ones(()))

        def count(self, marked: Batch) -> torch.Tensor:
            return torch.tensor(1 if marked.size == 1 else 3)

        def loss(self, states, marked: Batch) -> Loss:
            return Loss(self.slope * (4.0 if marked.size == 1 else 6.0), self.count(marked))

    model = training.module(objectives={"scripted": Scripted()}, passes={"captions": [["scripted"]]})
    batches = (tiny.batch([4]), tiny.batch([4, 4, 4]))
    losses, counts, found = gradients(model, Step(0, batches))
    assert counts == {"scripted": 4}
    assert losses["scripted"].total / counts["scripted"] == pytest.approx(2.5)
    assert found["objectives.scripted.slope"].item() == pytest.approx(2.5)


def test_a_mean_of_means_would_be_seen():
    """The well-known wrong choice differs by more than the tolerance of the exactness test."""
    model = training.module(objectives={"mlm": MaskedLanguage(rate=0.3)}, passes={"captions": [["mlm"]]})
    steps = training.Steps(1, micro=4, sources=("captions",))
    _, _, whole = gradients(model, steps[0])
    whole = {name: grad.clone() for name, grad in whole.items() if grad is not None}
    wrong: dict = {}
    parts = 0
    for batch in steps[0].batches:
        model.zero_grad()
        _, counts, found = gradients(model, Step(0, (batch,)))
        parts += counts["mlm"] > 0
        for name, grad in found.items():
            if grad is not None:
                wrong[name] = wrong.get(name, 0) + grad / 4
    assert parts > 1
    assert max((whole[name] - wrong[name]).abs().max() for name in whole) > 1e-3


def test_nothing_hidden_costs_nothing_and_moves_nothing():
    model = training.module(objectives={"mlm": MaskedLanguage(rate=0.0)}, passes={"captions": [["mlm"]]}, weight_decay=0.5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trainer = training.trainer(2)
    trainer.fit(model, training.loader(training.Steps(2, sources=("captions",))))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert trainer.callback_metrics["train/loss"] == 0


def drop_texts(batch):
    return batch._replace(text=tiny.text([0] * batch.size, 20)) if batch.source == "captions" else batch


def test_rows_without_any_text_are_finite():
    """Pitfall O10."""
    model = training.module()
    trainer = training.trainer(2)
    trainer.fit(model, training.loader(training.Steps(2, micro=2, change=drop_texts)))
    assert all(value.isfinite().all() for value in model.state_dict().values())
    assert math.isfinite(trainer.callback_metrics["train/loss"])


def hide_on_first_rank_only(batch):
    lengths = [9, 9, 9, 9, 2, 2, 2, 2]  # the second rank's texts are control tokens alone
    return batch._replace(text=tiny.text(lengths, 20, seed=4))


def train_unevenly(count, world_rank=None):
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    model = training.module(objectives={"mlm": MaskedLanguage(rate=0.4)}, passes={"captions": [["mlm"]]})
    steps = training.Steps(count, rank, world, sources=("captions",), change=hide_on_first_rank_only)
    trainer = training.trainer(count, strategy="ddp", devices=world)
    trainer.fit(model, training.loader(steps))
    return model.state_dict()


def test_a_rank_without_a_hidden_token_neither_hangs_nor_changes_the_mean():
    """Pitfall O03 d."""
    model = training.module(objectives={"mlm": MaskedLanguage(rate=0.4)}, passes={"captions": [["mlm"]]})
    steps = training.Steps(2, sources=("captions",), change=hide_on_first_rank_only)
    training.trainer(2).fit(model, training.loader(steps))
    for ranks in run_on_ranks(train_unevenly, 2, 2, limit=60):
        for name, value in model.state_dict().items():
            assert torch.allclose(value, ranks[name], atol=1e-5), name


def test_dropout_is_the_same_in_both_readings_of_gradient_caching():
    """With dropout, the cached gradient belongs to the embeddings of the second reading only if dropout repeats."""
    model = training.module(0.3, objectives={"itc": Contrast("text", "image")}, passes={"captions": [["itc"]]})
    step = training.Steps(1, micro=2, sources=("captions",))[0]
    model.train()
    _, _, first = gradients(model, step)
    first = {name: grad.clone() for name, grad in first.items() if grad is not None}
    model.zero_grad()
    _, _, second = gradients(model, step)
    assert all(torch.equal(first[name], second[name]) for name in first)
    epsilon, name = 1e-3, "encoder.projections.text.weight"
    weight = dict(model.named_parameters())[name]
    direction = torch.randn_like(weight)
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            weight.add_(direction, alpha=sign * epsilon)
        model.zero_grad()
        losses, counts, _ = gradients(model, step)
        values.append((losses["itc"].total / counts["itc"]).item())
        with torch.no_grad():
            weight.add_(direction, alpha=-sign * epsilon)
    assert (values[0] - values[1]) / (2 * epsilon) == pytest.approx((first[name] * direction).sum().item(), rel=0.02)


def test_the_pooled_denominator_of_infoxlm_is_an_option():
    step = training.Steps(1)[0]
    each, pooled = training.module(), training.module()
    pooled.denominator = "pooled"
    _, counts, separate = gradients(each, step)
    _, _, together = gradients(pooled, step)
    share = counts["itc"] / sum(counts.values())
    name = "encoder.projections.image.weight"  # only the image-text contrast reaches it
    assert torch.allclose(together[name], separate[name] * share, atol=1e-7)


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ({"captions": [["itc", "mlm", "typo"]]}, "names.*typo.*objectives are"),
        ({"captions": [["itc", "mlm"]]}, r"no pass names the objectives \['translation'\]"),
        ({"captions": [["itc", "itc"]], "names": [["translation", "mlm"]]}, "twice"),
    ],
)
def test_passes_that_cannot_be_are_refused(passes, message):
    with pytest.raises(ValueError, match=message):
        training.module(passes=passes)


def test_a_source_that_no_pass_reads_is_refused():
    model = training.module()
    with pytest.raises(ValueError, match=r"no pass reads the sources \['other'\]"):
        model.backward_step(Step(0, (tiny.batch(source="other"),)))


def test_half_precision_with_a_loss_scale_is_refused():
    model = training.module()
    trainer = training.trainer(1)
    trainer.strategy.precision_plugin.precision = "16-mixed"
    with pytest.raises(ValueError, match="bf16-mixed"):
        trainer.fit(model, training.loader(training.Steps(1)))


def test_validation_is_by_source_and_language_and_the_same_each_time():
    model = training.module()
    trainer = training.trainer(1)
    batches = [training.samples("captions", 0), training.samples("names", 0)]
    first = trainer.validate(model, training.loader(batches), verbose=False)[0]
    second = trainer.validate(model, training.loader(batches), verbose=False)[0]
    assert first == second
    assert {"validation/captions/0/itc", "validation/captions/0/mlm", "validation/names/0-0/translation"} <= first.keys()
    weights = {"itc": 1.0, "translation": 0.5}
    assert first["validation/loss"] > sum(
        weights[key.split("/")[-1]] * value for key, value in first.items() if key.split("/")[-1] in weights
    )


def train_with_holes():
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    model = training.module()
    steps = [training.Steps(2, rank, world)[number] for number in range(2)]
    emptied = [Step(s.number, tuple(b if rank == 0 else take(b, torch.arange(0)) for b in s.batches)) for s in steps]
    training.trainer(2, strategy="ddp", devices=world).fit(model, training.loader(emptied))
    return model.state_dict()


def test_a_rank_that_could_read_nothing_takes_part_all_the_same():
    model = training.module()
    steps = [training.Steps(2, 0, 2)[number] for number in range(2)]
    training.trainer(2).fit(model, training.loader(steps))
    for weights in run_on_ranks(train_with_holes, 2, limit=60):
        for name, value in model.state_dict().items():
            assert torch.allclose(value, weights[name], atol=1e-5), name


def test_packed_rows_are_refused_by_objectives_that_score_a_row_as_a_whole():
    whole = training.samples("captions", 0)
    document = torch.zeros_like(whole.text.tokens)
    document[0, 3:] = 1
    packed = whole._replace(text=whole.text._replace(document=document))
    with pytest.raises(ValueError, match="itc scores one item a row, but rows of source 'captions' are packed"):
        training.module().backward_step(Step(0, (packed,)))
    tokens_only = training.module(objectives={"mlm": MaskedLanguage()}, passes={"captions": [["mlm"]]})
    assert gradients(tokens_only, Step(0, (packed,)))[1]["mlm"] > 0


def test_a_strategy_that_splits_the_model_is_refused():
    class ShardedStrategy:
        """Stands for FSDP, which this machine cannot start."""

    trainer = SimpleNamespace(precision_plugin=SimpleNamespace(precision="32-true"), strategy=ShardedStrategy())
    with pytest.raises(ValueError, match="ShardedStrategy, but gradients are summed over whole copies"):
        Pretraining.setup(SimpleNamespace(trainer=trainer), "fit")
