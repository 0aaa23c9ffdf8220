"""Pitfall T04 (toy): a tokenizer and a tower that number tokens differently are stopped at the start."""

import pickle

import pytest

from interlingua.modalities.vocabulary import Vocabulary, shake_hands


def test_controls_and_defaults():
    assert Vocabulary(100).controls == (0, 1, 2, 3, 4)
    assert Vocabulary(250002, pad=1, unknown=3, start=0, end=2, mask=250001).controls == (0, 1, 2, 3, 250001)


def test_is_a_value():
    vocabulary = Vocabulary(100)
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary == Vocabulary(100)
    assert hash(vocabulary) == hash(Vocabulary(100))
    with pytest.raises(AttributeError):
        vocabulary.size = 5


@pytest.mark.parametrize("control", ["pad", "unknown", "start", "end", "mask"])
@pytest.mark.parametrize("number", [-1, 100])
def test_control_outside_the_table_is_refused_with_both_numbers(control, number):
    with pytest.raises(ValueError, match=rf"the {control} id is {number}, .*100 rows \(0 to 99\)"):
        Vocabulary(100, **{control: number})


def test_two_controls_of_one_id_are_refused():
    with pytest.raises(ValueError, match="must differ"):
        Vocabulary(100, pad=3)


def test_handshake():
    shake_hands(Vocabulary(100), Vocabulary(100))
    with pytest.raises(ValueError, match="size: tokenizer 250005, tower 250002; mask: tokenizer 250004, tower 250001"):
        shake_hands(Vocabulary(250005, mask=250004), Vocabulary(250002, mask=250001))


def test_ids_shifted_by_one_are_refused():
    with pytest.raises(ValueError, match=r"pad: tokenizer 1, tower 0; unknown: .*mask: tokenizer 5, tower 4"):
        shake_hands(Vocabulary(100, 1, 2, 3, 4, 5), Vocabulary(100))
