"""The head's tie to the embedding table outlives everything that is done to a model."""

import copy
import pickle

import pytest
import torch
from torch import nn

from interlingua.models.heads import TokenHead


class Model(nn.Module):
    """An encoder's table beside a head."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 4)
        self.head = TokenHead(self.tokens, 6)


def tied(model) -> bool:
    return model.head.table is model.tokens.weight


def test_the_table_is_listed_and_saved_once():
    model = Model()
    assert tied(model)
    assert set(model.head.state_dict()) == {"dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias"}
    assert [name for name, _ in model.named_parameters(remove_duplicate=False)].count("tokens.weight") == 1
    assert all(parameter is not model.tokens.weight for parameter in model.head.parameters())
    assert sum(parameter.numel() for parameter in model.head.parameters()) == 6 * 4 + 4 + 4 + 4 + 11


@pytest.mark.parametrize(
    "change",
    [
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: model.to(torch.float64),
        lambda model: model.to("meta"),
        lambda model: model.load_state_dict(Model().state_dict()) and model,
        lambda model: model.load_state_dict(Model().state_dict(), assign=True) and model,
    ],
    ids=["deepcopy", "pickle", "dtype", "device", "load", "load assigned"],
)
def test_the_tie_survives(change):
    model = Model()
    changed = change(model)
    assert tied(changed)
    assert changed is model or changed.head.table is not model.head.table


def test_both_uses_of_the_table_share_one_gradient():
    model, ids = Model(), torch.tensor([1, 5])
    model.head.cross_entropy(model.tokens(ids).repeat(1, 2)[:, :6], ids).backward()
    assert (model.tokens.weight.grad.abs().sum(1) > 0).all()


def test_cross_entropy_is_that_of_the_scores():
    model, states, targets = Model(), torch.randn(5, 6), torch.tensor([1, 2, 3, 4, 10])
    expected = nn.functional.cross_entropy(model.head(states), targets, reduction="sum")
    torch.testing.assert_close(model.head.cross_entropy(states, targets), expected)


def test_an_ignorant_head_costs_log_v_a_token():
    model = Model()
    nn.init.zeros_(model.tokens.weight)
    loss = model.head.cross_entropy(torch.randn(5, 6), torch.arange(5))
    torch.testing.assert_close(loss / 5, torch.tensor(11.0).log())
