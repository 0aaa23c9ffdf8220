"""Gradients of large embedding tables, accumulated where they are kept.

Autograd gives every use of a table a gradient of the table's size, zeros but for the rows that were looked up, and then
sums them: at a vocabulary of 250,000 that is a quarter of a step on CPU, and a second table of memory. Within
`in_place_table_gradients` lookups and tied output layers add straight into the table's `.grad` instead. (Megatron-LM
fuses the accumulation of weight gradients to the same end.)
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_active = False
_rooms = WeakTensorKeyDictionary()
"""What held the last gradient of each table whose gradient was made in place; None while it is the gradient."""


@contextmanager
def in_place_table_gradients() -> Iterator[None]:
    """For losses that are made inside and then walked by `backward()`, which adds into `.grad` as it always does.

    What else autograd offers would not see the tables: `torch.autograd.grad` of one gives None. A table with hooks of
    its own is left to autograd.
    """
    global _active
    before, _active = _active, True
    try:
        yield
    finally:
        _active = before


def goes_in_place(table: Tensor) -> bool:
    """Whether a use of this table, made now, is to add into its `.grad`."""
    watched = table._backward_hooks or table._post_accumulate_grad_hooks
    return _active and torch.is_grad_enabled() and table.requires_grad and table.is_leaf and not watched


def make_room(table: Tensor) -> Tensor:
    """Memory of the table's shape for its first gradient of a step, with whatever is in it."""
    room, _rooms[table] = _rooms.get(table), None
    return torch.empty_like(table) if room is None else room


def drop_gradients(optimizer: torch.optim.Optimizer) -> None:
    """`optimizer.zero_grad()`, but the memory of tables' gradients is kept for those of the next step.

    Handed back to the system and asked for again, page by page, it costs a seventh of a step on CPU at a vocabulary of
    250,000. A step holds it at its peak either way.
    """
    for table in (one for group in optimizer.param_groups for one in group["params"]):
        if table in _rooms and table.grad is not None:
            _rooms[table] = table.grad
    optimizer.zero_grad()


def look_up(table: Float[Tensor, "V D"], ids: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape D"]:
    """Rows of a table, as `torch.nn.functional.embedding` gives them."""
    return _LookUp.apply(table, ids) if goes_in_place(table) else F.embedding(ids, table)


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, ids):
        ctx.table = table
        ctx.save_for_backward(ids)
        return F.embedding(ids, table)

    @staticmethod
    def backward(ctx, grad):
        (ids,) = ctx.saved_tensors
        if ctx.table.grad is None:
            ctx.table.grad = make_room(ctx.table).zero_()
        # Not `index_add_`, which is not deterministic on an accelerator.
        ctx.table.grad.index_put_((ids,), grad, accumulate=True)
        return None, None
