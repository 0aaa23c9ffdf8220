"""Bootstrap intervals: they cover, they know about clusters, they repeat."""

import pytest
import torch

from interlingua.tasks.bootstrap import draw, interval, means, median, medians


def test_interval_of_a_share_is_that_of_theory():
    values = (torch.arange(382) < 84).double()[:, None]  # 0.22 of 382
    low, high = interval(means(values, torch.arange(382), draw(382))[:, 0])
    error = 1.96 * (0.22 * 0.78 / 382) ** 0.5
    assert low == pytest.approx(0.22 - error, abs=0.006)
    assert high == pytest.approx(0.22 + error, abs=0.006)


def test_intervals_cover_the_truth():
    """Of 100 samples of 200 from a known distribution, about 95 intervals hold its mean, and its median."""
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(100, 200, generator=generator) ** 2
    draws, rows = draw(200, times=400), torch.arange(200)
    covered = [low <= 1 / 3 <= high for low, high in map(interval, means(values.T, rows, draws).T)]
    assert 88 <= sum(covered) <= 100
    covered = [low <= 0.25 <= high for low, high in (interval(medians(row, rows, draws)) for row in values[:40])]
    assert 34 <= sum(covered) <= 40


def test_clusters_widen_the_interval():
    """Five equal texts an item are one observation, not five."""
    values = (torch.arange(100) % 3 == 0).double()
    one = interval(means(values[:, None], torch.arange(100), draw(100))[:, 0])
    five = interval(means(values.repeat_interleave(5)[:, None], torch.arange(100).repeat_interleave(5), draw(100))[:, 0])
    assert five == pytest.approx(one)


def test_medians_are_those_of_the_resampled_values():
    values, cluster = torch.tensor([4.0, 1.0, 9.0, 2.5, 7.0]), torch.tensor([0, 1, 1, 2, 3])
    draws = draw(4, times=50)
    for row, found in zip(draws, medians(values, cluster, draws).tolist(), strict=True):
        assert found == pytest.approx(median(values.repeat_interleave(row[cluster].long())))


def test_same_draws_every_time():
    first = draw(30, times=10).clone()
    draw.cache_clear()
    assert torch.equal(first, draw(30, times=10))
    assert first.sum(1).eq(30).all()
    assert not torch.equal(first, draw(30, times=10, seed=1))


def test_items_without_a_query_do_not_break_the_interval():
    """A language may name few of the items: a resample without any of them says nothing and is left out."""
    replicates = means(torch.tensor([[1.0], [0.0]]), torch.tensor([0, 1]), draw(5))
    assert replicates.isnan().any()
    assert interval(replicates[:, 0]) == (0.0, 1.0)
