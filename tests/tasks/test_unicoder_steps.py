"""A step of both of Unicoder's pair objectives is the same however it is split over micro-batches and ranks."""

import streams
import tiny
import training
from ranks import run_on_ranks

from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.paraphrase import Paraphrase
from interlingua.tasks.objectives.word_recovery import WordRecovery
from interlingua.tasks.ranks import world

BOTH, HALF = [9, 0, 4, 20, 5, 3, 0, 6], [9, 0, 4, 20, 0, 2, 0, 2]


def one_step(rank, ranks, micro, lengths=BOTH, texts=None):
    """Eight pairs, some without translation."""
    clpc = Paraphrase("mined", pair="xlm-roberta", orders="drawn")
    objectives = {"clwr": WordRecovery(orders="drawn"), "clpc": clpc, "mlm": MaskedLanguage(rate=0.3)}
    model = training.module(objectives=objectives, passes={"names": [["clwr"], ["clpc", "mlm"]]})

    def change(batch):
        text = batch.text if texts is None else tiny.text(texts, 20, seed=8)
        return batch._replace(text=text, translation=tiny.text(lengths, 20, seed=9, language=1))

    steps = training.Steps(1, rank, ranks, micro, sources=("names",), change=change)
    return streams.one_step(model, steps[0])


def on_ranks():
    """The same step in two micro-batches a rank, and one of which the second rank has nothing to score (pitfall O03 d)."""
    return one_step(*world(), 2), one_step(*world(), 1, HALF, HALF)


def test_one_by_eight_is_two_by_four_is_four_by_two():
    whole, half = one_step(0, 1, 1), one_step(0, 1, 1, HALF, HALF)
    assert whole[1] == {"clwr": whole[1]["clwr"], "clpc": 6, "mlm": whole[1]["mlm"]}
    assert whole[1]["clwr"] > 20
    assert half[1]["clpc"] == 3
    streams.assert_equal_steps(whole, one_step(0, 1, 2))
    streams.assert_equal_steps(whole, one_step(0, 1, 4))
    for found in run_on_ranks(on_ranks, 2):
        streams.assert_equal_steps(whole, found[0])
        streams.assert_equal_steps(half, found[1])
