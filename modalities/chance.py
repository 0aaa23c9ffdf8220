"""Counter-based chance: random numbers as a pure function of their keys.

What is hidden of a sample, which caption is chosen, how a picture is cropped: each is a hash of (seed, epoch, sample,
position, purpose), so it does not depend on rank, worker, batch-mates or on what was drawn before, and a resumed run
draws what the uninterrupted run drew. The hash is splitmix64's finaliser (Steele, Lea and Flood 2014,
doi:10.1145/2714064.2660195), applied key by key.
"""

import hashlib

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

Key = Tensor | int


def salt(purpose: str) -> int:
    """A signed 64-bit key for a purpose, the same on every machine and in every Python process."""
    return int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little", signed=True)


def chance(*keys: Key) -> Int64[Tensor, "..."]:
    """Hash of all keys, broadcast against each other: uniform over all 64-bit integers.

    Args:
        keys: Integers or integer tensors; the order of the keys matters. At least one must be a tensor for the
            result to have its device; otherwise the result is a scalar on the CPU.
    """
    device = next((key.device for key in keys if isinstance(key, Tensor)), None)
    state = torch.zeros((), dtype=torch.int64, device=device)
    for key in keys:
        # 0x9E3779B97F4A7C15 as a signed integer; 64-bit arithmetic wraps around.
        state = _mix(state + torch.as_tensor(key, dtype=torch.int64, device=device) - 7046029254386353131)
    return state


def uniform(*keys: Key) -> Float64[Tensor, "..."]:
    """Numbers in [0, 1), a pure function of the keys; 53 random bits."""
    return (_shift(chance(*keys), 11)).double() * 2.0**-53


def pick(count: Key, *keys: Key) -> Int64[Tensor, "..."]:
    """Integers from 0 to `count` - 1, a pure function of the keys. `count` must be positive."""
    return (uniform(*keys) * count).long()


def _mix(state: Tensor) -> Tensor:
    state = (state ^ _shift(state, 30)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    state = (state ^ _shift(state, 27)) * -7723592293110705685  # 0x94D049BB133111EB
    return state ^ _shift(state, 31)


def _shift(state: Tensor, bits: int) -> Tensor:
    """Logical shift to the right (torch's own keeps the sign)."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)
