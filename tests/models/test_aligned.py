"""Rows of several streams: every sample has its place in one row of all, and little is left empty."""

from itertools import pairwise

import pytest
import torch

from interlingua.models.aligned import AlignedRows, align
from interlingua.models.packing import Stream

PICTURES = [36] * 32
TEXTS = torch.randint(8, 21, (32,), generator=torch.Generator().manual_seed(0)).tolist()
VARIED = torch.randint(10, 101, (32,), generator=torch.Generator().manual_seed(1)).tolist()


def check(counts):
    """No two samples share a slot, and a sample has one row."""
    lengths, rows, starts = align(counts)
    for own, length, start in zip(counts, lengths, starts, strict=True):
        taken = sorted((first, first + many) for first, many in zip(start, own, strict=True) if many)
        assert all(one[1] <= two[0] for one, two in pairwise(taken))
        assert all(
            first // length == (first + many - 1) // length < rows for first, many in zip(start, own, strict=True) if many
        )
    for sample in range(len(counts[0])):
        placed = zip(starts, lengths, counts, strict=True)
        assert len({start[sample] // length for start, length, own in placed if own[sample]}) <= 1
    return [sum(own) / (rows * length) for own, length in zip(counts, lengths, strict=True)], lengths


@pytest.mark.parametrize(
    ("counts", "filled"),
    [
        ([TEXTS, PICTURES], [0.9, 1.0]),
        ([TEXTS[:8], PICTURES[:8]], [0.85, 1.0]),
        ([TEXTS, VARIED], [0.8, 0.8]),
        ([TEXTS], [0.9]),
        ([PICTURES, PICTURES], [1.0, 1.0]),
        ([[5], [36]], [1.0, 1.0]),
    ],
)
def test_little_is_empty(counts, filled):
    found, lengths = check(counts)
    assert all(one >= least for one, least in zip(found, filled, strict=True)), found
    assert all(length <= 2 * max(own) for own, length in zip(counts, lengths, strict=True))


@pytest.mark.parametrize("counts", [[[], []], [[0, 0], [0, 0]], [[3, 0], [0, 2]], [[1, 30, 1, 1], [40, 0, 0, 1]]])
def test_absent_streams_and_samples(counts):
    check(counts)


def test_what_is_laid_comes_back():
    present = [torch.rand(6, 9, generator=torch.Generator().manual_seed(2)) < 0.6, torch.rand(6, 5) < 0.8]
    aligned = AlignedRows({"text": Stream(present[0]), "picture": Stream(present[1])})
    vectors = {"text": torch.randn(int(present[0].sum()), 4), "picture": torch.randn(int(present[1].sum()), 3)}
    back = aligned.give_back(aligned.place(vectors))
    for name, there in zip(("text", "picture"), present, strict=True):
        assert torch.equal(back[name][there], vectors[name])
        assert not back[name][~there].any()
    mask, some = aligned.mask("text", ["picture"])
    assert some is None or some.shape[1] == aligned.packings["text"].length
    sample = {name: packing.slots.sample for name, packing in aligned.packings.items()}
    same = sample["text"][:, :, None] == sample["picture"][:, None]
    there = (sample["text"] >= 0)[:, :, None] & same.any(2, keepdim=True)
    assert torch.equal(mask[:, 0] & there, same & there)  # a sample's own, and nothing of others
