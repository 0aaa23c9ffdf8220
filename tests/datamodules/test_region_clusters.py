"""Clusters of features: known groups are found, alike for a seed, and kept in a file."""

import numpy as np
import pytest
import torch

from interlingua.datamodules.regions.clusters import learn_clusters, read_clusters, write_clusters


def test_clusters_of_known_groups(tmp_path):
    """Four groups far apart are found whatever the seed; the same seed gives the same bytes."""
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(400) % 4
    features = torch.randn(400, 5, generator=generator) + 30 * torch.nn.functional.one_hot(group, 5)
    for seed in range(5):
        clusters = learn_clusters(features, 4, seed, {"maker": "x"})
        label = torch.from_numpy(clusters.classify(features.numpy())).argmax(1)
        assert len({(int(one), int(other)) for one, other in zip(group, label, strict=True)}) == 4
        assert torch.equal(learn_clusters(features, 4, seed, {}).centres, clusters.centres)
    write_clusters(clusters, tmp_path / "c.npz")
    back = read_clusters(tmp_path / "c.npz")
    assert torch.equal(back.centres, clusters.centres)
    assert (back.gap, back.about) == (clusters.gap, {"maker": "x"})
    probabilities = clusters.classify(1000 * features.numpy())
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
    with pytest.raises(ValueError, match="features of 3 numbers, and clusters of 5"):
        clusters.classify(np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="--clusters is 3, and there are 2 different features"):
        learn_clusters(torch.eye(2).repeat(10, 1), 3, 0, {})
