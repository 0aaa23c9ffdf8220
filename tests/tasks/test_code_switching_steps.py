"""A step of code switching is the same however it is split over micro-batches and ranks, and whatever it is aligned by."""

import pytest
import streams
import torch
import training
from code_switched import pairs
from ranks import run_on_ranks

from interlingua.modalities.batch import Step, take
from interlingua.tasks.objectives.code_switching import CodeSwitching
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.ranks import world

BOTH, HALF = (11, 2, 9, 20, 5, 3, 2, 16), (11, 2, 9, 20, 2, 2, 2, 2)


def one_step(rank, ranks, micro, mode="given", lengths=BOTH):
    """Eight pairs, some without translation, beside masked language modelling of the same source."""
    objectives = {"alm": CodeSwitching(mode, rate=0.4, share=0.6), "mlm": MaskedLanguage(rate=0.3)}
    model = training.module(objectives=objectives, passes={"names": [["alm"], ["mlm"]]})
    whole, size = pairs(lengths, lengths[::-1] if lengths == BOTH else lengths, source="names"), 8 // ranks // micro
    starts = range(rank * 8 // ranks, (rank + 1) * 8 // ranks, size)
    return streams.one_step(model, Step(0, tuple(take(whole, torch.arange(start, start + size)) for start in starts)))


def on_ranks():
    """The same step in two micro-batches a rank, and one of which the second rank has nothing to score (pitfall O03 d)."""
    return [(one_step(*world(), 2, mode), one_step(*world(), 1, mode, HALF)) for mode in ("given", "self")]


def test_one_by_eight_is_two_by_four_is_four_by_two():
    steps = [(one_step(0, 1, 1, mode), one_step(0, 1, 1, mode, HALF)) for mode in ("given", "self")]
    for mode, (whole, half) in zip(("given", "self"), steps, strict=True):
        assert whole[1]["alm"] > 10
        assert half[1]["alm"] > 0
        streams.assert_equal_steps(whole, one_step(0, 1, 2, mode))
        streams.assert_equal_steps(whole, one_step(0, 1, 4, mode))
    for rank in run_on_ranks(on_ranks, 2):
        for found, wanted in zip(rank, steps, strict=True):
            streams.assert_equal_steps(wanted[0], found[0])
            streams.assert_equal_steps(wanted[1], found[1])


def test_it_needs_a_pass_for_itself():
    with pytest.raises(ValueError, match="alm reads in a way of its own and needs a group for itself"):
        training.module(objectives={"alm": CodeSwitching(), "mlm": MaskedLanguage()}, passes={"names": [["alm", "mlm"]]})
