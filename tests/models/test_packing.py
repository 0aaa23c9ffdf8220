"""Packing: what goes in comes out, samples never see each other, and rows are well filled."""

import pytest
import tiny
import torch

from interlingua.models.packing import Packing, Stream, choose_length, pack, same_document


def present(lengths, padded):
    return torch.arange(padded)[None] < torch.tensor(lengths)[:, None]


def test_what_is_placed_is_given_back():
    here = [present([3, 0, 5, 1], 5), present([2, 2, 0, 2], 2)]
    packing = Packing([Stream(one) for one in here])
    values = [torch.randn(int(one.sum()), 4) for one in here]
    for one, value, state in zip(here, values, packing.give_back(packing.place(*values)), strict=True):
        assert torch.equal(state[one], value)
        assert not state[~one].any()


def test_a_samples_streams_stand_together_in_order():
    packing = Packing([Stream(present([2, 1], 2)), Stream(present([1, 2], 2))])
    samples, streams = packing.slots.sample.flatten().tolist(), packing.slots.stream.flatten().tolist()
    for sample in (0, 1):
        mine = [stream for stream, owner in zip(streams, samples, strict=True) if owner == sample]
        assert mine == sorted(mine)
        first = samples.index(sample)
        assert samples[first : first + len(mine)] == [sample] * len(mine)


def test_attention_stays_within_sample_and_document_and_no_row_is_empty():
    text = tiny.text([6, 4])
    document = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    packing = Packing([Stream(text.present, document)])
    mask = packing.mask(same_document)[:, 0]
    slots = packing.slots
    for row in range(packing.rows):
        for query in range(packing.length):
            for key in range(packing.length):
                same = (
                    slots.sample[row, query] == slots.sample[row, key]
                    and slots.document[row, query] == slots.document[row, key]
                )
                assert mask[row, query, key] == same
    assert mask.any(-1).all()


@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [1], [128] * 3, [70] * 9, [128, 20], list(range(6, 129))])
def test_every_sample_fits_and_none_overlaps(lengths):
    length = choose_length(lengths)
    taken = set()
    for start, need in zip(pack(lengths, length), lengths, strict=True):
        slots = set(range(start, start + need))
        assert not slots & taken
        assert need == 0 or start // length == (start + need - 1) // length
        taken |= slots


def test_rows_are_at_least_nine_tenths_full_on_lengths_as_they_come():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        lengths = (24 * torch.exp(0.7 * torch.randn(64, generator=generator))).round().clamp(6, 128).int().tolist()
        length = choose_length(lengths)
        rows = -(-max(s + n for s, n in zip(pack(lengths, length), lengths, strict=True)) // length)
        assert sum(lengths) / (rows * length) >= 0.9
    assert choose_length([128, 20]) <= 152  # two samples share one row


def test_whole_rows_need_no_mask():
    assert Packing([Stream(present([4, 4], 4))]).mask(same_document) is None
    assert Packing([Stream(present([4, 3], 4))]).mask(same_document) is not None
    split = torch.tensor([[0, 0, 1, 1]])
    assert Packing([Stream(present([4], 4), split)]).mask(same_document) is not None
