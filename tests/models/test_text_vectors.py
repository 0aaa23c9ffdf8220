"""A text tower that is read from vectors: given the text's own, it reads as ever."""

import pytest
import tiny
import torch

from interlingua.models.towers import TextTower

LENGTHS = [5, 9, 0, 12, 3]


def towers():
    torch.manual_seed(0)
    plain = tiny.text_tower()
    before = TextTower(tiny.embeddings(languages=2, norm=False), tiny.transformer(norm="pre"))
    factored = TextTower(tiny.embeddings(segments=2, factor=8), tiny.transformer(distinct=1))
    return {"post-norm": plain, "pre-norm": before, "factored": factored}


def packed(text):
    """With two documents in the rows of nine and of twelve."""
    document, position = text.document.clone(), text.position.clone()
    for row, start in ((1, 4), (3, 7)):
        places = text.present[row].nonzero()[start:, 0]
        document[row, places] = 1
        position[row, places] = torch.arange(len(places))
    return text._replace(document=document, position=position)


@pytest.mark.parametrize("kind", ["post-norm", "pre-norm", "factored"])
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("change", [lambda text: text, packed], ids=["single", "packed"])
def test_the_own_vectors_are_read_as_the_text_is(kind, left, change):
    tower, text = towers()[kind], change(tiny.text(LENGTHS, 14, left, language=1))
    states, kept = tower.encode(text, keep=(0, 1))
    read, kept_too = tower.encode_vectors(text, tower.embeddings(text), keep=(0, 1))
    assert torch.equal(read, states)
    assert all(torch.equal(kept_too[number], kept[number]) for number in (0, 1))
    assert torch.equal(kept_too[0][text.present], tower.embeddings(text))


def test_what_is_read_is_the_vectors_and_not_the_tokens():
    tower, text, other = tiny.text_tower(), tiny.text(LENGTHS), tiny.text(LENGTHS, seed=3)
    vectors = tower.embeddings(other).detach().requires_grad_()
    states, _ = tower.encode_vectors(text, vectors)
    assert torch.equal(states, tower.encode(other)[0])
    states.square().sum().backward()
    assert (vectors.grad.abs().sum(1) > 0).all()
    assert tower.tokens.weight.grad is None


def test_rows_padded_left_and_right_read_alike():
    tower = tiny.text_tower()
    rows = [tiny.text(LENGTHS, 14, left) for left in (False, True)]
    vectors = torch.randn(sum(LENGTHS), tiny.WIDTH, generator=torch.Generator().manual_seed(0))
    states = [tower.encode_vectors(text, vectors)[0][text.present] for text in rows]
    torch.testing.assert_close(*states, rtol=1e-6, atol=1e-6)
