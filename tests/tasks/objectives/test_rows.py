"""Rows of several batches as one batch."""

import pytest
import tiny
import torch
from found import find

from interlingua.modalities.batch import Audio, Codes, Regions, take
from interlingua.modalities.region import collate_regions
from interlingua.tasks.objectives.rows import join_rows


def test_texts_of_different_lengths_are_padded_and_nothing_else_changes():
    parts = [tiny.batch([5, 3], items=[1, 2]), tiny.batch([9], items=[3])]
    joined = join_rows(parts, pad=0)
    assert joined.item.tolist() == [1, 2, 3]
    assert joined.text.tokens.shape == (3, 9)
    assert (joined.text.word[0, 5:] == -1).all()
    assert not joined.text.present[0, 5:].any()
    for row, (part, own) in enumerate([(parts[0], 0), (parts[0], 1), (parts[1], 0)]):
        for name in ("tokens", "word", "position"):
            field, there = getattr(joined.text, name)[row], joined.text.present[row]
            assert (field[there] == getattr(part.text, name)[own][part.text.present[own]]).all()


def test_absent_positions_hold_the_pad_id():
    joined = join_rows([tiny.batch([3]), tiny.batch([9])], pad=1)
    assert (joined.text.tokens[0, 3:] == 1).all()


def test_a_modality_or_mark_that_only_some_have_is_absent_from_the_others():
    plain = tiny.batch([4, 4])
    rich = tiny.batch([6], image=tiny.image(1), translation=tiny.text([3]))
    rich = rich._replace(
        text=rich.text._replace(shown=rich.text.tokens + 1, hidden=rich.text.present),
        matched=torch.tensor([False]),
        alignment=torch.zeros(1, 2, 2, dtype=torch.long),
    )
    joined = join_rows([plain, rich, plain])
    assert joined.image.present.tolist() == [False, False, True, False, False]
    assert joined.translation.present.any(1).tolist() == [False, False, True, False, False]
    assert joined.text.hidden.any(1).tolist() == [False, False, True, False, False]
    assert (joined.text.shown[0] == joined.text.tokens[0]).all()
    assert (joined.text.shown[2] == rich.text.shown[0]).all()
    assert joined.matched.tolist() == [True, True, False, True, True]
    assert joined.alignment[0].eq(-1).all()
    assert joined.alignment[2].eq(0).all()


def test_regions_sound_and_codes_are_padded_too():
    def batch(length):
        features, present = torch.ones(1, length, 3), torch.ones(1, length, dtype=torch.bool)
        regions = Regions(features, torch.ones(1, length, 4), present)
        audio, codes = Audio(features[..., 0], present, 16_000), Codes(present.long(), present)
        return tiny.batch([4])._replace(regions=regions, audio=audio, codes=codes)

    joined = join_rows([batch(2), batch(5)])
    assert joined.regions.features.shape == (2, 5, 3)
    assert joined.audio.rate == 16_000
    for field in (joined.regions, joined.audio, joined.codes):
        assert field.present.sum(1).tolist() == [2, 5]
    other = batch(2)._replace(audio=batch(2).audio._replace(rate=8_000))
    with pytest.raises(ValueError, match=r"one rate can be joined, found \[8000, 16000\]"):
        join_rows([batch(2), other])


def test_what_only_some_regions_are_told_by_is_none_of_the_others():
    plain, rich = (tiny.batch([4])._replace(regions=collate_regions([found])) for found in (find(0, 1), find(1, 3, classes=5)))
    rich = rich._replace(regions=rich.regions._replace(attribute=torch.tensor([[4, -1, 2]])))
    joined = join_rows([plain, rich, tiny.batch([4])]).regions
    assert joined.present.sum(1).tolist() == [1, 3, 0]
    assert joined.features[0, :1].equal(plain.regions.features[0])
    assert joined.attribute.tolist() == [[-1] * 3, [4, -1, 2], [-1] * 3]
    assert joined.label.tolist() == [[-1] * 3, rich.regions.label[0].tolist(), [-1] * 3]
    assert joined.classes.shape == (3, 3, 5)
    assert not joined.classes[0].any()
    assert joined.confidence[1].equal(rich.regions.confidence[0])


def test_one_batch_is_itself_and_taking_undoes_joining():
    one, other = tiny.batch([5, 3]), tiny.batch([5, 4])
    assert join_rows([one]) is one
    back = take(join_rows([one, other]), torch.tensor([0, 1]))
    assert (back.text.tokens == one.text.tokens).all()


def test_refuses_what_does_not_belong_together():
    with pytest.raises(ValueError, match=r"one source can be joined, found \['a', 'b'\]"):
        join_rows([tiny.batch(source="a"), tiny.batch(source="b")])
    with pytest.raises(ValueError, match="equal sizes"):
        join_rows([tiny.batch([3], image=tiny.image(1)), tiny.batch([3], image=tiny.image(1, size=8))])
