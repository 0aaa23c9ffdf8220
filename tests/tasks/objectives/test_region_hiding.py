"""What is hidden of regions: how many, what is shown in their place, and what it depends on."""

import pytest
import torch
from region_pairs import pictures

from interlingua.modalities.batch import take
from interlingua.modalities.chance import salt
from interlingua.tasks.objectives.region_hiding import (
    PUBLISHED,
    RegionHiding,
    check_region_hiding,
    hide_regions,
    lend_regions,
)
from interlingua.tasks.objectives.rows import join_rows

KEY = salt("test")
MANY = [1 + row % 36 for row in range(900)]


def many():
    return pictures(MANY)


@pytest.mark.parametrize(
    ("name", "zero", "other", "keep"), [("vilbert", 0.9, 0.0, 0.1), ("lxmert", 0.8, 0.1, 0.1), ("uniter", 1.0, 0.0, 0.0)]
)
def test_fifteen_per_cent_with_the_published_shares(name, zero, other, keep):
    batch = many()
    regions = hide_regions(batch, KEY, PUBLISHED[name]).regions
    hidden, truth = regions.hidden, batch.regions.features
    assert not (hidden & ~regions.present).any()
    expected = 0.15
    if name == "uniter":  # and one of each picture in which no draw hides any
        assert hidden.any(1).all()
        expected += sum(0.85**count for count in MANY) / sum(MANY)
    else:
        assert not hidden.any(1).all()
    assert abs(hidden.sum() / regions.present.sum() - expected) < 0.01
    shown = regions.shown[hidden]
    zeros, same = (shown == 0).all(1), (shown == truth[hidden]).all(1)
    for found, share in ((zeros, zero), (same, keep), (~zeros & ~same, other)):
        assert abs(found.float().mean() - share) < 0.025
        assert found.any() == (share > 0)
    assert (regions.shown[~hidden] == truth[~hidden]).all()
    assert (regions.features == truth).all()


def test_the_one_that_is_hidden_at_least_is_any_of_them():
    batch = pictures([4] * 800)
    hidden = hide_regions(batch, KEY, RegionHiding(rate=0.0, least_one=True)).regions.hidden
    assert (hidden.sum(1) == 1).all()
    assert (hidden.sum(0) - 200).abs().max() < 45


def test_other_features_are_of_other_items_pictures_each_region_as_often():
    """Pitfall O06: the item decides."""
    hiding = RegionHiding(rate=1.0, other=1.0)
    few = pictures([2, 3, 1, 0], items=[7, 7, 9, 8])
    batch = take(few, torch.arange(4).repeat(600))._replace(epoch=torch.arange(600).repeat_interleave(4))
    marked = hide_regions(batch, KEY, hiding, lend_regions(few, hiding)).regions
    lent = few.regions.features[few.regions.present]  # of items 7, 7, 7, 7, 7, 9
    same = (marked.shown[:, :, None] == lent).all(3)  # [B, R, lent]
    rows = marked.present.nonzero()[:, 0] % 4
    found = same[marked.present]
    assert (found.sum(1) == 1).all()
    assert found[rows < 2][:, 5].all()
    counts = found[rows == 2].sum(0)
    assert counts[5] == 0
    assert (counts[:5] > 0).all()
    assert abs(counts[:2].sum() - 300) < 50  # a picture first, then a region of it
    assert abs(counts[0] - counts[1]) < 60


def test_without_another_picture_zeros_stand_there():
    hiding = RegionHiding(rate=1.0, other=1.0)
    for batch in (pictures([3]), pictures([3, 2], items=[4, 4]), pictures([3, 0])):
        marked = hide_regions(batch, KEY, hiding).regions
        assert (marked.shown == 0).all()
        assert marked.hidden.equal(marked.present)


@pytest.mark.parametrize("name", PUBLISHED)
def test_neither_order_nor_split_nor_padding_nor_mates_of_the_step_change_a_picture(name):
    hiding = RegionHiding(0.5, PUBLISHED[name].keep, 0.5 if PUBLISHED[name].other else 0.0, PUBLISHED[name].least_one)
    whole = pictures([5, 3, 6, 4, 0, 2])
    pool = lend_regions(whole, hiding)
    assert (pool is None) == (name != "lxmert")
    together = hide_regions(whole, KEY, hiding, pool).regions
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    shuffled = hide_regions(take(whole, order), KEY, hiding, None if pool is None else take(pool, order)).regions
    wide = pictures([5, 3, 6, 4, 0, 2], padded=9)
    parts = [take(wide, rows) for rows in torch.arange(6).split(2)]
    joined = None if pool is None else join_rows([lend_regions(part, hiding) for part in parts])
    split = [hide_regions(part, KEY, hiding, joined).regions for part in parts]
    assert together.hidden.any()
    for row in range(6):
        there = together.present[row]
        part, place = split[row // 2], row % 2
        for field in ("hidden", "shown"):
            own = getattr(together, field)[row][there]
            assert own.equal(getattr(part, field)[place][part.present[place]])
            assert getattr(together, field)[order[row]].equal(getattr(shuffled, field)[row])


def test_draws_depend_on_sample_epoch_source_and_key():
    batch, hiding = pictures([30, 30]), RegionHiding(0.5)
    hidden = hide_regions(batch, KEY, hiding).regions.hidden
    assert hide_regions(batch, KEY, hiding).regions.hidden.equal(hidden)
    assert (hidden[0] != hidden[1]).any()
    for other in (batch._replace(sample=batch.sample + 2), batch._replace(epoch=batch.epoch + 1), batch._replace(source="b")):
        assert (hide_regions(other, KEY, hiding).regions.hidden != hidden).any()
    assert (hide_regions(batch, KEY + 1, hiding).regions.hidden != hidden).any()


def test_a_hiding_that_is_there_is_kept():
    """All objectives over regions of one reading predict what the first one hid."""
    marked = hide_regions(pictures(), KEY, RegionHiding(0.5))
    assert hide_regions(marked, KEY + 1, RegionHiding(1.0)) is marked
    assert lend_regions(marked, RegionHiding(1.0, other=1.0)) is None


def test_neighbours_of_hidden_regions_are_zeros_and_not_scored():
    """Boxes 0 and 1 overlap by 0.5, 0 and 2 by 1/3, 3 by nothing; padding has no area."""
    boxes = torch.tensor([[0.0, 0, 0.4, 0.4], [0, 0, 0.4, 0.2], [0.2, 0, 0.6, 0.4], [0.7, 0.7, 0.9, 0.9], [0, 0, 0, 0]])
    one = pictures([4], padded=5)
    batch = one._replace(regions=one.regions._replace(boxes=boxes[None]))
    hiding = RegionHiding(rate=0.0, least_one=True, neighbours=0.4)
    for epoch in range(40):
        marked = hide_regions(batch._replace(epoch=batch.epoch + epoch), KEY, hiding).regions
        number = int(marked.hidden[0].nonzero())
        near = {0: [0, 1], 1: [0, 1], 2: [2], 3: [3]}[number]
        assert (marked.shown[0, :4] == 0).all(1).nonzero()[:, 0].tolist() == near
        assert (marked.shown[0][~torch.isin(torch.arange(5), torch.tensor(near))] != 0)[:3].any()
        loose = hide_regions(batch._replace(epoch=batch.epoch + epoch), KEY, RegionHiding(0.0, least_one=True)).regions
        assert (loose.shown[0, :4] == 0).all(1).nonzero()[:, 0].tolist() == [number]


def test_pictures_without_regions_have_nothing_hidden():
    """Pitfall R03: no region beside others, in all pictures, and no regions in the batch."""
    for name, hiding in PUBLISHED.items():
        marked = hide_regions(pictures([0, 5]), KEY, hiding).regions
        assert not marked.hidden[0].any(), name
        for padded in (0, 3):
            nothing = hide_regions(pictures([0, 0], padded=padded), KEY, hiding).regions
            assert nothing.hidden.shape == (2, padded)
            assert not nothing.hidden.any()
    texts = pictures()._replace(regions=None)
    assert hide_regions(texts, KEY, hiding) is texts
    assert hide_regions(take(pictures(), torch.arange(0)), KEY, hiding).regions.hidden.shape == (0, 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 1.2}, "rate is 1.2"),
        ({"keep": 0.6, "other": 0.6}, r"keep \+ other is 1.2"),
        ({"neighbours": -1.0}, "neighbours"),
    ],
)
def test_refuses_shares_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        RegionHiding(**options)


def test_refuses_a_name_that_nobody_published():
    assert check_region_hiding("uniter", "who") == RegionHiding(least_one=True)
    with pytest.raises(ValueError, match="who: hiding is 'bert', expected one of vilbert, lxmert, uniter"):
        check_region_hiding("bert", "who")
