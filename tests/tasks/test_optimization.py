import copy
import math

import pytest
import torch
from torch import nn

from interlingua.tasks.optimization import Optimization, clip_gradients, decayed_parameters
from interlingua.tasks.schedules import rate_at


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(7, 4)
        self.positions = nn.Parameter(torch.randn(1, 5, 4))
        self.start = nn.Parameter(torch.randn(1, 1, 4))
        self.norm = nn.LayerNorm(4)
        self.dropout = nn.Dropout(0.5)
        self.linear = nn.Linear(4, 4)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.text, self.image = Tower(), Tower()
        self.convolution = nn.Conv2d(1, 2, 1)
        self.group = nn.GroupNorm(1, 2)
        self.batch = nn.BatchNorm1d(4)
        self.grid = nn.LayerNorm((4, 4))
        self.single = nn.Linear(4, 1)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.head = nn.Linear(4, 7)
        self.head.weight = self.text.tokens.weight


def make(model: nn.Module, steps: int | None = 100, **options):
    (optimizer,), (schedule,) = Optimization(**{"learning_rate": 0.5, **options}).configure(model, steps)
    return optimizer, schedule["scheduler"]


def group_of(optimizer, parameter):
    (group,) = [group for group in optimizer.param_groups if any(one is parameter for one in group["params"])]
    return group


def give_gradients(model: nn.Module, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)


def test_decay_is_decided_by_what_a_parameter_is():
    model = Model()
    decayed = decayed_parameters(model)
    names = {name for name, parameter in model.named_parameters() if parameter in decayed}
    tower = {"tokens.weight", "positions", "linear.weight"}
    shared = {"convolution.weight", "single.weight"}
    assert names == {f"text.{name}" for name in tower} | {f"image.{name}" for name in tower} | shared
    optimizer, _ = make(model, weight_decay=0.3)
    for parameter in model.parameters():
        assert group_of(optimizer, parameter)["weight_decay"] == (0.3 if parameter in decayed else 0.0)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


def test_parameters_without_gradient_do_not_move():
    model = Model()
    optimizer, _ = make(model, weight_decay=0.3)
    before = copy.deepcopy(model.state_dict())
    give_gradients(model)
    model.image.linear.weight.grad = None
    optimizer.step()
    assert torch.equal(model.image.linear.weight, before["image.linear.weight"])
    assert not torch.equal(model.text.linear.weight, before["text.linear.weight"])


def test_a_frozen_part_stands_still_and_in_evaluation_mode():
    model = Model().train()
    frozen = ["text", "image.linear.bias"]
    optimizer, _ = make(model, frozen=frozen)
    assert model.text.training, "Lightning warns of modules in evaluation mode when it starts"
    Optimization(0.5, frozen=frozen).freeze(model)
    assert not any(parameter.requires_grad for parameter in model.text.parameters())
    assert not model.head.weight.requires_grad, "a tied table is the frozen tower's"
    assert model.image.linear.weight.requires_grad
    assert not model.image.linear.bias.requires_grad
    assert not model.text.dropout.training
    assert model.image.dropout.training
    ours = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    assert ours == {id(parameter) for parameter in model.parameters() if parameter.requires_grad}


def test_rates_follow_the_longest_prefix_on_whole_names():
    model = Model()
    optimizer, schedule = make(model, rates={"text": 0.1, "text.norm": 2.0, "image.linear.weight": 3.0}, schedule="constant")
    assert group_of(optimizer, model.text.linear.weight)["lr"] == pytest.approx(0.05)
    assert group_of(optimizer, model.text.norm.weight)["lr"] == pytest.approx(1.0)
    assert group_of(optimizer, model.image.linear.weight)["lr"] == pytest.approx(1.5)
    assert group_of(optimizer, model.image.linear.bias)["lr"] == pytest.approx(0.5)
    names = [group["name"] for group in optimizer.param_groups]
    assert len(set(names)) == len(names)
    assert schedule.get_last_lr() == [group["lr"] for group in optimizer.param_groups]


@pytest.mark.parametrize(
    ("options", "steps", "message"),
    [
        ({"frozen": ["text.linaer"]}, 9, r"frozen: no parameter under 'text.linaer'; nearest: .*text\.linear"),
        ({"rates": {"tex": 0.1}}, 9, r"rates: no parameter under 'tex'; nearest: .*text"),
        ({"frozen": ["zzz"]}, 9, r"no parameter under 'zzz'; nearest: .*text, image"),
        ({}, None, "set trainer.max_steps"),
        ({"schedule": "cosine"}, -1, "needs an end, found -1"),
        ({"schedule": "square"}, 9, None),
        ({"schedule": "constant", "final_fraction": 0.1}, 9, "final_fraction is 0.1"),
        ({"rates": {"text": 0.0}}, 9, "frozen"),
        ({"learning_rate": 0.0}, 9, "learning_rate is 0.0; it must be above 0"),
        ({"max_gradient_norm": 0.0}, 9, "max_gradient_norm"),
        ({"frozen": [name for name, _ in Model().named_children()] + ["scale"]}, 9, "nothing is left to learn"),
    ],
)
def test_bad_options_are_refused(options, steps, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(Model(), steps, **options)


def test_schedules_hold_their_closed_forms():
    assert [rate_at(step, "linear", 4, 12, 0.2) for step in (0, 1, 4, 8, 12, 50)] == pytest.approx([0, 0.25, 1, 0.6, 0.2, 0.2])
    assert [rate_at(step, "cosine", 4, 12) for step in (0, 4, 6, 8, 12)] == pytest.approx(
        [0, 1, (1 + math.sqrt(0.5)) / 2, 0.5, 0], abs=1e-15
    )
    assert [rate_at(step, "constant", 2, None) for step in (0, 1, 2, 999)] == [0, 0.5, 1, 1]
    assert [rate_at(step, "inverse_sqrt", 4, None) for step in (0, 2, 4, 16, 64)] == [0, 0.5, 1, 0.5, 0.25]
    assert [rate_at(step, "inverse_sqrt", 0, None) for step in (0, 1, 4)] == [1, 1, 0.5]
    assert [rate_at(step, "linear", 0, 2) for step in (0, 1, 2)] == [1, 0.5, 0]
    assert rate_at(1, "linear", 10, 2) == 0.1, "a trial shorter than the warm-up ends within it"


def run(optimizer, schedule, model, steps):
    """The rates used in `steps` steps, from where the schedule stands."""
    used = []
    for _ in range(steps):
        give_gradients(model, schedule.last_epoch)
        used.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    return used


OPTIONS = {"warmup_steps": 10, "schedule": "cosine", "rates": {"text": 0.1}}


@pytest.mark.parametrize("at", [7, 10, 25])
def test_resumed_rates_and_weights_equal_the_uninterrupted_run(at, tmp_path):
    """Pitfall G01, without a trainer."""
    whole, parted = Model(), Model()
    parted.load_state_dict(whole.state_dict())
    expected = run(*make(whole, 40, **OPTIONS), whole, 40)
    optimizer, schedule = make(parted, 40, **OPTIONS)
    first = run(optimizer, schedule, parted, at)
    torch.save([parted.state_dict(), optimizer.state_dict(), schedule.state_dict()], tmp_path / "state")

    resumed = Model()
    optimizer, schedule = make(resumed, 40, **OPTIONS)
    for part, state in zip((resumed, optimizer, schedule), torch.load(tmp_path / "state", weights_only=True), strict=True):
        part.load_state_dict(state)
    assert first + run(optimizer, schedule, resumed, 40 - at) == expected
    assert sorted(set(expected[10])) == pytest.approx([0.05, 0.5], abs=1e-15), "the peak, at the end of the warm-up"
    for name, value in resumed.state_dict().items():
        assert torch.equal(value, whole.state_dict()[name]), name


def test_on_resume_the_options_are_the_configurations():
    """Pitfall G01: a longer run on resume goes on along the longer curve."""
    model = Model()
    optimizer, schedule = make(model, 20, schedule="linear", weight_decay=0.1)
    run(optimizer, schedule, model, 10)
    saved = optimizer.state_dict(), schedule.state_dict()
    optimizer, schedule = make(model, 40, schedule="linear", learning_rate=1.0, weight_decay=0.2)
    optimizer.load_state_dict(saved[0])
    schedule.load_state_dict(saved[1])
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.75), "step 10 of 40 on the longer line, of the new peak"
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.2, 0.0}
    assert schedule.last_epoch == 10


def test_moments_of_other_parameters_are_refused():
    optimizer, _ = make(Model())
    other, _ = make(Model(), frozen=["image"])
    with pytest.raises(ValueError, match=r"only there: \['image\.linear\.bias'"):
        other.load_state_dict(optimizer.state_dict())


def test_fused_equals_unfused():
    models = [Model(), Model()]
    models[1].load_state_dict(models[0].state_dict())
    for model, fused in zip(models, (True, False), strict=True):
        optimizer, schedule = make(model, warmup_steps=2, weight_decay=0.1)
        assert all(group["fused"] for group in optimizer.param_groups)
        for group in optimizer.param_groups:
            group["fused"] = fused
        run(optimizer, schedule, model, 5)
    for name, value in models[0].state_dict().items():
        torch.testing.assert_close(value, models[1].state_dict()[name], rtol=1e-5, atol=2e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_clipping_scales_to_the_norm_over_all_gradients(dtype):
    model = Model().to(dtype)
    give_gradients(model)
    model.head.bias.grad = None
    flat = torch.cat([p.grad.flatten().float() for p in model.parameters() if p.grad is not None])
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    assert clip_gradients(model.named_parameters(), None).item() == pytest.approx(flat.norm().item(), rel=tolerance)
    assert clip_gradients(model.named_parameters(), 1e9).item() == pytest.approx(flat.norm().item(), rel=tolerance)
    assert clip_gradients(model.named_parameters(), 0.5).item() == pytest.approx(flat.norm().item(), rel=tolerance)
    clipped = torch.cat([p.grad.flatten().float() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(clipped, flat * 0.5 / flat.norm(), rtol=tolerance, atol=1e-7)
    assert model.head.bias.grad is None
    optimizer, _ = make(model)
    assert all(group["fused"] for group in optimizer.param_groups)
    optimizer.step()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_gradients_that_are_not_finite_are_named(value):
    model = Model()
    give_gradients(model)
    model.image.norm.weight.grad[1] = value
    with pytest.raises(FloatingPointError, match=rf"is {value}: 1 of \d+ gradients .*image\.norm\.weight"):
        clip_gradients(model.named_parameters(), 1.0)


def test_a_norm_that_overflows_names_the_largest_gradients():
    model = Model()
    give_gradients(model)
    model.image.norm.weight.grad[1] = -1e30
    with pytest.raises(FloatingPointError) as error:
        clip_gradients(model.named_parameters(), 1.0)
    assert "gradients is finite, but together they are too large" in str(error.value)
    assert "above all image.norm.weight (up to 1.0e+30)" in str(error.value)
    assert "none" not in str(error.value)


def test_no_gradient_at_all_has_norm_zero():
    assert clip_gradients(Model().named_parameters(), 1.0) == 0


def test_options_are_read_from_a_configuration():
    from jsonargparse import ArgumentParser

    parser = ArgumentParser()
    parser.add_argument("--optimization", type=Optimization)
    options = {"learning_rate": 1, "rates": {"encoder.text": 0.1}, "frozen": ["encoder.image"], "betas": [0.9, 0.98]}
    read = parser.instantiate_classes(parser.parse_object({"optimization": options})).optimization
    expected = Optimization(1.0, rates={"encoder.text": 0.1}, frozen=["encoder.image"], betas=(0.9, 0.98))
    assert read == expected
    arguments = ["--optimization.learning_rate=1", "--optimization.frozen=[encoder.text]", "--optimization.schedule=cosine"]
    read = parser.instantiate_classes(parser.parse_args(arguments)).optimization
    assert read == Optimization(1.0, frozen=["encoder.text"], schedule="cosine")
