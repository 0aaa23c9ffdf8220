import time

import pytest
import torch
import torch.nn.functional as F
from ranks import run_on_ranks
from torch import nn

from interlingua.modalities.batch import Batch, Image, Regions, Text, number_positions
from interlingua.tasks.optimization import Optimization, clip_gradients
from interlingua.tasks.ranks import gather_batch, gather_rows, sum_gradients, sum_over_ranks, world

SPLITS = {"even": (4, 4), "uneven": (5, 3), "one empty": (8, 0), "first empty": (0, 8)}


def pairs():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 8, 5, generator=generator)


def contrast(own, every, start):
    """Symmetric InfoNCE, summed over own rows against all rows."""
    target = torch.arange(start, start + len(own[0]))
    total = torch.zeros(())
    for mine, theirs in ((own[0], every[1]), (own[1], every[0])):
        total = total + F.cross_entropy(mine @ theirs.T, target, reduction="sum")
    return total / 8


def gradient(rows, gather):
    """Gradient of a shared linear encoder after a contrast of this rank's pairs against all."""
    encoder = nn.Linear(5, 3)
    with torch.no_grad():
        encoder.weight.copy_(torch.linspace(-1, 1, 15).view(3, 5))
        encoder.bias.copy_(torch.tensor([0.1, 0.2, 0.3]))
    own = [encoder(side) for side in rows]
    every, start = gather(torch.cat(own, dim=1))
    loss = contrast(own, every.split(3, dim=1), start)
    loss.backward()
    sum_gradients(encoder.parameters())
    return torch.cat([parameter.grad.flatten() for parameter in encoder.parameters()]), sum_over_ranks(loss)


def without_gradient(rows):
    every, start = gather_rows(rows)
    return every.detach(), start


def counted_twice(rows):
    """Every rank scores all rows: what a gather with gradient gives when no rank keeps to its own."""
    every, start = gather_rows(rows)
    return every + (every - every.detach()), start


def share(rows, counts):
    rank = world()[0]
    start = sum(counts[:rank])
    return rows[..., start : start + counts[rank], :]


def text(lengths, fill):
    present = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    ids = torch.where(present, fill, 0)
    word = torch.where(present, 0, -1)
    return Text(ids, present, ids, word, ids * 0, ids * 0, number_positions(present))


def batch(rank, source="captions"):
    """Rank 0 has 3 short texts, rank 1 has 2 longer ones and more regions."""
    lengths = [[2, 1, 3], [5, 4]][rank]
    size = len(lengths)
    number = torch.arange(size) + 10 * rank
    present = torch.ones(size, 2 + rank, dtype=torch.bool)
    features, label = torch.full((size, 2 + rank, 3), rank + 0.5, requires_grad=True), present.long()
    regions = Regions(features, torch.ones(size, 2 + rank, 4), present, label=label, confidence=present / 2, attribute=label)
    pixels = torch.full((size, 3, 2, 2), rank + 7, dtype=torch.uint8)
    return Batch(
        source,
        number,
        number,
        number * 0,
        text(lengths, rank + 1),
        image=Image(pixels, torch.ones(size, dtype=torch.bool)),
        regions=regions,
        alignment=torch.full((size, 1 + rank, 2), rank),
    )


def raised(function, *arguments):
    try:
        function(*arguments)
    except ValueError as error:
        return str(error)
    return None


def train(presence):
    """Two steps of three parameters; `presence[rank]` says which have a gradient there."""
    module = nn.ParameterList([torch.ones(2, 3), torch.ones(3, 2), torch.ones(4, dtype=torch.float64)])
    (optimizer,), _ = Optimization(0.1, schedule="constant", weight_decay=0.5).configure(module)
    for _ in range(2):
        for parameter, has in zip(module, presence[world()[0]], strict=True):
            parameter.grad = torch.full_like(parameter, world()[0] + 1.0) if has else None
        sum_gradients(module.parameters(), bucket_bytes=32)
        gradients = [None if parameter.grad is None else parameter.grad.clone() for parameter in module]
        clip_gradients(module.named_parameters(), None)
        optimizer.step()
    return gradients, [parameter.detach() for parameter in module]


def all_checks():
    """Everything that needs two ranks, in one session."""
    rank, size = world()
    found = {"world": (rank, size)}
    found["sum"] = sum_over_ranks(torch.tensor([rank + 1.0, 2.0], requires_grad=True))
    found["bools"] = sum_over_ranks(torch.tensor([rank == 0, True]))
    for name, counts in SPLITS.items():
        found[name] = gradient(share(pairs(), counts), gather_rows)
    found["without gradient"] = gradient(share(pairs(), (4, 4)), without_gradient)
    found["counted twice"] = gradient(share(pairs(), (4, 4)), counted_twice)

    rows = torch.arange(6).view(3, 2)[: 1 + 2 * rank]
    for dtype in (torch.uint8, torch.bool, torch.int64, torch.bfloat16, torch.float32):
        found[dtype] = gather_rows(rows.to(dtype))
    # A rank that has nothing knows neither width nor dtype nor that there is gradient.
    mine = torch.ones(2, 3, dtype=torch.float64, requires_grad=True) if rank else torch.empty(0)
    every, start = gather_rows(mine)
    (every * torch.arange(6.0).view(2, 3)).sum().backward()
    found["learnt"] = every.detach(), start, mine.grad
    found["all empty"] = gather_rows(torch.empty(0, 3))
    found["nothing to differentiate"] = gather_rows(torch.ones(1, 2))[0].requires_grad
    found["widths"] = raised(gather_rows, torch.ones(1, 2 + rank))
    found["gradients differ"] = raised(gather_rows, torch.ones(1, 2, requires_grad=rank == 0))

    found["batch"] = gather_batch(batch(rank))
    found["no image"] = raised(gather_batch, batch(rank)._replace(image=None) if rank else batch(rank))
    found["sources"] = raised(gather_batch, batch(rank, source=f"source{rank}"))
    large = batch(rank)
    large = large._replace(image=large.image._replace(pixels=torch.zeros(large.size, 3, 2 + rank, 2, dtype=torch.uint8)))
    found["sizes"] = raised(gather_batch, large)

    found["everywhere"] = train([(True, True, True), (True, True, True)])
    found["somewhere"] = train([(True, False, True), (True, False, False)])
    return found


@pytest.fixture(scope="module")
def two():
    return run_on_ranks(all_checks, 2)


@pytest.mark.parametrize("split", SPLITS)
def test_a_contrast_over_ranks_is_exact_however_the_rows_are_split(two, split):
    expected, loss = gradient(pairs(), gather_rows)
    for found in two:
        torch.testing.assert_close(found[split][0], expected, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(found[split][1], loss, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("wrong", ["without gradient", "counted twice"])
def test_the_check_tells_a_wrong_gather_from_a_right_one(two, wrong):
    expected, loss = gradient(pairs(), gather_rows)
    for found in two:
        torch.testing.assert_close(found[wrong][1], loss, rtol=1e-6, atol=1e-6)
        assert (found[wrong][0] - expected).norm() > 0.05 * expected.norm()


def test_sums(two):
    for rank, found in enumerate(two):
        assert found["world"] == (rank, 2)
        assert found["sum"].tolist() == [3, 4]
        assert not found["sum"].requires_grad
        assert found["bools"].tolist() == [1, 2]


def test_rows_of_any_type_are_gathered(two):
    rows = torch.arange(6).view(3, 2)
    for dtype in (torch.uint8, torch.bool, torch.int64, torch.bfloat16, torch.float32):
        expected = torch.cat([rows[:1], rows]).to(dtype)
        for rank, found in enumerate(two):
            every, start = found[dtype]
            assert every.dtype == dtype
            assert torch.equal(every, expected)
            assert start == rank


def test_a_rank_without_rows_learns_from_the_others(two):
    for rank, found in enumerate(two):
        every, start, received = found["learnt"]
        assert (every.dtype, every.shape, start) == (torch.float64, (2, 3), 0)
        assert received is None if rank == 0 else torch.equal(received, 2 * torch.arange(6.0).view(2, 3).double())
        assert found["all empty"][0].shape == (0, 3)
        assert not found["nothing to differentiate"]


def test_ranks_that_disagree_all_say_so(two):
    for found in two:
        assert "width" in found["widths"]
        assert "gradient" in found["gradients differ"]
        assert "`image" in found["no image"]
        assert "missing" in found["no image"] or "None" in found["no image"]
        assert "`source`" in found["sources"]
        assert "source1" in found["sources"]
        assert "`image.pixels`" in found["sizes"]


def test_a_batch_is_gathered_and_padded(two):
    for rank, found in enumerate(two):
        every, start = found["batch"]
        assert start == 3 * rank
        assert every.source == "captions"
        assert every.item.tolist() == [0, 1, 2, 10, 11]
        assert every.text.present.sum(1).tolist() == [2, 1, 3, 5, 4]
        assert every.text.tokens.tolist()[0] == [1, 1, 0, 0, 0]
        assert every.text.word.tolist()[2] == [0, 0, 0, -1, -1]
        assert every.text.position.tolist()[3] == [0, 1, 2, 3, 4]
        assert every.text.shown is None
        assert every.translation is None
        assert every.image.pixels.dtype == torch.uint8
        assert every.image.pixels[:, 0, 0, 0].tolist() == [7, 7, 7, 8, 8]
        assert every.regions.present.tolist() == [[True, True, False]] * 3 + [[True] * 3] * 2
        assert every.regions.features[2].tolist() == [[0.5] * 3, [0.5] * 3, [0.0] * 3]
        assert not every.regions.features.requires_grad
        assert every.regions.label.tolist() == every.regions.attribute.tolist() == [[1, 1, -1]] * 3 + [[1, 1, 1]] * 2
        assert every.regions.confidence.tolist()[0] == [0.5, 0.5, 0.0]
        assert every.regions.classes is None
        assert every.alignment.tolist()[0] == [[0, 0], [-1, -1]]
        assert every.alignment.tolist()[4] == [[1, 1], [1, 1]]


def test_gradients_are_summed_and_none_stays_none(two):
    for found in two:
        gradients, _ = found["everywhere"]
        assert [one.unique().tolist() for one in gradients] == [[3.0]] * 3
        gradients, parameters = found["somewhere"]
        assert gradients[1] is None
        assert torch.equal(parameters[1], torch.ones(3, 2)), "neither decay nor momentum moves it"
        assert [one.unique().tolist() for one in (gradients[0], gradients[2])] == [[3.0], [1.0]]
        assert (parameters[0] < 0.9).all()
    for name in ("everywhere", "somewhere"):
        for one, other in zip(two[0][name][1], two[1][name][1], strict=True):
            assert torch.equal(one, other)


def test_without_a_group_everything_is_the_identity():
    assert world() == (0, 1)
    rows = torch.ones(2, 3, requires_grad=True)
    assert gather_rows(rows) == (rows, 0)
    here = batch(0)
    assert gather_batch(here) == (here, 0)
    assert sum_over_ranks(rows).tolist() == rows.tolist()
    assert sum_over_ranks(torch.tensor([True])).dtype == torch.int64
    parameter = nn.Parameter(torch.ones(2))
    sum_gradients([parameter])
    assert parameter.grad is None


def one_raises():
    if world()[0] == 1:
        raise KeyError("lost")
    sum_over_ranks(torch.ones(1))


def hangs():
    time.sleep(100)


def test_a_rank_that_raises_fails_the_session():
    with pytest.raises(AssertionError, match=r"failed on 2 of 2 ranks(.|\n)*rank 1: Traceback(.|\n)*KeyError: 'lost'"):
        run_on_ranks(one_raises, 2)


def test_a_rank_that_hangs_is_ended_and_says_where():
    began = time.monotonic()
    with pytest.raises(AssertionError, match=r"rank 0: gave no result in time(.|\n)*in hangs"):
        run_on_ranks(hangs, 1, limit=1.0)
    assert time.monotonic() - began < 90
