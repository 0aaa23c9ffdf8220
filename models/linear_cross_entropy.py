"""Cross-entropy of a linear output layer in blocks, so that the scores of a batch never exist at once.

With a vocabulary of 250,000 the scores, their softmax and its gradient are the largest tensors of a step. Here one
buffer is filled with the scores of a few tokens, vocabulary block by vocabulary block, and every block becomes
probabilities while it is in the cache. The same buffer gives the gradients, and is used again for the next tokens; the
last tokens' stays until the backward pass, so that the table's gradient is made once, already scaled. (The idea
of cut cross-entropy, arXiv:2411.09009, section 4: three matrix products, as many as without it.)
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .table_gradients import goes_in_place, make_room

CPU_ELEMENTS, DEVICE_ELEMENTS = 2**24, 2**27
"""Scores held at once by default: 64 MiB in float32 where caches decide; on an accelerator enough tokens (500 at a
vocabulary of 250,000) that reading the table again for each part does not."""

CPU_BLOCK = 2**14
"""Vocabulary entries of a block on CPU; an accelerator takes the whole vocabulary."""


def linear_cross_entropy(
    rows: Float[Tensor, "N D"],
    table: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"],
    targets: Int[Tensor, "N"],
    elements: int | None = None,
    block: int | None = None,
) -> Float[Tensor, ""]:
    """Sum over rows of the cross-entropy of `softmax(rows @ table.T + bias)`, at least in float32.

    Its graph can be walked backward once: its buffers are scaled in place.

    Args:
        rows: One vector a token that is predicted.
        table: Output embeddings.
        bias: One number a vocabulary entry.
        targets: The right entries, 0 to V - 1.
        elements: Scores held at once; tokens are taken `elements // V` at a time, at least one.
        block: Vocabulary entries that are scored at a time.
    """
    if not len(rows):  # a path for the gradients of the head, but no V-wide zeros for the table, which has its own
        return (rows.sum() + bias[:0].sum()).to(torch.promote_types(rows.dtype, torch.float32))
    on_cpu = rows.device.type == "cpu"
    chunk = max(1, (elements or (CPU_ELEMENTS if on_cpu else DEVICE_ELEMENTS)) // len(table))
    block = block or (CPU_BLOCK if on_cpu else len(table))
    return _LinearCrossEntropy.apply(rows, table, bias, targets, chunk, block, torch.is_grad_enabled(), goes_in_place(table))


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, table, bias, targets, chunk, block, with_gradient, in_place):
        kind = rows.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else table.dtype
        with torch.autocast(kind, enabled=False):
            layer = _Layer(table, bias, block, dtype)
            # Scores that are few enough lie at the end of the memory that the table's gradient fills from its beginning:
            # each block's scores are used up before the gradient comes to where they are.
            lent = with_gradient and in_place and table.grad is None and layer.wide == table.dtype
            lent = lent and len(rows) <= min(chunk, table.shape[1])
            room = layer.room(table, in_place) if lent else None
            if lent:
                buffer = room.view(-1)[room.numel() - len(rows) * len(table) :]
            else:
                buffer = rows.new_empty(min(chunk, len(rows)) * len(table), dtype=layer.wide)
            total = torch.zeros((), dtype=layer.wide, device=rows.device)
            early = None
            if with_gradient and chunk < len(rows):
                early = layer.gradients(rows, layer.room(table, in_place) if ctx.needs_input_grad[1] else None)
            for start in range(0, len(rows), chunk):
                part, right = rows[start : start + chunk].to(dtype), targets[start : start + chunk, None]
                losses, share = layer.score(part, right, buffer)
                total += losses.sum()
                if early is not None and start + chunk < len(rows):
                    layer.differentiate(part, right, buffer, share, early, slice(start, start + chunk), first=start == 0)
        if with_gradient:
            ctx.save_for_backward(rows, table, bias, targets, buffer, share, *(early or ()))
            ctx.start, ctx.block, ctx.dtype, ctx.leaf = start, block, dtype, table if in_place else None
            ctx.room = room
        return total

    @staticmethod
    def backward(ctx, grad):
        rows, table, bias, targets, buffer, share, *early = ctx.saved_tensors
        layer, last, leaf = _Layer(table, bias, ctx.block, ctx.dtype), slice(ctx.start, None), ctx.leaf
        first = not early
        for tensor in early:
            if tensor is not None:
                tensor.mul_(grad)
        if early:
            grads = early
        else:
            wanted = ctx.needs_input_grad[1] and (leaf is None or leaf.grad is None)
            room = ctx.room if ctx.room is not None or not wanted else layer.room(table, leaf is not None)
            grads = layer.gradients(rows, room if wanted else None)
        if leaf is not None and leaf.grad is not None:  # add to what is there
            if early:
                leaf.grad += grads[1]
            grads[1], first = leaf.grad, False
        part, right = rows[last].to(ctx.dtype), targets[last, None]
        layer.differentiate(part, right, buffer, share, grads, last, first, scale=grad, lent=ctx.room is not None)
        if leaf is not None:
            leaf.grad, grads[1] = grads[1], None
        leaves = (rows, table, bias)
        return *(one if one is None else one.to(leaf.dtype) for one, leaf in zip(grads, leaves, strict=True)), *[None] * 5


class _Layer:
    """The output layer, by blocks of its vocabulary."""

    def __init__(self, table: Tensor, bias: Tensor, block: int, dtype: torch.dtype):
        """
        Args:
            block: Entries of a block.
            dtype: Of the matrix products.
        """
        self.table, self.bias, self.dtype = table.to(dtype), bias.to(dtype), dtype
        self.wide = torch.promote_types(dtype, torch.float32)
        self.blocks = [slice(start, min(start + block, len(table))) for start in range(0, len(table), block)]

    def room(self, table: Tensor, in_place: bool) -> Tensor:
        """Memory for the gradient of the table."""
        return make_room(table) if in_place else torch.empty_like(table, dtype=torch.promote_types(self.dtype, table.dtype))

    def gradients(self, rows: Tensor, room: Tensor | None) -> list[Tensor | None]:
        """The gradients of rows, table (in its room; None where it is not wanted) and bias, for `differentiate` to fill."""
        return [
            torch.zeros(rows.shape, dtype=self.wide, device=rows.device),
            room,
            torch.zeros(self.bias.shape, dtype=self.wide, device=rows.device),
        ]

    def _walk(self, buffer: Tensor, count: int, right: Tensor):
        """Each block: its entries, its part of the buffer `[count, entries]`, where the targets are in it, and whether."""
        for block in self.blocks:
            entries = block.stop - block.start
            view = buffer[count * block.start : count * block.stop].view(count, entries)
            yield block, view, (right - block.start).clamp(0, entries - 1), (right >= block.start) & (right < block.stop)

    def score(self, part: Tensor, right: Tensor, buffer: Tensor) -> tuple[Tensor, Tensor]:
        """Fill the buffer with exponentials of scores, relative to the row's highest in the block.

        Returns:
            The losses `[n, 1]`, and what the exponentials of each block are to be multiplied with `[n, blocks]`.
        """
        target = part.new_zeros(len(part), 1, dtype=self.wide)
        highest, mass = [], []
        for block, odds, place, here in self._walk(buffer, len(part), right):
            if self.dtype == self.wide:
                torch.addmm(self.bias[block], part, self.table[block].t(), out=odds)
            else:
                odds.copy_(torch.addmm(self.bias[block], part, self.table[block].t()))
            target = torch.where(here, odds.gather(1, place), target)
            highest.append(odds.amax(dim=1, keepdim=True))
            mass.append(odds.sub_(highest[-1]).exp_().sum(dim=1, keepdim=True))
        tops = torch.cat(highest, dim=1)
        top = tops.amax(dim=1, keepdim=True)
        factor = (tops - top).exp_()
        total = (torch.cat(mass, dim=1) * factor).sum(dim=1, keepdim=True)
        return total.log() + top - target, factor / total

    def differentiate(self, part, right, buffer, share, grads, into, first, scale=None, lent=False):
        """Add the gradients of some rows, times `scale`; the table's is written over where it is the `first`.

        Args:
            buffer: As `score` left it; used up.
            into: Which rows of the gradient these are.
            lent: Whether the buffer may lie in the table's gradient.
        """
        grad_rows, grad_table, grad_bias = grads
        narrow = part if scale is None else (part * scale).to(self.dtype)
        mine = torch.zeros(part.shape, dtype=self.wide, device=part.device)
        for number, (block, odds, place, here) in enumerate(self._walk(buffer, len(part), right)):
            odds = odds.clone() if lent else odds
            odds.mul_(share[:, number : number + 1]).scatter_add_(1, place, -here.to(odds.dtype))
            slopes = odds.to(self.dtype)
            _add_product(mine, slopes, self.table[block], first=False)
            if grad_table is not None:
                _add_product(grad_table[block], slopes.t(), narrow, first)
            grad_bias[block] += odds.sum(dim=0) if scale is None else odds.sum(dim=0) * scale
        grad_rows[into] = mine if scale is None else mine * scale


def _add_product(total, left, right, first):
    """total += left @ right, without reading `total` the first time."""
    if total.dtype != left.dtype:
        product = left @ right
        total.copy_(product) if first else total.add_(product)
    elif first:
        torch.mm(left, right, out=total)
    else:
        total.addmm_(left, right)
