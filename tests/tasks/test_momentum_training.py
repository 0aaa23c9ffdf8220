"""Training with momentum and a queue: warm before the first step, exact however a step is split, the same when resumed."""

import pytest
import streams
import tiny
import torch
import training
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from ranks import run_on_ranks
from trained import names, small_tokenizer

from interlingua.datamodules.choice import TextChoice, TranslationChoice
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.models.towers import TextTower
from interlingua.tasks.objectives import cross_lingual_contrast
from interlingua.tasks.objectives.cross_lingual_contrast import CrossLingualContrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.optimization import Optimization
from interlingua.tasks.pretraining import Pretraining
from interlingua.tasks.ranks import gather_rows
from interlingua.tasks.reading import mark_pass

QUEUE = 10
pytestmark = pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")


def build(queue=QUEUE, **options):
    contrast = CrossLingualContrast(layer=1, queue=queue, momentum=0.9, **options)
    objectives = {"xlco": contrast, "mlm": MaskedLanguage(rate=0.3)}
    return training.module(objectives=objectives, passes={"names": [["xlco"], ["mlm"]]})


class First(Callback):
    """The state before the first step, and which steps are trained on."""

    def __init__(self):
        self.state, self.numbers = None, []

    def on_train_batch_start(self, trainer, module, step, index):
        self.numbers.append(step.number)
        if self.state is None:
            self.state = {name: value.clone() for name, value in module.state_dict().items()}


def run(steps, micro=1, world=1, rank=0, change=lambda batch: batch, **options):
    """State before the first step, after the last, and the losses that were logged last."""
    model, first = build(**options), First()
    extra = {"strategy": "ddp", "devices": world} if world > 1 else {}
    trainer = training.trainer(steps, callbacks=[first], **extra)
    trainer.fit(model, training.loader(training.Steps(steps, rank, world, micro, ("names",), change)))
    assert first.numbers == list(range(steps))
    logged = {name: value.item() for name, value in trainer.callback_metrics.items() if name in ("train/xlco", "train/mlm")}
    return first.state, model.state_dict(), logged


def assert_same(one, other):
    for state, again in zip(one[:2], other[:2], strict=True):
        assert state.keys() == again.keys()
        for name, value in state.items():
            if value.is_floating_point():  # AdamW makes whole steps of gradients that are all rounding
                torch.testing.assert_close(value, again[name], rtol=0, atol=2e-4, msg=name)
            else:
                assert torch.equal(value, again[name]), name
    assert one[2] == pytest.approx(other[2], abs=1e-4)


def test_one_process_of_8_equals_micro_batches_and_two_ranks(two_ranks):
    """Queue, its order and the slow weights included."""
    whole = run(3)
    assert whole[2].keys() == {"train/xlco", "train/mlm"}
    assert_same(whole, run(3, micro=4))
    for rank in two_ranks:
        assert_same(whole, rank["run"])
    for state, again in zip(*(rank["run"][:2] for rank in two_ranks), strict=True):
        assert all(torch.equal(value, again[name]) for name, value in state.items())


def mark(model, steps):
    """Marked micro-batches of the contrast, step by step."""
    return [list(mark_pass(model.plan[0], steps[number].batches, model.objectives).marked) for number in range(len(steps))]


def one_step(rank=0, world=1, micro=1, change=lambda batch: batch):
    """Losses and gradients of the first step, after a warm-up."""
    model, steps = build(), training.Steps(4, rank, world, micro, ("names",), change)
    model.objectives["xlco"].warm_up(model.encoder, mark(model, steps))
    return streams.one_step(model, steps[0])


def drop_pairs(batch):
    """Five pairs, an odd number: none on most micro-batches, and one on the second of two ranks."""
    return batch._replace(translation=tiny.text([6, 6, 6, 6, 6, 0, 0, 0], 20, seed=50 + int(batch.sample[0])))


@pytest.mark.parametrize(("change", "count"), [(lambda batch: batch, 4), (drop_pairs, 3)], ids=["all", "few"])
def test_the_gradients_of_a_step_do_not_depend_on_its_split(change, count):
    whole = one_step(change=change)
    assert whole[1]["xlco"] == count
    streams.assert_equal_steps(whole, one_step(micro=8, change=change), tolerance=1e-6)


def drop_all_but_first(batch):
    """No pairs on the second of two ranks."""
    return batch._replace(translation=tiny.text([6, 6, 6, 6, 0, 0, 0, 0], 20, seed=50 + int(batch.sample[0])))


def test_a_rank_without_pairs_neither_hangs_nor_changes_the_mean(two_ranks):
    """Pitfall O03 d."""
    whole = one_step(change=drop_all_but_first)
    for rank in two_ranks:
        streams.assert_equal_steps(whole, rank["uneven"], tolerance=1e-6)


def fill_apart(rank, world):
    """What is in every rank's queue with its keys gathered, and without."""
    queues, model = {}, build()
    marked = mark(model, training.Steps(4, rank, world, 1, ("names",)))
    contrast = model.objectives["xlco"]
    for name, gather in (("gathered", gather_rows), ("apart", lambda rows: (rows, 0))):
        cross_lingual_contrast.gather_rows = gather
        contrast.queue.filled.zero_()
        contrast.warm_up(model.encoder, marked)
        queues[name] = contrast.queue.identity.clone()
    cross_lingual_contrast.gather_rows = gather_rows
    return queues


def test_a_queue_of_each_rank_s_own_would_be_seen(two_ranks):
    """The well-known wrong choice: ranks whose queues differ."""
    one, other = (rank["queues"] for rank in two_ranks)
    assert torch.equal(one["gathered"], other["gathered"])
    assert not torch.equal(one["apart"], other["apart"])


def work_on_rank():
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    queues, uneven = fill_apart(rank, world), one_step(rank, world, 1, drop_all_but_first)
    return {"queues": queues, "uneven": uneven, "run": run(3, 2, world, rank)}


@pytest.fixture(scope="module")
def two_ranks():
    """All that is tried on two ranks, in one start of them."""
    return run_on_ranks(work_on_rank, 2)


def test_the_queue_is_full_before_the_first_step_of_keys_of_the_starting_weights():
    before, _, _ = run(3)
    model = build()
    state = model.state_dict()
    contrast = model.objectives["xlco"]
    keys = [contrast._keys(one) for step in mark(model, training.Steps(3, sources=("names",))) for one in step]
    assert int(before["objectives.xlco.queue.filled"]) == QUEUE
    for name, value in before.items():
        if name.startswith("encoder."):
            assert torch.equal(value, state[name]), name
            assert torch.equal(value, before[f"objectives.xlco.slow.module.{name.removeprefix('encoder.')}"])
    for key in before["objectives.xlco.queue.keys"]:
        assert (torch.cat(keys) - key).abs().amax(1).min() < 1e-6
    assert int(before["objectives.xlco.moves"]) == 0


def test_a_run_too_short_to_fill_the_queue_repeats_its_keys(caplog):
    before, _, _ = run(1, queue=30)
    assert "hold only 4 keys, which are repeated to fill the queue of 30" in caplog.text
    assert len(before["objectives.xlco.queue.keys"].unique(dim=0)) == 4


def test_a_run_without_pairs_is_refused():
    with pytest.raises(ValueError, match="no text with a translation to fill the queue with"):
        run(2, change=lambda batch: batch._replace(translation=tiny.text([0] * 8, 20)))


def test_neither_optimiser_nor_reducer_nor_count_sees_the_slow_weights():
    model = build()
    (optimizer,), _ = model.optimization.configure(model, 10)
    names = {name for group in optimizer.param_groups for name in group["param_names"]}
    assert {name for name in names if "xlco" in name} == {"objectives.xlco.projection.weight"}
    assert sum(parameter.numel() for parameter in model.objectives["xlco"].parameters()) == tiny.WIDTH**2
    trainer = training.trainer(1)
    trainer.fit(model, training.loader(training.Steps(1, sources=("names",))))
    left = {name for name, _ in model.named_buffers()} - set(model._ddp_params_and_buffers_to_ignore)
    assert not [name for name in left if name.startswith("objectives.")]


# On real data, through the loader.


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """A shard of real names in two languages."""
    folder, own = tmp_path_factory.mktemp("names"), {"en": [], "de": []}
    for code, text in names(data):
        if code in own:
            own[code].append(text)
    with ShardWriter(folder / "shard") as writer:
        for number, (one, other) in enumerate(zip(*own.values(), strict=False)):
            writer.write(f"{number:04d}", [Caption("en", one), Caption("de", other)], item=number)
    return folder


def train(folder, data, until, workers, name, resume=None):
    torch.manual_seed(0)
    tokenizer = small_tokenizer(data)
    encoder = TextTower(tiny.embeddings(0.1, vocabulary=tokenizer.vocabulary), tiny.transformer(dropout=0.1))
    objectives = {"xlco": CrossLingualContrast(layer=1, queue=37, momentum=0.9)}
    model = Pretraining(encoder, objectives, {"names": [["xlco"]]}, Optimization(1e-2, steps=8), tokenizer.path)
    source = Source(str(folder / "shard"), 16, None, TextChoice(["en"]), TranslationChoice())
    shards = Shards({"names": source}, tokenizer.path, 32, {"names": source}, workers=workers)
    first, keeper = First(), ModelCheckpoint(folder / "kept", filename=name + "-{step}", every_n_train_steps=1, save_top_k=-1)
    options = {"enable_checkpointing": True, "num_sanity_val_steps": 1, "limit_val_batches": 1, "val_check_interval": 3}
    trainer = training.trainer(until, callbacks=[first, keeper], **options)
    trainer.fit(model, shards, ckpt_path=resume, weights_only=True)
    return first, model.state_dict()


def test_resumed_is_uninterrupted_queue_and_slow_weights_included(folder, data):
    first, whole = train(folder, data, 6, 0, "whole")
    assert first.numbers == list(range(6))
    assert int(first.state["objectives.xlco.queue.filled"]) == 37
    with_workers, again = train(folder, data, 6, 1, "again")
    assert with_workers.numbers == list(range(6))
    assert all(torch.equal(value, again[name]) for name, value in whole.items())
    later, resumed = train(folder, data, 6, 0, "resumed", folder / "kept" / "whole-step=4.ckpt")
    assert later.numbers == [4, 5]
    assert int(later.state["objectives.xlco.moves"]) == 4
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]), name
