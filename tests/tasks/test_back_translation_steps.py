"""A step across halves and of made-up translations is the same however it is split over micro-batches and ranks."""

import streams
import tiny
import training
from ranks import run_on_ranks

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.back_translation_language import BackTranslationLanguage
from interlingua.tasks.objectives.cross_attention_language import CrossAttentionLanguage
from interlingua.tasks.ranks import world


def one_step(rank, ranks, micro):
    """Eight pairs across their halves, eight texts with what the encoder makes up, some of them absent, by one head."""
    objectives = {
        "camlm": CrossAttentionLanguage(rate=0.4, orders="drawn"),
        "btmlm": BackTranslationLanguage(ratio=0.6, rate=0.4),
        "sampled": BackTranslationLanguage(temperature=1.0, rate=0.4),
    }
    model = training.module(objectives=objectives, passes={"names": [["camlm"]], "captions": [["btmlm"], ["sampled"]]})
    assert len({id(objective.head) for objective in objectives.values()}) == 1
    pairs, single = [9, 0, 4, 20, 5, 3, 0, 6], [7, 3, 0, 5, 9, 2, 20, 6]

    def change(batch):
        rows = batch.sample % 8
        if batch.source == "names":
            return batch._replace(translation=take(tiny.text(pairs, 20, seed=9, language=1), rows))
        return batch._replace(text=take(tiny.text(single, 20, seed=8), rows), image=None)

    steps = training.Steps(1, rank, ranks, micro, change=change)
    return streams.one_step(model, steps[0])


def on_ranks():
    return one_step(*world(), 2)


def test_one_by_eight_is_two_by_four_is_four_by_two():
    whole = one_step(0, 1, 1)
    assert min(whole[1].values()) > 8
    streams.assert_equal_steps(whole, one_step(0, 1, 2))
    streams.assert_equal_steps(whole, one_step(0, 1, 4))
    for found in run_on_ranks(on_ranks, 2):
        streams.assert_equal_steps(whole, found)
