"""Image-text matching by replaced pictures, as pixels or regions, and masked language modelling of the pairs that belong."""

import pytest
import tiny
import torch
from costs import gradients, score
from region_pairs import connected, pictures

from interlingua.modalities.batch import take
from interlingua.tasks.objectives.image_text_matching import ImageTextMatching, Replaced
from interlingua.tasks.objectives.masked_language import MaskedLanguage
from interlingua.tasks.objectives.masked_region_features import MaskedRegionFeatures
from interlingua.tasks.objectives.ranges import check_choice
from interlingua.tasks.objectives.region_hiding import Published
from interlingua.tasks.objectives.rows import join_rows

COUNTS = (5, 3, 6, 4, 2, 7)


def matching(encoder=None, **options):
    return connected(ImageTextMatching(**options), encoder)


def features(batch, row):
    return batch.regions.features[row][batch.regions.present[row]]


def owner(batch, feature) -> int:
    """Whose regions these are."""
    return next(
        row
        for row in range(batch.size)
        if features(batch, row).shape == feature.shape and (features(batch, row) == feature).all()
    )


def text(batch, row):
    return batch.text.tokens[row][batch.text.present[row]].tolist()


def test_half_of_the_pictures_are_other_items():
    _, objective = matching(replaced="picture")
    few = pictures(COUNTS, items=[1, 1, 2, 3, 4, 5])
    batch = take(few, torch.arange(6).repeat(60))._replace(epoch=torch.arange(60).repeat_interleave(6))
    marked = objective.mark(batch, objective.lend(few))
    assert abs((~marked.matched).float().mean() - 0.5) < 0.08
    assert marked.text is batch.text
    for row in range(batch.size):
        whose = few.item[owner(few, features(marked, row))]
        assert (whose == batch.item[row]).item() == marked.matched[row].item()
        for name in ("boxes", "label", "confidence"):
            own = getattr(marked.regions, name)[row][marked.regions.present[row]]
            source = owner(few, features(marked, row))
            assert own.equal(getattr(few.regions, name)[source][few.regions.present[source]])


def test_pixels_are_replaced_as_well():
    _, objective = matching(tiny.single_stream(), rate=1.0, replaced="picture")
    batch = tiny.batch([7, 5, 9], [7, 7, 9], image=tiny.image(3))
    marked = objective.mark(batch)
    assert not marked.matched.any()
    assert marked.image.pixels[0].equal(batch.image.pixels[2])
    assert marked.image.pixels[1].equal(batch.image.pixels[2])
    assert marked.image.present.all()
    assert marked.text.tokens.equal(batch.text.tokens)


def test_either_is_replaced_and_never_both():
    """ViLBERT's: text or picture, each as often."""
    _, objective = matching(rate=1.0, replaced="either")
    few = pictures(COUNTS)
    batch = take(few, torch.arange(6).repeat(60))._replace(epoch=torch.arange(60).repeat_interleave(6))
    marked = objective.mark(batch, objective.lend(few))
    assert not marked.matched.any()
    texts = torch.tensor([text(marked, row) != text(batch, row) for row in range(batch.size)])
    regions = torch.tensor([owner(few, features(marked, row)) != row % 6 for row in range(batch.size)])
    assert (texts ^ regions).all()
    assert abs(texts.float().mean() - 0.5) < 0.08


def test_a_picture_whose_text_reads_the_same_is_no_negative():
    _, objective = matching(rate=1.0, replaced="picture")
    batch = pictures([5, 3, 6], [5, 5, 7], items=[1, 2, 1])
    marked = objective.mark(batch._replace(text=take(batch.text, torch.tensor([0, 0, 2]))))
    assert marked.matched.tolist() == [True, False, False]
    assert owner(batch, features(marked, 1)) == 2


def test_pictures_in_which_nothing_was_found_are_not_lent(caplog):
    """Pitfalls R03 and O07."""
    encoder, objective = matching(rate=1.0, replaced="picture")
    marked = objective.mark(pictures([4, 0, 0]))
    assert marked.matched.all()
    assert score(encoder, objective, marked).count == objective.count(marked) == 1
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("replaced", ["picture", "either"])
def test_the_choice_depends_on_neither_order_nor_split_nor_padding(replaced):
    _, objective = matching(replaced=replaced)
    whole, wide = pictures(COUNTS), pictures(COUNTS, padded=9)
    together = objective.mark(whole, objective.lend(whole))
    assert 0 < (~together.matched).sum() < 6
    parts = [take(wide, rows) for rows in torch.arange(6).split(2)]
    joined = join_rows([objective.lend(part) for part in parts])
    split = [objective.mark(part, joined) for part in parts]
    for row in range(6):
        assert features(together, row).equal(features(split[row // 2], row % 2))
        assert text(together, row) == text(split[row // 2], row % 2)


def test_refuses_pictures_of_which_parts_are_hidden_and_names_that_are_none():
    _, objective = matching(replaced="picture")
    regions = MaskedRegionFeatures()
    with pytest.raises(ValueError, match="image-text matching changes regions whose parts are hidden already; name it before"):
        objective.mark(regions.mark(pictures()))
    for value, kind, first in (("picture", Published, "vilbert"), ("uniter", Replaced, "text")):
        with pytest.raises(ValueError, match=f"who: option is '{value}', expected one of {first}, "):
            check_choice("who", "option", value, kind)


def test_words_of_pairs_that_do_not_belong_are_hidden_and_not_scored():
    """ViLBERT's and VOLTA's choice; LXMERT scores all. What is hidden does not tell who belongs."""
    encoder, itm = matching(rate=0.5)
    everything, belonging = (connected(MaskedLanguage(0.5, on=on), encoder)[1] for on in ("all", "matched"))
    marked = itm.mark(pictures(COUNTS, [9] * 6))
    mixed = marked.matched
    assert 0 < mixed.sum() < 6
    found = belonging.mark(marked)
    assert found.text.hidden.equal(everything.mark(marked).text.hidden)
    assert found.text.hidden[~mixed].any()
    assert belonging.count(found) == score(encoder, belonging, found).count == found.text.hidden[mixed].sum()
    assert everything.count(found) == found.text.hidden.sum()
    states = encoder(found)
    leaf = states.text.detach().requires_grad_()
    belonging.loss(states._replace(text=leaf), found).total.backward()
    assert (leaf.grad[~mixed] == 0).all()
    assert (leaf.grad[mixed] != 0).any()
    alone = belonging.loss(encoder(take(found, mixed)), take(found, mixed))
    torch.testing.assert_close(belonging.loss(states, found).total, alone.total, rtol=1e-5, atol=1e-5)
    nobody = found._replace(matched=torch.zeros_like(mixed))
    loss = score(encoder, belonging, nobody)
    assert loss.total.item() == loss.count.item() == belonging.count(nobody).item() == 0
    assert all(one.isfinite().all() for one in gradients(encoder, belonging, loss.total))


def test_regions_of_which_nothing_is_named_stay_so_beside_others():
    """A micro-batch without labels borrows from a pool that has them."""
    _, objective = matching(rate=0.5, replaced="picture")
    batch = pictures(COUNTS)
    bare = batch._replace(regions=batch.regions._replace(label=None, attribute=None))
    marked = objective.mark(bare, objective.lend(batch))
    own = marked.matched
    assert 0 < own.sum() < 6
    for name in ("label", "attribute"):
        assert (getattr(marked.regions, name)[own] == -1).all()
        assert (getattr(marked.regions, name)[~own] >= 0).any(1).all()
