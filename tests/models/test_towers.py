"""Encoders: a sample's states depend on the sample alone, whatever stands beside it and on whichever side it is padded."""

import pytest
import tiny
import torch

from interlingua.modalities.batch import Image, take
from interlingua.models.pooling import pool
from interlingua.models.towers import ImageTower, TextTower
from interlingua.models.two_towers import TwoTowers


def test_alone_in_a_batch_left_and_right_padded():
    """Pitfall M10, position by position."""
    tower = tiny.text_tower()
    text, left = tiny.text([5, 9, 0, 12, 3], 14), tiny.text([5, 9, 0, 12, 3], 14, left=True)
    states, left_states = tiny.encode(tower, text), tiny.encode(tower, left)
    assert torch.allclose(states[text.present], left_states[left.present], atol=1e-6)
    assert not states[~text.present].any()
    for row in range(5):
        alone = tiny.encode(tower, take(text, torch.tensor([row])))
        assert torch.allclose(alone[0], states[row], atol=1e-6)


def test_gradients_do_not_depend_on_padding():
    def gradients(text):
        tower = fresh()
        tiny.encode(tower, text)[text.present].square().sum().backward()
        return [parameter.grad for parameter in tower.parameters() if parameter.grad is not None]

    def fresh():
        torch.manual_seed(1)
        return tiny.text_tower()

    right = gradients(tiny.text([5, 9], 9))
    for other in (gradients(tiny.text([5, 9], 20)), gradients(tiny.text([5, 9], 20, left=True))):
        for one, two in zip(right, other, strict=True):
            assert torch.allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_absent_texts_and_pictures_are_finite_and_change_nothing(dtype):
    """Pitfall O10."""
    encoder = tiny.two_towers().to(dtype)
    image = tiny.image(4)
    batch = tiny.batch([7, 5, 9, 4], image=image)
    whole = encoder(batch).vectors
    missing = batch._replace(text=tiny.text([7, 0, 9, 4]), image=Image(image.pixels, torch.tensor([True, True, False, True])))
    vectors = encoder(missing).vectors
    rest = torch.tensor([0, 3])
    tolerance = 1e-6 if dtype == torch.float32 else 2e-2
    assert torch.allclose(vectors.text[rest], whole.text[rest], atol=tolerance)
    assert torch.allclose(vectors.image[rest], whole.image[rest], atol=tolerance)
    assert vectors.text.isfinite().all()
    assert vectors.image.isfinite().all()
    (vectors.text.sum() + vectors.image.sum()).backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters() if parameter.grad is not None)


def test_a_batch_without_samples():
    states = tiny.single_stream()(tiny.batch([], image=tiny.image(0)))
    assert states.text.shape == (0, 1, tiny.WIDTH)
    assert states.joint.shape == (0, tiny.WIDTH)


def test_packed_documents_do_not_see_each_other():
    tower = tiny.text_tower()
    first, second = tiny.text([5], seed=1), tiny.text([7], seed=2)
    document = torch.tensor([[0] * 5 + [1] * 7])
    packed = first._replace(
        **{
            name: torch.cat([getattr(first, name), getattr(second, name)], 1)
            for name in ("tokens", "present", "language", "word", "segment", "position")
        },
        document=document,
    )
    states = tiny.encode(tower, packed)
    assert torch.allclose(states[:, :5], tiny.encode(tower, first), atol=1e-6)
    assert torch.allclose(states[:, 5:], tiny.encode(tower, second), atol=1e-6)
    leaked = tiny.encode(tower, packed._replace(document=torch.zeros_like(document)))
    assert not torch.allclose(leaked[:, :5], tiny.encode(tower, first), atol=1e-3)


def test_max_tokens_is_what_fits_whatever_the_position_offset():
    """Pitfall T02: 512 run and 513 are refused."""
    for offset in (0, 2, 4):
        tower = TextTower(tiny.embeddings(max_tokens=512, position_offset=offset), tiny.transformer(layers=1))
        assert tower.embeddings.positions.num_embeddings == 512 + offset
        assert tiny.encode(tower, tiny.text([512])).isfinite().all()
        with pytest.raises(ValueError, match=r"513 tokens.*max_tokens = 512"):
            tiny.encode(tower, tiny.text([513]))


def test_language_vectors_belong_to_their_own_rows():
    """Pitfall T09 c."""
    tower = TextTower(tiny.embeddings(languages=2), tiny.transformer())
    text = tiny.text([5, 5, 5])
    language = text.language.clone()
    language[1] = 1
    states = tiny.encode(tower, text._replace(language=language))
    language[2] = 1
    changed = tiny.encode(tower, text._replace(language=language))
    assert torch.equal(states[:2], changed[:2])
    assert not torch.allclose(states[2], changed[2], atol=1e-4)


def test_marks_are_read_and_truth_is_not_when_something_else_is_shown():
    tower = tiny.text_tower()
    text = tiny.text([6])
    shown = text.tokens.clone()
    shown[0, 2] = tiny.VOCABULARY.mask
    assert not torch.allclose(tiny.encode(tower, text._replace(shown=shown)), tiny.encode(tower, text), atol=1e-4)
    assert torch.equal(tiny.encode(tower, text._replace(shown=shown)), tiny.encode(tower, text._replace(tokens=shown)))


def test_single_stream_lets_text_and_picture_see_each_other_but_not_the_neighbours():
    encoder = tiny.single_stream()
    batch = tiny.batch([7, 5], image=tiny.image(2))
    other = batch._replace(image=tiny.image(2, seed=5)._replace())
    pixels = batch.image.pixels.clone()
    pixels[1] = other.image.pixels[1]
    changed = encoder(batch._replace(image=batch.image._replace(pixels=pixels)))
    states = encoder(batch)
    assert torch.allclose(states.text[0], changed.text[0], atol=1e-6)
    assert not torch.allclose(states.text[1], changed.text[1], atol=1e-4)
    assert not torch.allclose(states.joint[1], changed.joint[1], atol=1e-4)
    alone = encoder(take(batch, torch.tensor([1])))
    assert torch.allclose(alone.image, states.image[1:], atol=1e-6)


def test_a_modality_without_a_stream_is_refused():
    with pytest.raises(ValueError, match="has image, but a text tower reads only text and translation"):
        tiny.text_tower()(tiny.batch(image=tiny.image(4)))


def test_widths_must_agree():
    with pytest.raises(ValueError, match="width 32, the transformer 16"):
        TextTower(tiny.embeddings(), tiny.Transformer(16, 1, 2))
    with pytest.raises(ValueError, match="16 is not divisible by 3"):
        tiny.Transformer(16, 1, 3)
    with pytest.raises(ValueError, match="front end has width 32"):
        ImageTower(tiny.Patches(32, patch=8, size=16), tiny.Transformer(16, 1, 2))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_recomputing_activations_changes_nothing(norm):
    torch.manual_seed(0)
    plain = tiny.transformer(norm=norm)
    again = tiny.transformer(norm=norm, recompute=True)
    again.load_state_dict(plain.state_dict())
    states = torch.randn(2, 5, tiny.WIDTH)
    for one, two in zip(plain.parameters(), again.parameters(), strict=True):
        one.grad = two.grad = None
    plain(states)[0].sum().backward()
    again(states)[0].sum().backward()
    for one, two in zip(plain.parameters(), again.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)


def test_pooling_is_by_what_is_present():
    """Pitfall M10: mean and first by what is present; a row of nothing is 0."""
    states = torch.arange(24.0).view(2, 4, 3)
    right = torch.tensor([[True, True, False, False], [False, False, False, False]])
    left = torch.tensor([[False, False, True, True], [True, True, True, True]])
    assert torch.equal(pool(states, right)[0], states[0, :2].mean(0))
    assert torch.equal(pool(states, left, "first")[0], states[0, 2])
    assert torch.equal(pool(states, right)[1], torch.zeros(3))
    assert torch.equal(pool(states, right, "first")[1], torch.zeros(3))


def test_states_of_lower_layers_can_be_had_from_every_encoder():
    batch = tiny.batch([7, 5], image=tiny.image(2), translation=tiny.text([4, 6], seed=3))
    for encoder in (tiny.two_towers(), tiny.single_stream()):
        states = encoder(batch, keep=[0, 1, 2])
        plain = encoder(batch)
        assert sorted(states.layers) == [0, 1, 2]
        for name in ("text", "translation", "image"):
            assert torch.equal(getattr(states, name), getattr(plain, name))
            assert torch.equal(getattr(states.layers[2], name), getattr(states, name))  # post-norm: no norm at the end
            assert not torch.allclose(getattr(states.layers[1], name), getattr(states, name), atol=1e-3)
        assert torch.allclose(
            states.layers[1].text[0], encoder(take(batch, torch.tensor([0])), keep=[1]).layers[1].text[0], atol=1e-6
        )
    with pytest.raises(ValueError, match=r"after blocks \[3\] are asked for, but there are 2 blocks"):
        tiny.text_tower()(tiny.batch([4]), keep=[3])


def test_what_will_be_present_is_known_without_reading():
    image = tiny.image(2)
    batch = tiny.batch([7, 5], image=Image(image.pixels, torch.tensor([True, False])), translation=tiny.text([4, 6]))
    for encoder in (tiny.two_towers(), tiny.single_stream()):
        states = encoder(batch)
        for name, present in encoder.present(batch).items():
            assert present.shape == getattr(states, name).shape[:2]
            assert not getattr(states, name)[~present].any()
        assert encoder.present(batch).keys() == {"text", "translation", "image"}


def test_every_encoder_tells_of_its_text_through_its_embeddings():
    towers = TwoTowers(tiny.text_tower(languages=3), tiny.two_towers().image)
    stream = tiny.single_stream(languages=3)
    for encoder, embeddings in (
        (towers.text, towers.text.embeddings),
        (towers, towers.text.embeddings),
        (stream, stream.text.embeddings),
    ):
        assert encoder.text_embeddings is embeddings
        assert encoder.tokens is embeddings.tokens
        assert (encoder.vocabulary, encoder.languages, encoder.max_tokens) == (tiny.VOCABULARY, 3, 64)
    assert tiny.text_tower().languages == 0
    image = towers.image
    assert (image.text_embeddings, image.tokens, image.vocabulary) == (None, None, None)
    assert (image.languages, image.max_tokens) == (0, None)


def test_names_of_weights_are_those_of_earlier_checkpoints():
    def tables(encoder):
        return [name for name in encoder.state_dict() if name.endswith(("tokens.weight", "positions.weight"))]

    assert tables(tiny.text_tower()) == ["embeddings.tokens.weight", "embeddings.positions.weight"]
    assert tables(tiny.single_stream()) == ["text.embeddings.tokens.weight", "text.embeddings.positions.weight"]
    assert tables(tiny.two_towers())[:2] == ["text.embeddings.tokens.weight", "text.embeddings.positions.weight"]
