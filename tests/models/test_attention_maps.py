"""Attention from words to places of the picture: what each layer really weighs by."""

import pytest
import tiny
import torch
from test_fused import PLANS, build, heads_of
from test_fused import batch as four

from interlingua.modalities.batch import take
from interlingua.models.attention_maps import attention_to_picture


def one(row=1):
    return take(four(left=True), torch.tensor([row]))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_first_layer_by_hand(norm):
    """Softmax over text and picture together, of which the picture's part is given."""
    encoder, given = build("2 joint", norm), one()
    found = attention_to_picture(encoder, given)
    assert list(found) == [1, 2]
    text, picture = encoder.picture(given, encoder.text.embeddings)
    block = encoder.text.transformer.blocks[0]
    query, key, _ = heads_of(block.attention, block.before(torch.cat([text, picture])))
    weights = (query @ key.transpose(1, 2) / query.shape[2] ** 0.5).softmax(2)
    assert torch.allclose(found[1], weights[:, : len(text), len(text) :], atol=1e-5)


@pytest.mark.parametrize("plan", PLANS)
def test_layers_that_see_the_picture_alone_give_it_all(plan):
    encoder, given = build(plan), one()
    before = encoder(given).text
    found = attention_to_picture(encoder, given)
    assert all(weights.shape == (4, 4, 4) for weights in found.values())  # heads, tokens, places
    sums = torch.stack([weights.sum(2) for weights in found.values()])
    assert (sums < 1 + 1e-5).all()
    assert ((sums > 1 - 1e-5).all()) == ("joint" not in plan and "both" not in plan)
    assert torch.equal(encoder(given).text, before)  # and the encoder is as it was
    expected = {"text, 2 x (cross, own)": [2, 4], "2 joint": [1, 2], "picture, 2 joint": [1, 2]}
    assert list(found) == expected.get(plan, list(found))


def test_places_that_are_added_come_with_the_others():
    stream = tiny.region_stream()
    given = tiny.batch([4], regions=tiny.regions([3]))
    weights = attention_to_picture(stream, given)
    assert next(iter(weights.values())).shape[2] == stream.picture.before + 3 + stream.picture.after


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda given: take(four(), torch.arange(2)), "one sample"),
        (lambda given: given._replace(image=None), "one sample with a text and a picture"),
        (lambda given: one(2), "4 tokens and 0 places|5 tokens and 0 places"),
        (lambda given: one(3), "0 tokens and 4 places"),
    ],
)
def test_what_cannot_be_shown_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        attention_to_picture(build("2 joint"), change(one()))
