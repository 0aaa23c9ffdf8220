"""Two ranks train as one process does, with the values of the public reports: all checks in one session of processes."""

import io
import math

import pytest
import streams
import tiny
import torch
import training
from PIL import Image
from ranks import run_on_ranks
from torch import nn
from trained import small_tokenizer

from interlingua.datamodules.choice import TextChoice
from interlingua.datamodules.sample import Caption
from interlingua.datamodules.shards.writer import ShardWriter
from interlingua.datamodules.source import Source
from interlingua.datamodules.training import Shards
from interlingua.modalities.augmentation import ImageTransform
from interlingua.modalities.batch import Batch, Step, take
from interlingua.modalities.tokenizer import Tokenizer
from interlingua.tasks.objectives.contrast import Contrast
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.objective import Loss, Objective
from interlingua.tasks.reading import mark_pass


class Scripted(Objective):
    """Costs 4.0 for the one item of a micro-batch of one row, 2.0 for each of the three of a micro-batch of three."""

    def connect(self, encoder):
        self.slope = nn.Parameter(torch.ones(()))

    def count(self, marked: Batch) -> torch.Tensor:
        return torch.tensor(1 if marked.size == 1 else 3)

    def loss(self, states, marked: Batch) -> Loss:
        return Loss(self.slope * (4.0 if marked.size == 1 else 6.0), self.count(marked))


def scripted(*batches):
    """O09."""
    model = training.module(objectives={"scripted": Scripted()}, passes={"captions": [["scripted"]]})
    means, _, gradients = streams.one_step(model, Step(0, batches))
    return means["scripted"], gradients["objectives.scripted.slope"].item()


def fixed_pairs(rank, world, micro=1):
    """O05: eight fixed pairs, on towers that start far from agreement."""
    model = training.module(objectives={"itc": Contrast("text", "image")}, passes={"captions": [["itc"]]})
    return streams.one_step(model, training.Steps(1, rank, world, micro, sources=("captions",))[0])


def blind_pairs(items, lengths, kept, texts=None):
    """O06: all similarities are 0, and some of the rows are here; some texts may be other rows'."""
    model = training.module(objectives={"itc": Contrast("text", "image")}, passes={"captions": [["itc"]]})
    nn.init.zeros_(model.encoder.projections["text"].weight)
    batch = tiny.batch(lengths, items, image=tiny.image(len(items)))
    batch = batch._replace(text=take(batch.text, torch.tensor(texts or range(len(items)))))
    return streams.one_step(model, Step(0, (take(batch, torch.tensor(kept)),)))[0]["itc"]


def negatives(items, kept):
    """O07: item of each row here, item of the text it gets over 50 epochs (told by its length), and whether they match."""
    model = streams.single_stream(rate=1.0)
    batch = take(tiny.batch([4 + item for item in items], items, image=tiny.image(len(items))), torch.tensor(kept))
    found = set()
    for epoch in range(50):
        own = batch._replace(epoch=batch.epoch + epoch)
        (marked,) = mark_pass(model.plan[0], [own], model.objectives).marked
        rows = zip(marked.item.tolist(), marked.text.present.sum(1).tolist(), marked.matched.tolist(), strict=True)
        found |= {(item, length - 4, matched) for item, length, matched in rows}
    return found


def drop_tokens(batch):
    """O03 d: the second half of the rows, all that the second rank reads, are control tokens alone."""
    return batch._replace(text=tiny.text([9, 9, 9, 9, 2, 2, 2, 2], 20, seed=4))


def unevenly(rank, world):
    model = training.module(objectives={"mlm": MaskedLanguage(rate=0.4)}, passes={"captions": [["mlm"]]})
    step = training.Steps(1, rank, world, sources=("captions",), change=drop_tokens)[0]
    return streams.one_step(model, step)


def fused(rank, world, micro):
    """Image-text matching and masked language modelling in one pass: negatives come from all ranks and micro-batches."""
    return streams.one_step(streams.single_stream(), training.Steps(1, rank, world, micro, sources=("captions",))[0])


def with_holes(rank, world):
    """The same, where the second half of the rows could not be read: the second rank has only empty micro-batches."""
    step = training.Steps(1, rank, world, 4 // world, sources=("captions",))[0]
    batches = [batch if batch.sample[0] < 4 else take(batch, torch.arange(0)) for batch in step.batches]
    return streams.one_step(streams.single_stream(), Step(0, tuple(batches)))


def train_on_bad_shard(folder, tokenizer, ranks=1, **options):
    """I05 and D01: three steps on one shard of ten samples, four of them bad, by ranks with a worker each."""
    image = ImageTransform(16, area=(0.8, 1.0))
    source = Source(str(folder), 10, 2, TextChoice(["en"]), image=image)
    module = streams.two_towers(Tokenizer(tokenizer))
    trainer = training.trainer(3, devices=ranks, strategy="ddp" if ranks > 1 else "auto")
    trainer.fit(module, Shards({"captions": source}, tokenizer, 32, workers=1, max_bad_share=0.5))
    return trainer.global_step, {name: value.item() for name, value in trainer.callback_metrics.items()}


def on_ranks(folder, tokenizer):
    """All checks, on this rank."""
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return {
        "pairs": {micro: fixed_pairs(rank, world, micro) for micro in (1, 2)},
        "blind": blind_pairs([7, 9, 7, 8], [5, 6, 7, 0], [[0, 1], [2, 3]][rank]),
        "alike": blind_pairs([1, 2, 3, 4], [5, 6, 7, 0], [[0, 1], [2, 3]][rank], [0, 1, 0, 3]),
        "negatives": [negatives([7, 9], [rank]), negatives([7, 7], [rank]), negatives([7, 9, 7], [[0, 1], [2]][rank])],
        "scripted": scripted(tiny.batch([4] if rank == 0 else [4, 4, 4])),
        "unevenly": unevenly(rank, world),
        "fused": {micro: fused(rank, world, micro) for micro in (1, 2)},
        "holes": with_holes(rank, world),
        "shard": train_on_bad_shard(folder, tokenizer, world),
    }


def picture(size=32):
    stored = io.BytesIO()
    Image.effect_noise((size, size), 60).convert("RGB").save(stored, "JPEG")
    return stored.getvalue()


@pytest.fixture(scope="module")
def bad_shard(tmp_path_factory):
    """Six good samples; a JPEG cut at 60 %, a picture of 20000 x 20000, an empty file, a text named .jpg."""
    huge = io.BytesIO()
    Image.new("1", (20000, 20000)).save(huge, "PNG", compress_level=1)
    cut = picture(200)
    bad = {1: cut[: len(cut) * 6 // 10], 4: huge.getvalue(), 6: b"", 9: b"hello"}
    folder = tmp_path_factory.mktemp("bad") / "shards"
    with ShardWriter(folder) as writer:
        for number in range(10):
            content = bad.get(number) if number in bad else picture()
            extension = "png" if number == 4 else "jpg"
            caption = Caption("en", f"a dog and {number} cats")
            writer.write(f"{number}", [caption], image=content, image_extension=extension)
    return folder


@pytest.fixture(scope="module")
def two(bad_shard, data):
    """What each of two ranks found."""
    return run_on_ranks(on_ranks, 2, bad_shard, small_tokenizer(data).path, limit=100)


def test_a_contrast_over_ranks_has_gradients_of_the_one_process(two):
    """Pitfall O05: eight pairs in one process, as two ranks of four, and as two ranks of two micro-batches."""
    means, counts, gradients = fixed_pairs(0, 1)
    assert counts == {"itc": 8}
    for rank in two:
        for micro in (1, 2):
            means_too, counts_too, gradients_too = rank["pairs"][micro]
            assert counts_too == counts
            assert means_too["itc"] == pytest.approx(means["itc"], abs=1e-6)
            assert gradients_too.keys() == gradients.keys()
            norms = [torch.cat([one.flatten() for one in some.values()]).norm() for some in (gradients_too, gradients)]
            assert (norms[0] / norms[1]).item() == pytest.approx(1.0, abs=1e-5)
            for name in gradients:
                assert torch.allclose(gradients_too[name], gradients[name], atol=1e-5), name


def test_duplicates_leave_the_denominator_whichever_rank_holds_them(two):
    """Pitfall O06: items 7 and 9 on one rank, 7 on the other, all similarities 0: 0.8283, and not ln 3 = 1.0986; likewise two
    equal texts of different items."""
    expected = (2 * math.log(2) + math.log(3)) / 3
    assert expected == pytest.approx(0.8283, abs=1e-4)
    for found in ("blind", "alike"):
        assert [rank[found] for rank in two] == pytest.approx([expected] * 2, abs=1e-5)
    assert blind_pairs([7, 9, 7, 8], [5, 6, 7, 0], [0, 1, 2, 3]) == pytest.approx(expected, abs=1e-5)
    assert blind_pairs([7, 9, 8], [5, 6, 7], [0, 1, 2]) == pytest.approx(math.log(3), abs=1e-5)


def test_a_negative_comes_from_another_rank_where_this_one_has_none(two):
    """Pitfall O07: batches of one sample; of one item alone; of items 7, 9 and 7: never the positive, by identity."""
    assert [rank["negatives"][0] for rank in two] == [{(7, 9, False)}, {(9, 7, False)}]
    assert [rank["negatives"][1] for rank in two] == [{(7, 7, True)}] * 2
    assert [rank["negatives"][2] for rank in two] == [{(7, 9, False), (9, 7, False)}, {(7, 9, False)}]
    assert negatives([7], [0]) == negatives([7, 7, 7], [0, 1, 2]) == {(7, 7, True)}


def test_ranks_with_few_items_do_not_weigh_too_much(two):
    """Pitfall O09: one item of 4.0 on one rank, three of 2.0 on the other: 2.5, not 3.0."""
    for rank in two:
        assert rank["scripted"] == pytest.approx((2.5, 2.5), abs=1e-6)
    assert scripted(tiny.batch([4]), tiny.batch([4, 4, 4])) == pytest.approx((2.5, 2.5), abs=1e-6)


def test_a_rank_without_hidden_tokens_takes_the_mean_of_all(two):
    """Pitfall O03 d."""
    whole = unevenly(0, 1)
    assert 0 < whole[1]["mlm"] < 28
    for rank in two:
        streams.assert_equal_steps(rank["unevenly"], whole)


def test_matching_and_language_modelling_in_one_pass_are_exact_however_the_step_is_split(two):
    """Pitfalls O05, O07 and O09 for a fused encoder whose negatives come from the whole step: 1 x 8 = 2 x 4 = 4 x 2."""
    whole = fused(0, 1, 1)
    assert whole[1]["itm"] == 8
    assert whole[1]["mlm"] > 10
    streams.assert_equal_steps(fused(0, 1, 4), whole)
    for rank in two:
        for micro in (1, 2):
            streams.assert_equal_steps(rank["fused"][micro], whole)


def test_a_rank_that_could_read_nothing_takes_part_in_matching(two):
    """Pitfall I05 for objectives that borrow from the whole step: micro-batches without rows."""
    whole = with_holes(0, 1)
    assert whole[1]["itm"] == 4
    for rank in two:
        streams.assert_equal_steps(rank["holes"], whole)


def test_a_run_over_ten_samples_of_which_four_are_bad(two, bad_shard, data, caplog):
    """Pitfall I05 and D01: six train, four are told with shard and key and counted; ranks share one shard evenly."""
    steps, logged = train_on_bad_shard(bad_shard, small_tokenizer(data).path)
    assert (steps, logged["train/faults"]) == (3, 12.0)  # four in each of three steps of ten
    told = {message.split(":")[1].strip() for message in caplog.messages if message.startswith("training: skipped")}
    kinds = {1: "truncated image", 4: "oversized image", 6: "empty image", 9: "not an image"}
    assert told == {f"skipped {kind} in shard-000000.tar, key {key}" for key, kind in kinds.items()}
    for steps_too, logged_too in (rank["shard"] for rank in two):
        assert steps_too == 3
        assert logged_too.keys() >= {"train/faults", "train/itc", "train/mlm", "train/loss", "train/gradient_norm"}
        for name, value in logged.items():
            assert logged_too[name] == pytest.approx(value, rel=1e-4), name
