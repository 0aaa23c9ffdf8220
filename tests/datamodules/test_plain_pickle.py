"""Pickles of detectors' files: plain values are read, whatever the protocol, and nothing in them ever runs."""

import pickle

import numpy as np
import pytest

from interlingua.datamodules.regions.plain_pickle import load_plain


class Harmful:
    """Pickles as a call of a function."""

    def __reduce__(self):
        return print, ("it ran",)


@pytest.mark.parametrize("value", [Harmful(), {"a": [Harmful()]}, np.array([Harmful()]), np.datetime64("2020"), {1, 2j}, print])
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_no_pickle_runs_anything(capsys, value, protocol):
    with pytest.raises(ValueError, match=r"plain values|expected numbers"):
        load_plain(pickle.dumps(value, protocol))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("protocol", range(6))
def test_plain_pickles_are_read(protocol):
    plain = {"text": "ä", "bytes": b"\x00\xff", "numbers": [1, 2.5, True, None, 2**70], "pair": (1, {2})}
    assert load_plain(pickle.dumps(plain, protocol)) == plain
    arrays = [np.arange(6).reshape(2, 3).astype(kind) for kind in ("<f4", ">f8", "<i8", "|u1", "<f2", "?")]
    arrays += [np.asfortranarray(arrays[0]), arrays[0][:, ::2], np.zeros((0, 4), np.float32), np.array(3.5)]
    for array in [*arrays, np.float32(1.5), np.int64(-3)]:
        found = load_plain(pickle.dumps(array, protocol))
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype
