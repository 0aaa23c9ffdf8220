"""Retrieval ranks: ties, groups of equal captions, broken vectors (pitfalls M01, M02)."""

from itertools import permutations

import pytest
import torch

from interlingua.tasks.ranking import Ranks, expected_rank, guess, normalize, rank, recall, relate


def one_of(queries: int) -> torch.Tensor:
    return torch.arange(queries)[:, None].expand(-1, 2)


def captions_of(pictures: int, each: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Owners of `each` captions a picture, and the pairs (caption, picture)."""
    owner = torch.arange(pictures).repeat_interleave(each)
    return owner, relate(torch.arange(pictures * each), owner, torch.arange(pictures))


def test_five_captions_a_picture():
    """Pitfall M01: any own caption counts, directions are not swapped, pictures are not repeated."""
    _, pairs = captions_of(2, 5)
    pictures = torch.eye(2)
    texts = torch.tensor([[0.9, 0.1]] * 5 + [[0.1, 0.6]] * 2 + [[0.6, 0.1]] * 3)  # captions 0-6 find their picture
    texts[0] = torch.tensor([0.99, 0.7])  # picture 1 ranks a caption of picture 0 first and an own one second
    to_picture, to_text = rank(texts, pictures, pairs), rank(pictures, texts, pairs.flip(1))
    assert recall(to_picture, 1).mean().item() == pytest.approx(0.7)
    assert [recall(to_text, k).mean().item() for k in (1, 2)] == [0.5, 1.0]
    assert (len(to_picture.better), to_picture.gallery, len(to_text.better), to_text.gallery) == (10, 2, 2, 10)


@pytest.mark.parametrize("type", [torch.float32, torch.bfloat16])
def test_collapsed_model_scores_chance(type):
    """Pitfall M02: 10 pictures, 50 captions, all vectors equal."""
    _, pairs = captions_of(10, 5)
    pictures, texts = torch.randn(1, 64).expand(10, -1).to(type), torch.randn(1, 64).expand(50, -1).to(type)
    assert recall(rank(texts, pictures, pairs), 1).tolist() == pytest.approx([0.1] * 50)
    assert recall(rank(pictures, texts, pairs.flip(1)), 1).tolist() == pytest.approx([0.1] * 10)
    assert expected_rank(rank(texts, pictures, pairs)).tolist() == pytest.approx([5.5] * 50)


def test_gallery_order_does_not_matter():
    """Pitfall M02."""
    torch.manual_seed(0)
    queries, gallery = torch.randn(40, 33), torch.randn(30, 33)[torch.randint(30, (301,))]
    pairs = torch.stack([torch.arange(40).repeat(3), torch.randperm(301)[:120]], dim=1)
    order = torch.randperm(301)
    shuffled = torch.stack([pairs[:, 0], order.argsort()[pairs[:, 1]]], dim=1)
    for one, other in zip(rank(queries, gallery, pairs)[:3], rank(queries, gallery[order], shuffled)[:3], strict=True):
        assert torch.equal(one, other)


def test_ties_are_expectations_over_all_orders():
    """Brute force: every order of a gallery with two better, three tied and two right entries."""
    scores = torch.tensor([3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    right = {2, 5}
    pairs = torch.tensor([[0, entry] for entry in right])
    ranks = rank(torch.ones(1, 1), scores[:, None], pairs)
    assert ranks[:3] == (torch.tensor([2]), torch.tensor([3]), torch.tensor([2]))
    firsts = [2 + min(order.index(entry) for entry in right) + 1 for order in permutations(range(2, 7))]
    assert expected_rank(ranks).item() == pytest.approx(sum(firsts) / len(firsts))
    for k in range(1, 9):
        assert recall(ranks, k).item() == pytest.approx(sum(first <= k for first in firsts) / len(firsts))


@pytest.mark.parametrize("relevant", [1, 3])
def test_chance_in_closed_form(relevant):
    pairs = torch.stack([torch.zeros(relevant, dtype=torch.int64), torch.arange(relevant)], dim=1)
    by_chance = guess(pairs, queries=1, gallery=382)
    missed = 1.0
    for place in range(10):
        missed *= (382 - relevant - place) / (382 - place)
    assert recall(by_chance, 10).item() == pytest.approx(1 - missed)
    assert expected_rank(by_chance).item() == pytest.approx(383 / (relevant + 1))
    everything = rank(torch.ones(1, 4), torch.ones(382, 4), pairs)
    assert recall(everything, 10).item() == pytest.approx(1 - missed)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("rows", [[3], list(range(10))])
def test_broken_vectors_are_an_error(value, rows):
    """Pitfall M02: one broken row, or all."""
    vectors = torch.randn(10, 4)
    vectors[rows] = value
    for queries, gallery, name in ((vectors, torch.randn(10, 4), "query"), (torch.randn(10, 4), vectors, "gallery")):
        with pytest.raises(ValueError, match=f"{len(rows)} of 10 {name} vectors are not finite .rows {rows[0]}"):
            rank(queries, gallery, one_of(10))


def test_unfit_questions_are_errors():
    with pytest.raises(ValueError, match=r"1 of 3 queries have no relevant gallery entry .rows 2"):
        rank(torch.eye(3), torch.eye(3), one_of(3)[:2])
    with pytest.raises(ValueError, match="once"):
        rank(torch.eye(3), torch.eye(3), torch.cat([one_of(3), one_of(3)]))
    with pytest.raises(ValueError, match="within 3 queries and 2 entries"):
        rank(torch.eye(3), torch.eye(3)[:2], one_of(3))
    with pytest.raises(ValueError, match="nothing to rank"):
        rank(torch.eye(3)[:0], torch.eye(3), one_of(0))
    with pytest.raises(ValueError, match="overflow"):
        rank(torch.full((3, 3), 1e30), torch.full((3, 3), 1e30), one_of(3))


def test_tiles_equal_the_whole(monkeypatch):
    torch.manual_seed(1)
    queries, gallery = torch.randn(50, 16), torch.randn(70, 16)
    whole = rank(queries, gallery, one_of(50))
    for rows in (1, 7, 49):
        monkeypatch.setattr("interlingua.tasks.ranking.TILE_ROWS", rows)
        assert all(torch.equal(a, b) for a, b in zip(whole[:3], rank(queries, gallery, one_of(50))[:3], strict=True))


def test_compared_in_full_float32_whatever_the_run_has_chosen():
    """Two entries that bfloat16 cannot tell apart; the run's own setting is given back."""
    queries, gallery = torch.tensor([[1.0, 0.001]]).repeat(64, 64), torch.tensor([[1.0, 0.0], [1.0, 1e-3]]).repeat(1, 64)
    pairs = torch.stack([torch.arange(64), torch.ones(64, dtype=torch.int64)], dim=1)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert recall(rank(queries, gallery, pairs), 1).eq(1).all()
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_equal_captions_are_all_right():
    """Three pictures of flowers and one of a tree: "a flower" finds any flower, each flower finds any "a flower"."""
    says = torch.tensor([5, 5, 5, 9, 8])  # a flower, a flower, a flower, a tree, a rose
    owner = torch.tensor([10, 11, 12, 13, 10])
    items = torch.tensor([12, 10, 13, 11])
    pairs = relate(says, owner, items)
    assert sorted(map(tuple, pairs.tolist())) == sorted(
        [(text, picture) for text in (0, 1, 2) for picture in (0, 1, 3)] + [(3, 2), (4, 1)]
    )
    flower, tree = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    texts = torch.stack([flower, flower, flower, tree, flower])
    pictures = torch.stack([flower, flower, tree, flower])
    assert recall(rank(texts, pictures, pairs), 1).tolist() == pytest.approx([1, 1, 1, 1, 1 / 3])
    # Picture 1 (item 10) bears all four flower captions; the other two bear three of the four that tie.
    assert recall(rank(pictures, texts, pairs.flip(1)), 1).tolist() == pytest.approx([3 / 4, 1, 1, 3 / 4])


def test_two_pictures_of_one_item_are_both_right():
    assert relate(torch.tensor([1]), torch.tensor([7]), torch.tensor([7, 8, 7])).tolist() == [[0, 0], [0, 2]]
    assert relate(torch.tensor([1]), torch.tensor([7]), torch.tensor([8])).shape == (0, 2)


def test_agrees_with_torchmetrics_where_nothing_ties():
    from torchmetrics.functional.retrieval import retrieval_hit_rate

    torch.manual_seed(2)
    queries, gallery = normalize(torch.randn(30, 8)), normalize(torch.randn(60, 8))
    pairs = torch.stack([torch.arange(60) // 2, torch.arange(60)], dim=1)
    target = torch.zeros(30, 60, dtype=torch.bool)
    target[pairs[:, 0], pairs[:, 1]] = True
    ranks = rank(queries, gallery, pairs)
    for k in (1, 5, 10):
        theirs = [retrieval_hit_rate(row, right, top_k=k) for row, right in zip(queries @ gallery.T, target, strict=True)]
        assert recall(ranks, k).tolist() == pytest.approx([float(hit) for hit in theirs])


def test_rows_of_zeros_tie_with_all():
    ranks = rank(normalize(torch.zeros(1, 4)), normalize(torch.randn(10, 4)), torch.tensor([[0, 4]]))
    assert recall(ranks, 1).item() == pytest.approx(0.1)


def test_recall_beyond_the_gallery_is_one():
    ranks = Ranks(torch.tensor([0, 2]), torch.tensor([2, 0]), torch.tensor([1, 1]), 3)
    assert recall(ranks, 10).tolist() == [1.0, 1.0]
