"""Momentum copies: the closed form of their moves, and that nothing but `follow` moves them."""

import pytest
import tiny
import torch
from torch import nn

from interlingua.models.momentum import Momentum, MomentumCopy
from interlingua.tasks.optimization import Optimization


def moved(module, by=1.0):
    """Let a module learn something."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(by * torch.randn_like(parameter))


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9999, 1.0])
def test_a_move_is_a_weighted_mean(momentum):
    encoder = tiny.text_tower().double()
    copy = MomentumCopy(encoder)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    moved(encoder)
    copy.follow(encoder, momentum)
    for name, value in copy.module.state_dict().items():
        expected = momentum * before[name] + (1 - momentum) * encoder.state_dict()[name]
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-14)
    copy.follow(encoder, 0.0)
    assert all(torch.equal(value, encoder.state_dict()[name]) for name, value in copy.module.state_dict().items())
    copy.follow(encoder, 0.9999)  # what has caught up stays, to the bit
    assert all(torch.equal(value, encoder.state_dict()[name]) for name, value in copy.module.state_dict().items())


def test_buffers_of_the_module_are_copied_as_they_are():
    module = nn.BatchNorm1d(3)
    copy = MomentumCopy(module)
    module(torch.randn(8, 3) + 5)
    copy.follow(module, 0.9)
    assert torch.equal(copy.module.running_mean, module.running_mean)
    assert copy.module.num_batches_tracked == 1


def test_no_optimiser_sees_a_copy():
    holder = nn.ModuleDict({"fast": tiny.text_tower()})
    names = [name for name, _ in holder.named_parameters()]
    holder["slow"] = MomentumCopy(holder["fast"])
    assert [name for name, _ in holder.named_parameters()] == names
    (optimizer,), _ = Optimization(1e-3, schedule="constant").configure(holder)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(names)
    saved = {name for name in holder.state_dict() if name.startswith("slow.")}
    assert saved == {name.replace("fast.", "slow.module.") for name in names}
    with pytest.raises(ValueError, match="no parameter under 'slow'"):
        Optimization(1e-3, frozen=["slow"]).stop_gradients(holder)


def test_reading_a_copy_leaves_no_gradient_and_drops_nothing_out():
    encoder = tiny.text_tower(dropout=0.5).train()
    copy = MomentumCopy(encoder).train()
    batch = tiny.batch()
    first, second = (copy(batch, keep=(1,)).layers[1].text for _ in range(2))
    assert torch.equal(first, second)
    assert not first.requires_grad
    assert torch.equal(first, encoder.eval()(batch, keep=(1,)).layers[1].text)
    assert all(part.training for part in copy.modules())  # Lightning warns of modules that sleep when training starts


def test_a_copy_stands_apart_and_what_is_tied_stays_tied():
    encoder = tiny.text_tower()
    pair = nn.ModuleDict({"table": nn.Embedding(5, 4), "head": nn.Linear(4, 5)})
    pair["head"].weight = pair["table"].weight
    copy = MomentumCopy(pair)
    assert copy.module["head"].weight is copy.module["table"].weight
    before = copy.module["table"].weight.clone()
    moved(pair)
    copy.follow(pair, 0.5)
    torch.testing.assert_close(copy.module["head"].weight, (before + pair["table"].weight) / 2)  # once, not twice
    slow = MomentumCopy(encoder)
    kept = {name: value.clone() for name, value in slow.state_dict().items()}
    moved(encoder)
    assert all(torch.equal(value, kept[name]) for name, value in slow.state_dict().items())


def test_half_precision_is_refused_where_steps_would_be_lost():
    encoder = tiny.text_tower().bfloat16()
    copy = MomentumCopy(encoder)
    copy.follow(encoder, 0.0)
    with pytest.raises(ValueError, match=r"bfloat16.*32-true or bf16-mixed"):
        copy.follow(encoder, 0.9999)


@pytest.mark.parametrize(
    ("options", "moves"),
    [
        ({"most": 0.999}, {1: 0.999, 10**6: 0.999}),
        ({"most": 1.0, "least": 0.5, "shape": "linear", "begin": 10, "end": 20}, {1: 0.5, 10: 0.5, 15: 0.75, 20: 1.0, 99: 1.0}),
        ({"most": 1.0, "least": 0.5, "shape": "linear", "begin": 10, "end": 10}, {9: 0.5, 10: 1.0}),
        ({"most": 0.95, "least": 0.2, "shape": "exponential"}, {1: 0.2, 16: 0.75, 10**4: 0.95}),
        ({"most": 0.9, "refresh": 5}, {4: 0.9, 5: 0.0, 6: 0.9, 10: 0.0}),
    ],
)
def test_schedules(options, moves):
    schedule = Momentum(**options)
    assert {move: schedule.at(move) for move in moves} == pytest.approx(moves)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"most": 1.1}, "least <= most <= 1"),
        ({"least": 0.5, "most": 0.4}, "from 0.5 to 0.4"),
        ({"begin": 3, "end": 2}, "begin <= end"),
        ({"refresh": 0}, "refresh of 1 or more"),
        ({"exponent": float("nan")}, "exponent above 0"),
        ({"exponent": float("inf")}, "exponent above 0"),
    ],
)
def test_schedules_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Momentum(**options)
