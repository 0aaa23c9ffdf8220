"""What is logged is of all steps since the last report, whatever each of them read, on however many ranks."""

import pytest
import torch
import training
from lightning.pytorch.callbacks import Callback
from ranks import run_on_ranks

from interlingua.modalities.batch import Step
from interlingua.tasks.interval import Interval
from interlingua.tasks.objectives.objective import Loss


class Kept(Callback):
    """Losses that are there after each step."""

    def __init__(self):
        self.rows = {}

    def on_train_batch_end(self, trainer, module, *_):
        logged = {name: value.item() for name, value in trainer.callback_metrics.items() if name.startswith("train/")}
        self.rows[trainer.global_step] = {
            name: logged[name] for name in logged if name.split("/")[1] in (*module.objectives, "loss")
        }


def in_turns(count, rank=0, world=1):
    """Steps that read one source each: odd ones captions, even ones names."""
    both = training.Steps(count, rank, world)
    return [Step(n, tuple(b for b in both[n].batches if b.source == ("captions", "names")[n % 2])) for n in range(count)]


def run(steps, every, rank=0, world=1, **options):
    """Logged losses by step of a run that learns nothing, so that every step is scored by the same weights."""
    kept = Kept()
    extra = {"strategy": "ddp", "devices": world} if world > 1 else {}
    trainer = training.trainer(len(steps), log_every_n_steps=every, callbacks=[kept], **extra)
    trainer.fit(training.module(learning_rate=1e-12, weight_decay=0.0), training.loader(steps), **options)
    return kept.rows


def run_on_rank(count, every):
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return run(in_turns(count, rank, world), every, rank, world)


def test_an_objective_is_logged_whose_source_the_last_step_did_not_read():
    """Image and text stand together in odd steps alone; every second is reported."""
    rows = run(in_turns(4), 2)
    for step in (2, 4):
        assert rows[step].keys() == {"train/itc", "train/mlm", "train/translation", "train/loss"}
        weighted = rows[step]["train/itc"] + rows[step]["train/mlm"] + 0.5 * rows[step]["train/translation"]
        assert rows[step]["train/loss"] == pytest.approx(weighted)


def test_it_is_the_mean_over_all_items_of_these_steps():
    """MLM hides other numbers of tokens in each step: sums and counts of the steps, and not a mean of their means."""
    steps = in_turns(4)
    model = training.module()
    model.manual_backward = lambda loss: loss.backward()
    parts = [model.backward_step(step) for step in steps[2:]]
    place = list(model.objectives).index("mlm")
    sums, counts = [losses["mlm"].total.item() for losses, _ in parts], [int(found[place]) for _, found in parts]
    assert counts[0] != counts[1]
    rows = run(steps, 2)
    assert rows[4]["train/mlm"] == pytest.approx(sum(sums) / sum(counts), rel=1e-5)
    assert rows[4]["train/mlm"] != pytest.approx((sums[0] / counts[0] + sums[1] / counts[1]) / 2, rel=1e-5)
    assert run(steps, 2)[2] != rows[4], "each interval starts anew"


def test_two_ranks_log_what_one_does():
    whole = run(in_turns(3), 2)
    for rows in run_on_ranks(run_on_rank, 2, 3, 2):
        assert rows.keys() == whole.keys()
        for step in rows:
            assert rows[step] == pytest.approx(whole[step], rel=1e-4), step


def test_sums_are_kept_and_an_interval_of_other_objectives_is_not():
    first = Interval(["a", "b"])
    first.add({"a": Loss(torch.tensor(6.0), torch.tensor(2))}, torch.tensor([2, 0]))
    kept = first.state(torch.device("cpu"))
    second, other = Interval(["a", "b"]), Interval(["a", "c"])
    for one in (second, other):
        one.load(kept)
        one.add({"a": Loss(torch.tensor(2.0), torch.tensor(2))}, torch.tensor([2, 0]))
    assert second.means(torch.device("cpu")) == {"a": 2.0}
    assert other.means(torch.device("cpu")) == {"a": 1.0}
