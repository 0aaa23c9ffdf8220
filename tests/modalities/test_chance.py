"""Counter-based chance: the same numbers for ever, uniform, and independent from key to key."""

import pytest
import torch

from interlingua.modalities.chance import chance, pick, salt, uniform

WORD = 2**64 - 1


def expected(*keys: int) -> int:
    """splitmix64's finaliser key by key, in Python's unbounded integers."""
    state = 0
    for key in keys:
        state = (state + key + 0x9E3779B97F4A7C15) & WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & WORD
        state ^= state >> 31
    return state - 2**64 if state >> 63 else state


def test_published_value():
    # First outputs of splitmix64 from seed 0, as in its reference implementation's tests.
    assert chance(0).item() & WORD == 0xE220A8397B1DCDAF
    assert expected(0) & WORD == 0xE220A8397B1DCDAF


@pytest.mark.parametrize("keys", [(0,), (1, 2), (2, 1), (-1,), (2**63 - 1, -(2**63)), (5, 0, 7, 123456789), (1, 0)])
def test_equals_the_definition(keys):
    assert chance(*keys).item() == expected(*keys)
    assert chance(*map(torch.tensor, keys)).item() == expected(*keys)


def test_golden_values_never_change():
    assert salt("mask") == 7463349060561501561
    assert chance(salt("mask"), 17, torch.arange(4)).tolist() == [
        1697861029556230624,
        -1317648947431667201,
        1366625183455133780,
        321825653113222606,
    ]
    assert uniform(torch.arange(3), 7).tolist() == [0.07052494102658535, 0.19958521908310312, 0.030140358901282305]
    assert pick(1000, torch.arange(8), 3).tolist() == [975, 692, 652, 35, 263, 557, 642, 957]


def test_keys_broadcast_and_a_batch_is_its_rows():
    sample, position = torch.tensor([[3], [900]]), torch.arange(5)
    together = chance(11, sample, position)
    assert together.shape == (2, 5)
    assert together.dtype == torch.int64
    assert torch.equal(together[1], chance(11, 900, position))
    assert together[0, 4] == chance(11, 3, 4)


def test_order_of_keys_matters():
    one, two = torch.arange(1000)[:, None], torch.arange(1000, 1010)
    assert not (chance(one, two) == chance(two, one)).any()


def test_bits_are_even():
    values = chance(42, torch.arange(50_000))
    for bit in range(64):
        share = ((values >> bit) & 1).double().mean().item()
        assert abs(share - 0.5) < 0.012, bit  # five standard deviations
    assert values.unique().numel() == 50_000


def test_each_bit_of_each_key_turns_half_of_the_bits():
    base = torch.arange(2000)
    for bit in range(0, 63, 7):
        for one, two in ((chance(base, 5), chance(base ^ (1 << bit), 5)), (chance(5, base), chance(5, base ^ (1 << bit)))):
            changed = one ^ two
            shares = torch.stack([((changed >> place) & 1).double().mean() for place in range(64)])
            assert (shares - 0.5).abs().max() < 0.06, bit


@pytest.mark.parametrize("vary", ["seed", "epoch", "sample", "position", "purpose"])
def test_uniform_and_uncorrelated_between_neighbouring_keys(vary):
    keys = {"purpose": salt("mask"), "seed": 0, "epoch": 3, "sample": 1000, "position": 4}
    draws = uniform(*({**keys, vary: torch.arange(40_000) + keys[vary]}.values()))
    counts = torch.histc(draws, bins=100, min=0, max=1)
    chi_square = ((counts - 400) ** 2 / 400).sum().item()
    assert 50 < chi_square < 160  # 99 degrees of freedom: 99 +- 14
    for lag in (1, 2, 7, 64):
        assert abs(torch.corrcoef(torch.stack([draws[:-lag], draws[lag:]]))[0, 1].item()) < 0.025


def test_two_purposes_are_independent():
    one, two = (uniform(salt(name), torch.arange(40_000)) for name in ("mask", "replace"))
    assert abs(torch.corrcoef(torch.stack([one, two]))[0, 1].item()) < 0.025


def test_uniform_stays_below_one():
    draws = uniform(torch.arange(100_000))
    assert draws.dtype == torch.float64
    assert 0 <= draws.min() < 1e-4
    assert 1 - 1e-4 < draws.max() < 1


def test_pick_is_even_and_in_range():
    counts = torch.bincount(pick(7, torch.arange(70_000)), minlength=7)
    assert counts.numel() == 7
    assert ((counts - 10_000).abs() < 500).all()
    many = pick(torch.tensor([1, 2, 5]), torch.arange(1000)[:, None])
    assert many.max(0).values.tolist() == [0, 1, 4]
    assert many.min(0).values.tolist() == [0, 0, 0]


def test_result_is_on_the_device_of_its_keys():
    assert chance(1, torch.zeros(3, dtype=torch.int64, device="meta")).device.type == "meta"
