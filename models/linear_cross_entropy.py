"""Cross-entropy of a linear output layer, a few tokens at a time, so that the scores of a batch never exist at once.

With a vocabulary of 250,000 the scores, their softmax and its gradient are the largest tensors of a step. Here one
buffer is filled with scores, turned into the loss and into the gradients of its tokens, and used again for
the next tokens; the gradient of the table is accumulated in place. (The idea of cut cross-entropy, arXiv:2411.09009,
section 4, over tokens instead of blocks of the vocabulary: three matrix products, as many as without it.)
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

CPU_ELEMENTS, DEVICE_ELEMENTS = 2**24, 2**27
"""Scores held at once by default: 64 MiB in float32 where caches decide; on an accelerator enough tokens (500 at a
vocabulary of 250,000) that reading the table again for each part does not."""


def linear_cross_entropy(
    rows: Float[Tensor, "N D"],
    table: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"],
    targets: Int[Tensor, "N"],
    elements: int | None = None,
) -> Float[Tensor, ""]:
    """Sum over rows of the cross-entropy of `softmax(rows @ table.T + bias)`, at least in float32.

    Its graph can be walked backward once: gradients are made with the loss and then scaled in place.

    Args:
        rows: One vector a token that is predicted.
        table: Output embeddings.
        bias: One number a vocabulary entry.
        targets: The right entries, 0 to V - 1.
        elements: Scores held at once; tokens are taken `elements // V` at a time, at least one.
    """
    if not len(rows):  # a path for the gradients of the head, but no V-wide zeros for the table, which has its own
        return (rows.sum() + bias[:0].sum()).to(torch.promote_types(rows.dtype, torch.float32))
    elements = elements or (CPU_ELEMENTS if rows.device.type == "cpu" else DEVICE_ELEMENTS)
    return _LinearCrossEntropy.apply(rows, table, bias, targets, max(1, elements // len(table)), torch.is_grad_enabled())


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, table, bias, targets, chunk, with_gradient):
        kind = rows.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else table.dtype
        with torch.autocast(kind, enabled=False):
            wide = torch.promote_types(dtype, torch.float32)
            inputs, weights = rows.to(dtype), table.to(dtype)
            offset = bias.to(dtype)
            scores = torch.empty(min(chunk, len(rows)), len(table), dtype=dtype, device=rows.device)
            total = torch.zeros((), dtype=wide, device=rows.device)
            grad_rows = torch.empty(rows.shape, dtype=dtype, device=rows.device)
            grad_table = torch.empty(table.shape, dtype=torch.promote_types(dtype, table.dtype), device=table.device)
            grad_bias = torch.zeros(bias.shape, dtype=wide, device=bias.device)
            for start in range(0, len(rows), chunk):
                part, right = inputs[start : start + chunk], targets[start : start + chunk, None]
                odds, mass, losses = _score(part, weights, offset, right, scores[: len(part)], wide)
                total += losses.sum()
                if with_gradient:
                    # The gradient of the scores is odds / mass, less 1 at the target; dividing the narrow side is cheaper.
                    odds.scatter_add_(1, right, -mass)
                    odds, share = odds.to(dtype), (part / mass).to(dtype)
                    torch.mm(odds, weights, out=grad_rows[start : start + chunk]).div_(mass)
                    grad_bias += odds.to(wide).t() @ (1 / mass[:, 0])
                    _accumulate(grad_table, odds, share, first=start == 0)
        if with_gradient:
            ctx.save_for_backward(grad_rows.to(rows.dtype), grad_table.to(table.dtype), grad_bias.to(bias.dtype))
        return total

    @staticmethod
    def backward(ctx, grad):
        grad_rows, grad_table, grad_bias = ctx.saved_tensors
        # In place: a second tensor of the table's size would cost more than its product.
        return grad_rows.mul_(grad), grad_table.mul_(grad), grad_bias.mul_(grad), None, None, None


def _score(part, weights, offset, right, buffer, wide):
    """Unnormalised probabilities (in the buffer), their sum a row, and the losses."""
    scores = torch.addmm(offset, part, weights.t(), out=buffer).to(wide)
    highest = scores.max(dim=1, keepdim=True).values
    scores.sub_(highest)
    target = scores.gather(1, right)
    odds = scores.exp_()
    mass = odds.sum(dim=1, keepdim=True)
    return odds, mass, mass.log() - target


def _accumulate(total, odds, share, first):
    """total += odds.T @ share, without reading `total` the first time."""
    if total.dtype != odds.dtype:
        product = odds.t() @ share
        total.copy_(product) if first else total.add_(product)
    elif first:
        torch.mm(odds.t(), share, out=total)
    else:
        total.addmm_(odds.t(), share)
