"""Pickles without their danger: containers, texts, numbers, bytes and NumPy's arrays of numbers, and nothing else.

A pickle names functions for its reader to call. Here each name is looked up in the table below, which has stand-ins of our
own for what arrays of numbers need, so that nothing of any package is ever called; every other name is an error.
"""

import io
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np


class UnsafePickleError(ValueError):
    """A pickle that asks for more than plain values."""


def load_plain(content: bytes) -> Any:
    """The value of a pickle; arrays come as `numpy.ndarray`, numbers of NumPy as arrays without axes.

    Raises:
        UnsafePickleError: It names anything but plain values.
        ValueError: It is no pickle, or not whole.
    """
    try:
        return _finish(_PlainUnpickler(io.BytesIO(content), encoding="latin-1").load())
    except UnsafePickleError:
        raise
    except Exception as error:  # the unpickler raises whatever it stumbles over
        raise ValueError(f"no pickle of plain values, or not whole ({type(error).__name__}: {error})") from None


class _Kind:
    """Stands for `numpy.dtype`: a kind of number."""

    def __init__(self, name: str, align: Any = False, copy: Any = True):
        kind = np.dtype(name) if isinstance(name, str) and len(name) < 16 else np.dtype("O")
        if kind.kind not in "biuf":
            raise UnsafePickleError(f"an array of {str(name)[:40]!r}; expected numbers")
        self.kind = kind

    def __setstate__(self, state: tuple) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise UnsafePickleError("an array of records; expected numbers")
        self.kind = self.kind.newbyteorder("=" if order == "|" else order)


class _Array:
    """Stands for `numpy.ndarray`, until its content is there."""

    def __init__(self, *_: Any):
        self.array: np.ndarray | None = None

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, columns_first, content = state
        self.array = _make(content, kind, shape, "F" if columns_first else "C")


def _make(content: Any, kind: Any, shape: Any, order: str) -> np.ndarray:
    if not isinstance(kind, _Kind):
        raise UnsafePickleError("an array of no kind of number")
    data = content.encode("latin-1") if isinstance(content, str) else bytes(content)  # a text: written by Python 2
    return np.frombuffer(data, kind.kind).reshape(tuple(map(int, shape)), order="F" if order == "F" else "C")


def _scalar(kind: Any, content: Any = b"") -> np.ndarray:
    return _make(content, kind, (), "C")


def _frombuffer(content: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    return _make(content, kind, shape, str(order))


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Bytes, as pickles of protocol 2 and less hold them."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise UnsafePickleError("a text in another encoding")
    return text.encode("latin-1")


def _no_bytes(*given: Any) -> bytes:
    """How protocol 2 and less say that there are no bytes."""
    if given:
        raise UnsafePickleError("bytes made of something")
    return b""


_BUILTINS = ("builtins", "__builtin__")
_CORES = ("numpy.core", "numpy._core")
_KNOWN: dict[tuple[str, str], Any] = {
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): OrderedDict,
    **{(module, "set"): set for module in _BUILTINS},
    **{(module, "bytes"): _no_bytes for module in _BUILTINS},
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    **{(f"{core}.multiarray", "_reconstruct"): _Array for core in _CORES},
    **{(f"{core}.multiarray", "scalar"): _scalar for core in _CORES},
    **{(f"{core}.numeric", "_frombuffer"): _frombuffer for core in _CORES},
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """A stand-in, or an error; nothing is imported."""
        if (module, name) not in _KNOWN:
            raise UnsafePickleError(
                f"it names {module}.{name}, which could run code, and is not unpickled; expected plain values"
            )
        return _KNOWN[module, name]

    def persistent_load(self, identity: Any) -> Any:
        """Never."""
        raise UnsafePickleError("it refers to objects outside of itself")


def _finish(value: Any, depth: int = 0) -> Any:
    """Arrays in the place of what stood for them."""
    if depth > 32:
        raise UnsafePickleError("containers in containers, over 32 deep")
    if isinstance(value, _Array):
        if value.array is None:
            raise UnsafePickleError("an array without content")
        return value.array
    if isinstance(value, dict):
        return {_finish(key, depth + 1): _finish(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list | tuple | set):
        return type(value)(_finish(entry, depth + 1) for entry in value)
    return value
