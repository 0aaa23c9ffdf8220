"""Arrays of shards: whole, finite, never unpickled."""

import io
import pickle

import numpy as np
import pytest

from interlingua.datamodules.arrays import load_arrays
from interlingua.datamodules.sample import BadSampleError


def packed(compressed=False, **arrays) -> bytes:
    stored = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stored, **arrays)
    return stored.getvalue()


def single(array) -> bytes:
    stored = io.BytesIO()
    np.save(stored, array, allow_pickle=True)
    return stored.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_what_numpy_stores_is_read(compressed):
    arrays = {
        "boxes": np.arange(8, dtype=np.float32).reshape(2, 4),
        "features": np.asfortranarray(np.ones((3, 5), np.float16)),
        "width": np.array(640),
        "none": np.zeros((0, 4)),
    }
    found = load_arrays(packed(compressed, **arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    found["boxes"] += 1  # of its own memory
    np.testing.assert_array_equal(load_arrays(single(arrays["boxes"]))[""], arrays["boxes"])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_what_is_not_finite_is_named(wrong, kind):
    features = np.ones((3, 4), kind)
    features[1, 2] = wrong
    with pytest.raises(BadSampleError, match="features: 1 of 12 numbers") as caught:
        load_arrays(packed(boxes=np.ones((3, 4)), features=features))
    assert caught.value.kind == "not finite"


class Spy:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def lying(shape) -> bytes:
    """The header of a huge array, and no values."""
    stored = io.BytesIO()
    np.lib.format.write_array_header_1_0(stored, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return stored.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK",
        b"hello",
        pickle.dumps(Spy()),
        single(np.array([Spy()], dtype=object)),
        packed(a=np.array([Spy()], dtype=object)),
        packed(a=np.arange(9))[:-30],
        packed(True, a=np.arange(9)).replace(b"PK\x03\x04", b"PK\x03\x05"),
        single(np.arange(9))[:-1],
        single(np.arange(9)) + b"\0",
        single(np.arange(9))[:20],
        single(np.arange(9)).replace(b"'descr'", b"'desct'"),
        lying((2**62, 2**62)),
        lying((-1, -1)),
    ],
)
def test_what_is_not_whole_is_a_broken_array(content):
    with pytest.raises(BadSampleError) as caught:
        load_arrays(content)
    assert caught.value.kind == "broken array"


def test_what_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr("interlingua.datamodules.arrays.MAX_BYTES", 1000)
    with pytest.raises(BadSampleError, match="oversized array"):
        load_arrays(packed(True, a=np.zeros(1000)))
