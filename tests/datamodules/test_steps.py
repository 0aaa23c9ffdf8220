"""Whole steps: the same rows whatever the ranks, micro-batches and workers; holes keep their places."""

import logging

import pytest
import torch
from torch.utils.data import DataLoader

from interlingua.datamodules.faults import FaultTally, TooManyBadSamplesError
from interlingua.datamodules.order import draw, share
from interlingua.datamodules.steps import Reading, StepNumbers, Steps, Tallied, split
from interlingua.modalities.batch import Batch, Fault, Image


class Numbered:
    """A source of numbered samples, some of them bad."""

    def __init__(self, name="numbers", size=100, batch_size=4, micro_batch_size=None, bad=()):
        self.name, self.size, self.batch_size, self.micro_batch_size = name, size, batch_size, micro_batch_size
        self.bad, self.key = bad, len(name)

    def check_world(self, world):
        if self.batch_size % world:
            raise ValueError(f"{self.name!r}: batch_size {self.batch_size} is not divisible by {world} processes")

    def read_step(self, number, rank, world):
        rows = share(self.batch_size, rank, world)
        reading = self.read(*draw(number * self.batch_size + rows.start, len(rows), self.size, self.key))
        return split(reading, len(rows), self.micro_batch_size or len(rows)), reading.faults

    def read(self, number, epoch):
        slots = [slot for slot, one in enumerate(number.tolist()) if one not in self.bad]
        faults = [Fault("bad", "a.tar", str(one), "told") for one in number.tolist() if one in self.bad]
        number, epoch = number[slots], epoch[slots]
        pixels = number[:, None, None, None].expand(-1, 3, 2, 2).to(torch.uint8)
        image = Image(pixels.contiguous(), torch.ones(len(slots), dtype=torch.bool))
        return Reading(Batch(self.name, number, number, epoch, image=image), slots, faults)


def numbers(steps, source="numbers"):
    return [n for step in steps for batch in step.batches if batch.source == source for n in batch.sample.tolist()]


@pytest.mark.parametrize(("world", "micro"), [(1, None), (1, 3), (2, 4), (2, 1), (4, 2), (8, 1)])
def test_ranks_and_micro_batches_hold_the_same_rows_in_the_same_step(world, micro):
    whole = Steps([Numbered(batch_size=8)])
    parts = [Steps([Numbered(batch_size=8, micro_batch_size=micro)], rank, world) for rank in range(world)]
    for number in (0, 5, 12, 13):  # 12 holds the end of the first epoch
        assert numbers([part[number] for part in parts]) == numbers([whole[number]])
        assert all(batch.size <= (micro or 8) for part in parts for batch in part[number].batches)
        assert [batch.image.pixels[0, 0, 0, 0].item() for batch in parts[0][number].batches] == [
            batch.sample[0].item() for batch in parts[0][number].batches
        ]


def test_sources_come_in_the_same_order_on_every_rank_and_are_drawn_apart():
    sources = [Numbered("pictures", 10, 4, 2), Numbered("names", 30, 8)]
    for rank in range(2):
        step = Steps(sources, rank, 2)[3]
        assert [batch.source for batch in step.batches] == ["pictures", "names"]
        assert [batch.size for batch in step.batches] == [2, 4]
    draws = [numbers([Steps(sources)[s] for s in range(5)], name) for name in ("pictures", "names")]
    assert [len(draw) for draw in draws] == [20, 40]
    assert sorted(draws[0][:10]) == list(range(10))
    assert sorted(draws[1][:30]) == list(range(30))


def test_a_batch_that_ranks_cannot_share_evenly_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"'numbers': batch_size 10 .*not divisible by 4 processes"):
        Steps([Numbered(batch_size=10)], 0, 4)


def test_resume_reads_on_at_the_next_step_with_any_number_of_workers():
    """Pitfall D10: numbered samples, batch 4, stopped after step 25."""
    uninterrupted = numbers(Steps([Numbered(size=120)])[step] for step in range(30))
    assert sorted(uninterrupted) == list(range(120))
    trained = 0

    def train(loader, until):
        nonlocal trained
        seen = []
        for step in loader:
            assert step.number == trained
            seen += numbers([step])
            trained += 1
            if trained == until:
                return seen

    dataset = Steps([Numbered(size=120)])
    seen = []
    for workers, until in ((2, 25), (1, 28), (0, 30)):  # reading ahead never counts as trained
        loader = DataLoader(dataset, batch_size=None, sampler=StepNumbers(lambda: trained), num_workers=workers)
        seen += train(loader, until)
    assert seen[100] == uninterrupted[100]
    assert seen == uninterrupted


def test_holes_keep_the_places_of_the_others_and_empty_micro_batches_stay():
    whole, holed = Steps([Numbered(batch_size=8)])[2], None
    rows = numbers([whole])
    holed = Steps([Numbered(batch_size=8, micro_batch_size=2, bad=(rows[1], rows[4], rows[5]))])[2]
    assert [batch.sample.tolist() for batch in holed.batches] == [rows[:1], rows[2:4], [], rows[6:]]
    assert {fault.key for fault in holed.faults} == {str(rows[slot]) for slot in (1, 4, 5)}
    assert [batch.size for batch in Steps([Numbered(bad=range(100))])[0].batches] == [0]


def test_faults_are_counted_by_kind_and_told_once(caplog):
    dataset = Steps([Numbered(size=10, batch_size=5, bad=(3, 7))])
    tally = FaultTally("training", max_share=0.5, told_per_kind=5)
    with caplog.at_level(logging.WARNING):
        list(Tallied([dataset[step] for step in range(6)], tally))
    assert (tally.good, dict(tally.bad)) == (24, {"bad": 6})
    assert len(caplog.records) == 2
    assert "a.tar" in caplog.text
    assert "key 7" in caplog.text
    assert tally.summary == "training: 6 of 30 samples could not be read (bad: 6)"


def test_telling_is_capped_but_counting_is_not(caplog):
    tally = FaultTally("training", max_share=1.0, told_per_kind=3)
    tally.add(0, [Fault("bad", "a.tar", str(key), "") for key in range(50)])
    assert len(caplog.records) == 3
    assert "only counted" in caplog.records[-1].message
    assert tally.bad["bad"] == 50


def test_too_many_bad_samples_are_an_error_that_names_the_kinds():
    tally = FaultTally("training", max_share=0.02, least=100)
    tally.add(90, [Fault("truncated image", "a.tar", str(key), "") for key in range(9)])  # too early to judge
    with pytest.raises(TooManyBadSamplesError, match=r"10 of 100 .*truncated image: 9, empty text: 1.*max_bad_share 0.02"):
        tally.add(0, [Fault("empty text", "a.tar", "x", "")])


def test_a_share_outside_0_to_1_is_refused():
    with pytest.raises(ValueError, match="max_bad_share is 2"):
        FaultTally("training", max_share=2.0)
